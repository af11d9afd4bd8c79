"""Waiting for news, for work or for time, whichever comes first."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from muster.machinery.clock import pause, within
from tests.support.fake_clock import FakeClock, settle


async def test_a_pause_ends_with_its_time() -> None:
    clock, news = FakeClock(), asyncio.Event()
    waiting = asyncio.create_task(pause(clock, news, 10))
    await clock.advance(9)
    assert not waiting.done()
    await clock.advance(1)
    assert waiting.done()
    assert not news.is_set()


async def test_news_ends_a_pause_and_is_heard_once() -> None:
    clock, news = FakeClock(), asyncio.Event()
    waiting = asyncio.create_task(pause(clock, news, 10))
    await settle()
    news.set()
    await settle()
    assert waiting.done()
    assert not news.is_set()
    assert clock.pending == []


async def test_news_from_before_ends_a_pause_at_once() -> None:
    clock, news = FakeClock(), asyncio.Event()
    news.set()
    await pause(clock, news, None)
    assert not news.is_set()


async def lingering(end: asyncio.Event) -> None:
    """Never ends by itself, and when it is cancelled not at once either."""
    try:
        await asyncio.Event().wait()
    finally:
        await end.wait()


AsWork = Callable[[Coroutine[Any, Any, None]], Awaitable[object]]


def alone(work: Coroutine[Any, Any, None]) -> Awaitable[object]:
    return work


def gathered(work: Coroutine[Any, Any, None]) -> Awaitable[object]:
    return asyncio.gather(work)


async def test_work_has_so_much_time_and_no_more() -> None:
    clock = FakeClock()
    assert await within(clock, 10, asyncio.sleep(0, "done")) == "done"
    waiting = asyncio.create_task(within(clock, 10, asyncio.Event().wait()))
    await clock.advance(10)
    with pytest.raises(TimeoutError, match="no end within 10 s"):
        await waiting
    assert clock.pending == []


@pytest.mark.parametrize("as_work", [alone, gathered])
async def test_who_is_cancelled_while_overdue_work_ends_is_cancelled(as_work: AsWork) -> None:
    clock = FakeClock()
    waiting = asyncio.create_task(within(clock, 10, as_work(lingering(asyncio.Event()))))
    await clock.advance(10)
    assert not waiting.done()
    waiting.cancel()
    await settle()
    assert waiting.cancelled()


@pytest.mark.parametrize("as_work", [alone, gathered])
async def test_who_is_cancelled_before_the_time_is_over_is_cancelled(as_work: AsWork) -> None:
    clock = FakeClock()
    waiting = asyncio.create_task(within(clock, 10, as_work(lingering(asyncio.Event()))))
    await clock.advance(9)
    waiting.cancel()
    await clock.advance(1)
    assert waiting.cancelled()
    assert clock.pending == []


async def test_a_cancellation_from_before_is_no_news() -> None:
    """What cleans up after a cancellation has its time like everybody."""
    clock = FakeClock()

    async def cleaning() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            with pytest.raises(TimeoutError):
                await within(clock, 10, asyncio.Event().wait())
        return "clean"

    waiting = asyncio.create_task(cleaning())
    await settle()
    waiting.cancel()
    await clock.advance(10)
    assert await waiting == "clean"
