"""Random ManifestWorks and what becomes of them: made of a seed, so that any of them can be had again.

A `Life` is the sequence of versions of one work, each with what strangers do to its objects just before. It says nothing of where
it is played: `SPACE` stands for the namespace of the objects, and cluster-wide names begin with it, so that the same life can be
played several times on one cluster (`placed`). All names have the name of the work in them, so works do not meet; but one object,
always the same, may belong to as many as three works.

Most of what comes out is in order; the rest is what people get wrong: kinds nobody serves, names and fields a server refuses,
places that do not exist, paths and expressions that cannot be read.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from tests.support.random_manifests import DEFINITION, KINDS, RBAC, SHARED, SPACE, WORDS, Kind, Object, exported, plural_of


@dataclass(frozen=True)
class Version:
    spec: Object
    labels: Mapping[str, str] = field(default_factory=dict)
    meddling: tuple[tuple[Object, Object], ...] = ()
    """What strangers do just before: an object's manifest, and a merge patch."""


@dataclass(frozen=True)
class Life:
    name: str
    versions: tuple[Version, ...]


def placed(one: Any, space: str) -> Any:
    return json.loads(json.dumps(one).replace(SPACE, space))


PATHS: Final = (
    *(".metadata.name", ".kind", ".data.a", ".data.b", ".spec.replicas", ".spec.ports[0].port", ".immutable", ".spec.suspend"),
    *(".metadata.labels.season", ".metadata.labels['season']", ".spec.template.spec.containers[0].image", ".spec.nothing.at.all"),
    *(".spec.template.spec.containers[*].name", ".spec.branches[*].length", ".spec.branches[?(@.length>4)].name", ".spec.ash"),
    *('.spec.ports[?(@.name=="web")].port', ".spec.branches[-1:].name", "..image", ".rules[0].verbs[0]", ".type", ".spec.type"),
    *(".spec.template.spec.containers[0].env[0:2].name", ".spec.empty", ".spec.strategy.type", "$.kind", "kind"),
)
BAD_PATHS: Final = (
    *(".metadata", ".metadata.labels", ".spec.ports", ".rules", ".data[", ".data.", "{.kind", ".spec.ports[9].port", ".kind.name"),
    *(".spec.branches[?(@.length>)]", "..", ".spec.ports[x]", ".metadata.name[0]", "{.kind}", ".data['a", ".spec.branches[0]", ""),
)
EXPRESSIONS: Final = (
    *("true", "false", "object.metadata.name.startsWith('w')", "has(object.data) && 'a' in object.data", "has(object.spec)"),
    *("hasConditions(object.status)", "object.kind in ['ConfigMap', 'Deployment']", "size(object.metadata.name) > 5"),
    *("object.?data.a.orValue('none') == 'ash'", "has(object.spec) && has(object.spec.replicas) && object.spec.replicas == 1"),
    *("object.metadata.name.matches('^w[0-9]+-')", "quantity('1Gi').isGreaterThan(quantity('1Mi'))", "[1, 2].sum() == 3"),
    *("object.metadata.generation > 0", "object.metadata.labels.exists(key, key == 'season')", "semver('1.2.3').major() == 1"),
)
BAD_EXPRESSIONS: Final = (
    *("object.nothing.at.all", "1", "object.", "object.metadata.name + 1 == 'x'", "nobody == 1", "'text'", "object.metadata"),
    *("object.data.nothing == 'x'", "undefined(object)", "object.metadata.name == 1", "1 / 0 == 1", "[1][5] == 1", "int('x') == 1"),
    *("dyn(object.metadata.name) > 3", "object.metadata.labels['nothing'] == 'x'", "true &&", ""),
)
MESSAGES: Final = (
    *("'name ' + object.metadata.name", "result ? 'yes' : 'no'", "string(result)", "''", "object.nothing", "1", "object."),
    *("nobody", "'%s is %s'.format([object.kind, string(result)])"),
)
CONDITIONS: Final = ("Ready", "Progressing", "Degraded", "Green", "example.com/Tall", "Available")


class Author:
    """Writes the versions of one work."""

    def __init__(self, name: str, rng: Random) -> None:
        self.name, self.rng = name, rng
        self._made = 0
        self.manifests: dict[str, Object] = {}
        """By name: `<work>-<kind><number>`."""
        self.treatments: dict[str, Object] = {}
        """By name: what of a manifestConfig is said of it."""
        self.order: list[str] = []
        self.wide: list[Object] = []
        """Configurations for more than one object."""
        self.delete_option: Object | None = None
        self.labels: dict[str, str] = {}

    def life(self, length: int) -> Life:
        for _ in range(self.rng.randint(1, 4)):
            self._add()
        if self.rng.random() < 0.3:
            self._put(f"w{int(self.name[1:]) // 3 * 3}-shared0")
        if self.rng.random() < 0.5:
            self._choose_delete_option()
        if self.rng.random() < 0.3:
            self._choose_wide()
        versions = [self._version(())]
        while len(versions) < length:
            meddling = [self._meddle() for _ in range(self.rng.choice((0, 0, 0, 1, 2)))]
            for _ in range(self.rng.randint(1, 3)):
                self._change()
            versions.append(self._version(tuple(one for one in meddling if one)))
            versions[-1] = _fair(*versions[-2:])
        return Life(self.name, tuple(versions))

    def _version(self, meddling: tuple[tuple[Object, Object], ...]) -> Version:
        configs = [
            {"resourceIdentifier": self._identifier(name), **treatment} for name, treatment in self.treatments.items() if treatment
        ]
        self.rng.shuffle(configs)
        spec: Object = {
            "workload": {"manifests": [self.manifests[name] for name in self.order]},
            "manifestConfigs": [*configs, *self.wide] if self.rng.random() < 0.8 else [*self.wide, *configs],
            "deleteOption": self.delete_option,
        }
        for config in spec["manifestConfigs"]:
            # What several works have in common is not to be let go by one of them.
            named = config["resourceIdentifier"]["name"]
            if config.get("updateStrategy") == {"type": "ReadOnly"} and ("*" in named or "-shared" in named):
                config["updateStrategy"] = {"type": "CreateOnly"}
        return Version(copy.deepcopy(spec), dict(self.labels), copy.deepcopy(meddling))

    def _change(self) -> None:
        choices: list[tuple[float, Callable[[], None]]] = [
            (4, self._alter),
            (1.5, self._drop),
            (1.5, self._add),
            (0.5, lambda: self.rng.shuffle(self.order)),
            (2, self._treat_another_way),
            (1, self._choose_delete_option),
            (0.5, self._choose_wide),
            (0.4, lambda: self.labels.update({"version": self.rng.choice(WORDS)})),
        ]
        self.rng.choices([act for _, act in choices], [weight for weight, _ in choices])[0]()

    def _kind(self, name: str) -> Kind:
        kind = name.partition("-")[2].rstrip("0123456789")
        return {"crd": DEFINITION, "shared": SHARED}.get(kind) or KINDS[kind]

    def _add(self) -> None:
        kind = self.rng.choices(list(KINDS), [one.weight for one in KINDS.values()])[0]
        if kind == "tree" and f"{self.name}-crd0" not in self.manifests:
            self._put(f"{self.name}-crd0")
        self._made += 1
        name = f"{self.name}-{kind}{self._made}"
        self._put(name)
        if self.rng.random() < 0.6:
            self.treatments[name] = self._treatment(name)

    def _put(self, name: str) -> None:
        self._write(name)
        self.order.insert(self.rng.randint(0, len(self.order)), name)

    def _alter(self) -> None:
        self._write(self.rng.choice(self.order))

    def _write(self, name: str) -> None:
        made = self._kind(name).make(self.rng, name)
        self.manifests[name] = exported(self.rng, made) if self.rng.random() < 0.15 else made

    def _drop(self) -> None:
        candidates = [name for name in self.order if "-crd" not in name or not any("-tree" in one for one in self.order)]
        if len(self.order) > 1 and candidates:
            name = self.rng.choice(candidates)
            self.order.remove(name)
            del self.manifests[name]
            self.treatments.pop(name, None)

    def _treat_another_way(self) -> None:
        name = self.rng.choice(self.order)
        self.treatments[name] = self._treatment(name) if self.rng.random() < 0.8 else {}

    def _choose_delete_option(self) -> None:
        policy = self.rng.choice((None, "Foreground", "Orphan", "SelectivelyOrphan", "SelectivelyOrphan"))
        self.delete_option = {"propagationPolicy": policy} if policy else None
        if policy == "SelectivelyOrphan":
            rules = [self._identifier(name, exact=self.rng.random() < 0.9) for name in self.order if self.rng.random() < 0.5]
            self.delete_option = {"propagationPolicy": policy, "selectivelyOrphans": {"orphaningRules": rules}}
            if not rules and self.rng.random() < 0.5:
                del self.delete_option["selectivelyOrphans"]

    def _choose_wide(self) -> None:
        self.wide = []
        for _ in range(self.rng.randint(0, 2)):
            group, plural = self.rng.choice((("", "configmaps"), ("", "secrets"), ("apps", "deployments"), (RBAC, "roles")))
            name = self.rng.choice(("*", f"{self.name}-*", "*1", "*-cm*", f"{self.name}", "w*"))
            place = self.rng.choice(("*", SPACE, f"{SPACE[:5]}*", "*life", ""))
            identifier = {"group": group, "resource": plural, "name": name, "namespace": place}
            self.wide.append({"resourceIdentifier": identifier, **self._treatment(name)})

    def _identifier(self, name: str, exact: bool = False) -> Object:
        manifest = self.manifests[name]
        metadata = manifest["metadata"]
        plural = plural_of(manifest)
        found = {"group": manifest["apiVersion"].rpartition("/")[0], "resource": plural, "name": metadata["name"]}
        if "namespace" in metadata:
            found["namespace"] = metadata["namespace"]
        if not exact and self.rng.random() < 0.2:
            found["name"] = self.rng.choice((f"{name[:-1]}*", "*", f"*{name[2:]}", f"{name}*", f"{name}?"))
        return found

    # How a manifest is treated.

    def _treatment(self, name: str) -> Object:
        treatment: Object = {}
        if self.rng.random() < 0.6:
            treatment["updateStrategy"] = self._strategy()
        if self.rng.random() < 0.5:
            treatment["feedbackRules"] = self._feedback()
        if self.rng.random() < 0.4:
            treatment["conditionRules"] = self._rules("-job" in name or "-pod" in name)
        if self.rng.random() < 0.1:
            treatment["feedbackScrapeType"] = "Watch"
        return treatment

    def _strategy(self) -> Object:
        kind = self.rng.choice(("Update", "CreateOnly", "ServerSideApply", "ServerSideApply", "ReadOnly"))
        if kind != "ServerSideApply" or self.rng.random() < 0.3:
            return {"type": kind}
        options: Object = {}
        if self.rng.random() < 0.5:
            options["force"] = self.rng.random() < 0.7
        if self.rng.random() < 0.3:
            options["fieldManager"] = self.rng.choice(("work-agent", "work-agent-other"))
        if self.rng.random() < 0.4:
            options["ignoreFields"] = [
                {"condition": one, "jsonPaths": self.rng.sample(IGNORED, self.rng.randint(1, 2))}
                for one in self.rng.sample(("OnSpokePresent", "OnSpokeChange"), self.rng.randint(1, 2))
            ]
        return {"type": kind, "serverSideApply": options}

    def _feedback(self) -> list[Object]:
        rules: list[Object] = []
        names = [f"value{number}" for number in range(8)]
        for _ in range(self.rng.randint(1, 2)):
            if self.rng.random() < 0.3:
                rules.append({"type": "WellKnownStatus"})
                continue
            paths: list[Object] = []
            for _ in range(self.rng.randint(1, 3)):
                path: Object = {"name": names.pop(0), "path": self.rng.choice(BAD_PATHS if self.rng.random() < 0.25 else PATHS)}
                if self.rng.random() < 0.15:
                    path["version"] = self.rng.choice(("v1", "v2"))
                paths.append(path)
            rules.append({"type": "JSONPaths", "jsonPaths": paths})
        return rules if sum(rule["type"] == "WellKnownStatus" for rule in rules) < 2 else rules[:1]

    def _rules(self, known: bool) -> list[Object]:
        rules: list[Object] = []
        if self.rng.random() < (0.7 if known else 0.1):
            rules.append({"type": "WellKnownConditions", "condition": self.rng.choice(("Complete", "Complete", "Ready"))})
        taken = {rule["condition"] for rule in rules}
        for condition in self.rng.sample([one for one in CONDITIONS if one not in taken], self.rng.randint(1, 2)):
            expressions = [
                self.rng.choice(BAD_EXPRESSIONS if self.rng.random() < 0.2 else EXPRESSIONS) for _ in range(self.rng.randint(0, 2))
            ]
            rule: Object = {"type": "CEL", "condition": condition, "celExpressions": expressions}
            if self.rng.random() < 0.3:
                rule["message"] = self.rng.choice(("", "in words"))
            if self.rng.random() < 0.4:
                rule["messageExpression"] = self.rng.choice(MESSAGES)
            rules.append(rule)
        return rules

    # Strangers.

    def _meddle(self) -> Any:
        names = [name for name in self.order if name.partition("-")[2].rstrip("0123456789") in MEDDLING]
        if not names:
            return None
        name = self.rng.choice(names)
        patches = MEDDLING[name.partition("-")[2].rstrip("0123456789")]
        return self.manifests[name], self.rng.choice((*_ANYWHERE, *patches, *patches))


IGNORED: Final = (
    *(".spec.replicas", ".data.a", ".data", ".metadata.labels.season", ".spec.nothing"),
    ".spec.template.spec.containers[*].image",
)
_ANYWHERE: Final[tuple[Object, ...]] = (
    {"metadata": {"labels": {"season": "stolen"}}},
    {"metadata": {"labels": {"stranger": "was-here"}}},
    {"metadata": {"annotations": {"stranger": "was here"}}},
    {"metadata": {"ownerReferences": None}},
)
MEDDLING: Final[Mapping[str, tuple[Object, ...]]] = {
    "cm": ({"data": {"a": "stolen"}}, {"data": {"stranger": "was here"}}, {"data": None}),
    "secret": ({"data": {"a": "c3RvbGVu"}}, {"data": {"stranger": "aGVyZQ=="}}),
    "svc": ({"spec": {"selector": {"app": "stolen"}}}, {"spec": {"publishNotReadyAddresses": True}}),
    "deploy": ({"spec": {"replicas": 2}}, {"spec": {"paused": True}}, {"spec": {"template": {"spec": {"hostname": "stranger"}}}}),
    "sa": ({"automountServiceAccountToken": False},),
    "role": ({"rules": []},),
    "crole": ({"rules": []},),
    "bind": ({"subjects": []},),
    "tree": ({"spec": {"ash": "stolen"}}, {"spec": {"stranger": "was here"}}),
    "job": ({"spec": {"activeDeadlineSeconds": 100}},),
    "pod": (*[{"status": {"phase": phase}} for phase in ("Succeeded", "Failed", "Running")],),
}


def manifest_named(spec: Object, kind: str, name: str) -> Object | None:
    found = (one for one in spec["workload"]["manifests"] if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return next(found, None)


def strategy_of(spec: Object, manifest: Object) -> str:
    """How a manifest is treated: by the first configuration that names it and says so."""
    metadata = manifest["metadata"]
    plural = plural_of(manifest)
    identity = manifest["apiVersion"].rpartition("/")[0], plural, metadata["name"], metadata.get("namespace", "")
    for config in spec["manifestConfigs"]:
        wanted = config["resourceIdentifier"]
        patterns = [wanted.get(key, "") for key in ("group", "resource", "name", "namespace")]
        if "updateStrategy" in config and all(
            re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), part)
            for pattern, part in zip(patterns, identity, strict=True)
        ):
            return str(config["updateStrategy"]["type"])
    return "Update"


def _fair(before: Version, after: Version) -> Version:
    """Without meddling that would be repaired by an agent that is fast and not by one that comes when all is changed."""
    kept = []
    for manifest, patch in after.meddling if after.spec != before.spec else ():
        now = manifest_named(after.spec, manifest["kind"], manifest["metadata"]["name"])
        then = manifest_named(before.spec, manifest["kind"], manifest["metadata"]["name"])
        strategies = {strategy_of(spec, one) for spec, one in ((before.spec, then), (after.spec, now)) if one is not None}
        if now is not None and then is not None and len(strategies) == 1 and _spoken_of(then, patch) == _spoken_of(now, patch):
            kept.append((manifest, patch))
    return replace(after, meddling=tuple(kept))


def _spoken_of(manifest: Any, patch: Any) -> bool:
    """Whether a manifest says something of a field that is patched."""
    if not isinstance(patch, dict) or not isinstance(manifest, dict):
        return manifest is not None
    return any(_spoken_of(manifest.get(key), value) for key, value in patch.items())


def random_life(seed: int, length: int) -> Life:
    """The same for the same seed and length."""
    return Author(f"w{seed}", Random(f"work {seed}")).life(length)
