"""Health of clusters as seen through the gateway, derived from traffic and, if there is none, from probes.

An answer to any request proves that a cluster is healthy, at no cost. A single failed request proves little (a broken connection,
a slow list), so it only makes a healthy cluster suspect: the cluster is probed soon, and the probe decides. A cluster without
traffic is probed periodically; an unhealthy one is probed sooner at first, then with backoff. Probes are spread randomly and
their concurrency is limited, so an idle fleet costs one request per cluster and minute.

The published status changes when a cluster becomes healthy or unhealthy, or unhealthy for another cause; not with every probe,
nor with another message for the same cause.
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
"""Approximate seconds between two proofs of a cluster's health."""
PROBE_TIMEOUT: Final = 15.0
CONCURRENT_PROBES: Final = 32
FIRST_PROBE_SPREAD: Final = 2.0
"""Maximum of the seconds over which the first probes of new clusters are spread."""
FIRST_PROBE_SPREAD_PER_CLUSTER: Final = 0.01
"""Seconds that each cluster adds to this spread: a few clusters are probed at once."""
SUSPECT_PROBE_SPREAD: Final = 1.0
MIN_PROBE_INTERVAL: Final = 5.0
"""Minimum seconds between the last probe of a cluster and the one that a failing request triggers."""
RETRY_INITIAL: Final = 2.0
"""Maximum seconds between the first failure and the next probe."""

READYZ: Final = "/readyz"
VERSION: Final = "/version"

Send = Callable[[Target, str], Awaitable[int]]
"""Sends a GET for a path below the endpoint's base path, and returns the status code. Raises ProbeFailed."""


class ProbeFailed(Exception):
    """A probe was not answered; `problem` is the reason."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class HealthStatus:
    """`status` of a ClusterGateway; `reason` is a cause and a remedy, and empty for a healthy cluster."""

    healthy: bool
    reason: str = ""
    cause: str = ""


HEALTHY: Final = HealthStatus(True)
UNKNOWN: Final = HealthStatus(False, f"{NOT_PROBED}: the gateway has not reached the cluster yet", NOT_PROBED)


def unhealthy(problem: Problem) -> HealthStatus:
    return HealthStatus(False, f"{problem.cause}: {problem.message}", problem.cause)


class _ClusterHealth:
    """The health of one cluster."""

    __slots__ = ("answered_at", "due", "failures", "path", "probed_at", "probing", "status", "suspect", "target")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.status = UNKNOWN
        self.answered_at = float("-inf")
        self.probed_at = float("-inf")
        self.due = float("inf")
        """Time of the next probe; other heap entries of this cluster are obsolete."""
        self.failures = 0
        self.suspect = False
        self.probing = False
        self.path = READYZ


class Health:
    """Implements `Observer`. The owner runs `run` as a task, and calls `track` and `forget` as clusters come and go."""

    def __init__(self, *, interval: float = PROBE_INTERVAL, clock: Clock = SYSTEM, random: Random = chance.random) -> None:
        self._interval = interval
        self._clock = clock
        self._random = random
        self._backoff = Backoff(RETRY_INITIAL, interval, random=random)
        self._states: dict[str, _ClusterHealth] = {}
        self._heap: list[tuple[float, int, _ClusterHealth]] = []
        self._order = itertools.count()
        self._wake_up = asyncio.Event()
        self._handlers: list[Callable[[str], None]] = []

    def on_change(self, handler: Callable[[str], None]) -> None:
        """Call `handler` with the name of a cluster whose status changes; it must not block."""
        self._handlers.append(handler)

    def status(self, cluster: str) -> HealthStatus:
        state = self._states.get(cluster)
        return UNKNOWN if state is None else state.status

    def track(self, target: Target) -> None:
        """Add a cluster, or update how it is reached. A cluster with a problem is not probed."""
        state = self._states.get(target.cluster)
        if state is None:
            state = self._states[target.cluster] = _ClusterHealth(target)
        elif state.target == target:
            return
        state.target = target
        # Earlier answers came from the former endpoint.
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

    # Observer

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
        earliest = state.probed_at + MIN_PROBE_INTERVAL - self._clock.monotonic()
        self._schedule(state, max(earliest, 0.0) + SUSPECT_PROBE_SPREAD * self._random())

    # Probes

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
                await pause(self._clock, self._wake_up, wait)

    def _next_due(self) -> _ClusterHealth | None:
        """A cluster that has to be probed now."""
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now:
            due, _, state = heapq.heappop(self._heap)
            if state.due != due or state.probing:
                continue
            if not state.suspect and state.answered_at + self._interval > now and state.status is HEALTHY:
                self._schedule(state, state.answered_at + self._jittered() - now)
            elif self._has_expired(state.target):
                # Nothing is sent with an expired credential; a new one is noticed by the inventory.
                self._schedule(state, self._jittered())
            else:
                return state
        return None

    async def _probe(self, state: _ClusterHealth, send: Send, slots: asyncio.Semaphore) -> None:
        target, began = state.target, self._clock.monotonic()
        try:
            problem = await self._send_probe(state, target, send)
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

    async def _send_probe(self, state: _ClusterHealth, target: Target, send: Send) -> Problem | None:
        """The problem that the probe has found, if any."""
        try:
            code = await within(self._clock, PROBE_TIMEOUT, self._status_code(state, target, send))
        except ProbeFailed as failed:
            return failed.problem
        except TimeoutError:
            return Problem(CLUSTER_TIMEOUT, f"cluster {target.cluster} did not answer a probe within {PROBE_TIMEOUT:g} s")
        except Exception as error:
            # An unexpected error of one probe must not end the others. Its text may contain anything.
            log.error("probe failed", cluster=target.cluster, error=type(error).__name__)
            return Problem(CLUSTER_UNREACHABLE, f"the probe of cluster {target.cluster} failed ({type(error).__name__})")
        return _problem_of(target.cluster, code)

    @staticmethod
    async def _status_code(state: _ClusterHealth, target: Target, send: Send) -> int:
        code = await send(target, state.path)
        if state.path == READYZ and code in (403, 404):
            # Without permission for /readyz, or with an old API server, /version at least proves that it can be reached.
            code = await send(target, VERSION)
            if code < 300:
                state.path = VERSION
        return code

    def _recovered(self, state: _ClusterHealth) -> None:
        state.failures = 0
        self._set(state, HEALTHY)

    def _set(self, state: _ClusterHealth, status: HealthStatus) -> None:
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

    def _schedule(self, state: _ClusterHealth, seconds: float) -> None:
        state.due = self._clock.monotonic() + max(seconds, 0.0)
        earliest = not self._heap or state.due < self._heap[0][0]
        heapq.heappush(self._heap, (state.due, next(self._order), state))
        if earliest:
            self._wake_up.set()

    def _first_delay(self) -> float:
        return min(FIRST_PROBE_SPREAD, FIRST_PROBE_SPREAD_PER_CLUSTER * len(self._states)) * self._random()

    def _jittered(self) -> float:
        return self._interval * (0.75 + 0.5 * self._random())

    def _has_expired(self, target: Target) -> bool:
        expires = None if target.credential is None else target.credential.expires
        return expires is not None and expires <= self._clock.now()


def _problem_of(cluster: str, code: int) -> Problem | None:
    """The problem that the answer to a probe indicates. Any answer, even a refusal, proves that the cluster can be reached."""
    if code == 401:
        return Problem(CREDENTIAL_REFUSED, f"cluster {cluster} does not accept the gateway's credential (401); renew it")
    if 300 <= code < 400:
        return Problem(
            CLUSTER_REDIRECTED, f"the endpoint of cluster {cluster} answers {code}, a redirect; name the API server's own URL"
        )
    if code >= 500:
        return Problem(CLUSTER_BROKEN, f"the API server of cluster {cluster} answers {code} to a probe; check that API server")
    return None
