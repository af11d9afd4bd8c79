"""Eventual consistency: a new role is visible in IAM at once, and later in STS and EKS.

The previous value is kept until the change is visible. Without a lag nothing is kept.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from muster.machinery.clock import Clock

V = TypeVar("V")


class Visibility(Generic[V]):
    def __init__(self, clock: Clock) -> None:
        self.lag = 0.0
        """Seconds."""
        self._clock = clock
        self._before: dict[str, list[tuple[float, V | None]]] = {}

    def changing(self, key: str, before: V | None) -> None:
        """Called before each change."""
        if self.lag > 0:
            self._before.setdefault(key, []).append((self._clock.monotonic() + self.lag, before))

    def pending(self) -> list[str]:
        """Keys for which other services may see a previous value."""
        return list(self._before)

    def seen(self, key: str, present: V | None) -> V | None:
        """The value that other services see now."""
        pending = self._before.get(key)
        if pending is None:
            return present
        now = self._clock.monotonic()
        pending[:] = [(until, value) for until, value in pending if until > now]
        if pending:
            return pending[0][1]
        del self._before[key]
        return present
