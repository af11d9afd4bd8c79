"""Deletion of works and of their records (AppliedManifestWorks).

When a work is deleted on the hub, its record is deleted on the managed cluster. The record stays until its objects are gone
(`AppliedWorkFinalizer`); then the finalizer of the work is removed (`WorkFinalizer`). Objects whose deletion takes long are listed
in the work's `Deleting` condition. If a record is deleted for another reason (eviction, or by a user), its objects are deleted too,
and the work, if it still exists, is applied again.
"""

from __future__ import annotations

import random as chance
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec

from muster.api.work.v1 import AppliedManifestWork, AppliedResource, ManifestWork
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.golang.timestamps import format_time
from muster.machinery.logs import get_logger
from muster.work.agent.apply_plan import ApplyPlan, identity
from muster.work.agent.deletion.eviction import EvictionStep, decide
from muster.work.agent.deletion.removal import Pending, Remover, owned_by
from muster.work.agent.interfaces import Observer, WorkSource
from muster.work.agent.records import Records, entry_identity, entry_of, known, owner_of
from muster.work.agent.reporting import deleting
from muster.work.names import APPLIED_FINALIZER, WORK_FINALIZER

log = get_logger("muster.work.agent")

CACHE_SYNC_TIMEOUT: Final = 5.0
PENDING_REPORT_DELAY: Final = 2.0
"""Seconds after which the objects that block a deletion are reported: most do not take that long."""
RESYNC_INTERVAL: Final = 60.0
FOLLOWER: Final = "record/"
"""Prefix of a record's name as a follower of its objects, which distinguishes it from a work's."""


class WorkFinalizer:
    """Works that are being deleted."""

    def __init__(
        self,
        source: WorkSource,
        records: Records,
        remover: Remover,
        observer: Observer,
        plan: Callable[[ManifestWork], Awaitable[ApplyPlan]],
        *,
        clock: Clock = SYSTEM,
    ) -> None:
        self._source = source
        self._records = records
        self._remover = remover
        self._observer = observer
        self._plan = plan
        self._clock = clock
        self.pending: dict[str, list[str]] = {}
        """By record: what its deletion waits for."""

    async def reconcile(self, name: str, work: ManifestWork | None) -> float | None:
        """`work` is None when it has gone without waiting for us; its record is then evicted in time."""
        if work is None or WORK_FINALIZER not in work.metadata.finalizers:
            self._observer.follow(name, frozenset())
            return None
        record = await self._records.sure_of(name)
        if record is None:
            await self._source.release(work)
            self._observer.follow(name, frozenset())
            return None
        if record.metadata.deletion_timestamp:
            await self._source.report(work, deleting(work, self.pending.get(record.metadata.name, []), self._now()))
            return RESYNC_INTERVAL
        work = await self._source.report(work, deleting(work, [], self._now()))
        record = await self._records.ensure(work, ())
        plan = await self._plan(work)
        await self._spare(plan, record)
        record = await self._complete(plan, record)
        await self._records.delete(record)
        return RESYNC_INTERVAL

    async def _spare(self, plan: ApplyPlan, record: AppliedManifestWork) -> None:
        """The delete options may have been changed just before the work was deleted, which the cluster does not have yet."""
        for manifest in plan.manifests:
            if not manifest.owned:
                await self._remover.let_go(manifest.ref, owner_of(record))

    async def _complete(self, plan: ApplyPlan, record: AppliedManifestWork) -> AppliedManifestWork:
        """The record with all that is there: another agent may have died before it wrote down what it did."""
        on_record = known(record)
        unrecorded = [manifest.ref for manifest in plan.manifests if identity(manifest.ref) not in on_record]
        owner = owner_of(record)
        found: list[AppliedResource] = []
        for ref in unrecorded:
            document = await self._remover.live(ref)
            if document is not None and owned_by(document, owner):
                found.append(entry_of(ref, document["metadata"]["uid"]))
        return await self._records.track(record, [*record.status.applied_resources, *found]) if found else record

    def _now(self) -> str:
        return format_time(self._clock.now())


class AppliedWorkFinalizer:
    """Records: those that are being deleted, and those whose work is missing."""

    def __init__(
        self,
        source: WorkSource,
        records: Records,
        remover: Remover,
        observer: Observer,
        leaving: WorkFinalizer,
        grace: float,
        *,
        notify: Callable[[str], None],
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self._source = source
        self._records = records
        self._remover = remover
        self._observer = observer
        self._leaving = leaving
        self._grace = grace
        self._notify = notify
        self._clock = clock
        self._backoff = Backoff(0.25, RESYNC_INTERVAL, jitter=0.2, random=random)
        self._since: dict[str, tuple[float, int]] = {}
        """By record: when its objects were first found to block the deletion, and how often they were checked since."""

    async def reconcile(self, name: str) -> float | None:
        record = self._records.get(name)
        if record is None or not self._records.ours(record):
            self._forget(name)
            return None
        if record.metadata.deletion_timestamp:
            return await self._finalize(record) if APPLIED_FINALIZER in record.metadata.finalizers else None
        return await self._evict(record) if self._source.synced else None

    def _forget(self, name: str) -> None:
        self._since.pop(name, None)
        self._leaving.pending.pop(name, None)
        self._observer.follow(FOLLOWER + name, frozenset())

    async def _finalize(self, record: AppliedManifestWork) -> float | None:
        name = record.metadata.name
        entries = known(record)
        refs = frozenset([await self._remover.ref(entry) for entry in entries.values()])
        self._observer.follow(FOLLOWER + name, refs)
        await self._observer.settle(refs, CACHE_SYNC_TIMEOUT)
        removal = await self._remover.remove(entries.values(), owner_of(record))
        gone = set(map(entry_identity, removal.gone))
        if entries.keys() <= gone:
            await self._records.release(record)
            self._forget(name)
            return None
        left = [entry for entry in record.status.applied_resources if entry_identity(entry) not in gone]
        await self._records.track(record, left)
        return self._wait(name, removal.pending)

    def _wait(self, name: str, pending: Iterable[Pending]) -> float:
        """When to check again; the blocking objects are reported to the work."""
        now = self._clock.monotonic()
        since, rounds = self._since.get(name, (now, 0))
        self._since[name] = (since, rounds + 1)
        if now - since < PENDING_REPORT_DELAY:
            return min(PENDING_REPORT_DELAY, self._backoff.delay(rounds + 1))
        waiting = [str(one) for one in pending]
        if self._leaving.pending.get(name) != waiting:
            self._leaving.pending[name] = waiting
            if work := self._records.work_of(name):
                self._notify(work)
        return self._backoff.delay(rounds + 1)

    async def _evict(self, record: AppliedManifestWork) -> float | None:
        work = self._records.work_of(record.metadata.name)
        wanted = bool(work) and self._source.has(work)
        decision = decide(record, wanted, self._clock.now(), self._grace)
        match decision.step:
            case EvictionStep.BEGIN:
                log.info("the hub does not have the work of a record", record=record.metadata.name, evicted_in=self._grace)
                await self._note(record, format_time(self._clock.now()))
            case EvictionStep.CLEAR:
                await self._note(record, "")
            case EvictionStep.EVICT:
                log.warning("removing the objects of a work that the hub does not have", record=record.metadata.name)
                await self._records.delete(record)
                return await self.reconcile(record.metadata.name)
        return decision.wait

    async def _note(self, record: AppliedManifestWork, since: str) -> None:
        await self._records.report(record, msgspec.structs.replace(record.status, eviction_start_time=since))
