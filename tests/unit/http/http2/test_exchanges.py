"""What a server does with well-formed requests, and how connections end in peace."""

from __future__ import annotations

import asyncio

import pytest

from muster.http.http2 import frames
from muster.http.http2.frames import ErrorCode
from muster.http.http2.server import BEGUN_PER_TURN

from .conftest import ANSWER, Connect, Serve, until


async def test_a_request_is_answered_with_head_data_and_trailers(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    peer.request(1)
    head, data, trailers = await peer.answer(1)
    assert (head[b":status"], data, trailers) == (b"200", ANSWER, {b"end": b"yes"})
    assert site.server.streams == 0


async def test_everything_that_comes_in_one_read_is_there_when_a_request_begins(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    peer.send(
        frames.headers(1, peer.block(), end=False),
        frames.frame(frames.DATA, 0, 1, b"abc"),
        frames.frame(frames.DATA, frames.END_STREAM, 1, b"def"),
    )
    await peer.answer(1)
    assert site.exchanges[0].received == b"abcdef"


async def test_a_request_in_single_bytes_is_understood(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site, greet=False)
    peer.writer.transport.set_write_buffer_limits(0)
    for byte in frames.PREFACE + frames.settings(()) + frames.headers(1, peer.block(), end=True):
        peer.send(bytes((byte,)))
        await peer.writer.drain()
        await asyncio.sleep(0)
    assert (await peer.answer(1))[1] == ANSWER


async def test_a_head_in_pieces_and_padding_are_understood(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    block = peer.block()
    padded = bytes((3,)) + block[:5] + b"\0\0\0"
    peer.send(
        frames.frame(frames.HEADERS, frames.PADDED, 1, padded),
        frames.frame(frames.CONTINUATION, 0, 1, block[5:9]),
        frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, block[9:]),
        frames.frame(frames.DATA, frames.PADDED | frames.END_STREAM, 1, bytes((200,)) + b"data" + bytes(200)),
    )
    assert (await peer.answer(1))[1] == ANSWER
    assert site.exchanges[0].received == b"data"


async def test_request_trailers_are_handed_over(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    peer.request(1, end=False)
    peer.send(frames.headers(1, peer.encoder.encode([(b"checksum", b"1")]), end=True))
    await peer.answer(1)
    assert site.exchanges[0].trailers == [(b"checksum", b"1")]


async def test_what_a_turn_produced_leaves_in_one_write(serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    site = await serve()
    peer = await connect(site)
    peer.request(1)
    await peer.answer(1)
    connection = next(iter(site.server._acceptor.connections))
    writes: list[int] = []
    transport = connection._transport

    class Counting:
        def write(self, data: bytes) -> None:
            writes.append(len(data))
            transport.write(data)

        def __getattr__(self, name: str) -> object:
            return getattr(transport, name)

    connection._transport = Counting()
    peer.send(b"".join([frames.headers(number, peer.block(), end=True) for number in range(3, 33, 2)]))
    for number in range(3, 33, 2):
        await peer.answer(number)
    assert len(writes) == 1


async def test_a_client_gets_a_few_requests_per_turn(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    peer.send(b"".join([frames.headers(number, peer.block(), end=True) for number in range(1, 61, 2)]))
    begun: list[int] = []
    async with asyncio.timeout(10):
        while sum(one.begun for one in site.exchanges) < 30:
            begun.append(sum(one.begun for one in site.exchanges))
            await asyncio.sleep(0)
    assert BEGUN_PER_TURN in begun
    for number in range(1, 61, 2):
        await peer.answer(number)


async def test_data_wait_for_the_streams_window_and_end_in_order(serve: Serve, connect: Connect) -> None:
    site = await serve()
    site.answer = bytes(range(256)) * 100
    peer = await connect(site, settings=((frames.INITIAL_WINDOW_SIZE, 1000),))
    peer.request(1)
    await peer.until(frames.HEADERS)
    received = (await peer.until(frames.DATA))[3]
    assert len(received) == 1000
    assert site.exchanges[0].stream.unsent == len(site.answer) - 1000
    peer.send(frames.window_update(1, len(site.answer)))
    _, rest, _ = await peer.answer(1)
    assert received + rest == site.answer
    assert site.exchanges[0].stream.unsent == 0


async def test_the_connections_window_is_shared_fairly(serve: Serve, connect: Connect) -> None:
    site = await serve()
    site.answer = b"x" * 60_000
    peer = await connect(site, settings=((frames.INITIAL_WINDOW_SIZE, 1 << 20),))
    for number in (1, 3, 5):
        peer.request(number)
    await until(lambda: len(site.exchanges) == 3 and site.exchanges[2].stream.unsent == 60_000)
    for _ in range(3):
        peer.send(frames.window_update(0, 50_000))
        await asyncio.sleep(0.01)
    await until(lambda: not site.server.streams)


async def test_a_larger_first_window_lets_waiting_data_go(serve: Serve, connect: Connect) -> None:
    site = await serve()
    site.answer = b"x" * 5000
    peer = await connect(site, settings=((frames.INITIAL_WINDOW_SIZE, 0),))
    peer.request(1)
    await until(lambda: site.exchanges and site.exchanges[0].stream.unsent == 5000)
    peer.send(frames.settings(((frames.INITIAL_WINDOW_SIZE, 10_000),)))
    assert (await peer.answer(1))[1] == site.answer


async def test_an_answer_before_the_request_ended_resets_the_rest(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    peer.request(1, end=False)
    await until(lambda: site.exchanges)
    site.exchanges[0]._answer()
    await peer.answer(1)
    assert await peer.reset(1) == ErrorCode.NO_ERROR
    peer.send(frames.frame(frames.DATA, 0, 1, b"on its way"))
    peer.request(3)
    assert (await peer.answer(3))[1] == ANSWER


async def test_windows_are_opened_again_as_data_are_consumed(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    peer.request(1, end=False)
    allowed = frames.DEFAULT_WINDOW
    for _ in range(20):
        while allowed < 16_000:
            *_, increment = await peer.until(frames.WINDOW_UPDATE, 0)
            allowed += int.from_bytes(increment, "big")
        peer.send(frames.frame(frames.DATA, 0, 1, b"x" * 16_000))
        allowed -= 16_000
    peer.send(frames.frame(frames.DATA, frames.END_STREAM, 1, b""))
    await peer.answer(1)
    assert len(site.exchanges[0].received) == 320_000


async def test_more_than_the_window_is_an_error(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    peer.request(1, b"/", end=False)
    await until(lambda: site.exchanges)
    site.exchanges[0].data_received = lambda data: None  # type: ignore[method-assign]
    for _ in range(5):
        peer.send(frames.frame(frames.DATA, 0, 1, b"x" * 16_000))
    code, _ = await peer.goaway()
    assert code == ErrorCode.FLOW_CONTROL_ERROR


# The end


async def test_draining_finishes_what_runs_and_refuses_what_comes_later(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    peer.request(1, b"/hold")
    await until(lambda: site.exchanges)
    draining = asyncio.create_task(site.server.drain(10))
    *_, first = await peer.until(frames.GOAWAY)
    assert int.from_bytes(first[:4], "big") == frames.LARGEST_STREAM
    peer.request(3)  # it crossed the announcement
    ping = (await peer.until(frames.PING))[3]
    peer.send(frames.ping(ping, ack=True))
    *_, second = await peer.until(frames.GOAWAY)
    assert int.from_bytes(second[:4], "big") == 3
    peer.request(5)
    await asyncio.sleep(0.05)
    assert len(site.exchanges) == 2
    assert not draining.done()
    site.exchanges[0].path = b"/"
    site.exchanges[0]._answer()
    assert (await peer.answer(1))[1] == ANSWER
    await peer.closed()
    await draining


async def test_a_connection_of_its_age_is_drained(serve: Serve, connect: Connect) -> None:
    site = await serve(max_connection_age=0.2)
    peer = await connect(site)
    code, _ = await peer.goaway()
    assert code == ErrorCode.NO_ERROR
    ping = (await peer.until(frames.PING))[3]
    peer.send(frames.ping(ping, ack=True))
    await peer.closed()


async def test_a_stop_says_so_and_closes(serve: Serve, connect: Connect) -> None:
    site = await serve()
    peer = await connect(site)
    peer.request(1, b"/hold")
    await until(lambda: site.exchanges)
    await site.server.stop()
    assert (await peer.goaway())[0] == ErrorCode.NO_ERROR
    await peer.closed()
    assert site.exchanges[0].reset == "connection"
