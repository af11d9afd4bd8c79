"""Reconciles one work: applies its manifests to the managed cluster and reports the status to the hub.

The steps, in `_keep`: parse the manifests; add the finalizer; ensure the record; check the executor's permissions; apply what
differs, rank by rank; delete what the work no longer contains; update the record; report the status. A step without changes sends
nothing, so a pass over an unchanged work costs no request. A manifest that fails does not delay others and is retried on its own.

It may be stopped anywhere: objects are recorded before they are written (see `records`), and a pass starts from the current state,
never from the intention of the last one. So the final update of the record, with uids, is not urgent: while other works wait for
their turn it is postponed, for at most `RECORDED_WITHIN`.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Final

from muster.api.work.v1 import AppliedManifestWork, AppliedResource, ExecutorServiceAccount, ManifestWork, ManifestWorkStatus
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.golang.timestamps import format_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object, ObjectRef
from muster.runtime.client import BadRequest, Forbidden, Invalid, NoKindMatch, NotFound, RESTMapper, StatusError
from muster.work.agent.apply_plan import READ_ONLY, ApplyPlan, identity, kinds, make_plan
from muster.work.agent.completion import finished_manifests, is_finished
from muster.work.agent.deletion import Remover, WorkFinalizer
from muster.work.agent.interfaces import (
    Applier,
    Consent,
    Drafts,
    Gate,
    InvalidManifest,
    Manifest,
    ManifestOwner,
    Observer,
    Refusal,
    WorkSource,
)
from muster.work.agent.manifest_applier import OVERTAKEN, ManifestApplier
from muster.work.agent.options import WorkAgentOptions
from muster.work.agent.records import Records, entry_identity, entry_of, known, owner_of, tracks
from muster.work.agent.reporting import ManifestResult, Reporter, failed, unfit
from muster.work.agent.work_state import FIRST_RETRY, LAST_RETRY, WorkState
from muster.work.names import WORK_FINALIZER

log = get_logger("muster.work.agent")

CACHE_SYNC_TIMEOUT: Final = 5.0
"""Seconds to wait for what there is."""
DENIED_RETRY: Final = 120.0
"""Seconds after which a refused work is checked again, though a change of permissions should have triggered it."""
UNSERVED_RETRY: Final = 300.0
LAST_REMOVAL: Final = 60.0
RECORDED_WITHIN: Final = 60.0
"""Seconds that the uids of what was applied may be missing from the record, however much there is to do."""
OVERTAKEN_RETRY: Final = 0.05
REPORTING: Final = 1.0
"""Seconds between two reports of a work that is as well as it was."""


class Reconciler:
    """Keeps works. `reconcile` is never called twice at once for one work."""

    def __init__(
        self,
        source: WorkSource,
        records: Records,
        mapper: RESTMapper,
        observer: Observer,
        applier: Applier,
        gate: Gate,
        remover: Remover,
        options: WorkAgentOptions,
        *,
        when_idle: Callable[[str, float], bool],
        on_status_reported: Callable[[ManifestWork, ManifestWorkStatus], None] = lambda work, status: None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        """`when_idle` requeues a work once no other waits for its turn, after so many seconds at the latest; False: none waits.
        `on_status_reported` is called with a work as it was and the status that was reported to the hub."""
        self._source = source
        self._records = records
        self._mapper = mapper
        self._observer = observer
        self._applier = applier
        self._gate = gate
        self._remover = remover
        self._options = options
        self._when_idle = when_idle
        self._on_status_reported = on_status_reported
        self._clock = clock
        self._backoff = Backoff(FIRST_RETRY, LAST_RETRY, jitter=0.2, random=random)
        self._performer = ManifestApplier(observer, applier, remover, self._backoff, writers=options.writers, clock=clock)
        self._reporter = Reporter(options.raw_json, options.max_json_raw_length)
        self._memories: dict[str, WorkState] = {}
        self._unserved: dict[str, frozenset[str]] = {}
        """By work: the groups of kinds that the cluster did not serve."""
        self._executors: dict[str, ExecutorServiceAccount] = {}
        self.leaving = WorkFinalizer(source, records, remover, observer, self._plan, clock=clock)

    def waiting_for(self, group: str) -> list[str]:
        """The works with a manifest that would need a kind of this group."""
        return [work for work, groups in self._unserved.items() if group in groups]

    def executed_by(self, account: ExecutorServiceAccount) -> list[str]:
        return [work for work, executor in self._executors.items() if executor == account]

    async def reconcile(self, name: str) -> float | None:
        work = self._source.get(name)
        if work is None or work.metadata.deletion_timestamp:
            self._memories.pop(name, None)
            self._unserved.pop(name, None)
            self._executors.pop(name, None)
            return await self.leaving.reconcile(name, work)
        return await self._keep(work)

    async def _keep(self, work: ManifestWork) -> float | None:
        name = work.metadata.name
        plan = await self._plan(work)
        record = self._records.of(name)
        if record is not None and record.metadata.deletion_timestamp:
            # Whoever deleted it gets what is asked for; when it is gone we are woken, and begin anew.
            self._memories.pop(name, None)
            return None
        memory = self._memories.setdefault(name, WorkState())
        memory.keep_only(plan.refs)
        if WORK_FINALIZER not in work.metadata.finalizers:
            try:
                work = await self._source.hold(work)
            except NotFound:
                # It went a moment ago, and nothing was done for it: the watch will say so.
                return None
        fresh = record is None
        record = await self._ensure_record(work, plan, memory)
        if record.metadata.deletion_timestamp:
            return None
        memory.belongs_to(record.metadata.uid)
        leftovers = self._leftovers(record, plan, memory)
        refs = plan.refs | {await self._remover.ref(entry) for entry in leftovers}
        self._observer.follow(name, refs)
        if not fresh:
            await self._observer.settle(refs, CACHE_SYNC_TIMEOUT)
        # A work that has reached its end rests: nothing more is applied, but what it lost still goes.
        finished = is_finished(work)
        consent = self._consent(work, plan)
        refusals = await self._refusals(work, plan, owner_of(record))
        done = frozenset(manifest.ordinal for manifest in plan.manifests) if finished else finished_manifests(work)
        record = await self._intend(record, plan, refusals.keys() | done, memory)
        outcomes = await self._performer.apply(plan, refusals, done, owner_of(record), memory, consent)
        if any(outcome.failure is OVERTAKEN for outcome in outcomes.values()):
            return OVERTAKEN_RETRY
        # A work of nothing but invalid manifests has no manifest to withhold, and yet is not applied as a whole.
        held_back = self._options.executor.strict and work.spec.executor is not None and bool(refusals or plan.invalid)
        remaining = leftovers if held_back else await self._prune(name, plan, leftovers, owner_of(record), memory)
        recorded = await self._record(name, record, self._tracked(record, plan, outcomes, remaining), memory)
        memory.audited = not held_back and not remaining and recorded
        put_off = await self._report(work, [outcomes[one.meta.ordinal] for one in _in_spec_order(plan)], memory)
        return _soonest(put_off, self._again(plan, refusals, remaining, memory))

    async def _ensure_record(self, work: ManifestWork, plan: ApplyPlan, memory: WorkState) -> AppliedManifestWork:
        try:
            return await self._records.ensure(work, plan.refs)
        except (Forbidden, Invalid, BadRequest) as error:
            # The name may be too long, or a right be missing: people have to be told.
            await self._report(work, [_hopeless(one, error) for one in _in_spec_order(plan)], memory)
            raise

    # Understanding.

    async def _plan(self, work: ManifestWork) -> ApplyPlan:
        served: dict[tuple[str, str], GVR | str] = {}
        for kind in kinds(work.spec):
            try:
                served[kind] = await self._mapper.mapping(*kind)
            except NoKindMatch as error:
                served[kind] = str(error)
        plan = make_plan(work.spec, served)
        groups = frozenset(invalid_manifest.meta.group for invalid_manifest in plan.invalid if invalid_manifest.unserved)
        if groups:
            self._unserved[work.metadata.name] = groups
        else:
            self._unserved.pop(work.metadata.name, None)
        return plan

    async def _refusals(self, work: ManifestWork, plan: ApplyPlan, owner: ManifestOwner) -> Mapping[int, Refusal]:
        executor = work.spec.executor
        if executor is None:
            self._executors.pop(work.metadata.name, None)
            return {}
        subject = executor.subject
        if subject is None or subject.type != "ServiceAccount":
            problem = "only support ServiceAccount type for the executor"
        elif subject.service_account is None:
            problem = "the executor service account is nil"
        else:
            self._executors[work.metadata.name] = subject.service_account
            drafts = Drafts(self._applier, owner, self._observer.get)
            return await self._gate.check(subject.service_account, plan.manifests, plan.invalid, drafts)
        self._executors.pop(work.metadata.name, None)
        return {manifest.ordinal: Refusal(problem, hidden=problem) for manifest in plan.manifests}

    def _consent(self, work: ManifestWork, plan: ApplyPlan) -> Consent | None:
        """The executor's, by what is found out from now on about its rights."""
        subject = work.spec.executor.subject if work.spec.executor is not None else None
        account = subject.service_account if subject is not None else None
        return self._gate.consent(account, plan.manifests) if account is not None else None

    async def _intend(
        self, record: AppliedManifestWork, plan: ApplyPlan, untouched: Set[int], memory: WorkState
    ) -> AppliedManifestWork:
        """Have on record whatever may be written now."""
        on_record = known(record)
        wanted = [
            manifest.ref for manifest in plan.manifests if manifest.ordinal not in untouched and manifest.strategy.type != READ_ONLY
        ]
        if not all(ref in memory.settled for ref in wanted):
            memory.audited = False
        new = [entry_of(ref) for ref in wanted if identity(ref) not in on_record]
        return await self._records.track(record, [*record.status.applied_resources, *new]) if new else record

    # What is no longer wanted, and what is on record.

    def _leftovers(self, record: AppliedManifestWork, plan: ApplyPlan, memory: WorkState) -> list[AppliedResource]:
        """What may be on the cluster because of the work, and is not in it."""
        entries = record.status.applied_resources if memory.audited else known(record).values()
        wanted = {identity(ref) for ref in plan.refs}
        return [entry for entry in entries if (one := entry_identity(entry)) not in wanted and not plan.protects(one)]

    async def _prune(
        self, name: str, plan: ApplyPlan, leftovers: list[AppliedResource], owner: ManifestOwner, memory: WorkState
    ) -> list[AppliedResource]:
        """What could not be removed yet."""
        if not leftovers:
            memory.removals = 0
            return []
        removal = await self._remover.remove(leftovers, owner)
        gone = set(map(entry_identity, removal.gone))
        remaining = [entry for entry in leftovers if entry_identity(entry) not in gone]
        memory.removals = memory.removals + 1 if remaining else 0
        self._observer.follow(name, plan.refs | {await self._remover.ref(entry) for entry in remaining})
        for pending in removal.pending:
            if pending.problem:
                log.warning("cannot remove what a work no longer has", work=name, object=str(pending))
        return remaining

    def _tracked(
        self,
        record: AppliedManifestWork,
        plan: ApplyPlan,
        outcomes: Mapping[int, ManifestResult],
        remaining: Iterable[AppliedResource],
    ) -> list[AppliedResource]:
        """What there is, as far as it is the work's, and what there may be; what is on record is forgotten only when it is gone."""
        former = {entry_identity(entry): entry for entry in record.status.applied_resources}
        tracked = {one: entry for one, entry in former.items() if plan.protects(one)}
        tracked |= {entry_identity(entry): entry for entry in remaining if entry.uid or entry_identity(entry) in former}
        for manifest in plan.manifests:
            outcome, one = outcomes[manifest.ordinal], identity(manifest.ref)
            if outcome.failure is None:
                if uid := self._uid(manifest.ref, outcome.live):
                    tracked[one] = entry_of(manifest.ref, uid)
            elif one in former:
                tracked[one] = former[one]
        return list(tracked.values())

    async def _record(self, name: str, record: AppliedManifestWork, entries: list[AppliedResource], memory: WorkState) -> bool:
        """Write the record, unless there is more urgent work."""
        now = self._clock.monotonic()
        since = now if memory.unrecorded is None else memory.unrecorded
        left = since + RECORDED_WITHIN - now
        if left > 0 and not tracks(record, entries) and self._when_idle(name, left):
            memory.unrecorded = since
            return False
        await self._records.track(record, entries)
        memory.unrecorded = None
        return True

    def _uid(self, ref: ObjectRef, live: Object | bytes | None) -> str:
        if isinstance(live, dict):
            return str(live["metadata"].get("uid", ""))
        return self._observer.get(ref).uid if live is not None else ""

    # Telling.

    async def _report(self, work: ManifestWork, outcomes: list[ManifestResult], memory: WorkState) -> float | None:
        """Report to the hub. Values that change all the time are reported at intervals: returns the seconds until the next
        report."""
        now = format_time(self._clock.now())
        ruled = any(isinstance(outcome.manifest, Manifest) and outcome.manifest.conditions for outcome in outcomes)
        if ruled:
            # Expressions may take their time.
            status = await asyncio.to_thread(self._reporter.status, work, outcomes, now)
        else:
            status = self._reporter.status(work, outcomes, now)
        if status == work.status:
            return None
        moment = self._clock.monotonic()
        if status.conditions == work.status.conditions and moment < memory.reported + REPORTING:
            return memory.reported + REPORTING - moment
        memory.reported = moment
        await self._source.report(work, status)
        self._on_status_reported(work, status)
        return None

    def _again(
        self, plan: ApplyPlan, refusals: Mapping[int, Refusal], remaining: list[AppliedResource], memory: WorkState
    ) -> float | None:
        """Seconds until the next pass, if nothing happens before."""
        delays: list[float] = []
        due = memory.due()
        if due is not None:
            delays.append(max(0.01, due - self._clock.monotonic()))
        unknown = any(refusal.failure for refusal in refusals.values())
        memory.setbacks = memory.setbacks + 1 if unknown else 0
        if unknown:
            delays.append(self._backoff.delay(memory.setbacks))
        elif refusals:
            delays.append(DENIED_RETRY)
        if any(invalid_manifest.unserved for invalid_manifest in plan.invalid):
            delays.append(UNSERVED_RETRY)
        if remaining and memory.removals:
            delays.append(min(LAST_REMOVAL, self._backoff.delay(memory.removals)))
        return min(delays, default=None)


def _soonest(one: float | None, other: float | None) -> float | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _in_spec_order(plan: ApplyPlan) -> list[Manifest | InvalidManifest]:
    return sorted([*plan.manifests, *plan.invalid], key=lambda one: one.meta.ordinal)


def _hopeless(one: Manifest | InvalidManifest, error: StatusError) -> ManifestResult:
    """Nothing can be applied for want of a record."""
    return ManifestResult(one, unfit(one) if isinstance(one, InvalidManifest) else failed(error), unfetched="it was not read")
