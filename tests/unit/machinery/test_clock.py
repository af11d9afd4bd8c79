"""Waiting for news or for time, whichever comes first."""

import asyncio

from muster.machinery.clock import pause
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
