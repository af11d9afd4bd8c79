"""A circuit breaker: not every request tries to connect to a cluster that cannot be reached.

It opens after several consecutive failures to connect: requests are refused at once, so that they do not wait for a dead cluster
and occupy resources. When the open time is over, one request at a time tries again; the open time grows while that fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from muster.gateway.target import Problem

FAILURE_THRESHOLD: Final = 5
INITIAL_OPEN_TIME: Final = 1.0
MAX_OPEN_TIME: Final = 15.0
TRIAL_TIMEOUT: Final = 12.0
"""Seconds after which a trial without a result, because its client left, no longer prevents another one."""


class CircuitBreaker:
    __slots__ = ("_clock", "_failures", "_open_time", "_open_until", "_trial_until", "problem")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._open_time = INITIAL_OPEN_TIME
        self._open_until = 0.0
        self._trial_until = 0.0
        self.problem: Problem | None = None
        """The last failure; None while the breaker is closed."""

    def remaining(self) -> float:
        """Seconds for which no request may be sent; 0 admits the caller, who then reports `succeeded` or `failed`."""
        if self.problem is None:
            return 0.0
        now = self._clock()
        blocked = max(self._open_until, self._trial_until) - now
        if blocked > 0:
            return blocked
        self._trial_until = now + TRIAL_TIMEOUT
        return 0.0

    def succeeded(self) -> None:
        if self._failures:
            self._failures = 0
            self._open_time = INITIAL_OPEN_TIME
            self._trial_until = 0.0
            self.problem = None

    def failed(self, problem: Problem) -> None:
        self._failures += 1
        self._trial_until = 0.0
        if self._failures >= FAILURE_THRESHOLD:
            if self.problem is not None and self._clock() >= self._open_until:
                self._open_time = min(self._open_time * 2, MAX_OPEN_TIME)
            self.problem = problem
            self._open_until = self._clock() + self._open_time
