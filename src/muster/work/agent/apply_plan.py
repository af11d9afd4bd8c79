"""The parsed spec of a work: the objects of its manifests, their order, and how each is applied.

Nothing here sends requests. A manifest that cannot be an object of the cluster becomes an `InvalidManifest` with the reason, and
the others are applied without it. Of two manifests for one object only the first is used. Names that would change the path of a
request (`..`) are refused here, before a path is built from them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from muster.api.resource import known_fields
from muster.api.work.v1 import (
    ConditionRule,
    DeleteOption,
    FeedbackRule,
    ManifestConfig,
    ManifestResourceMeta,
    ManifestWorkSpec,
    UpdateStrategy,
)
from muster.machinery.objects import GVR, Object, ObjectRef
from muster.work.agent.interfaces import InvalidManifest, Manifest

Kind = tuple[str, str]
"""apiVersion and kind."""

_RANKED: Final = (
    "priorityclasses namespaces customresourcedefinitions storageclasses persistentvolumes podsecuritypolicies",
    "clusterroles roles",
    "clusterrolebindings rolebindings",
    "networkpolicies resourcequotas limitranges poddisruptionbudgets serviceaccounts",
    "secrets configmaps persistentvolumeclaims",
    "services",
    "daemonsets pods replicationcontrollers replicasets deployments horizontalpodautoscalers statefulsets jobs cronjobs",
    "apiservices mutatingwebhookconfigurations validatingwebhookconfigurations validatingadmissionpolicies "
    "validatingadmissionpolicybindings",
)
"""By rank: objects that others depend on come first, in every group. As upstream, but roles come before their bindings."""
_RANKS: Final = {plural: rank for rank, plurals in enumerate(_RANKED) for plural in plurals.split()}
LAST_RANK: Final = 1000
_DEFAULT_STRATEGY: Final = UpdateStrategy()
_SERVER_OWNED: Final = ("uid", "resourceVersion", "managedFields")
READ_ONLY: Final = "ReadOnly"
_SURELY_SENT: Final = 200
"""Levels of nesting that the encoder takes in any case."""


def rank_of(plural: str) -> int:
    return _RANKS.get(plural, LAST_RANK)


Identity = tuple[str, str, str, str]
"""Which object, whatever the version it is spoken of in: group, plural, namespace, name."""


def identity(ref: ObjectRef) -> Identity:
    return ref.resource.group, ref.resource.plural, ref.namespace, ref.name


@dataclass(frozen=True)
class ApplyPlan:
    manifests: tuple[Manifest, ...]
    invalid: tuple[InvalidManifest, ...]

    @property
    def refs(self) -> frozenset[ObjectRef]:
        return frozenset(manifest.ref for manifest in self.manifests)

    @property
    def ranks(self) -> list[list[Manifest]]:
        """The manifests in the order in which they are applied; those of one rank do not wait for each other."""
        by_rank: dict[int, list[Manifest]] = {}
        for manifest in self.manifests:
            by_rank.setdefault(manifest.rank, []).append(manifest)
        return [by_rank[rank] for rank in sorted(by_rank)]

    def protects(self, one: Identity) -> bool:
        """Whether it may be the object of a manifest whose kind the cluster does not serve at the moment."""
        group, _, namespace, name = one
        return any(
            invalid_manifest.unserved
            and invalid_manifest.meta.group == group
            and invalid_manifest.meta.name == name
            and namespace in ("", invalid_manifest.meta.namespace)
            for invalid_manifest in self.invalid
        )


class _Head(msgspec.Struct):
    """Of a manifest: untyped, since nobody has checked it."""

    apiVersion: Any = ""
    kind: Any = ""


_decode_head = msgspec.json.Decoder(_Head).decode


def kinds(spec: ManifestWorkSpec) -> frozenset[Kind]:
    """The kinds that discovery must resolve before a plan can be made."""
    found: set[Kind] = set()
    for raw in spec.workload.manifests:
        try:
            head = _decode_head(raw)
        except msgspec.DecodeError:
            continue
        if isinstance(head.apiVersion, str) and isinstance(head.kind, str) and head.apiVersion and head.kind:
            found.add((head.apiVersion, head.kind))
    return frozenset(found)


def make_plan(spec: ManifestWorkSpec, served: Mapping[Kind, GVR | str]) -> ApplyPlan:
    """`served`: for each of `kinds` where it is served, or why it is not."""
    manifests: list[Manifest] = []
    invalid: list[InvalidManifest] = []
    taken: dict[Identity, int] = {}
    for ordinal, raw in enumerate(spec.workload.manifests):
        one = _understand(ordinal, bytes(raw), spec, served)
        if isinstance(one, Manifest):
            first = taken.setdefault(identity(one.ref), ordinal)
            if first == ordinal:
                manifests.append(one)
                continue
            one = InvalidManifest(one.meta, f"manifest {first} is about the same object")
        invalid.append(one)
    return ApplyPlan(tuple(manifests), tuple(invalid))


def _understand(ordinal: int, raw: bytes, spec: ManifestWorkSpec, served: Mapping[Kind, GVR | str]) -> Manifest | InvalidManifest:
    document = _document(raw)
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    api_version, kind = _text(document.get("apiVersion")), _text(document.get("kind"))
    group, _, version = api_version.rpartition("/")
    name, namespace = _text(metadata.get("name")), _text(metadata.get("namespace"))
    meta = ManifestResourceMeta(ordinal=ordinal, group=group, version=version, kind=kind, name=name, namespace=namespace)
    if not api_version or not kind:
        return InvalidManifest(meta, "it is no Kubernetes object: apiVersion or kind is missing")
    if not name:
        return InvalidManifest(meta, "metadata.name is missing")
    if _too_deep(raw, document):
        return InvalidManifest(meta, "it is nested too deeply")
    for field, value in (("name", name), ("namespace", namespace)):
        if problem := _segment_problem(value):
            return InvalidManifest(meta, f"metadata.{field} {value!r} {problem}")
    resource = served.get((api_version, kind), f'the server doesn\'t have a resource type "{kind}"')
    if isinstance(resource, str):
        return InvalidManifest(meta, resource, unserved=True)
    if resource.namespaced and not namespace:
        return InvalidManifest(
            msgspec.structs.replace(meta, resource=resource.plural),
            f"metadata.namespace is missing: {resource.plural} live in namespaces",
            nowhere=True,
        )
    ref = ObjectRef(resource, namespace if resource.namespaced else "", name)
    return _manifest(ordinal, ref, raw, document, metadata, spec)


def _document(raw: bytes) -> Object:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _too_deep(raw: bytes, document: Object) -> bool:
    """Whether it is nested more than what is sent may be."""
    if raw.count(b"{") + raw.count(b"[") <= _SURELY_SENT:
        return False
    try:
        orjson.dumps(document)
    except TypeError:
        return True
    return False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _segment_problem(value: str) -> str:
    """Why a name cannot be a part of a path."""
    if value in (".", ".."):
        return "is no name"
    return "may not have '/' or '%' in it" if "/" in value or "%" in value else ""


def _manifest(ordinal: int, ref: ObjectRef, raw: bytes, document: Object, metadata: Object, spec: ManifestWorkSpec) -> Manifest:
    treatment = _treatment(ref, spec.manifest_configs)
    kept = {key: value for key, value in metadata.items() if key not in _SERVER_OWNED}
    kept.pop("namespace", None)
    if ref.namespace:
        kept["namespace"] = ref.namespace
    owned = treatment.strategy.type != READ_ONLY and not _orphaned(ref, spec.delete_option)
    return Manifest(
        ordinal=ordinal,
        rank=rank_of(ref.resource.plural),
        ref=ref,
        document={**document, "metadata": kept},
        digest=_digest(raw, treatment.strategy, owned),
        strategy=treatment.strategy,
        owned=owned,
        feedback=treatment.feedback,
        conditions=treatment.conditions,
    )


def _digest(raw: bytes, strategy: UpdateStrategy, owned: bool) -> bytes:
    how = b"" if strategy is _DEFAULT_STRATEGY else orjson.dumps(known_fields(strategy))
    return hashlib.blake2b(b"%b\0%d\0%b" % (how, owned, raw), digest_size=16).digest()


@dataclass(frozen=True)
class _Treatment:
    strategy: UpdateStrategy
    feedback: tuple[FeedbackRule, ...]
    conditions: tuple[ConditionRule, ...]


def _treatment(ref: ObjectRef, configs: Sequence[ManifestConfig]) -> _Treatment:
    """Of the configurations that match the object, for each field the first that sets it."""
    matching = [config for config in configs if _names(config, ref)]
    return _Treatment(
        next((config.update_strategy for config in matching if config.update_strategy is not None), _DEFAULT_STRATEGY),
        next((config.feedback_rules for config in matching if config.feedback_rules), ()),
        next((config.condition_rules for config in matching if config.condition_rules), ()),
    )


def _names(config: ManifestConfig, ref: ObjectRef) -> bool:
    wanted = config.resource_identifier
    return (
        wanted.group == ref.resource.group
        and wanted.resource == ref.resource.plural
        and _matches(wanted.name, ref.name)
        and _matches(wanted.namespace, ref.namespace)
    )


def _matches(pattern: str, value: str) -> bool:
    """A star stands for anything. Without regular expressions: those of many stars can take longer than anybody waits."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == value
    *middle, last = rest
    end = len(value) - len(last)
    if end < len(first) or not value.startswith(first) or not value.endswith(last):
        return False
    at = len(first)
    for part in middle:
        at = value.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def _orphaned(ref: ObjectRef, option: DeleteOption | None) -> bool:
    if option is None or option.propagation_policy == "Foreground":
        return False
    if option.propagation_policy == "Orphan":
        return True
    rules: Iterable[Any] = option.selectively_orphans.orphaning_rules if option.selectively_orphans else ()
    return any((rule.group, rule.resource, rule.namespace, rule.name) == identity(ref) for rule in rules)
