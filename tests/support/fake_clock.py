"""A clock that stands still until a test moves it."""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """Satisfies `muster.machinery.clock.Clock`. `advance` fires what falls due, in order, and lets tasks run in between."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, FakeTimer]] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    def call_later(self, seconds: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(callback)
        heapq.heappush(self._timers, (self._elapsed + seconds, next(self._order), timer))
        return timer

    @property
    def pending(self) -> list[float]:
        """When the timers that are still wanted fall due, in seconds from now."""
        return sorted(due - self._elapsed for due, _, timer in self._timers if timer.callback)

    async def advance(self, seconds: float) -> None:
        end = self._elapsed + seconds
        await settle()
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                self._elapsed = max(self._elapsed, due)
                timer.callback()
                await settle()
        self._elapsed = end
        await settle()


async def settle(turns: int = 50) -> None:
    """Let every task that can run do so."""
    for _ in range(turns):
        await asyncio.sleep(0)
