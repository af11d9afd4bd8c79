"""Makes the objects of `rbac.py` be there, and be gone.

What is there is known from caches of labelled objects and from this process's own writes, so an accepted cluster at rest costs no
request. A missing object is created; one that says something else is put right by a forced server-side apply. An object of our
name that lacks our label (somebody made it, or took the label off) is not in the caches: creating fails, and the same apply
adopts it, labels and permissions together. Where apply cannot help, because a binding's role cannot be changed in place or an
aggregation rule decides on the rules, the object is deleted, if it still is the one looked at, and made again. The names
are the hub's by convention, so nobody else's permissions are lost by that.

The binding of the work agent is held by a finalizer while works are left: `remove` only marks it, `release` lets it go.
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
"""Who owns the fields that the hub writes."""
KINDS: Final = (NAMESPACES, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)


class BeingDeleted(KubeError):
    """An object must go before it can be made again, and something still holds it."""

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
        """Which of a cluster's permissions are there."""
        return [(resource, key) for resource, key in rbac.own_keys(cluster) if self.get(resource, key)]

    def holds_works(self, cluster: str) -> bool:
        """Whether the work agent can still reach its works."""
        return self.get(ROLE_BINDINGS, _work_binding(cluster)) is not None

    def namespace_terminating(self, cluster: str) -> bool:
        found = self.get(NAMESPACES, ObjectKey("", cluster))
        return found is not None and _terminating(found)

    async def ensure(self, wanted: DesiredObject) -> None:
        """Raises BeingDeleted when the object cannot be had now, else what the server answers."""
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
        """Delete an object that the caches show; `unseen` also one that they might not show for want of its label."""
        current = self.get(resource, key)
        if current is None and not unseen:
            return
        if current is not None and _terminating(current):
            return
        try:
            answer = await self._client.delete(resource, key.name, key.namespace)
            if current is None and _is_held(answer):
                # It must not be lost sight of before it is gone.
                label = {"metadata": {"labels": {names.CLUSTER_LABEL: cluster}}}
                answer = await self._client.patch(resource, key.name, label, key.namespace, manager=MANAGER)
        except NotFound:
            answer = {"kind": "Status"}
        self._latest[resource].record_delete(key, current.uid if current is not None else "", answer)

    async def release(self, cluster: str) -> None:
        """Let the work agent's binding go, if it is marked: no work is left."""
        current = self.get(ROLE_BINDINGS, _work_binding(cluster))
        if current is not None and _terminating(current):
            await self._without_finalizer(current)

    async def _let_go(self, wanted: DesiredObject, current: Snapshot) -> None:
        """A marked object of ours goes now, so that it can be made again at once; in a namespace that goes too, nothing can."""
        if wanted.resource is NAMESPACES:
            raise BeingDeleted(wanted, list((current.data.get("spec") or {}).get("finalizers") or ()))
        if self.namespace_terminating(wanted.key.namespace):
            raise BeingDeleted(wanted, current.data["metadata"].get("finalizers") or [])
        left = await self._without_finalizer(current)
        if left:
            raise BeingDeleted(wanted, left)

    async def _without_finalizer(self, current: Snapshot) -> list[str]:
        """Gives the finalizers that are not ours and stay."""
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
    """Whether what a deletion answers is the object, which something still holds."""
    return answer.get("kind") != "Status" and bool((answer.get("metadata") or {}).get("finalizers"))


def _work_binding(cluster: str) -> ObjectKey:
    return ObjectKey(cluster, names.work_binding(cluster))


def _whole(wanted: DesiredObject) -> Object:
    return {"apiVersion": wanted.resource.api_version, "kind": wanted.resource.kind, **wanted.body}
