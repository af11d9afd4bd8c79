"""Renews the cluster's lease on the hub, with one request each time, for as long as the hub accepts the cluster.

The hub creates the lease and reports a cluster as unknown after five times its duration; the agent renews after one to one and a
quarter of it, drawn each time so that the agents of a fleet do not renew together. The resourceVersion of the last answer is kept,
so that no read is needed; after a conflict the lease is read again. A failed renewal is retried sooner than the next one would be
due, and one after the hub reported `Unknown` follows soon. Without acceptance there are no requests.

Only after such a renewal the agent reports the cluster as available again (`vouched`). Otherwise a hub that sees an expired lease
and an agent that sees a healthy cluster would overwrite each other as fast as they can.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from muster.api import condition_of, is_true
from muster.api.cluster.v1 import ACCEPTED, AVAILABLE, ManagedCluster
from muster.machinery.backoff import Backoff
from muster.machinery.clock import pause
from muster.machinery.golang.timestamps import format_micro_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.registration.agent.context import AgentContext
from muster.registration.names import DEFAULT_LEASE_SECONDS, LEASE
from muster.runtime.cache import Informer
from muster.runtime.client import Conflict, KubeClient, KubeError, Unauthorized
from muster.runtime.client.builtin import LEASES

log = get_logger("muster.registration.agent")

JITTER = 0.25
REQUEST_SECONDS = 20.0


def lease_seconds(cluster: ManagedCluster | None) -> int | None:
    """How often to renew; None while the hub does not accept the cluster."""
    if cluster is None or not is_true(cluster.status.conditions, ACCEPTED):
        return None
    return cluster.spec.lease_duration_seconds or DEFAULT_LEASE_SECONDS


def missed_at(cluster: ManagedCluster | None) -> str:
    """Since when the hub takes the cluster for lost; empty when it does not."""
    available = None if cluster is None else condition_of(cluster.status.conditions, AVAILABLE)
    return available.last_transition_time if available is not None and available.status == "Unknown" else ""


class LeaseKeeper:
    def __init__(
        self,
        context: AgentContext,
        hub: KubeClient,
        clusters: Informer[ManagedCluster],
    ) -> None:
        self._listener: Callable[[], None] = lambda: None
        self._answered = ""
        self._context = context
        self._hub = hub
        self._clusters = clusters
        self._news = asyncio.Event()
        self._lease: Object | None = None
        self._backoff = Backoff(1.0, 30.0, random=context.random)
        self._failing = ""
        self.last_success = context.clock.monotonic()
        """When the hub last took a renewal, or this began."""
        self.refused_since: float | None = None
        """Since when the hub says that it does not know who we are."""
        clusters.on_change(lambda old, new: self._news.set())

    async def run(self) -> None:
        while True:
            seconds = self._seconds
            if seconds is None:
                await pause(self._context.clock, self._news, None)
            else:
                await self._rest(seconds, await self._renew(seconds))

    def on_answered(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a renewal follows after the hub had missed one."""
        self._listener = listener

    @property
    def failing(self) -> bool:
        """Whether the last renewal failed."""
        return bool(self._failing)

    def vouched(self, cluster: ManagedCluster) -> bool:
        """Whether the hub was told of the cluster's life since it last gave it up."""
        return missed_at(cluster) in ("", self._answered)

    @property
    def _cluster(self) -> ManagedCluster | None:
        return self._clusters.cache.named(self._context.cluster)

    @property
    def _seconds(self) -> int | None:
        return lease_seconds(self._cluster)

    async def _rest(self, seconds: int, rest: float) -> None:
        """Until the next renewal is due, or another duration or the end of acceptance makes it a different matter."""
        clock = self._context.clock
        due = clock.monotonic() + rest
        while self._seconds == seconds and clock.monotonic() < due:
            if missed_at(self._cluster) not in ("", self._answered):
                # Not at once: a hub whose clock is far from ours gives up on every renewal.
                due = min(due, self.last_success + seconds / 2)
            await pause(clock, self._news, due - clock.monotonic())

    async def _renew(self, seconds: int) -> float:
        """One renewal; how long to rest after it."""
        missed = missed_at(self._cluster)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                lease = self._lease or await self._hub.get(LEASES, LEASE, self._context.cluster)
                self._lease = _remembered(
                    await self._hub.update(LEASES, _with_time(lease, format_micro_time(self._context.clock.now())))
                )
        except Conflict:
            self._lease = None
            return self._backoff.next() / 10
        except (KubeError, TimeoutError) as error:
            self._lease = None
            self._failed(error)
            return min(self._backoff.next(), float(seconds))
        self._went_well(missed)
        return seconds * (1 + JITTER * self._context.random())

    def _failed(self, error: Exception) -> None:
        now = self._context.clock.monotonic()
        if not isinstance(error, Unauthorized):
            self.refused_since = None
        elif self.refused_since is None:
            self.refused_since = now
        if not self._failing:
            self._failing = str(error) or type(error).__name__
            log.warning("cannot renew the lease on the hub", cluster=self._context.cluster, error=self._failing)

    def _went_well(self, missed: str) -> None:
        if self._failing:
            log.info("renewing the lease on the hub again", cluster=self._context.cluster)
            # What the hub thinks of the cluster by now is known to nobody here until its watch is back.
            self._clusters.hurry()
        self._failing = ""
        self._backoff.reset()
        self.last_success = self._context.clock.monotonic()
        self.refused_since = None
        if missed:
            self._answered = missed
            self._listener()


def _with_time(lease: Object, moment: str) -> Object:
    return {**lease, "spec": {**(lease.get("spec") or {}), "renewTime": moment}}


def _remembered(lease: Object) -> Object:
    """What the next renewal needs; who manages which field is the server's to know."""
    return {**lease, "metadata": {key: value for key, value in lease["metadata"].items() if key != "managedFields"}}
