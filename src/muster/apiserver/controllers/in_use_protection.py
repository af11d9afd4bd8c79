"""Removes the finalizers that protect claims, volumes and volume attributes classes while they are in use. Follows the
pvcprotection, pvprotection and vacprotection controllers of kube-controller-manager.

Admission adds them (`admission.storage_object_in_use_protection`). A claim is in use while a pod that is assigned to a node has it
among its volumes, a volume while it is bound, and a class while a claim or a volume names it. A finalizer that was removed from an
object which is not being deleted is added again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from muster.apiserver.admission.storage_object_in_use_protection import ATTRIBUTES_CLASSES, CLAIMS, FINALIZERS, VOLUMES
from muster.apiserver.client import object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import ControllerContext
from muster.apiserver.errors import ApiError
from muster.apiserver.objects import metadata, object_key, shared
from muster.machinery.objects import Object
from muster.store.api import Entry, Event

_PODS: Final = "/pods"
_CLAIM_MARKERS: Final = (b'"persistentVolumeClaim":{', b'"ephemeral":{')


class InUseProtection:
    name = "in-use protection"
    resources = (*FINALIZERS, _PODS)

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        return list(_affected_keys(event))

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        return [f"{storage}|{entry.key}" for storage in FINALIZERS for entry in cluster.store.list(cluster.name, storage)]

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        storage, _, name = key.partition("|")
        entry = cluster.entry(storage, name)
        if entry is None:
            return None
        meta = metadata(entry)
        finalizers = meta.finalizers or []
        protected = FINALIZERS[storage] in finalizers
        if meta.deletionTimestamp is None and not protected:
            await self._write(cluster, storage, entry, [*finalizers, FINALIZERS[storage]])
        elif meta.deletionTimestamp is not None and protected and not _IN_USE[storage](cluster, shared(entry)):
            await self._write(cluster, storage, entry, [each for each in finalizers if each != FINALIZERS[storage]])
        return None

    async def _write(self, cluster: Cluster, storage: str, entry: Entry, finalizers: list[str]) -> None:
        row = cluster.resources.by_storage(storage)
        if row is None:
            return
        meta = metadata(entry)
        path = object_path(row.api_version, row.plural, meta.namespace, meta.name)
        patch = {"metadata": {"resourceVersion": str(entry.revision), "uid": meta.uid, "finalizers": finalizers or None}}
        try:
            await self._context.client(cluster).merge(path, patch)
        except ApiError as error:  # deleted or changed in the meantime, which is another event
            if error.code not in (404, 409):
                raise


def _affected_keys(event: Event) -> Iterator[str]:
    """Keys of protected objects that were written, or that may no longer be in use after this event."""
    entries = [entry for entry in (event.entry, event.previous) if entry is not None]
    if event.resource == _PODS:
        namespace = event.entry.key.partition("/")[0]
        claims = {name for entry in entries if _mentions_claims(entry) for name, _ in claims_of(shared(entry))}
        yield from (f"{CLAIMS}|{object_key(namespace, name)}" for name in claims)
        return
    if not event.deleted:
        yield f"{event.resource}|{event.entry.key}"
    if event.resource != ATTRIBUTES_CLASSES:
        classes = {name for entry in entries for name in attributes_classes_of(shared(entry))}
        yield from (f"{ATTRIBUTES_CLASSES}|{name}" for name in classes)


def _mentions_claims(pod: Entry) -> bool:
    return any(marker in pod.value for marker in _CLAIM_MARKERS)


class ClaimUse(NamedTuple):
    name: str
    ephemeral: bool
    """Whether the claim is created for the pod and owned by it."""


def claims_of(pod: Object) -> Iterator[ClaimUse]:
    """The claims that the volumes of a pod name, and those of its ephemeral volumes."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield ClaimUse(volume["persistentVolumeClaim"].get("claimName", ""), False)
        elif volume.get("ephemeral"):
            yield ClaimUse(f"{pod['metadata']['name']}-{volume['name']}", True)


def _claim_in_use(cluster: Cluster, claim: Object) -> bool:
    meta = claim["metadata"]
    pods = cluster.store.list(cluster.name, _PODS, meta["namespace"] + "/")
    return any(_mentions_claims(pod) and _pod_uses(shared(pod), meta) for pod in pods)


def _pod_uses(pod: Object, claim: Object) -> bool:
    if not pod["spec"].get("nodeName"):  # the kubelet does not start a pod whose claim is being deleted
        return False
    return any(
        use.name == claim["name"] and (not use.ephemeral or (_owns(pod, claim) and not _is_shut_down(pod)))
        for use in claims_of(pod)
    )


def _owns(pod: Object, claim: Object) -> bool:
    references = claim.get("ownerReferences") or ()
    return any(each.get("controller") and each["uid"] == pod["metadata"]["uid"] for each in references)


def _is_shut_down(pod: Object) -> bool:
    """Whether the containers of a deleted pod have stopped, even if finalizers still keep the object."""
    meta = pod["metadata"]
    return bool(meta.get("deletionTimestamp")) and meta.get("deletionGracePeriodSeconds") == 0


def _volume_in_use(cluster: Cluster, volume: Object) -> bool:
    return (volume.get("status") or {}).get("phase") == "Bound"


def _class_in_use(cluster: Cluster, attributes_class: Object) -> bool:
    name = attributes_class["metadata"]["name"]
    return any(name in attributes_classes_of(obj) for storage in (VOLUMES, CLAIMS) for obj in cluster.scan(storage))


def attributes_classes_of(obj: Object) -> set[str]:
    """The volume attributes classes of a claim or volume: desired, current, and target of a modification."""
    spec: dict[str, Any] = obj.get("spec") or {}
    status: dict[str, Any] = obj.get("status") or {}
    named = (
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return {name for name in named if name}


_IN_USE: Final[dict[str, Callable[[Cluster, Object], bool]]] = {
    CLAIMS: _claim_in_use,
    VOLUMES: _volume_in_use,
    ATTRIBUTES_CLASSES: _class_in_use,
}
