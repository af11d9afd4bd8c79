"""What the relay remembers of one cluster between requests, and of no other: its way there, its load, and how it fared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from muster.gateway.relay.breaker import Breaker
from muster.gateway.relay.limits import Limits, Load
from muster.gateway.relay.pools import ClusterPool, ClusterPools
from muster.gateway.target import Credential, Endpoint, Target

ENDPOINT_MEMORY: Final = 30.0
"""Seconds for which an endpoint that did not answer is tried last."""
MOST_SKIPPED: Final = 16
CHANGE_TIME: Final = 5.0
"""Seconds for which requests may come with the target that was before the present one."""


class ClusterState:
    __slots__ = (
        "_clock",
        "_earlier",
        "_earlier_until",
        "_pool",
        "_skipped",
        "asked",
        "breaker",
        "confirmed",
        "confirmed_until",
        "load",
        "name",
        "refresh",
    )

    def __init__(self, name: str, limits: Limits, clock: Callable[[], float]) -> None:
        self.name = name
        self.load = Load(limits)
        self.breaker = Breaker(clock)
        self.asked = 0.0
        """When somebody last asked this cluster something."""
        self.refresh: asyncio.Task[Target | None] | None = None
        self.confirmed: Credential | None = None
        """A credential that the cluster refuses though the hub has no other."""
        self.confirmed_until = 0.0
        self._clock = clock
        self._skipped: dict[Endpoint, float] = {}
        self._pool: ClusterPool | None = None
        self._earlier: ClusterPool | None = None
        self._earlier_until = 0.0

    def way(self, pools: ClusterPools, target: Target) -> ClusterPool:
        """The pool that leads to `target`. Raises ClusterProblem.

        When a target changes, requests that hold the one before are still on their way here. They use what is left of its pool, so
        that the two do not replace each other in turns."""
        pool = self._pool
        if pool is not None and pool.leads_to(target):
            return pool
        now = self._clock()
        if self._earlier is not None and now < self._earlier_until and self._earlier.leads_to(target):
            return self._earlier
        self._pool = pools.following(pool, target)
        self._earlier, self._earlier_until = pool, now + CHANGE_TIME
        return self._pool

    def in_order(self, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """With those that did not answer a moment ago at the end."""
        if not self._skipped or len(endpoints) == 1:
            return endpoints
        now = self._clock()
        self._skipped = {endpoint: until for endpoint, until in self._skipped.items() if until > now}
        return tuple(sorted(endpoints, key=lambda endpoint: endpoint in self._skipped))

    def skip(self, endpoint: Endpoint) -> None:
        if len(self._skipped) > MOST_SKIPPED:
            self._skipped.clear()
        self._skipped[endpoint] = self._clock() + ENDPOINT_MEMORY

    def close(self) -> None:
        if self._pool is not None:
            self._pool.connections.close()
