"""Deletes the addons and then the works of a deleted cluster, before it is removed and while its agent can still clean up.

Every ManagedCluster gets a finalizer for that. When it is deleted, the objects in its namespace are deleted kind by kind in the
configured order; the next kind waits until the one before is gone, and within a kind the lowest cleanup priority goes first
(annotation, 0 to 100; a missing or invalid one is 0). Condition `Deleting` reports the progress. Each removal triggers the next
step; nothing is polled, and while many objects are removed, the condition is written every few seconds only. Only a cluster that is
done and still exists is checked again from time to time, for works that were created after that.

A cluster that no longer exists, because its finalizers were removed by hand, is cleaned up the same way, without a condition. With
the feature off, nothing is deleted and the finalizer is removed from every cluster, so that no deletion hangs.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from muster.api import Condition, condition_of
from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object, ObjectKey
from muster.registration.hub.cluster_writer import with_cluster_condition, with_finalizers
from muster.registration.hub.clusters.remains import Remains
from muster.registration.hub.context import HubControllerContext
from muster.registration.names import CLEANUP_PRIORITY, COLLECTION_CLEANUP
from muster.runtime.client import Conflict, KubeError, NotFound, TooManyRequests, Unreachable

log = get_logger("muster.registration.collection")

DELETING: Final = "Deleting"
STATUS_INTERVAL: Final = 5.0
"""Seconds between two condition updates for the same kind of object."""
RETRY_INTERVAL: Final = 10.0
"""Seconds until a cluster that is done but still exists is checked again: a new work may have been created."""
MAX_CONCURRENT_DELETES: Final = 8
"""Concurrent deletions for one cluster."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


class NotCollected(Exception):
    """An object could not be deleted; the condition names it."""


class Collection:
    def __init__(self, hub: HubControllerContext) -> None:
        self._hub = hub
        self._context = hub.context
        self._on = hub.options.resource_cleanup
        self._resources = tuple(parse_resource(text) for text in hub.options.cleaned_resources)
        self._controller = hub.context.controller("collection", self.reconcile)
        self._remains = Remains(hub, self._controller.enqueue)
        self._clusters = hub.writer
        self._clusters.always(self._held)
        self._reported: dict[str, tuple[str, float]] = {}
        """By cluster: the kind that was last reported, and when."""
        self._done: dict[str, tuple[str, float]] = {}
        """Clusters that are done and still exist: uid, and since when."""
        self._controller.watch(hub.clusters, lambda cluster: [cluster.metadata.name])

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            remains = tasks.create_task(self._remains.run())
            try:
                await self._controller.run()
            finally:
                remains.cancel()

    async def reconcile(self, name: str) -> float | None:
        cluster = self._clusters.get(name)
        if cluster is None:
            unreadable = ObjectKey("", name) in self._hub.clusters.malformed
            if self._on and not unreadable and not self._done.pop(name, None):
                await self._collect(name, None)
            return None
        if not cluster.metadata.deletion_timestamp:
            await self._clusters.change(name, self._held)
            return None
        if not self._on:
            await self._let_go(cluster)
            return None
        uid, since = self._done.get(name, ("", 0.0))
        left = since + RETRY_INTERVAL - self._context.clock.monotonic()
        return left if uid == cluster.metadata.uid and left > 0 else await self._collect(name, cluster)

    def _held(self, cluster: ManagedCluster) -> ManagedCluster:
        """What every cluster that is not being deleted has: our finalizer."""
        if cluster.metadata.deletion_timestamp:
            return cluster
        return with_finalizers(cluster, add=COLLECTION_CLEANUP) if self._on else with_finalizers(cluster, remove=COLLECTION_CLEANUP)

    async def _let_go(self, cluster: ManagedCluster) -> None:
        uid = cluster.metadata.uid

        def change(newest: ManagedCluster) -> ManagedCluster:
            return with_finalizers(newest, remove=COLLECTION_CLEANUP) if newest.metadata.uid == uid else newest

        await self._clusters.change(cluster.metadata.name, change)

    async def _collect(self, name: str, cluster: ManagedCluster | None) -> float | None:
        for resource in self._resources:
            found = await self._remains.of(resource, name)
            if found:
                return await self._shrink(name, cluster, resource, found)
        self._reported.pop(name, None)
        self._remains.forget(name)
        if cluster is None:
            return None
        ours = COLLECTION_CLEANUP in cluster.metadata.finalizers
        if ours or condition_of(cluster.status.conditions, DELETING):
            done = Condition(type=DELETING, status="True", reason="NoResource", message="No cleaned resource in cluster ns.")
            await self._set_condition(cluster, done)
        if ours:
            await self._let_go(cluster)
            log.info("addons and works collected", cluster=name)
        self._done[name] = (cluster.metadata.uid, self._context.clock.monotonic())
        return RETRY_INTERVAL

    async def _shrink(self, name: str, cluster: ManagedCluster | None, resource: GVR, found: list[Object]) -> float | None:
        problems = await self._delete(resource, name, next_to_go(found))
        if problems:
            if cluster is not None:
                message = f"failed to clean up {resource.plural}: {'; '.join(problems)}"
                await self._set_condition(
                    cluster, Condition(type=DELETING, status="False", reason="DeletingError", message=message)
                )
            raise NotCollected(f"{resource} in namespace {name}: {'; '.join(problems)}")
        if cluster is None:
            return None
        kind, since = self._reported.get(name, ("", 0.0))
        now = self._context.clock.monotonic()
        condition = condition_of(cluster.status.conditions, DELETING)
        if (
            kind == resource.plural
            and now - since < STATUS_INTERVAL
            and condition is not None
            and condition.reason != "DeletingError"
        ):
            return STATUS_INTERVAL - (now - since)
        self._reported[name] = (resource.plural, now)
        await self._set_condition(cluster, remaining_condition(resource, found))
        return None

    async def _delete(self, resource: GVR, namespace: str, going: Sequence[Object]) -> list[str]:
        """Delete the objects; returns the errors, one for each object."""
        slots = asyncio.Semaphore(MAX_CONCURRENT_DELETES)

        async def one(obj: Object) -> str:
            metadata = obj["metadata"]
            async with slots:
                try:
                    await self._context.client.delete(resource, metadata["name"], namespace, uid=metadata["uid"])
                except (NotFound, Conflict):
                    # It is deleted, or replaced by another one, which the watch will show.
                    return ""
                except (Unreachable, TooManyRequests):
                    raise
                except KubeError as error:
                    return f"{metadata['name']}: {error}"
            return ""

        results = await asyncio.gather(*(one(obj) for obj in going), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [str(result) for result in results if result]

    async def _set_condition(self, cluster: ManagedCluster, condition: Condition) -> None:
        await self._clusters.change(
            cluster.metadata.name, with_cluster_condition(condition, self._context.clock.now()), status=True
        )


def parse_resource(text: str) -> GVR:
    """`group/version/plural`, or `version/plural` of the core group. Raises ValueError."""
    api_version, _, plural = text.rpartition("/")
    parts = api_version.split("/")
    if not plural or len(parts) > 2 or not all(parts):
        raise ValueError(f"{text!r} names no resource to clean up: expected group/version/plural")
    return GVR(api_version, plural, "")


def priority(obj: Object) -> int:
    text = str((obj["metadata"].get("annotations") or {}).get(CLEANUP_PRIORITY, ""))
    number = int(text) if _NUMBER.fullmatch(text) else 0
    return number if 0 <= number <= 100 else 0


def next_to_go(found: list[Object]) -> list[Object]:
    """The remaining objects of the lowest priority, without those that are being deleted already."""
    lowest = min(priority(obj) for obj in found)
    return [obj for obj in found if priority(obj) == lowest and not obj["metadata"].get("deletionTimestamp")]


def remaining_condition(resource: GVR, found: list[Object]) -> Condition:
    held = sum(1 for obj in found if obj["metadata"].get("finalizers"))
    # The wording of upstream's hub: users and tools match it.
    message = (
        f"The resource {resource.plural} is remaning, the remaining count is {len(found)}, the finalizer pending count is {held}"
    )
    return Condition(type=DELETING, status="False", reason="ResourceRemaining", message=message)
