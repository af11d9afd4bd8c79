"""The one exponential backoff of the house: the delay grows up to a ceiling, and a share of it is drawn at random, so that a fleet
that lost its server does not return in one wave.
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
        """How long to wait after so many failures (one at least)."""
        # Beyond 60 doublings every sensible ceiling is reached; the bound keeps the power from overflowing.
        delay = min(self.maximum, self.initial * self.factor ** min(failures - 1, 60))
        return delay * (1 - self.jitter * self._random())

    def next(self) -> float:
        self.failures += 1
        return self.delay(self.failures)

    def reset(self) -> None:
        self.failures = 0
