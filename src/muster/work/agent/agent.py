"""Assembly of the work agent: one hub, one managed cluster.

`reconcile` handles works, `deletion` handles AppliedManifestWorks (records), each with its own queue. A work is requeued when it
changes on the hub, when one of its objects, its record or the permissions of its executor change, and when a kind that it needs
is served.
"""

from __future__ import annotations

import asyncio
import random as chance

from muster.api.work.v1 import ExecutorServiceAccount
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.metrics import Metrics
from muster.runtime.cache import DynamicCache, DynamicRESTMapper, Metadata
from muster.runtime.client import KubeClient
from muster.runtime.controller import ControllerContext
from muster.transport.client.client import TransportClient
from muster.work.agent.applying import ClusterApplier
from muster.work.agent.deletion import FOLLOWER, AppliedWorkFinalizer, Remover
from muster.work.agent.event_reporter import EventReporter
from muster.work.agent.executor import ExecutorGate
from muster.work.agent.grpc_source import GrpcWorkSource
from muster.work.agent.interfaces import WorkSource
from muster.work.agent.metrics import WorkMetrics
from muster.work.agent.options import WorkAgentOptions
from muster.work.agent.reconcile import Reconciler
from muster.work.agent.records import Records
from muster.work.agent.source import KubeWorkSource
from muster.work.kinds import APPLIED_WORKS
from muster.work.names import AGENT

TIMEOUT = 300.0
"""Seconds for one pass: a work may have a thousand manifests, and a cluster may be slow."""

LONGEST_DELAY = 30.0
"""Seconds after which a pass that failed as a whole (a cluster is away) is tried again at the latest."""


class WorkAgent:
    """`hub` with the agent's identity there, `spoke` with its identity on the managed cluster."""

    def __init__(
        self,
        hub: KubeClient,
        spoke: KubeClient,
        options: WorkAgentOptions,
        *,
        source: WorkSource | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
        metrics: Metrics | None = None,
    ) -> None:
        context = ControllerContext.of(spoke, AGENT, workers=options.workers, metrics=metrics, clock=clock, random=random)
        if source is None and isinstance(hub, TransportClient):
            source = GrpcWorkSource(hub, options.cluster_name, url=options.hub_url, clock=clock)
        elif source is None:
            source = KubeWorkSource(hub, options.cluster_name, url=options.hub_url, clock=clock, random=random)
        self._source = source
        self._records = Records(spoke, source.hub_hash, options.agent_id, clock=clock, random=random)
        self._events = context.events
        self._mapper = DynamicRESTMapper(spoke, clock=clock)
        self._observer = DynamicCache(spoke, prefetch=is_applied, clock=clock, poll_seconds=options.poll_seconds)
        self._gate = ExecutorGate(spoke, options.executor, clock=clock, random=random)
        remover = Remover(spoke, self._observer, self._mapper.resource_for, writers=options.writers)
        applier = ClusterApplier(spoke, clock=clock, random=random)
        self._reconciler = Reconciler(
            source,
            self._records,
            self._mapper,
            self._observer,
            applier,
            self._gate,
            remover,
            options,
            when_idle=self._when_idle,
            on_status_reported=EventReporter(self._events, self._records.of).on_status_reported,
            clock=clock,
            random=random,
        )
        finalizing = AppliedWorkFinalizer(
            source,
            self._records,
            remover,
            self._observer,
            self._reconciler.leaving,
            options.eviction_grace,
            notify=self._work_changed,
            clock=clock,
            random=random,
        )
        self._works = context.controller("manifestworks", self._reconcile, timeout=TIMEOUT, max_delay=LONGEST_DELAY)
        self._ends = context.controller("appliedmanifestworks", finalizing.reconcile, timeout=TIMEOUT, max_delay=LONGEST_DELAY)

        self._metrics = WorkMetrics(context.metrics, clock)

    @property
    def hub_hash(self) -> str:
        return self._source.hub_hash

    @property
    def ready(self) -> bool:
        return self._source.synced and self._records.synced

    def unready(self) -> str | None:
        if not self._source.synced:
            return "the hub's works are not known yet"
        return None if self._records.synced else "the managed cluster's AppliedManifestWorks are not known yet"

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in (self._source, self._records, self._events, self._mapper, self._observer, self._gate):
                tasks.create_task(part.run())
            await self._source.until_synced()
            await self._records.until_synced()
            self._source.on_change(self._work_changed)
            self._records.on_change(self._record_changed)
            self._observer.on_change(self._object_changed)
            self._mapper.on_change(self._kinds_changed)
            self._gate.on_change(self._rights_changed)
            # Those who are being served end before those who serve them.
            async with asyncio.TaskGroup() as controllers:
                controllers.create_task(self._works.run())
                controllers.create_task(self._ends.run())

    async def _reconcile(self, name: str) -> float | None:
        try:
            return await self._reconciler.reconcile(name)
        finally:
            self._metrics.reconciled(name, self._source.get(name))

    def _when_idle(self, work: str, within: float) -> bool:
        if not self._works.crowded:
            return False
        self._works.enqueue_when_idle(work, within)
        return True

    def _work_changed(self, name: str) -> None:
        self._metrics.changed(name, self._source.get(name))
        self._works.enqueue(name)
        # A work that went leaves its record behind; one that came back saves it.
        if self._records.of(name) is not None:
            self._ends.enqueue(self._records.name_for(name))

    def _record_changed(self, name: str) -> None:
        self._ends.enqueue(name)
        if work := self._records.work_of(name):
            self._works.enqueue(work)

    def _object_changed(self, follower: str) -> None:
        if follower.startswith(FOLLOWER):
            self._ends.enqueue(follower.removeprefix(FOLLOWER))
        else:
            self._works.enqueue(follower)

    def _kinds_changed(self, group: str) -> None:
        for work in self._reconciler.waiting_for(group):
            self._works.enqueue(work)

    def _rights_changed(self, account: ExecutorServiceAccount) -> None:
        for work in self._reconciler.executed_by(account):
            self._works.enqueue(work)


def is_applied(metadata: Metadata) -> bool:
    """Whether an object belongs to an AppliedManifestWork: a restarted agent reads it soon."""
    owners = metadata.ownerReferences
    return owners is not None and any(
        owner.kind == APPLIED_WORKS.kind and owner.apiVersion == APPLIED_WORKS.api_version for owner in owners
    )
