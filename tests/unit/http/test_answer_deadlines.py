"""How long a connection waits for an answer: each exchange has a time of its own, though one timer serves them all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from muster.http import UpstreamError
from muster.http.upstream import UpstreamConnection
from tests.support.eventually import eventually

from .test_asking_others import Wire

GET = b"GET / HTTP/1.1\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Timers:
    """Counts the loop's timers that connections set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.set = 0
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def counted(delay: float, callback: Callable[..., object], *arguments: object, **options: Any) -> asyncio.TimerHandle:
            self.set += getattr(callback, "__self__", None).__class__ is UpstreamConnection
            return call_later(delay, callback, *arguments, **options)

        monkeypatch.setattr(loop, "call_later", counted)


def connected() -> UpstreamConnection:
    connection = UpstreamConnection(asyncio.get_running_loop(), "test")
    connection.connection_made(Wire())  # type: ignore[arg-type]
    return connection


def say(connection: UpstreamConnection, data: bytes) -> None:
    connection.get_buffer(len(data))[: len(data)] = data
    connection.buffer_updated(len(data))


async def exchange(connection: UpstreamConnection, seconds: float, *, head: bool = False) -> bytes:
    """One that is answered in the next turn of the loop."""
    connection.exchange(GET, bodiless=head)
    asyncio.get_running_loop().call_soon(say, connection, ANSWER[:-2] if head else ANSWER)
    assert (await connection.answer_within(seconds)).status == 200
    return await connection.whole_body()


async def unanswered(connection: UpstreamConnection, seconds: float) -> float:
    connection.exchange(GET, bodiless=False)
    began = time.monotonic()
    with pytest.raises(UpstreamError, match=f"no answer within {seconds:g} s"):
        await connection.answer_within(seconds)
    return time.monotonic() - began


async def test_many_answered_exchanges_share_one_timer() -> None:
    connection = connected()
    with pytest.MonkeyPatch.context() as patched:
        timers = Timers(patched)
        for _ in range(50):
            assert await exchange(connection, 60.0) == b"ok"
        assert timers.set == 1


async def test_an_exchange_that_is_not_answered_ends_after_its_own_time_though_an_earlier_one_had_more() -> None:
    connection = connected()
    await exchange(connection, 60.0)
    assert 0.05 <= await unanswered(connection, 0.05) < 10


async def test_the_timer_of_an_earlier_exchange_does_not_end_a_later_one_early() -> None:
    connection = connected()
    await exchange(connection, 0.1)
    await asyncio.sleep(0.05)
    assert await unanswered(connection, 0.2) >= 0.2


async def test_a_timer_that_rings_while_nothing_is_waited_for_does_nothing() -> None:
    connection = connected()
    with pytest.MonkeyPatch.context() as patched:
        timers = Timers(patched)
        await exchange(connection, 0.01)

        async def has_rung() -> bool:
            return connection._timer is None

        await eventually(has_rung, "the timer to ring", timeout=10, poll=0.005)
        assert timers.set == 1
    assert await exchange(connection, 0.5) == b"ok"


async def test_a_lost_connection_leaves_no_timer() -> None:
    connection = connected()
    await exchange(connection, 60.0)
    connection.connection_lost(None)
    assert connection._timer is None
    connection.exchange(GET, bodiless=False)
    with pytest.raises(UpstreamError, match="closed"):
        await connection.answer_within(60.0)
    assert connection._timer is None


async def test_answers_without_and_with_a_body_are_told_apart_on_one_connection() -> None:
    connection = connected()
    for head in (True, False, False, True, True, False):
        assert await exchange(connection, 60.0, head=head) == (b"" if head else b"ok")
        assert connection.settled
