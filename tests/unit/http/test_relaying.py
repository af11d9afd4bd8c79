"""The relay: what passes, what does not, how fast one side may run ahead, and what happens when an upstream fails."""

from __future__ import annotations

import asyncio

import pytest

from muster.http import (
    Answer,
    RawConnection,
    Request,
    Response,
    StreamResponse,
    StreamWriter,
    Takeover,
    UpstreamPool,
    encode_chunk,
    relay,
)

from .conftest import OK, Front, Serve, describe, quiet
from .wire import request


async def test_a_small_request_and_its_answer_pass(serve: Serve, front: Front, pool: UpstreamPool) -> None:
    upstream = await serve(describe)
    peer = await (await front(upstream.port)).peer()
    for _ in range(3):
        reply = await peer.get("/a%2Fb?c=%20", "X-Mine: 1", "Connection: X-Secret", "X-Secret: s", "TE: trailers")
        lines = reply.body.decode().splitlines()
        assert reply.status == 201
        assert lines[0] == "GET /a%2Fb?c=%20"
        assert {"x-mine=1", "x-relayed=yes", "host=test"} <= set(lines)
        assert not [line for line in lines if line.startswith(("x-secret", "connection", "te="))]
    assert upstream.server.connections == 1
    assert pool.idle == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_request_bodies_pass_streamed_or_buffered(serve: Serve, front: Front, stream: bool) -> None:
    upstream = await serve(describe)
    peer = await (await front(upstream.port, stream=stream)).peer()
    peer.send(request("POST", "/l", body=b"with length"))
    assert (await peer.reply()).body.endswith(b"\nwith length")
    peer.send(request("POST", "/c", "Transfer-Encoding: chunked") + encode_chunk(b"in ") + encode_chunk(b"chunks") + b"0\r\n\r\n")
    assert (await peer.reply()).body.endswith(b"\nin chunks")
    peer.send(request("POST", "/e", "Expect: 100-continue", "Content-Length: 2"))
    assert (await peer.head())[0] == 100
    peer.send(b"ok")
    reply = await peer.reply()
    assert reply.body.endswith(b"\nok")
    assert b"expect" not in reply.body


async def test_head_and_not_modified_keep_their_length(serve: Serve, front: Front) -> None:
    async def sized(incoming: Request) -> Answer:
        if incoming.method == "HEAD":
            return Response(200, b"x" * 77)
        return Response(304, headers=[("Content-Length", "78")])

    peer = await (await front((await serve(sized)).port)).peer()
    peer.send(request("HEAD", "/") + request("GET", "/"))
    lengths = [(await peer.reply(bodiless=True)).headers["content-length"] for _ in range(2)]
    assert lengths == ["77", "78"]


async def test_a_head_request_with_a_body_leaves_a_good_connection(serve: Serve, front: Front, pool: UpstreamPool) -> None:
    async def measure(incoming: Request) -> Answer:
        return Response(200, b"x" * 7)

    peer = await (await front((await serve(measure)).port)).peer()
    for _ in range(2):
        peer.send(request("HEAD", "/", body=b"why"))
        reply = await peer.reply(bodiless=True)
        assert (reply.status, reply.headers["content-length"]) == (200, "7")
        assert pool.idle == 1


async def test_large_bodies_flow_at_the_pace_of_the_slower_side(serve: Serve, front: Front) -> None:
    size = 30 * 1024 * 1024
    received = 0

    async def swallow(incoming: Request) -> Answer:
        nonlocal received
        if incoming.method == "GET":
            return Response(200, [b"y" * 65536] * (size // 65536))
        assert incoming.body_stream is not None
        async for data in incoming.body_stream:
            received += len(data)
        return Response(200, str(received).encode())

    upstream = await serve(swallow, stream_body=lambda incoming: True)
    peer = await (await front(upstream.port)).peer()
    peer.send(request("PUT", "/", f"Content-Length: {size}"))
    peer.send(b"x" * size)
    assert (await peer.reply()).body == str(size).encode()
    peer.send(request("GET", "/"))
    _, headers = await peer.head()
    assert headers["content-length"] == str(size)
    assert len(await peer.reader.readexactly(size)) == size
    assert (await peer.get("/")).status == 200


async def test_an_upstream_that_does_not_read_slows_the_client_down(serve: Serve, front: Front) -> None:
    go = asyncio.Event()

    async def lazy(incoming: Request) -> Answer:
        assert incoming.body_stream is not None
        await go.wait()
        total = 0
        async for data in incoming.body_stream:
            total += len(data)
        return Response(200, str(total).encode())

    size = 60 * 1024 * 1024
    peer = await (await front((await serve(lazy, stream_body=lambda incoming: True)).port)).peer()
    peer.send(request("PUT", "/", f"Content-Length: {size}"))
    body = b"x" * size
    taken = await peer.flood(body)
    assert taken < size
    go.set()
    peer.send(body[taken:])
    assert (await peer.reply()).body == str(size).encode()


async def test_chunks_of_a_watch_pass_at_once_and_its_end_reaches_the_upstream(serve: Serve, front: Front) -> None:
    gate: asyncio.Queue[bytes] = asyncio.Queue()
    ended = asyncio.Event()

    async def run(writer: StreamWriter) -> None:
        try:
            while True:
                writer.write(await gate.get())
        finally:
            ended.set()

    async def watch(incoming: Request) -> Answer:
        return StreamResponse(200, [("Content-Type", "application/json")], run)

    peer = await (await front((await serve(watch)).port)).peer()
    peer.send(request("GET", "/?watch=1"))
    assert (await peer.head())[1]["content-type"] == "application/json"
    for event in (b"one", b"two"):
        gate.put_nowait(event)
        assert await peer.chunk() == event
    peer.close()
    async with asyncio.timeout(20):
        await ended.wait()


async def test_an_upgrade_is_spliced_with_the_bytes_that_came_early(serve: Serve, front: Front) -> None:
    async def shout(raw: RawConnection) -> None:
        raw.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream: v4\r\n\r\nhello ")
        raw.write(raw.initial.upper())
        while data := await raw.read():
            raw.write(data.upper())
            await raw.drain()

    async def upgrade(incoming: Request) -> Answer:
        assert incoming.headers.get("upgrade") == "SPDY/3.1"
        return Takeover(shout) if incoming.path == "/up" else Response(403, b"not you")

    site = await front((await serve(upgrade)).port)
    peer = await site.peer()
    fields = ("Connection: Upgrade", "Upgrade: SPDY/3.1")
    peer.send(request("POST", "/up", *fields, "Content-Length: 0") + b"early ")
    status, headers = await peer.head()
    assert (status, headers["upgrade"], headers["x-stream"]) == (101, "SPDY/3.1", "v4")
    large = b"x" * 3_000_000
    peer.send(large)
    assert await peer.reader.readexactly(12 + len(large)) == b"hello EARLY " + large.upper()

    refused = await site.peer()
    refused.send(request("POST", "/no", *fields, "Content-Length: 0") + request("POST", "/no", *fields))
    assert [(await refused.reply())[::2] for _ in range(2)] == [(403, b"not you")] * 2


async def test_half_close_travels_through_a_splice_in_the_clear(serve: Serve, front: Front) -> None:
    async def collect(raw: RawConnection) -> None:
        raw.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
        got = raw.initial
        while data := await raw.read():
            got += data
        raw.write(b"got " + got)

    async def upgrade(incoming: Request) -> Answer:
        return Takeover(collect)

    upstream = await serve(upgrade, scheme="http")
    peer = await (await front(upstream.port, tls=None)).peer()
    peer.send(request("GET", "/", "Connection: Upgrade", "Upgrade: x"))
    await peer.head()
    peer.send(b"all")
    if peer.writer.can_write_eof():
        peer.writer.write_eof()
        assert await peer.rest() == b"got all"
    else:
        peer.close()
        await upstream.emptied()


async def test_either_side_that_goes_ends_a_splice(serve: Serve, front: Front) -> None:
    ended: asyncio.Queue[str] = asyncio.Queue()

    async def linger(raw: RawConnection) -> None:
        raw.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
        first = raw.initial or await raw.read()
        if first == b"go":
            raw.write(b"bye")
            return
        while await raw.read():
            pass
        ended.put_nowait("upstream saw the end")

    async def upgrade(incoming: Request) -> Answer:
        return Takeover(linger)

    site = await front((await serve(upgrade)).port)
    leaving, left = await site.peer(), await site.peer()
    for peer in (leaving, left):
        peer.send(request("GET", "/", "Connection: Upgrade", "Upgrade: x"))
        await peer.head()
    leaving.send(b"stay")
    left.send(b"go")
    assert await left.reader.readexactly(3) == b"bye"
    if left.writer.can_write_eof():
        left.writer.write_eof()
    assert await left.ended()
    leaving.close()
    async with asyncio.timeout(20):
        await ended.get()


async def test_an_upload_the_upstream_refuses_early_gets_that_refusal(serve: Serve, front: Front) -> None:
    async def refuse(incoming: Request) -> Answer:
        return Response(413, b"too much")

    upstream = await serve(refuse, stream_body=lambda incoming: True)
    peer = await (await front(upstream.port)).peer()
    peer.send(request("PUT", "/", "Content-Length: 5000000"))
    peer.send(b"x" * 5_000_000)
    assert (await peer.reply()).status == 413


@pytest.mark.parametrize("field", ["Content-Length: 2000", "Transfer-Encoding: chunked"])
async def test_uploads_beyond_the_relays_bound_are_refused(serve: Serve, front: Front, field: str) -> None:
    upstream = await serve(describe)
    peer = await (await front(upstream.port, max_body=1000)).peer()
    body = b"x" * 2000 if "Length" in field else encode_chunk(b"x" * 2000) + b"0\r\n\r\n"
    peer.send(request("PUT", "/", field) + body)
    assert (await peer.reply()).status == 413


async def test_what_the_caller_passes_cannot_smuggle_a_second_request(pool: UpstreamPool, serve: Serve) -> None:
    async def forward(incoming: Request) -> Answer:
        bad = incoming.path == "/path"
        return await relay(
            incoming,
            pool=pool,
            host="127.0.0.1",
            port=1,
            path="/a b" if bad else "/",
            headers=[("X", "y" if bad else "y\r\nZ: z")],
        )

    peer = await (await serve(forward, on_error=quiet)).peer()
    assert b"ValueError" in (await peer.get("/path")).body
    assert b"ValueError" in (await peer.get("/field")).body


async def test_an_address_of_ip_version_6_is_named_in_brackets(pool: UpstreamPool, serve: Serve) -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        writer.close()

    try:
        server = await asyncio.start_server(answer, "::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6")
    port = server.sockets[0].getsockname()[1]

    async def forward(incoming: Request) -> Answer:
        return await relay(incoming, pool=pool, host="::1", port=port, path="/", headers=[])

    async with server:
        peer = await (await serve(forward, on_error=quiet)).peer()
        assert (await peer.get("/")).body == b"ok"
    assert f"Host: [::1]:{port}\r\n".encode() in heads[0]


async def test_idle_connections_are_bounded_and_dropped_after_a_while(serve: Serve) -> None:
    pool = UpstreamPool(max_idle=2, idle_timeout=0.2)
    upstream = await serve(describe, scheme="http")
    key = ("127.0.0.1", upstream.port, None, None)
    connections = [await pool.connect(key, 5) for _ in range(4)]
    for connection in connections:
        connection.exchange(request("GET", "/"), bodiless=False)
        await connection.answer()
    for connection in connections:
        while not connection.complete:
            await connection.body()
        pool.release(key, connection)
    assert pool.idle == 2
    await upstream.emptied()
    assert pool.idle == 0
    pool.close()
