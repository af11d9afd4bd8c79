"""Answers that live on: chunked streams, streamed request bodies, and connections that leave HTTP."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from muster.http import Answer, RawConnection, Request, Response, StreamResponse, StreamWriter, Takeover, encode_chunk
from muster.http.protocol import ServerConnection

from .conftest import Serve
from .wire import request


def streaming(run: object, **options: object) -> object:
    async def handle(incoming: Request) -> Answer:
        return StreamResponse(200, [("Content-Type", "text/plain")], run, **options)  # type: ignore[arg-type]

    return handle


async def test_the_head_and_each_chunk_leave_at_once_and_the_connection_goes_on(serve: Serve) -> None:
    gate: asyncio.Queue[bytes] = asyncio.Queue()

    async def run(writer: StreamWriter) -> None:
        while data := await gate.get():
            writer.write(data)

    peer = await (await serve(streaming(run))).peer()
    peer.send(request("GET", "/"))
    status, headers = await peer.head()
    assert (status, headers["transfer-encoding"]) == (200, "chunked")
    for data in (b"one", b"two"):
        gate.put_nowait(data)
        assert await peer.chunk() == data
    gate.put_nowait(b"")
    assert await peer.chunk() == b""
    gate.put_nowait(b"")
    assert (await peer.get("/again")).body == b""


async def test_chunks_written_in_one_turn_arrive_as_written(serve: Serve) -> None:
    async def run(writer: StreamWriter) -> None:
        writer.write(b"a")
        writer.write(b"")
        writer.write_framed(encode_chunk(b"bb"))
        writer.write_framed(encode_chunk(b"c") + encode_chunk(b"d"))

    peer = await (await serve(streaming(run))).peer()
    peer.send(request("GET", "/"))
    await peer.head()
    assert [await peer.chunk() for _ in range(5)] == [b"a", b"bb", b"c", b"d", b""]


async def test_http_1_0_clients_get_the_stream_without_chunks(serve: Serve) -> None:
    async def run(writer: StreamWriter) -> None:
        writer.write(b"a")
        writer.write_framed(encode_chunk(b"bb") + encode_chunk(b"c"))

    peer = await (await serve(streaming(run))).peer()
    peer.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    reply = await peer.reply()
    assert reply.body == b"abbc"
    assert "transfer-encoding" not in reply.headers


async def test_a_stream_of_known_length_is_sent_raw(serve: Serve) -> None:
    async def run(writer: StreamWriter) -> None:
        for _ in range(3):
            writer.write(b"abc")
            await writer.drain()

    peer = await (await serve(streaming(run, length=9))).peer()
    for _ in range(2):
        reply = await peer.get("/")
        assert (reply.headers["content-length"], reply.body) == ("9", b"abcabcabc")


@pytest.mark.parametrize("failure", ["raises", "short"])
async def test_a_torn_stream_is_cut_and_never_looks_complete(serve: Serve, failure: str, caplog: pytest.LogCaptureFixture) -> None:
    async def run(writer: StreamWriter) -> None:
        writer.write(b"part")
        await writer.drain()
        if failure == "raises":
            raise OSError("upstream broke")

    options = {} if failure == "raises" else {"length": 100}
    peer = await (await serve(streaming(run, **options))).peer()
    peer.send(request("GET", "/"))
    await peer.head()
    with caplog.at_level(logging.CRITICAL, "muster.http"):
        try:
            rest = await peer.rest()
        except ConnectionError:
            rest = b""
    assert not rest.endswith(b"0\r\n\r\n")
    assert len(rest) < 100


async def test_head_of_a_stream_runs_nothing(serve: Serve) -> None:
    discarded = []

    async def run(writer: StreamWriter) -> None:
        raise AssertionError("must not run")

    peer = await (await serve(streaming(run, discard=lambda: discarded.append(True)))).peer()
    peer.send(request("HEAD", "/"))
    assert (await peer.reply(bodiless=True)).status == 200
    assert discarded == [True]


async def test_a_disconnect_cancels_the_stream_and_resolves_closed(serve: Serve) -> None:
    events: asyncio.Queue[str] = asyncio.Queue()

    async def run(writer: StreamWriter) -> None:
        closed = writer.closed
        closed.add_done_callback(lambda _: events.put_nowait(f"closed {writer.is_closed}"))
        try:
            await asyncio.Event().wait()
        finally:
            events.put_nowait("cancelled")

    peer = await (await serve(streaming(run))).peer()
    peer.send(request("GET", "/"))
    await peer.head()
    peer.close()
    async with asyncio.timeout(20):
        assert {await events.get(), await events.get()} == {"cancelled", "closed True"}


async def test_a_disconnect_cancels_a_waiting_handler(serve: Serve) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(incoming: Request) -> Answer:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return Response(200)

    peer = await (await serve(wait)).peer()
    peer.send(request("GET", "/"))
    async with asyncio.timeout(20):
        await started.wait()
        peer.close()
        await cancelled.wait()


async def test_a_slow_consumer_can_be_seen_and_dropped(serve: Serve) -> None:
    dropped = asyncio.Event()

    async def run(writer: StreamWriter) -> None:
        chunk = encode_chunk(b"x" * 65536)
        while writer.buffered < 1_000_000:
            writer.write_framed(chunk)
            await asyncio.sleep(0)
        writer.abort()
        writer.write(b"into the void")
        dropped.set()

    site = await serve(streaming(run))
    peer = await site.peer()
    peer.send(request("GET", "/"))
    async with asyncio.timeout(10):
        await dropped.wait()
    await site.emptied()


async def test_a_stream_that_outgrows_the_bound_is_cut_by_the_server(serve: Serve) -> None:
    async def run(writer: StreamWriter) -> None:
        while not writer.is_closed:
            writer.write(b"x" * 65536)
            await asyncio.sleep(0)

    site = await serve(streaming(run), max_stream_buffer=500_000)
    peer = await site.peer()
    peer.send(request("GET", "/"))
    await peer.head()
    await site.emptied()


async def test_drain_waits_for_a_slow_consumer(serve: Serve) -> None:
    most = 0

    async def run(writer: StreamWriter) -> None:
        nonlocal most
        for _ in range(400):
            writer.write(b"x" * 65536)
            await writer.drain()
            most = max(most, writer.buffered)

    peer = await (await serve(streaming(run))).peer()
    peer.send(request("GET", "/"))
    assert len((await peer.reply()).body) == 400 * 65536
    assert most < 1_000_000


async def test_many_streams_get_one_shared_broadcast(serve: Serve) -> None:
    writers: list[StreamWriter] = []

    async def run(writer: StreamWriter) -> None:
        writers.append(writer)
        await writer.closed

    site = await serve(streaming(run))
    peers = [await site.peer() for _ in range(30)]
    for peer in peers:
        peer.send(request("GET", "/"))
        await peer.head()
    event = encode_chunk(b"event")
    for writer in writers:
        writer.write_framed(event)
        writer.write_framed(event)
    for peer in peers:
        assert [await peer.chunk(), await peer.chunk()] == [b"event", b"event"]


async def test_a_streamed_body_arrives_piece_by_piece_with_backpressure(serve: Serve) -> None:
    go = asyncio.Event()

    async def count(incoming: Request) -> Answer:
        assert incoming.body_stream is not None
        await go.wait()
        total = 0
        async for data in incoming.body_stream:
            total += len(data)
        return Response(200, str(total).encode())

    size = 20 * 1024 * 1024
    peer = await (await serve(count, stream_body=lambda incoming: True, max_body=10)).peer()
    peer.send(request("POST", "/", f"Content-Length: {size}"))
    body = b"x" * size
    taken = await peer.flood(body)
    assert taken < size
    go.set()
    peer.send(body[taken:])
    assert (await peer.reply()).body == str(size).encode()
    peer.send(request("POST", "/", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n")
    assert (await peer.reply()).body == b"3"


async def test_a_streamed_body_is_asked_for_when_it_is_read(serve: Serve) -> None:
    async def choose(incoming: Request) -> Answer:
        assert incoming.body_stream is not None
        if incoming.path == "/no":
            return Response(403)
        return Response(200, await incoming.body_stream.read())

    site = await serve(choose, stream_body=lambda incoming: True)
    willing, refused = await site.peer(), await site.peer()
    for peer, path in ((willing, "/yes"), (refused, "/no")):
        peer.send(request("POST", path, "Expect: 100-continue", "Content-Length: 4"))
    assert (await willing.head())[0] == 100
    willing.send(b"data")
    assert (await willing.reply()).body == b"data"
    reply = await refused.reply()
    assert (reply.status, reply.headers["connection"]) == (403, "close")


async def test_a_streamed_body_that_stalls_is_cut(serve: Serve) -> None:
    failed = asyncio.Event()

    async def read(incoming: Request) -> Answer:
        assert incoming.body_stream is not None
        try:
            async for _ in incoming.body_stream:
                pass
        except (ConnectionResetError, asyncio.CancelledError):
            failed.set()
            raise
        return Response(200)

    peer = await (await serve(read, stream_body=lambda incoming: True, body_timeout=0.2)).peer()
    peer.send(request("POST", "/", "Content-Length: 10") + b"x")
    assert await peer.ended()
    assert failed.is_set()


async def echoing(raw: RawConnection) -> None:
    raw.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n" + raw.initial)
    while data := await raw.read():
        raw.write(data)
        await raw.drain()
    raw.write(b"bye")


async def upgrading(incoming: Request) -> Answer:
    return Takeover(echoing) if incoming.path == "/up" else Response(200, b"plain " + incoming.body)


UPGRADE = ("Connection: Upgrade", "Upgrade: echo")


async def test_a_takeover_owns_the_socket_and_misses_no_byte(serve: Serve) -> None:
    peer = await (await serve(upgrading)).peer()
    peer.send(request("POST", "/up", *UPGRADE, "Content-Length: 0") + b"early ")
    assert (await peer.head())[0] == 101
    peer.send(b"late")
    assert await peer.reader.readexactly(10) == b"early late"


async def test_a_takeover_hears_the_half_close_of_its_client(serve: Serve) -> None:
    peer = await (await serve(upgrading, scheme="http")).peer()
    peer.send(request("GET", "/up", *UPGRADE))
    await peer.head()
    peer.send(b"last words ")
    peer.writer.write_eof()
    assert await peer.rest() == b"last words bye"


async def test_connect_can_be_taken_over(serve: Serve) -> None:
    async def accept(incoming: Request) -> Answer:
        assert (incoming.method, incoming.target, incoming.path) == ("CONNECT", "host:443", "")
        return Takeover(echoing)

    peer = await (await serve(accept)).peer()
    peer.send(request("CONNECT", "host:443") + b"tunnel")
    await peer.head()
    assert await peer.reader.readexactly(6) == b"tunnel"


async def test_an_ignored_upgrade_is_an_ordinary_request(serve: Serve) -> None:
    peer = await (await serve(upgrading)).peer()
    peer.send(request("GET", "/a", *UPGRADE) + request("POST", "/b", *UPGRADE, body=b"body") + request("GET", "/c"))
    assert [(await peer.reply()).body for _ in range(3)] == [b"plain ", b"plain body", b"plain "]


async def test_an_upgrade_with_a_chunked_body_is_not_offered_the_socket(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    peer = await (await serve(upgrading)).peer()
    peer.send(request("POST", "/up", *UPGRADE, "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n")
    with caplog.at_level(logging.CRITICAL, "muster.http"):
        assert (await peer.reply()).status == 500
    peer.send(request("POST", "/x", *UPGRADE, "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n")
    assert (await peer.reply()).body == b"plain abc"


async def test_a_takeover_of_a_request_that_did_not_ask_is_an_error(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    peer = await (await serve(upgrading)).peer()
    with caplog.at_level(logging.CRITICAL, "muster.http"):
        assert (await peer.get("/up")).status == 500


async def test_a_connection_that_was_taken_over_needs_no_garbage_collector(serve: Serve) -> None:
    """Or terminals and tunnels that come and go would take memory until what has lived long is looked at."""

    def alive() -> int:
        return sum(isinstance(one, ServerConnection) for one in gc.get_objects())

    server = await serve(upgrading)
    gc.collect()
    before = alive()
    gc.disable()
    try:
        peer = await server.peer()
        peer.send(request("GET", "/up", *UPGRADE))
        await peer.head()
        assert alive() == before + 1
        peer.close()
        async with asyncio.timeout(20):
            while alive() > before:  # noqa: ASYNC110  # what is waited for has no event
                await asyncio.sleep(0.01)
    finally:
        gc.enable()
