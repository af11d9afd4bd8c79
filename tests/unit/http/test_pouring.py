"""Bytes that are handed on as they come, without waking a reader for each piece."""

from __future__ import annotations

import asyncio

import pytest

from muster.http.stream import Inbox


class Socket:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.asked: list[str] = []

    def pause_reading(self) -> None:
        self.asked.append("pause")

    def resume_reading(self) -> None:
        self.asked.append("resume")


class Sink:
    def __init__(self, *, wants: int = 1_000_000) -> None:
        self.got: list[bytes] = []
        self.wants = wants

    def __call__(self, data: bytes) -> bool:
        self.got.append(data)
        self.wants -= len(data)
        return self.wants > 0


async def begun(inbox: Inbox, sink: Sink) -> asyncio.Task[bool]:
    pouring = asyncio.create_task(inbox.drain_into(sink))
    await asyncio.sleep(0)
    return pouring


async def test_pieces_reach_the_sink_at_once_and_in_order_and_the_end_is_told() -> None:
    inbox, sink = Inbox(Socket()), Sink()
    inbox.feed(b"early")
    pouring = await begun(inbox, sink)
    for piece in (b"one", b"two"):
        inbox.feed(piece)
        assert sink.got[-1] == piece
    inbox.feed_eof()
    assert await pouring is False
    assert sink.got == [b"early", b"one", b"two"]


async def test_a_sink_that_wants_no_more_gets_no_more_until_it_asks_again() -> None:
    socket = Socket()
    inbox, sink = Inbox(socket), Sink(wants=3)
    pouring = await begun(inbox, sink)
    inbox.feed(b"abc")
    inbox.feed(b"x" * 100_000)
    assert await pouring is True
    assert sink.got == [b"abc"]
    assert socket.asked[-1] == "pause"
    sink.wants = 1_000_000
    again = await begun(inbox, sink)
    assert sink.got == [b"abc", b"x" * 100_000]
    assert socket.asked[-1] == "resume"
    inbox.feed_eof()
    assert await again is False


async def test_what_came_before_a_torn_end_is_handed_on_before_the_error() -> None:
    inbox, sink = Inbox(Socket()), Sink(wants=1)
    pouring = await begun(inbox, sink)
    inbox.feed(b"first")
    inbox.feed(b"last")
    inbox.feed_eof(ConnectionResetError("torn"))
    assert await pouring is True
    sink.wants = 1_000_000
    with pytest.raises(ConnectionResetError, match="torn"):
        await inbox.drain_into(sink)
    assert sink.got == [b"first", b"last"]


async def test_a_sink_that_fails_is_the_readers_trouble_and_not_the_feeders() -> None:
    def fails(data: bytes) -> bool:
        raise ValueError("more than was announced")

    inbox = Inbox(Socket())
    pouring = asyncio.create_task(inbox.drain_into(fails))
    await asyncio.sleep(0)
    inbox.feed(b"data")
    with pytest.raises(ValueError, match="announced"):
        await pouring


async def test_a_reader_that_is_cancelled_leaves_later_bytes_to_the_next_one() -> None:
    inbox, sink = Inbox(Socket()), Sink()
    pouring = await begun(inbox, sink)
    pouring.cancel()
    await asyncio.wait([pouring])
    inbox.feed(b"later")
    assert sink.got == []
    assert await inbox.take() == b"later"
