"""What the server itself writes into `metadata`, and the rules every object's metadata obeys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.apiserver.registry.resource import Object, Resource
from muster.kube import names
from muster.kube.fielderrors import FieldError, forbidden, invalid, required

_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_EMPTY_DROPPED = ("labels", "annotations", "finalizers", "ownerReferences", "managedFields")
_NAME_RULES: dict[str, Callable[[str], list[str]]] = {
    "dns-subdomain": names.name_is_subdomain,
    "dns-label": names.name_is_label,
    "dns-1035-label": names.name_is_dns1035_label,
    "path-segment": names.path_segment,
    "any": lambda name: [],
}
_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")


def fill_on_create(resource: Resource, meta: Object, now: str, uid: str) -> None:
    """Server-owned fields of a new object; what the client sent for them is dropped."""
    for field in _SERVER_OWNED:
        meta.pop(field, None)
    meta["uid"] = uid
    meta["creationTimestamp"] = now
    if resource.tracks_generation:
        meta["generation"] = 1
    _drop_empty(meta)


def keep_on_update(resource: Resource, subresource: str, new: Object, old: Object) -> None:
    """Restore what this endpoint may not change: server-owned metadata, and the half (spec or status) it does not serve."""
    if subresource == "status":
        _only_status(new, old)
    elif resource.has_status and not subresource:
        _keep(new, old, "status")
    meta, old_meta = new["metadata"], old["metadata"]
    for field in _SERVER_OWNED:
        _keep(meta, old_meta, field)
    meta["name"] = old_meta["name"]
    _keep(meta, old_meta, "namespace")
    _drop_empty(meta)


def _only_status(new: Object, old: Object) -> None:
    managed = new["metadata"].get("managedFields")
    meta = dict(old["metadata"])
    if managed is not None:
        meta["managedFields"] = managed
    for key in [k for k in new if k not in ("status", "kind", "apiVersion")]:
        del new[key]
    for key, value in old.items():
        if key not in ("status", "metadata"):
            new[key] = value
    new["metadata"] = meta


def _keep(new: dict[str, Any], old: dict[str, Any], field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def _drop_empty(meta: Object) -> None:
    for field in _EMPTY_DROPPED:
        if field in meta and not meta[field]:
            del meta[field]


def check_metadata(resource: Resource, obj: Object) -> list[FieldError]:
    """Problems of a new object's metadata."""
    meta = obj["metadata"]
    problems: list[FieldError] = []
    name = meta.get("name", "")
    if not name:
        problems.append(required("metadata.name", "name or generateName is required"))
    else:
        problems += [invalid("metadata.name", name, text) for text in _NAME_RULES[resource.name_rule](name)]
    return problems + _check_common(resource, meta)


def check_metadata_update(resource: Resource, new: Object, old: Object) -> list[FieldError]:
    meta, old_meta = new["metadata"], old["metadata"]
    problems = _check_common(resource, meta)
    if old_meta.get("deletionTimestamp"):
        added = [f for f in meta.get("finalizers", ()) if f not in old_meta.get("finalizers", ())]
        if added:
            shown = ", ".join(f'"{f}"' for f in added)
            text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
            problems.append(forbidden("metadata.finalizers", text))
    return problems


def _is_core(resource: Resource) -> bool:
    """Kinds of Kubernetes proper know a closed list of unqualified finalizers; extension kinds take any qualified name."""
    return resource.custom is None and resource.group not in ("apiextensions.k8s.io", "apiregistration.k8s.io")


def _check_common(resource: Resource, meta: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    if meta.get("labels"):
        problems += names.check_labels(meta["labels"], "metadata.labels")
    if meta.get("annotations"):
        problems += names.check_annotations(meta["annotations"], "metadata.annotations")
    if meta.get("ownerReferences"):
        problems += _owner_problems(meta["ownerReferences"])
    for finalizer in meta.get("finalizers", ()):
        texts = names.qualified_name(finalizer)
        problems += [invalid("metadata.finalizers", finalizer, text) for text in texts]
        if not texts and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS and _is_core(resource):
            text = "name is neither a standard finalizer name nor is it fully qualified"
            problems.append(invalid("metadata.finalizers", finalizer, text))
    return problems


def _owner_problems(owners: list[Object]) -> list[FieldError]:
    problems: list[FieldError] = []
    controller = None
    for index, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{index}]"
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                empty = {"apiVersion": "version", "kind": "kind", "name": "name", "uid": "uid"}[field]
                problems.append(invalid(f"{path}.{field}", "", f"{empty} must not be empty"))
        if owner.get("controller"):
            if controller is not None:
                text = (
                    f'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller.get('name')} and {owner.get('name')}"
                )
                problems.append(invalid("metadata.ownerReferences", owners, text))
            controller = owner
    return problems
