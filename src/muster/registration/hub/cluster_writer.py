"""One write for all: controllers that want to change the same ManagedCluster at the same time share a patch.

A new cluster is looked at by several controllers at once, and each has something to add: a finalizer here, a taint there. If each
wrote for itself, all but the first would fail on the version and have to try again. So a controller hands in a *change*, a function
from the cluster as it is to the cluster as it should be. The first to come waits one turn of the loop, makes all changes that came
meanwhile on the newest version known, and sends one patch that is valid for that version only. Who comes during the write is served
by the next one, which goes on from the answer to this. And what every cluster should have (`always`) is put right by whoever
writes first, so that the controller that is responsible mostly finds it done.

Invariant: of one cluster, at most one write of this process is under way, and each begins with what the one before left. So
conflicts come from others only; then everybody in the batch gets the Conflict and decides anew. A change must decide by what it
is given, because that may be newer than what its author saw.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from muster.api import Condition, condition_of
from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.golang.timestamps import format_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import Informer, MutationCache
from muster.runtime.client import KubeClient, KubeError, patch_object
from muster.runtime.controller import with_condition, with_finalizer, without_finalizer

log = get_logger("muster.registration.hub.cluster_writer")

Change = Callable[[ManagedCluster], ManagedCluster]


class WriteInterrupted(KubeError):
    """Whoever wrote for others was stopped; whether that was before or after the server acted is unknown."""


@dataclass(frozen=True, eq=False)
class _PendingChange:
    change: Change
    status: bool
    granted: asyncio.Future[bool]

    def grant(self, altered: bool) -> None:
        if not self.granted.done():
            self.granted.set_result(altered)

    def refuse(self, error: Exception) -> None:
        if not self.granted.done():
            self.granted.set_exception(error)
            # Whoever wanted it may have been stopped; then nobody asks.
            self.granted.exception()


class ClusterWriter:
    def __init__(self, client: KubeClient, clusters: Informer[ManagedCluster], *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._latest = MutationCache(clusters, clock=clock)
        self._always: list[Change] = []
        self._waiting: dict[str, list[_PendingChange]] = {}
        """By cluster that is being written to: who comes next."""

    def always(self, change: Change) -> None:
        """Make this change, of anything but the status, with every write; clusters that nobody writes to are left to its author."""
        self._always.append(change)

    def get(self, name: str) -> ManagedCluster | None:
        """The newest version known, this process's own writes included."""
        return self._latest.get(ObjectKey("", name))

    async def change(self, name: str, change: Change, *, status: bool = False) -> bool:
        """Whether this change altered anything: of the status, or of all else. A cluster that is gone is not altered.

        Raises Conflict when somebody else wrote in between, and what the client raises.
        """
        pending = _PendingChange(change, status, asyncio.get_running_loop().create_future())
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.append(pending)
            return await pending.granted
        self._waiting[name] = [pending]
        try:
            await asyncio.sleep(0)
            while pending_changes := self._waiting[name]:
                self._waiting[name] = []
                await self._write_pending(name, pending_changes)
        finally:
            for left in self._waiting.pop(name):
                left.refuse(WriteInterrupted(f"managed cluster {name} was not written"))
        return pending.granted.result()

    async def _write_pending(self, name: str, pending_changes: list[_PendingChange]) -> None:
        try:
            for status in (False, True):
                if chosen := [pending for pending in pending_changes if pending.status is status]:
                    await self._write(name, chosen, status)
        finally:
            for pending in pending_changes:
                pending.refuse(WriteInterrupted(f"managed cluster {name}: the write was interrupted"))

    async def _write(self, name: str, pending_changes: list[_PendingChange], status: bool) -> None:
        before = self.get(name)
        if before is None:
            for pending in pending_changes:
                pending.grant(False)
            return
        after, altering = before, set[_PendingChange]()
        for pending in pending_changes:
            try:
                changed = pending.change(after)
            except Exception as error:
                # A change that cannot be made is its author's problem alone.
                pending.refuse(error)
                continue
            if changed != after:
                altering.add(pending)
                after = changed
        if not altering:
            # The usual end of a look at a cluster at rest; not even the patch need be worked out.
            for pending in pending_changes:
                pending.grant(False)
            return
        if not status:
            after = self._put_right(after)
        try:
            answer = await patch_object(self._client, before, after, status=status)
        except KubeError as error:
            for pending in pending_changes:
                pending.refuse(error)
            return
        if answer is not None:
            self._latest.record_write(answer)
        for pending in pending_changes:
            pending.grant(answer is not None and pending in altering)

    def _put_right(self, cluster: ManagedCluster) -> ManagedCluster:
        for change in self._always:
            try:
                cluster = change(cluster)
            except Exception as error:
                # Its author will meet the same error, where it is counted and told.
                log.debug("change left out", cluster=cluster.metadata.name, error=f"{type(error).__name__}: {error}")
        return cluster


def with_cluster_condition(condition: Condition, now: datetime) -> Change:
    return lambda cluster: with_condition(cluster, condition, now)


def redated(cluster: ManagedCluster, condition: Condition, now: datetime) -> ManagedCluster:
    """With this condition, of which another reason counts as a transition too: its time tells since when the reason holds."""
    old = condition_of(cluster.status.conditions, condition.type)
    changed = with_condition(cluster, condition, now)
    if old is None or old.reason == condition.reason:
        return changed
    dated = msgspec.structs.replace(condition, last_transition_time=format_time(now))
    conditions = tuple(dated if one.type == dated.type else one for one in changed.status.conditions)
    return msgspec.structs.replace(changed, status=msgspec.structs.replace(changed.status, conditions=conditions))


def with_finalizers(cluster: ManagedCluster, *, add: str = "", remove: str = "") -> ManagedCluster:
    """A cluster that is being deleted takes no new ones."""
    left = without_finalizer(cluster, remove)
    return left if not add or cluster.metadata.deletion_timestamp else with_finalizer(left, add)
