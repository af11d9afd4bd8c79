"""Shared writes: controllers that want to change the same ManagedCluster at the same time share a patch.

Several controllers reconcile a new cluster at once, and each has something to add, such as a finalizer or a taint. With a write
each, all but the first would get a Conflict and retry. So a controller passes a *change*, a function from the current cluster to
the desired one. The first caller waits one turn of the event loop, applies all changes that arrived meanwhile to the newest known
version, and sends one patch with its resourceVersion. Changes that arrive during the write go into the next one, which starts from
the answer. Changes that every cluster needs (`always`) are part of the first write of any controller, so that the responsible
controller mostly finds them done.

Invariant: of one cluster, at most one write of this process is in flight, and each begins with the result of the one before. So
only other clients cause conflicts; then every caller of the batch gets the Conflict and decides again. A change must use only its
argument, which may be newer than what the caller read.
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
    """The caller that wrote for others was cancelled; whether the server has acted is unknown."""


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
            # The caller may have been cancelled; then nobody retrieves the exception.
            self.granted.exception()


class ClusterWriter:
    def __init__(self, client: KubeClient, clusters: Informer[ManagedCluster], *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._latest = MutationCache(clusters, clock=clock)
        self._always: list[Change] = []
        self._waiting: dict[str, list[_PendingChange]] = {}
        """By cluster with a write in flight: the changes of the next one."""

    def always(self, change: Change) -> None:
        """Include this change, to anything but the status, in every write; clusters without a write are left to the controller that
        registered it.
        """
        self._always.append(change)

    def get(self, name: str) -> ManagedCluster | None:
        """The newest known version, including this process' own writes."""
        return self._latest.get(ObjectKey("", name))

    async def change(self, name: str, change: Change, *, status: bool = False) -> bool:
        """Returns whether this change altered anything, of the status or of all else. A deleted cluster is not altered.

        Raises Conflict when another client wrote in between, and the client's errors.
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
                # A change that raises concerns only its own caller.
                pending.refuse(error)
                continue
            if changed != after:
                altering.add(pending)
                after = changed
        if not altering:
            # The usual result for a cluster at rest; not even the patch is computed.
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
                # The controller that registered it gets the same error, where it is counted and logged.
                log.debug("change left out", cluster=cluster.metadata.name, error=f"{type(error).__name__}: {error}")
        return cluster


def with_cluster_condition(condition: Condition, now: datetime) -> Change:
    return lambda cluster: with_condition(cluster, condition, now)


def redated(cluster: ManagedCluster, condition: Condition, now: datetime) -> ManagedCluster:
    """The cluster with this condition; a new reason counts as a transition too, so that the time is the one since which the reason
    holds.
    """
    old = condition_of(cluster.status.conditions, condition.type)
    changed = with_condition(cluster, condition, now)
    if old is None or old.reason == condition.reason:
        return changed
    dated = msgspec.structs.replace(condition, last_transition_time=format_time(now))
    conditions = tuple(dated if one.type == dated.type else one for one in changed.status.conditions)
    return msgspec.structs.replace(changed, status=msgspec.structs.replace(changed.status, conditions=conditions))


def with_finalizers(cluster: ManagedCluster, *, add: str = "", remove: str = "") -> ManagedCluster:
    """The cluster with or without the finalizer; a cluster that is being deleted gets no new ones."""
    left = without_finalizer(cluster, remove)
    return left if not add or cluster.metadata.deletion_timestamp else with_finalizer(left, add)
