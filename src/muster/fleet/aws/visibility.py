"""Changes that others see later: a role that was made a moment ago is there for IAM, and not yet for STS and EKS.

What was before a change is remembered until the change is to be seen. Nothing is remembered while there is no lag.
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
        """Keys of which others may see something else than what is there."""
        return list(self._before)

    def seen(self, key: str, present: V | None) -> V | None:
        """What others see of it now."""
        pending = self._before.get(key)
        if pending is None:
            return present
        now = self._clock.monotonic()
        pending[:] = [(until, value) for until, value in pending if until > now]
        if pending:
            return pending[0][1]
        del self._before[key]
        return present
