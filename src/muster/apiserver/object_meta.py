"""Server-set fields of `metadata`, and its validation (`k8s.io/apimachinery/pkg/api/validation`)."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from muster.apiserver.registry.resource import ServedResource
from muster.kube import names
from muster.kube.fielderrors import FieldError, Rendered, forbidden, invalid, required
from muster.machinery.objects import Object

_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_EMPTY_DROPPED = ("labels", "annotations", "finalizers", "ownerReferences", "managedFields")
_TYPE_ORDER = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_NAME_RULES: dict[str, Callable[[str], list[str]]] = {
    "dns-subdomain": names.name_is_subdomain,
    "dns-label": names.name_is_label,
    "dns-1035-label": names.name_is_dns1035_label,
    "path-segment": names.path_segment,
    "any": lambda name: [],
}
_EXTENSION_GROUPS = ("apiextensions.k8s.io", "apiregistration.k8s.io")
_DEFAULT_CHECKS = ("change",)
_STRATEGY_CHECKS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "/configmaps",
            "/endpoints",
            "/persistentvolumeclaims",
            "/pods",
            "/secrets",
            "/serviceaccounts",
            "/services",
            "apiregistration.k8s.io/apiservices",
            "apps/controllerrevisions",
            "networking.k8s.io/ingressclasses",
            "networking.k8s.io/ingresses",
            "storage.k8s.io/volumeattributesclasses",
        ),
        ("change", "object"),
    ),
    **dict.fromkeys(
        (
            "/namespaces",
            "/nodes",
            "apps/statefulsets",
            "batch/jobs",
            "certificates.k8s.io/certificatesigningrequests",
            "networking.k8s.io/ipaddresses",
            "networking.k8s.io/networkpolicies",
            "node.k8s.io/runtimeclasses",
            "rbac.authorization.k8s.io/clusterrolebindings",
            "rbac.authorization.k8s.io/clusterroles",
            "rbac.authorization.k8s.io/rolebindings",
            "rbac.authorization.k8s.io/roles",
            "storage.k8s.io/csistoragecapacities",
            "storage.k8s.io/storageclasses",
        ),
        ("object", "change"),
    ),
    **dict.fromkeys(
        (
            "/limitranges",
            "admissionregistration.k8s.io/mutatingadmissionpolicies",
            "admissionregistration.k8s.io/mutatingadmissionpolicybindings",
            "admissionregistration.k8s.io/mutatingwebhookconfigurations",
            "admissionregistration.k8s.io/validatingadmissionpolicies",
            "admissionregistration.k8s.io/validatingadmissionpolicybindings",
            "admissionregistration.k8s.io/validatingwebhookconfigurations",
            "discovery.k8s.io/endpointslices",
            "flowcontrol.apiserver.k8s.io/flowschemas",
            "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
            "policy/poddisruptionbudgets",
            "storage.k8s.io/volumeattachments",
        ),
        ("object",),
    ),
    **dict.fromkeys(("/persistentvolumes", "storage.k8s.io/csinodes"), ("object", "object")),
}
"""What the strategy of a kind validates again on update, in this order: the metadata of the object, the change, or both."""
_WIPED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_SERVER_OWNED = (
    *("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"),
    *("name", "namespace"),
)

_CLIENT_OWNED = ("labels", "annotations", "finalizers", "ownerReferences")
_UNCHANGED_BY_STATUS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "admissionregistration.k8s.io/validatingadmissionpolicies",
            "apiextensions.k8s.io/customresourcedefinitions",
            "apiregistration.k8s.io/apiservices",
            "flowcontrol.apiserver.k8s.io/flowschemas",
            "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
            "networking.k8s.io/servicecidrs",
            "storage.k8s.io/volumeattachments",
        ),
        _CLIENT_OWNED,
    ),
    "apps/deployments": ("labels",),
    "/pods": ("ownerReferences",),
}
"""Metadata that the status endpoint of a built-in kind does not change; other built-in kinds allow to change all of it there."""


def in_type_order(meta: Object) -> Object:
    """Metadata in the order of the Go type, for messages that show it."""
    return {key: meta[key] for key in _TYPE_ORDER if key in meta} | meta


def wipe_system_fields(meta: Object) -> None:
    """Drop fields that clients may not set on a new object. A generation is kept if the kind does not track it."""
    for field in _WIPED:
        meta.pop(field, None)


def fill_on_create(resource: ServedResource, meta: Object, now: str, uid: str) -> None:
    """Set the server-owned fields of a new object; values of clients and webhooks are dropped."""
    wipe_system_fields(meta)
    meta["uid"] = uid
    meta["creationTimestamp"] = now
    if resource.tracks_generation:
        meta["generation"] = 1
    _drop_empty(meta)


def restore_on_update(resource: ServedResource, subresource: str, new: Object, old: Object) -> None:
    """Restore what this endpoint may not change: server-owned metadata, and either spec or status."""
    if subresource == "status":
        _only_status(resource, new, old)
    elif resource.has_status and not subresource:
        _restore(new, old, ("status",))
    meta, old_meta = new["metadata"], old["metadata"]
    _restore(meta, old_meta, _SERVER_OWNED)
    _drop_empty(meta)


def _only_status(resource: ServedResource, new: Object, old: Object) -> None:
    kept = _CLIENT_OWNED if resource.is_custom else _UNCHANGED_BY_STATUS.get(resource.storage, ())
    _restore(new["metadata"], old["metadata"], kept)
    for key in [k for k in new if k not in ("metadata", "status", "kind", "apiVersion")]:
        del new[key]
    for key, value in old.items():
        if key not in ("status", "metadata"):
            new[key] = value


def _restore(new: Object, old: Object, fields: tuple[str, ...]) -> None:
    for field in fields:
        if field in old:
            new[field] = old[field]
        else:
            new.pop(field, None)


def _drop_empty(meta: Object) -> None:
    for field in _EMPTY_DROPPED:
        if field in meta and not meta[field]:
            del meta[field]


def check_metadata(resource: ServedResource, obj: Object) -> list[FieldError]:
    """Validate the metadata of a new object."""
    meta = obj["metadata"]
    problems: list[FieldError] = []
    name = meta.get("name", "")
    if not name:
        problems.append(required("metadata.name", "name or generateName is required"))
    else:
        problems += [invalid("metadata.name", name, text) for text in _NAME_RULES[resource.name_rule](name)]
    return problems + _generic(meta) + _finalizers(meta) + _kubernetes_finalizers(resource, meta)


def check_metadata_update(resource: ServedResource, new: Object, old: Object, subresource: str = "") -> list[FieldError]:
    """Validate the metadata of a changed object. As upstream, errors are repeated: the generic registry validates the object and
    the change, then the strategy of the kind does so again, and each error is a cause of its own."""
    meta, old_meta = new["metadata"], old["metadata"]
    generic = _generic(meta) + _finalizers(meta) + _of_change(meta, old_meta)
    if not generic and not _kubernetes_finalizers(resource, meta):
        return []
    own: list[FieldError] = []
    checks = _DEFAULT_CHECKS if subresource == "status" else _STRATEGY_CHECKS.get(resource.storage, _DEFAULT_CHECKS)
    for check in checks:
        own += _generic(meta) + _finalizers(meta) if check == "object" else _of_change(meta, old_meta)
        own += _kubernetes_finalizers(resource, meta)
    return generic + own


def _of_change(meta: Object, old_meta: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    if old_meta.get("deletionTimestamp"):
        added = set(meta.get("finalizers", ())).difference(old_meta.get("finalizers", ()))
        if added:
            shown = ", ".join(f'"{f}"' for f in sorted(added))
            text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
            problems.append(forbidden("metadata.finalizers", text))
    return problems + _generic(meta)


def _generic(meta: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    if meta.get("labels"):
        problems += names.check_labels(meta["labels"], "metadata.labels")
    if meta.get("annotations"):
        problems += names.check_annotations(meta["annotations"], "metadata.annotations")
    if meta.get("ownerReferences"):
        problems += _owner_problems(meta["ownerReferences"])
    return problems


def _finalizers(meta: Object) -> list[FieldError]:
    finalizers = meta.get("finalizers", ())
    problems = [invalid("metadata.finalizers", each, text) for each in finalizers for text in names.qualified_name(each)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        problems.append(invalid("metadata.finalizers", list(finalizers), text))
    return problems


def _kubernetes_finalizers(resource: ServedResource, meta: Object) -> list[FieldError]:
    """Built-in kinds only allow certain unqualified finalizers; extension kinds allow any qualified name."""
    if resource.is_custom or resource.group in _EXTENSION_GROUPS:
        return []
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"metadata.finalizers[{index}]", finalizer, text)
        for index, finalizer in enumerate(meta.get("finalizers", ()))
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_OWNER_TEXTS = {
    "apiVersion": "version must not be empty",
    "kind": "must not be empty",
    "name": "must not be empty",
    "uid": "must not be empty",
}


def _in_order(owner: Object) -> Object:
    return {key: owner[key] for key in _OWNER_FIELDS if key in owner}


def _owner_problems(owners: list[Object]) -> list[FieldError]:
    problems: list[FieldError] = []
    controller: Object | None = None
    shown: Rendered | None = None
    for owner in owners:
        for field, text in _OWNER_TEXTS.items():
            if not owner.get(field):
                problems.append(invalid(f"metadata.ownerReferences.{field}", "", text))
        if owner.get("controller"):
            if controller is not None:
                text = (
                    f'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller.get('kind')}/{controller.get('name')} and {owner.get('kind')}/{owner.get('name')}"
                )
                shown = shown or Rendered(orjson.dumps([_in_order(each) for each in owners]).decode())
                problems.append(invalid("metadata.ownerReferences", shown, text))
            else:
                controller = owner
    return problems
