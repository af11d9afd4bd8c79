"""Whether clusters answer through the gateway, learnt from traffic and, where there is none, from a probe.

An answer to anybody proves that a cluster is well, at once and for free. A failure of somebody's request proves little (one broken
connection, one slow list), so it only makes a healthy cluster a suspect: it is probed soon, and the probe decides. A cluster
without traffic is probed now and then; one that failed is probed sooner at first, then with growing pauses. Probes are spread by
chance and only so many run at a time, so a fleet at rest costs a heap of times and a request per cluster and minute.

What is shown changes when a cluster becomes well or unwell, or unwell for another cause; not with every probe, nor with the words
of the same cause.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random as chance
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from muster.gateway.target import (
    CLUSTER_BROKEN,
    CLUSTER_BUSY,
    CLUSTER_REDIRECTED,
    CLUSTER_TIMEOUT,
    CLUSTER_UNREACHABLE,
    CREDENTIAL_REFUSED,
    NOT_PROBED,
    Problem,
    Target,
)
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, pause, within
from muster.machinery.logs import get_logger

log = get_logger("muster.gateway.inventory.health")

PROBE_INTERVAL: Final = 60.0
"""Seconds between two signs of life of a cluster, about."""
PROBE_TIMEOUT: Final = 15.0
CONCURRENT_PROBES: Final = 32
FIRST_PROBE_WITHIN: Final = 2.0
"""Seconds, at most, over which the probes of clusters that have just come are spread."""
FIRST_PROBE_EACH: Final = 0.01
"""Seconds by which each cluster of the fleet widens that: a few clusters are probed at once."""
SUSPECT_PROBE_WITHIN: Final = 1.0
PROBE_DISTANCE: Final = 5.0
"""Seconds that a failing request has to wait at least for the next probe of its cluster."""
RETRY_INITIAL: Final = 2.0
"""Seconds, at most, to the probe after the first failure."""

READYZ: Final = "/readyz"
VERSION: Final = "/version"

Send = Callable[[Target, str], Awaitable[int]]
"""Sends a GET for a path, which the endpoint's base path goes before, and gives the answer's code. Raises ProbeFailed."""


class ProbeFailed(Exception):
    """No answer came, for the reason that `problem` says."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class HealthStatus:
    """As `status` of a ClusterGateway has it; `reason` is a cause and what to do about it, and empty for a cluster that is well."""

    healthy: bool
    reason: str = ""
    cause: str = ""


HEALTHY: Final = HealthStatus(True)
UNKNOWN: Final = HealthStatus(False, f"{NOT_PROBED}: the gateway has not heard from the cluster yet", NOT_PROBED)


def unhealthy(problem: Problem) -> HealthStatus:
    return HealthStatus(False, f"{problem.cause}: {problem.message}", problem.cause)


class _State:
    """What is known of one cluster."""

    __slots__ = ("answered_at", "due", "failures", "path", "probed_at", "probing", "status", "suspect", "target")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.status = UNKNOWN
        self.answered_at = float("-inf")
        self.probed_at = float("-inf")
        self.due = float("inf")
        """When to probe next; what else the heap has of this cluster no longer counts."""
        self.failures = 0
        self.suspect = False
        self.probing = False
        self.path = READYZ


class Health:
    """Implements `Observer`. `run` is to be a task of its owner; whoever knows the clusters says which there are."""

    def __init__(self, *, interval: float = PROBE_INTERVAL, clock: Clock = SYSTEM, random: Random = chance.random) -> None:
        self._interval = interval
        self._clock = clock
        self._random = random
        self._backoff = Backoff(RETRY_INITIAL, interval, random=random)
        self._states: dict[str, _State] = {}
        self._heap: list[tuple[float, int, _State]] = []
        self._order = itertools.count()
        self._news = asyncio.Event()
        self._handlers: list[Callable[[str], None]] = []

    def on_change(self, handler: Callable[[str], None]) -> None:
        """Tell `handler` the name of a cluster whose status changes; it must be quick."""
        self._handlers.append(handler)

    def status(self, cluster: str) -> HealthStatus:
        state = self._states.get(cluster)
        return UNKNOWN if state is None else state.status

    def follow(self, target: Target) -> None:
        """There is such a cluster, or it is reached in another way than before. One with a problem is left in peace."""
        state = self._states.get(target.cluster)
        if state is None:
            state = self._states[target.cluster] = _State(target)
        elif state.target == target:
            return
        state.target = target
        # What was answered was answered by the way of before.
        state.answered_at = float("-inf")
        state.failures = 0
        state.path = READYZ
        if target.problem is not None:
            state.due, state.status = float("inf"), UNKNOWN
        elif not state.probing:
            self._schedule(state, self._first_delay())

    def forget(self, cluster: str) -> None:
        state = self._states.pop(cluster, None)
        if state is not None:
            state.due = float("inf")

    # What the relay tells.

    def answered(self, target: Target) -> None:
        state = self._states.get(target.cluster)
        if state is None:
            return
        state.answered_at = self._clock.monotonic()
        state.suspect = False
        if state.status is not HEALTHY and state.target.problem is None:
            self._recovered(state)

    def failed(self, target: Target, problem: Problem) -> None:
        state = self._states.get(target.cluster)
        if state is None or state.suspect or state.probing or state.status is not HEALTHY or problem.cause == CLUSTER_BUSY:
            return
        state.suspect = True
        earliest = state.probed_at + PROBE_DISTANCE - self._clock.monotonic()
        self._schedule(state, max(earliest, 0.0) + SUSPECT_PROBE_WITHIN * self._random())

    # Probing.

    async def run(self, send: Send) -> None:
        """Probe until cancelled."""
        slots = asyncio.Semaphore(CONCURRENT_PROBES)
        async with asyncio.TaskGroup() as tasks:
            while True:
                while (state := self._next_due()) is not None:
                    await slots.acquire()
                    state.probing = True
                    tasks.create_task(self._probe(state, send, slots))
                wait = self._heap[0][0] - self._clock.monotonic() if self._heap else None
                await pause(self._clock, self._news, wait)

    def _next_due(self) -> _State | None:
        """A cluster to be probed now."""
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now:
            due, _, state = heapq.heappop(self._heap)
            if state.due != due or state.probing:
                continue
            if not state.suspect and state.answered_at + self._interval > now and state.status is HEALTHY:
                self._schedule(state, state.answered_at + self._jittered() - now)
            elif self._has_expired(state.target):
                # Nothing is sent with it, and a new one is heard of.
                self._schedule(state, self._jittered())
            else:
                return state
        return None

    async def _probe(self, state: _State, send: Send, slots: asyncio.Semaphore) -> None:
        target, began = state.target, self._clock.monotonic()
        try:
            problem = await self._ask(state, target, send)
        finally:
            state.probing = False
            slots.release()
        state.probed_at = self._clock.monotonic()
        if self._states.get(target.cluster) is not state or state.target.problem is not None:
            return
        if state.target is not target:
            self._schedule(state, self._first_delay())
            return
        state.suspect = False
        if problem is None or state.answered_at >= began:
            self._recovered(state)
            self._schedule(state, self._jittered())
        else:
            state.failures += 1
            self._set(state, unhealthy(problem))
            self._schedule(state, self._backoff.delay(state.failures))

    async def _ask(self, state: _State, target: Target, send: Send) -> Problem | None:
        """What is wrong with the cluster."""
        try:
            code = await within(self._clock, PROBE_TIMEOUT, self._code(state, target, send))
        except ProbeFailed as failed:
            return failed.problem
        except TimeoutError:
            return Problem(CLUSTER_TIMEOUT, f"cluster {target.cluster} did not answer a probe within {PROBE_TIMEOUT:g} s")
        except Exception as error:
            # A probe that fails in a way nobody thought of must not end the others. Its text may have anything in it.
            log.error("probe failed", cluster=target.cluster, error=type(error).__name__)
            return Problem(CLUSTER_UNREACHABLE, f"the probe of cluster {target.cluster} failed ({type(error).__name__})")
        return _verdict(target.cluster, code)

    @staticmethod
    async def _code(state: _State, target: Target, send: Send) -> int:
        code = await send(target, state.path)
        if state.path == READYZ and code in (403, 404):
            # Who may not ask how the server fares, or asks something that is no API server of today, may at least reach it.
            code = await send(target, VERSION)
            if code < 300:
                state.path = VERSION
        return code

    def _recovered(self, state: _State) -> None:
        state.failures = 0
        self._set(state, HEALTHY)

    def _set(self, state: _State, status: HealthStatus) -> None:
        if state.status.cause == status.cause and state.status.healthy == status.healthy:
            return
        before, state.status = state.status, status
        cluster = state.target.cluster
        if not status.healthy:
            log.warning("cluster does not answer", cluster=cluster, reason=status.reason)
        elif before is not UNKNOWN:
            log.info("cluster answers again", cluster=cluster)
        for handler in self._handlers:
            handler(cluster)

    def _schedule(self, state: _State, seconds: float) -> None:
        state.due = self._clock.monotonic() + max(seconds, 0.0)
        earliest = not self._heap or state.due < self._heap[0][0]
        heapq.heappush(self._heap, (state.due, next(self._order), state))
        if earliest:
            self._news.set()

    def _first_delay(self) -> float:
        return min(FIRST_PROBE_WITHIN, FIRST_PROBE_EACH * len(self._states)) * self._random()

    def _jittered(self) -> float:
        return self._interval * (0.75 + 0.5 * self._random())

    def _has_expired(self, target: Target) -> bool:
        expires = None if target.credential is None else target.credential.expires
        return expires is not None and expires <= self._clock.now()


def _verdict(cluster: str, code: int) -> Problem | None:
    """What an answer to a probe says. Whoever answers can be reached, whether it likes the question or not."""
    if code == 401:
        return Problem(CREDENTIAL_REFUSED, f"cluster {cluster} does not accept the gateway's credential (401); renew it")
    if 300 <= code < 400:
        return Problem(
            CLUSTER_REDIRECTED, f"the endpoint of cluster {cluster} answers {code}, a redirect; name the API server's own URL"
        )
    if code >= 500:
        return Problem(CLUSTER_BROKEN, f"the API server of cluster {cluster} answers {code} to a probe; see what ails it there")
    return None
