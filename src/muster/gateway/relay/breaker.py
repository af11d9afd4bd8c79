"""A circuit breaker: a cluster that cannot be reached is not tried by every request.

After some failures in a row to connect it opens: requests are refused at once, so that they do not wait for a dead cluster and hold
what others need. When the pause is over one request at a time tries again; the pause grows while that fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from muster.gateway.target import Problem

FAILURES: Final = 5
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 15.0
TRIAL_TIME: Final = 12.0
"""After which a trial of which nothing was heard, because its client left, no longer keeps others from trying."""


class Breaker:
    __slots__ = ("_clock", "_failures", "_pause", "_trial_until", "_until", "problem")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._pause = FIRST_PAUSE
        self._until = 0.0
        self._trial_until = 0.0
        self.problem: Problem | None = None
        """The last failure; None while the breaker is closed."""

    def remaining(self) -> float:
        """Seconds for which nothing is to be tried; 0 admits the caller, who then tells how it went."""
        if self.problem is None:
            return 0.0
        now = self._clock()
        blocked = max(self._until, self._trial_until) - now
        if blocked > 0:
            return blocked
        self._trial_until = now + TRIAL_TIME
        return 0.0

    def succeeded(self) -> None:
        if self._failures:
            self._failures = 0
            self._pause = FIRST_PAUSE
            self._trial_until = 0.0
            self.problem = None

    def failed(self, problem: Problem) -> None:
        self._failures += 1
        self._trial_until = 0.0
        if self._failures >= FAILURES:
            if self.problem is not None and self._clock() >= self._until:
                self._pause = min(self._pause * 2, LONGEST_PAUSE)
            self.problem = problem
            self._until = self._clock() + self._pause
