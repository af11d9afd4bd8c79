"""Creates and deletes the objects of `rbac.py`.

The present objects are known from caches of labelled objects and from this process' own writes, so an accepted cluster at rest
costs no request. A missing object is created; a different one is corrected by a forced server-side apply. An object of our name
without our label (another client created it or removed the label) is not in the caches: creating it fails, and the same apply
adopts it, labels and permissions together. If apply cannot correct it, because a binding's role is immutable or an aggregation rule
determines the rules, the object is deleted with a precondition on the version that was read, and created again. The names are the
hub's by convention, so no other client's permissions are lost.

The binding of the work agent is held by a finalizer while works exist: `remove` only deletes it, `release` removes the finalizer.
"""

from __future__ import annotations

from typing import Final

from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object, ObjectKey
from muster.registration import names
from muster.registration.hub.clusters import rbac
from muster.registration.hub.clusters.rbac import DesiredObject
from muster.registration.hub.context import HubControllerContext
from muster.runtime.cache import Informer, MutationCache, Snapshot
from muster.runtime.client import AlreadyExists, Forbidden, Invalid, KubeError, NotFound
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, ROLE_BINDINGS
from muster.runtime.controller import removal_patch

log = get_logger("muster.registration.permissions")

MANAGER: Final = "muster-registration"
"""The field manager of the hub's writes."""
KINDS: Final = (NAMESPACES, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)


class BeingDeleted(KubeError):
    """An object must be removed before it can be created again, and a finalizer still holds it."""

    def __init__(self, wanted: DesiredObject, finalizers: list[str]) -> None:
        held = f", held by {', '.join(finalizers)}" if finalizers else ""
        super().__init__(f"{wanted} is being deleted{held}; it is made again when it is gone")
        self.wanted = wanted


class Permissions:
    def __init__(self, hub: HubControllerContext) -> None:
        self._client = hub.context.client
        self.caches: dict[GVR, Informer[Snapshot]] = {kind: hub.kept(kind) for kind in KINDS}
        self._latest = {kind: MutationCache(cache, clock=hub.context.clock) for kind, cache in self.caches.items()}

    def get(self, resource: GVR, key: ObjectKey) -> Snapshot | None:
        return self._latest[resource].snapshot(key)

    def of(self, cluster: str) -> list[tuple[GVR, ObjectKey]]:
        """The permissions of a cluster that exist."""
        return [(resource, key) for resource, key in rbac.own_keys(cluster) if self.get(resource, key)]

    def holds_works(self, cluster: str) -> bool:
        """Whether the work agent can still reach its works."""
        return self.get(ROLE_BINDINGS, _work_binding(cluster)) is not None

    def namespace_terminating(self, cluster: str) -> bool:
        found = self.get(NAMESPACES, ObjectKey("", cluster))
        return found is not None and _terminating(found)

    async def ensure(self, wanted: DesiredObject) -> None:
        """Create or correct the object. Raises BeingDeleted while it is being deleted, and the client's errors."""
        current = self.get(wanted.resource, wanted.key)
        if current is not None and _terminating(current):
            await self._let_go(wanted, current)
            current = None
        if current is None:
            try:
                answer = await self._client.create(wanted.resource, _whole(wanted), manager=MANAGER)
            except AlreadyExists:
                answer = await self._put_right(wanted)
        elif rbac.holds(current.data, wanted.body):
            return
        else:
            answer = await self._put_right(wanted)
        self._latest[wanted.resource].record_write(answer)

    async def remove(self, resource: GVR, key: ObjectKey, cluster: str, *, unseen: bool = False) -> None:
        """Delete an object that is in the caches; with `unseen` also one that may be missing there for lack of its label."""
        current = self.get(resource, key)
        if current is None and not unseen:
            return
        if current is not None and _terminating(current):
            return
        try:
            answer = await self._client.delete(resource, key.name, key.namespace)
            if current is None and _is_held(answer):
                # It must stay in the caches until it is removed.
                label = {"metadata": {"labels": {names.CLUSTER_LABEL: cluster}}}
                answer = await self._client.patch(resource, key.name, label, key.namespace, manager=MANAGER)
        except NotFound:
            answer = {"kind": "Status"}
        self._latest[resource].record_delete(key, current.uid if current is not None else "", answer)

    async def release(self, cluster: str) -> None:
        """Remove the finalizer of the work agent's binding if it is being deleted: no work is left."""
        current = self.get(ROLE_BINDINGS, _work_binding(cluster))
        if current is not None and _terminating(current):
            await self._without_finalizer(current)

    async def _let_go(self, wanted: DesiredObject, current: Snapshot) -> None:
        """Remove the finalizer of our object that is being deleted, so that it can be created again at once; in a terminating
        namespace nothing can be.
        """
        if wanted.resource is NAMESPACES:
            raise BeingDeleted(wanted, list((current.data.get("spec") or {}).get("finalizers") or ()))
        if self.namespace_terminating(wanted.key.namespace):
            raise BeingDeleted(wanted, current.data["metadata"].get("finalizers") or [])
        left = await self._without_finalizer(current)
        if left:
            raise BeingDeleted(wanted, left)

    async def _without_finalizer(self, current: Snapshot) -> list[str]:
        """Remove our finalizer; returns the finalizers of others, which stay."""
        finalizers: list[str] = current.data["metadata"].get("finalizers") or []
        left = [name for name in finalizers if name != names.WORK_CLEANUP]
        patch = removal_patch(current.data, names.WORK_CLEANUP)
        if patch is None:
            return left
        try:
            answer = await self._client.patch(current.resource, current.name, patch, current.namespace, manager=MANAGER)
        except NotFound:
            return []
        self._latest[current.resource].record_write(answer)
        return left

    async def _put_right(self, wanted: DesiredObject) -> Object:
        key = wanted.key
        try:
            answer = await self._client.apply(wanted.resource, wanted.body, manager=MANAGER)
        except (Invalid, Forbidden) as error:
            found = await self._client.get(wanted.resource, key.name, key.namespace)
            if not rbac.fixed(found, wanted.body):
                raise
            log.warning("replacing an object that cannot be put right", object=str(wanted), error=str(error))
            return await self._anew(wanted, found)
        return answer if rbac.holds(answer, wanted.body) else await self._anew(wanted, answer)

    async def _anew(self, wanted: DesiredObject, found: Object) -> Object:
        key = wanted.key
        await self._client.delete(wanted.resource, key.name, key.namespace, uid=found["metadata"]["uid"])
        return await self._client.create(wanted.resource, _whole(wanted), manager=MANAGER)


def _terminating(found: Snapshot) -> bool:
    return bool(found.data["metadata"].get("deletionTimestamp"))


def _is_held(answer: Object) -> bool:
    """Whether the answer to a delete is the object, which a finalizer still holds."""
    return answer.get("kind") != "Status" and bool((answer.get("metadata") or {}).get("finalizers"))


def _work_binding(cluster: str) -> ObjectKey:
    return ObjectKey(cluster, names.work_binding(cluster))


def _whole(wanted: DesiredObject) -> Object:
    return {"apiVersion": wanted.resource.api_version, "kind": wanted.resource.kind, **wanted.body}
