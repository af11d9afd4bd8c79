"""What upstream's work agent does and ours does not, on purpose: the one table of it for works that are played to both.

Each difference has its place in docs/work.md, named by the first cell of its row there, and says which deviations it explains. A
deviation is judged with all that is known of the `Moment`, so that a difference covers no more than it has to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass

from muster.machinery.objects import Object
from tests.interop.twins import Deviation
from tests.support.random_works import Life, strategy_of

_OF_THE_AGENT = ("Applied", "Available")


@dataclass(frozen=True)
class Moment:
    """A deviation and when it was seen: in version `number` of a life, which has ended when there is none of that number."""

    life: Life
    number: int
    found: Deviation
    theirs: Object
    """All that is seen of the work under upstream's agent."""
    completed: bool = False
    """Whether that has called the work, or a manifest of it, complete."""

    @property
    def path(self) -> tuple[str, ...]:
        return self.found.path

    @property
    def specs(self) -> list[Object]:
        """Up to this moment, the present one last."""
        return [version.spec for version in self.life.versions[: self.number + 1]]

    @property
    def about(self) -> tuple[str, str]:
        """Kind and name of the object or manifest that the deviation is about."""
        if self.path[0] == "objects" and len(self.path) > 1:
            kind, _, where = self.path[1].partition(" ")
            return kind, where.partition("/")[2]
        if self.path[:2] == ("status", "manifests") and len(self.path) > 2 and self.number < len(self.life.versions):
            for manifest in self.specs[-1]["workload"]["manifests"][int(self.path[2]) :][:1]:
                return manifest["kind"], manifest["metadata"]["name"]
        return "", ""

    def ever(self, kind: str) -> bool:
        """Whether the work has had a manifest of the kind."""
        return any(manifest["kind"] == kind for spec in self.specs for manifest in spec["workload"]["manifests"])

    def told_of(self, explained: Mapping[tuple[str, str], str]) -> Iterator[str]:
        """The differences of objects that are told on: values and conditions of rules are of what there is."""
        if self.path[:2] == ("status", "conditions") and self.path[2] not in _OF_THE_AGENT:
            yield from explained.values()
        told = self.path[3:4] == ("values",) or (self.path[3:4] == ("conditions",) and self.path[4] not in _OF_THE_AGENT)
        if told and self.about in explained:
            yield explained[self.about]

    def meddled(self) -> bool:
        """Whether strangers have written the very field."""
        return any(
            (manifest["kind"], manifest["metadata"]["name"]) == self.about and list(paths(patch)) == [self.path[2:]]
            for version in self.life.versions[: self.number + 1]
            for manifest, patch in version.meddling
        )


def paths(patch: Object) -> Iterator[tuple[str, ...]]:
    for key, value in patch.items():
        yield from [(key, *rest) for rest in paths(value)] if isinstance(value, dict) else [(key,)]


@dataclass(frozen=True)
class Accepted:
    name: str
    row: str
    """The first cell of its row in docs/work.md."""
    covers: Callable[[Moment], bool]
    by_chance: bool = False
    """Whether it takes a race to see it."""


SPEC_HASH = "operator.openshift.io/spec-hash"
REPLACED = ("Deployment", "Job", "Service", "Tree")
"""Kinds that upstream writes as a whole."""


def _hash_of_a_service(moment: Moment) -> bool:
    if moment.about[0] != "Service" or "annotations" not in moment.path:
        return False
    theirs = moment.found.theirs
    return moment.path[-1] == SPEC_HASH or (isinstance(theirs, dict) and theirs.keys() == {SPEC_HASH})


def _concerns(moment: Moment, names: Set[str]) -> bool:
    """Whether it is about one of these objects, or about the work as a whole having been applied."""
    if moment.about[1]:
        return moment.about[1] in names
    return bool(names) and moment.path[:3] == ("status", "conditions", "Applied")


def _said(moment: Moment, kind: str, field: str, default: str = "") -> dict[str, set[str]]:
    """By name of the work's objects of a kind: what its versions said of a field."""
    found: dict[str, set[str]] = {}
    for spec in moment.specs:
        for manifest in spec["workload"]["manifests"]:
            if manifest["kind"] == kind:
                found.setdefault(manifest["metadata"]["name"], set()).add(str(manifest.get(field, default)))
    return found


def _job(moment: Moment) -> bool:
    jobs = {
        manifest["metadata"]["name"]
        for spec in moment.specs
        for manifest in spec["workload"]["manifests"]
        if manifest["kind"] == "Job" and strategy_of(spec, manifest) == "Update"
    }
    return _concerns(moment, jobs)


def _sealed(moment: Moment) -> bool:
    return _concerns(moment, {name for name, said in _said(moment, "ConfigMap", "immutable").items() if said != {""}})


def _let_go(moment: Moment) -> bool:
    read = {
        (manifest["kind"], manifest["metadata"]["name"])
        for spec in moment.specs
        for manifest in spec["workload"]["manifests"]
        if strategy_of(spec, manifest) == "ReadOnly"
    }
    stays = len(moment.path) == 2 and moment.found.theirs is None
    return moment.about in read and moment.path[0] == "objects" and (moment.path[-1] == "owners" or stays)


def _spared(moment: Moment) -> bool:
    """A work has ended whose last version could not be applied, and with it what that says of who is the owner."""
    if moment.number < len(moment.life.versions) or len(moment.path) != 2 or moment.found.theirs is not None:
        return False
    option = moment.specs[-1]["deleteOption"] or {}
    rules = option.get("selectivelyOrphans", {}).get("orphaningRules", ())
    return option.get("propagationPolicy") == "Orphan" or any(rule["name"] == moment.about[1] for rule in rules)


def _retyped(moment: Moment) -> bool:
    return _concerns(moment, {name for name, said in _said(moment, "Secret", "type", "Opaque").items() if len(said) > 1})


def _unserved(moment: Moment) -> bool:
    left = moment.path[0] == "objects" and moment.found.ours is None
    return moment.ever("Odd") and (moment.path[:2] == ("record", "resources") or left)


def _intended(moment: Moment) -> bool:
    if moment.path != ("record", "resources"):
        return False
    there = [entry for entry in moment.found.ours or () if "uid" in entry]
    return there != moment.found.ours and there == (moment.found.theirs or [])


def _homeless(moment: Moment) -> bool:
    if moment.path[-1] == "message" and "metadata.namespace is missing" in str(moment.found.ours):
        return True
    # Nothing is to be written, so upstream does not notice.
    read = [
        manifest["metadata"]["name"]
        for spec in moment.specs[-1:]
        for manifest in spec["workload"]["manifests"]
        if "-homeless" in manifest["metadata"]["name"] and strategy_of(spec, manifest) == "ReadOnly"
    ]
    return "Applied" in moment.path and (moment.about[1] in read or (bool(read) and moment.path[:2] == ("status", "conditions")))


def _raced(moment: Moment) -> bool:
    theirs = moment.found.theirs
    return (
        moment.path[:2] == ("status", "conditions")
        and moment.found.ours is None
        and isinstance(theirs, dict)
        and theirs.get("reason") == "ConditionRulesAggregated"
        and not any(moment.path[2] in one["conditions"] for one in moment.theirs["status"]["manifests"])
    )


ACCEPTED: tuple[Accepted, ...] = (
    Accepted("complete", "a `Complete` work whose spec changes", lambda moment: moment.completed),
    Accepted("spec-hash", "a Service", _hash_of_a_service),
    Accepted("jobs", "`Update` of kinds with defaults", _job),
    Accepted(
        "silence",
        "`Update` of kinds with defaults",
        lambda moment: moment.about[0].startswith(REPLACED) and moment.meddled(),
    ),
    Accepted(
        "replicas",
        "a number of replicas that is removed from the manifest",
        lambda moment: moment.about[0] == "Deployment" and moment.path[-2:] == ("spec", "replicas"),
    ),
    Accepted("let-go", "what becomes `ReadOnly`", _let_go),
    Accepted("spared", "what is to stay, of a work that was deleted before that could be applied", _spared),
    Accepted("retyped", "a Secret whose type changes", _retyped),
    Accepted("sealed", "`immutable` of a ConfigMap", _sealed),
    Accepted(
        "aggregated",
        "a role that becomes an aggregated one",
        lambda moment: moment.about[0] == "ClusterRole" and moment.path[-1] == "rules" and moment.found.ours is None,
    ),
    Accepted("intended", "the record", _intended),
    Accepted("unserved", "a kind that is not served", _unserved),
    Accepted("homeless", "a namespace that is missing", _homeless),
    Accepted(
        "conflict",
        "a conflict of server-side apply",
        lambda moment: (moment.found.theirs, moment.found.ours) == ("AppliedManifestFailed", "ApplyConflict"),
    ),
    Accepted(
        "forbidden",
        "the agent's own missing permission",
        lambda moment: moment.path[-1] == "message" and "the work agent itself lacks" in str(moment.found.ours),
    ),
    Accepted(
        "well-known",
        "well-known values of StatefulSets, ReplicaSets and claims",
        lambda moment: moment.about[0] == "StatefulSet" and not {"StatusFeedbackSynced", "values"}.isdisjoint(moment.path),
    ),
    Accepted("labels", "labels of a work", lambda moment: moment.path[:2] == ("record", "labels")),
    Accepted(
        "emptied",
        "a map that a manifest empties under `ServerSideApply`",
        lambda moment: moment.about[0].startswith("Tree") and moment.found.theirs is None and moment.found.ours == {},
        by_chance=True,
    ),
    Accepted("raced", "conditions of rules whose manifest is gone", _raced, by_chance=True),
)
