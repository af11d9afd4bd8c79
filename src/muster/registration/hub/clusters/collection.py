"""Before a deleted cluster goes, its addons go, then its works, while its agent can still clean up behind them.

Every ManagedCluster gets a finalizer for that. When it is deleted, what is in its namespace is deleted kind by kind in the
configured order; the next kind waits until the one before is gone, and of one kind those with the lowest cleanup priority go
first (annotation, 0 to 100; none or nonsense counts as 0). Condition `Deleting` tells how far it is. Each removal wakes the
next step; nothing is polled, and while many objects go, the condition is written every few seconds only. Only a cluster that is
collected and still does not go is looked at again from time to time, for works that somebody made after that.

A cluster that is gone already, because its finalizers were taken off by hand, is collected the same way, without a condition.
With the feature off, nothing is deleted and the finalizer is taken off wherever it is, so that no deletion waits for nobody.
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
"""Seconds between two words about the same kind of object."""
RETRY_INTERVAL: Final = 10.0
"""Seconds after which a cluster that is collected but still there is looked at again: somebody may have made a new work."""
MAX_CONCURRENT_DELETES: Final = 8
"""Deletions under way side by side for one cluster."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


class NotCollected(Exception):
    """Something could not be deleted; the condition says what."""


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
        """By cluster: about which kind something was said last, and when."""
        self._done: dict[str, tuple[str, float]] = {}
        """Clusters that are collected and not gone yet: uid, and when that was."""
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
        """As every cluster should be that nobody deletes."""
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
        """Gives what went wrong, object by object."""
        slots = asyncio.Semaphore(MAX_CONCURRENT_DELETES)

        async def one(obj: Object) -> str:
            metadata = obj["metadata"]
            async with slots:
                try:
                    await self._context.client.delete(resource, metadata["name"], namespace, uid=metadata["uid"])
                except (NotFound, Conflict):
                    # It is gone, or another one by now, which the watch will tell.
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
    """Those of the lowest priority that are left, without those on their way already."""
    lowest = min(priority(obj) for obj in found)
    return [obj for obj in found if priority(obj) == lowest and not obj["metadata"].get("deletionTimestamp")]


def remaining_condition(resource: GVR, found: list[Object]) -> Condition:
    held = sum(1 for obj in found if obj["metadata"].get("finalizers"))
    # Spelt as upstream's hub spells it: people and tools match on it.
    message = (
        f"The resource {resource.plural} is remaning, the remaining count is {len(found)}, the finalizer pending count is {held}"
    )
    return Condition(type=DELETING, status="False", reason="ResourceRemaining", message=message)
