"""The backoff before a Job replaces failed pods: 10 seconds, doubled with each failure since the last success.

As in the real controller, the count is in memory: after a restart there is no backoff.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.fleet.workloads.jobs.pods import finished_at
from muster.machinery.objects import Object

FIRST_DELAY: Final = 10.0
LONGEST_DELAY: Final = 600.0


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures since the last success."""

    count: int = 0
    last: datetime | None = None

    def after(self, succeeded: Iterable[Object], failed: Iterable[Object]) -> Failures:
        """With pods that have ended since."""
        successes, ends = [finished_at(pod) for pod in succeeded], sorted(finished_at(pod) for pod in failed)
        if not successes:
            return Failures(self.count + len(ends), ends[-1]) if ends else self
        later = [end for end in ends if end > max(successes)]
        return Failures(len(later), later[-1] if later else None)

    def remaining(self, now: datetime) -> float:
        """Seconds that are left to wait."""
        return remaining_delay(self.count, self.last, now)


def remaining_delay(failures: int, last: datetime | None, now: datetime) -> float:
    if not failures or last is None:
        return 0.0
    delay = min(FIRST_DELAY * 2.0 ** min(failures - 1, 10), LONGEST_DELAY)
    return max(delay - (now - last).total_seconds(), 0.0)
