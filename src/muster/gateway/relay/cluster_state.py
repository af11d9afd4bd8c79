"""The relay's state of one cluster between requests: connection pool, load, circuit breaker and failed endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from muster.gateway.relay.circuit_breaker import CircuitBreaker
from muster.gateway.relay.limits import ClusterLoad, Limits
from muster.gateway.relay.pools import ClusterPool, ClusterPools
from muster.gateway.target import Credential, Endpoint, Target

SKIP_TIME: Final = 30.0
"""Seconds for which an endpoint that did not answer is tried last."""
MAX_SKIPPED: Final = 16
TARGET_CHANGE_GRACE: Final = 5.0
"""Seconds for which requests may still arrive with the previous target."""


class ClusterState:
    __slots__ = (
        "_clock",
        "_earlier",
        "_earlier_until",
        "_pool",
        "_skipped",
        "breaker",
        "confirmed",
        "confirmed_until",
        "last_used",
        "load",
        "name",
        "refresh",
    )

    def __init__(self, name: str, limits: Limits, clock: Callable[[], float]) -> None:
        self.name = name
        self.load = ClusterLoad(limits)
        self.breaker = CircuitBreaker(clock)
        self.last_used = 0.0
        """Time of the last request to this cluster."""
        self.refresh: asyncio.Task[Target | None] | None = None
        self.confirmed: Credential | None = None
        """A credential that the cluster refuses although the hub has no other."""
        self.confirmed_until = 0.0
        self._clock = clock
        self._skipped: dict[Endpoint, float] = {}
        self._pool: ClusterPool | None = None
        self._earlier: ClusterPool | None = None
        self._earlier_until = 0.0

    def pool_for(self, pools: ClusterPools, target: Target) -> ClusterPool:
        """The pool of connections to `target`. Raises ClusterError.

        When a target changes, requests with the previous target are still arriving. They use the previous pool while it exists,
        so that the two targets do not replace each other's pool in turns.
        """
        pool = self._pool
        if pool is not None and pool.matches(target):
            return pool
        now = self._clock()
        if self._earlier is not None and now < self._earlier_until and self._earlier.matches(target):
            return self._earlier
        self._pool = pools.pool_for(pool, target)
        self._earlier, self._earlier_until = pool, now + TARGET_CHANGE_GRACE
        return self._pool

    def ordered(self, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """With endpoints that failed recently at the end."""
        if not self._skipped or len(endpoints) == 1:
            return endpoints
        now = self._clock()
        self._skipped = {endpoint: until for endpoint, until in self._skipped.items() if until > now}
        return tuple(sorted(endpoints, key=lambda endpoint: endpoint in self._skipped))

    def skip(self, endpoint: Endpoint) -> None:
        if len(self._skipped) > MAX_SKIPPED:
            self._skipped.clear()
        self._skipped[endpoint] = self._clock() + SKIP_TIME

    def close(self) -> None:
        if self._pool is not None:
            self._pool.connections.close()
