"""Exponential backoff with jitter: the delay grows up to a maximum, and a part of it is random, so that the clients of a failed
server do not return at the same time.
"""

from __future__ import annotations

import random as chance

from muster.machinery.clock import Random


class Backoff:
    """Delays `initial`, `initial * factor`, … up to `maximum`; each is drawn from [delay * (1 - jitter), delay]."""

    def __init__(
        self, initial: float, maximum: float, factor: float = 2.0, jitter: float = 0.5, random: Random = chance.random
    ) -> None:
        self.initial = initial
        self.maximum = maximum
        self.factor = factor
        self.jitter = jitter
        self._random = random
        self.failures = 0

    def delay(self, failures: int) -> float:
        """The delay after this number of failures (at least one)."""
        # After 60 doublings every sensible maximum is reached; the bound prevents an overflow.
        delay = min(self.maximum, self.initial * self.factor ** min(failures - 1, 60))
        return delay * (1 - self.jitter * self._random())

    def next(self) -> float:
        self.failures += 1
        return self.delay(self.failures)

    def reset(self) -> None:
        self.failures = 0
