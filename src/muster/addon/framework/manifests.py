"""Classification of an addon's manifests by annotations: hook or not, own or hosting cluster, and whether they are kept on
deletion.

Labels of the same name count as well. If an addon is not hosted, the location is ignored: everything is deployed on its own
cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from muster.api.addons import DELETION_ORPHAN, HOSTED_MANIFEST_LOCATION, NAMESPACE_LABEL, PRE_DELETE
from muster.machinery.objects import Object

HOOK_KINDS: Final = frozenset((("batch", "Job"), ("", "Pod")))
LOCATIONS: Final = ("managed", "hosting", "none")
_IRREGULAR: Final[Mapping[str, str]] = {
    "Endpoints": "endpoints",
    "SecurityContextConstraints": "securitycontextconstraints",
}


class ManifestKey(NamedTuple):
    """The object of a manifest, without its version."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}"


def manifest_key(manifest: Mapping[str, Any]) -> ManifestKey:
    metadata = _mapping(manifest.get("metadata"))
    group = str(manifest.get("apiVersion") or "").rpartition("/")[0]
    return ManifestKey(
        group, str(manifest.get("kind") or ""), str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    )


@dataclass(frozen=True)
class Sorted:
    """An addon's manifests by location and phase."""

    managed: tuple[Object, ...] = ()
    hosting: tuple[Object, ...] = ()
    managed_hooks: tuple[Object, ...] = ()
    hosting_hooks: tuple[Object, ...] = ()


def location_problem(manifests: Iterable[Object]) -> str:
    """The problem with the locations of a hosted addon's manifests; empty if there is none."""
    for manifest in manifests:
        if (location := _mark(manifest, HOSTED_MANIFEST_LOCATION) or "managed") not in LOCATIONS:
            return f"{manifest_key(manifest)}: not supported manifest location: {location}"
    return ""


def sort_manifests(manifests: Iterable[Object], *, hosted: bool) -> Sorted:
    parts: dict[tuple[bool, bool], list[Object]] = {}
    for manifest in manifests:
        location = _mark(manifest, HOSTED_MANIFEST_LOCATION) if hosted else None
        if location != "none":
            parts.setdefault((location == "hosting", is_hook(manifest)), []).append(manifest)
    managed, hosting, managed_hooks, hosting_hooks = (
        tuple(parts.get(part, ())) for part in ((False, False), (True, False), (False, True), (True, True))
    )
    return Sorted(managed, hosting, managed_hooks, hosting_hooks)


def is_hook(manifest: Object) -> bool:
    key = manifest_key(manifest)
    return (key.group, key.kind) in HOOK_KINDS and _mark(manifest, PRE_DELETE) is not None


def stays(manifest: Object) -> bool:
    """Whether its object is kept when the addon is deleted."""
    return _mark(manifest, DELETION_ORPHAN) is not None


def plural_of(key: ManifestKey, manifests: Sequence[Object], served: Mapping[tuple[str, str], str]) -> str:
    """The resource of a kind: as the hub serves it, by a CRD among the manifests, else apimachinery's guess."""
    if found := served.get((key.group, key.kind)):
        return found
    for manifest in manifests:
        spec = _mapping(manifest.get("spec"))
        names = _mapping(spec.get("names"))
        if manifest.get("kind") == "CustomResourceDefinition" and (spec.get("group"), names.get("kind")) == (key.group, key.kind):
            return str(names.get("plural") or "")
    if key.kind in _IRREGULAR:
        return _IRREGULAR[key.kind]
    lower = key.kind.lower()
    if lower.endswith("s"):
        return f"{lower}es"
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"


def with_namespace_label(manifests: Iterable[Object], namespace: str) -> tuple[Object, ...]:
    """The manifests, with a label on the addon's own Namespace: without it, agents may store no credential there."""
    return tuple(
        _labelled(manifest) if manifest_key(manifest) == ManifestKey("", "Namespace", "", namespace) else manifest
        for manifest in manifests
    )


def _labelled(manifest: Object) -> Object:
    metadata = _mapping(manifest.get("metadata"))
    return {**manifest, "metadata": {**metadata, "labels": {NAMESPACE_LABEL: "true", **_mapping(metadata.get("labels"))}}}


def _mark(manifest: Object, name: str) -> str | None:
    """The value of an annotation, or a label of the same name."""
    metadata = _mapping(manifest.get("metadata"))
    for part in ("annotations", "labels"):
        if name in (marks := _mapping(metadata.get(part))):
            return str(marks[name] or "")
    return None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
