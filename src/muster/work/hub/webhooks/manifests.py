"""Validation of the manifests of a work: their total size, and unique names.

The messages begin as upstream's, and add the position. On an update only new manifests are checked: a work that was stored before a
rule was introduced, or under a larger limit, can still be changed and made smaller.

The size is that of the manifests as Go's API server would send them, so that the limit is the same to the byte on any hub: JSON
without spaces, with `<`, `>`, `&` and two line separators escaped, and each framed as in a protobuf message.

Manifests that no managed cluster could apply, as far as the hub knows, are accepted with a warning, since upstream's hub accepts
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

_LISTED: Final = 5
_ESCAPED: Final = ((b"<", 5), (b">", 5), (b"&", 5), ("\u2028".encode(), 3), ("\u2029".encode(), 3))
"""Characters that Go writes as a \\u escape, and how many bytes that adds."""
_IN_NAMESPACES: Final = {
    "": "ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret "
    "Service ServiceAccount",
    "apps": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling": "HorizontalPodAutoscaler",
    "batch": "CronJob Job",
    "coordination.k8s.io": "Lease",
    "discovery.k8s.io": "EndpointSlice",
    "events.k8s.io": "Event",
    "networking.k8s.io": "Ingress NetworkPolicy",
    "policy": "PodDisruptionBudget",
    "rbac.authorization.k8s.io": "Role RoleBinding",
}
"""Kubernetes' own namespaced kinds, by group: other kinds are known to the managed cluster only."""


@dataclass(frozen=True)
class Manifest:
    index: int
    document: Mapping[str, Any]
    raw: bytes

    @property
    def kind(self) -> str:
        return str(self.document.get("kind") or "")

    @property
    def metadata(self) -> Mapping[str, Any]:
        found = self.document.get("metadata")
        return found if isinstance(found, Mapping) else {}

    @property
    def name(self) -> str:
        return str(self.metadata.get("name") or "")

    @property
    def namespace(self) -> str:
        return str(self.metadata.get("namespace") or "")

    @property
    def identity(self) -> tuple[str, str, str, str]:
        return (str(self.document.get("apiVersion") or ""), self.kind, self.namespace, self.name)

    @property
    def homeless(self) -> bool:
        """Whether it lacks the namespace that its kind requires."""
        group, _, _ = str(self.document.get("apiVersion") or "").rpartition("/")
        return not self.namespace and self.kind in _IN_NAMESPACES.get(group, "").split()

    @property
    def size(self) -> int:
        length = len(self.raw) + sum(self.raw.count(character) * longer for character, longer in _ESCAPED)
        return length + 1 + (max(length.bit_length(), 1) + 6) // 7

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def manifests_of(spec: Mapping[str, Any]) -> list[Manifest]:
    """The manifests of a work's spec; one that is no object becomes an empty object."""
    workload = spec.get("workload")
    listed = workload.get("manifests") if isinstance(workload, Mapping) else None
    return [
        Manifest(index, document if isinstance(document, Mapping) else {}, orjson.dumps(document, option=orjson.OPT_SORT_KEYS))
        for index, document in enumerate(listed if isinstance(listed, list) else ())
    ]


def manifest_problem(new: Sequence[Manifest], old: Sequence[Manifest], limit: int, at: str = "spec") -> str | None:
    """The first problem of the new manifests that the old ones did not have."""
    at = f"{at}.workload.manifests"
    size = sum(manifest.size for manifest in new)
    if size > limit and size > sum(manifest.size for manifest in old):
        return f"the size of manifests is {size} bytes which exceeds the {limit} limit: {_largest(new)}"
    known = {manifest.raw for manifest in old}
    twice = Counter(manifest.identity for manifest in old)
    seen: dict[tuple[str, str, str, str], list[int]] = {}
    for manifest in new:
        if manifest.raw not in known and (problem := _problem(manifest)):
            return f"{problem}: {at}[{manifest.index}]"
        ordinals = seen.setdefault(manifest.identity, [])
        ordinals.append(manifest.index)
        if len(ordinals) > max(1, twice[manifest.identity]):
            version, kind, namespace, name = manifest.identity
            where = " and ".join(f"{at}[{index}]" for index in ordinals)
            return f"duplicate manifest for resource {namespace}/{name} with resource type {version}.{kind}: {where}"
    return None


def manifest_warnings(new: Sequence[Manifest], old: Sequence[Manifest], at: str = "spec") -> list[str]:
    """Warnings about new manifests that are accepted."""
    known = {manifest.raw for manifest in old}
    homeless = [manifest for manifest in new if manifest.homeless and manifest.raw not in known]
    return [
        f"{at}.workload.manifests[{manifest.index}]: {manifest} has no metadata.namespace and cannot be applied"
        for manifest in homeless[:_LISTED]
    ]


def _problem(manifest: Manifest) -> str | None:
    if not manifest.kind:
        return "Object 'Kind' is missing in manifest"
    if not manifest.name:
        return f"name must be set in manifest of kind {manifest.kind}"
    if manifest.metadata.get("generateName"):
        return f"generateName must not be set in manifest of kind {manifest.kind}"
    return None


def _largest(manifests: Sequence[Manifest]) -> str:
    by_size = sorted(manifests, key=lambda manifest: -manifest.size)
    listed = [f"{manifest} has {manifest.size}" for manifest in by_size[:_LISTED]]
    more = len(by_size) - _LISTED
    return ", ".join([*listed, f"and {more} more"] if more > 0 else listed)
