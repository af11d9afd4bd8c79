"""Clock and randomness as parameters: lifetimes, leases and backoffs are tested without waiting.

A `Clock` has wall time (`now`, always UTC), a monotonic time (`monotonic`), and timers. All waiting uses the clock that was passed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol, TypeVar

T = TypeVar("T")
Random = Callable[[], float]
"""A number in [0, 1)."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer: ...


class SystemClock:
    """The machine's clock and the event loop's timers."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


SYSTEM = SystemClock()


async def sleep(clock: Clock, seconds: float) -> None:
    if seconds <= 0:
        await asyncio.sleep(0)
        return
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not done.done():
            done.set_result(None)

    timer = clock.call_later(seconds, wake)
    try:
        await done
    finally:
        timer.cancel()


async def pause(clock: Clock, news: asyncio.Event, seconds: float | None) -> None:
    """Wait until the event is set or the time has passed (None: no timeout); the event is cleared."""
    timer = None
    try:
        if seconds is not None and seconds <= 0:
            await asyncio.sleep(0)
            return
        timer = None if seconds is None else clock.call_later(seconds, news.set)
        await news.wait()
    finally:
        if timer is not None:
            timer.cancel()
        news.clear()


async def within(clock: Clock, seconds: float, work: Awaitable[T]) -> T:
    """The result of `work`; TimeoutError when the time has passed by this clock. `work` is cancelled then.

    Cancelled work takes a moment to end. If the caller is cancelled in that moment too, CancelledError is raised: with a
    TimeoutError the cancellation would be lost, and a task that retries after a timeout would never end.
    """
    task = asyncio.ensure_future(work)
    caller = asyncio.current_task()
    assert caller is not None, "a task awaits this"
    cancellations = caller.cancelling()
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = not task.done()
        task.cancel()

    timer = clock.call_later(seconds, expire)
    try:
        return await task
    except asyncio.CancelledError:
        if not expired or caller.cancelling() > cancellations:
            task.cancel()
            raise
        raise TimeoutError(f"no end within {seconds:g} s") from None
    finally:
        timer.cancel()
