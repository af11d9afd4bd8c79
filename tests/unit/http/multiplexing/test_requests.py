"""The same handlers by HTTP/2: requests, bodies, streams, refusals; HTTP/1.1 on the same port; a client that we did not write."""

from __future__ import annotations

import asyncio

import pytest

from muster.http import Answer, Request, Response, StreamResponse, StreamWriter, Takeover, server_context
from muster.http.stream import RawConnection
from muster.http.tls import HTTP_2_OR_1
from tests.unit.http.conftest import Front, Serve, describe, quiet
from tests.unit.http.multiplexing.conftest import Connect
from tests.unit.http.pki import Authority, client_context
from tests.unit.http.wire import request

INTERNAL_ERROR = 2
LARGE = 3 * 1024 * 1024


async def test_a_request_is_what_it_would_be_on_http_1(serve: Serve, connect: Connect) -> None:
    site = await serve(describe, http2=True)
    client = await connect(site)
    answer = await client.get("/a%2Fb?x=1", ("x-one", "1"), ("x-one", "2"), ("cookie", "a=1"), ("cookie", "b=2"))
    assert answer.status == 201
    lines = answer.body.decode().split("\n")
    assert lines[:2] == ["GET /a%2Fb?x=1", "host=localhost"]
    assert lines[2:5] == ["x-one=1", "x-one=2", "cookie=a=1; b=2"]
    stream = client.streams[1]
    assert [value for name, value in stream.head if name == "x-answer"] == ["1", "2"]
    assert answer.headers["content-length"] == str(len(answer.body))
    assert "GMT" in answer.headers["date"]


async def test_many_requests_are_under_way_at_once_on_one_connection(serve: Serve, connect: Connect) -> None:
    gate = asyncio.Event()
    waiting = 0

    async def handler(asked: Request) -> Answer:
        nonlocal waiting
        waiting += 1
        if waiting == 200:
            gate.set()
        await gate.wait()
        return Response(200, asked.path.encode())

    site = await serve(handler, http2=True)
    client = await connect(site)
    streams = [client.ask(f"/{number}") for number in range(200)]
    assert [(await client.answer(stream)).body for stream in streams] == [b"/%d" % number for number in range(200)]
    assert site.server.connections == 1


@pytest.mark.parametrize("protocols", [None, ["http/1.1"]])
async def test_who_does_not_choose_it_is_served_as_ever(serve: Serve, server_ca: Authority, protocols: list[str] | None) -> None:
    site = await serve(describe, http2=True)
    tls = client_context(server_ca)
    if protocols:
        tls.set_alpn_protocols(protocols)
    peer = await site.peer(tls)
    assert (await peer.get("/x")).body.startswith(b"GET /x")


async def test_an_upgrade_is_asked_for_on_http_1_and_made_there(serve: Serve, server_ca: Authority) -> None:
    async def echo(raw: RawConnection) -> None:
        raw.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        while data := await raw.read():
            raw.write(data)

    async def handler(asked: Request) -> Answer:
        return Takeover(echo)

    site = await serve(handler, http2=True)
    peer = await site.peer(client_context(server_ca))
    peer.send(request("GET", "/", "Connection: Upgrade", "Upgrade: echo"))
    assert (await peer.head())[0] == 101
    peer.send(b"hello")
    assert await peer.reader.readexactly(5) == b"hello"


async def test_a_takeover_is_no_answer_on_http_2(serve: Serve, connect: Connect) -> None:
    discarded: list[bool] = []

    async def handler(asked: Request) -> Answer:
        return Takeover(lambda raw: asyncio.sleep(0), discard=lambda: discarded.append(True))

    site = await serve(handler, http2=True, on_error=quiet)
    client = await connect(site)
    assert (await client.get("/")).status == 500
    assert discarded == [True]


async def test_new_certificates_offer_it_too(serve: Serve, connect: Connect, server_ca: Authority, client_ca: Authority) -> None:
    site = await serve(describe, http2=True)
    cert, key, _ = server_ca.issue("another", client=False)
    site.server.replace_tls(server_context(cert, key, client_ca.pem, alpn=HTTP_2_OR_1))
    assert (await (await connect(site)).get("/")).status == 201


# Answers


@pytest.mark.parametrize(
    ("method", "answer", "length"),
    [
        ("HEAD", Response(200, b"12345"), "5"),
        ("HEAD", Response(200, b"", [("Content-Length", "77")]), "77"),
        ("GET", Response(204), None),
        ("GET", Response(304, b"", [("Etag", "x")]), None),
        ("GET", Response(200), "0"),
    ],
)
async def test_answers_without_a_body(serve: Serve, connect: Connect, method: str, answer: Response, length: str | None) -> None:
    async def handler(asked: Request) -> Answer:
        return answer

    site = await serve(handler, http2=True)
    client = await connect(site)
    got = await client.answer(client.ask("/", method))
    assert (got.status, got.body, got.headers.get("content-length")) == (answer.status, b"", length)


async def test_fields_about_the_connection_stay_behind_and_injected_ones_are_refused(serve: Serve, connect: Connect) -> None:
    async def handler(asked: Request) -> Answer:
        value = "a\r\nx-evil: 1" if asked.path == "/evil" else "a"
        return Response(200, b"ok", [("X-Value", value), ("Connection", "close"), ("Keep-Alive", "1")])

    site = await serve(handler, http2=True, on_error=quiet)
    client = await connect(site)
    good = await client.get("/")
    assert (good.status, good.headers["x-value"]) == (200, "a")
    assert not good.headers.keys() & {"connection", "keep-alive"}
    evil = await client.get("/evil")
    assert (evil.status, "x-evil" in evil.headers) == (500, False)


@pytest.mark.parametrize("parts", [1, 7])
async def test_a_large_answer_comes_whole_through_small_windows(serve: Serve, connect: Connect, parts: int) -> None:
    body = bytes(range(256)) * (LARGE // 256)

    async def handler(asked: Request) -> Answer:
        size = len(body) // parts + 1
        return Response(200, body if parts == 1 else [body[at : at + size] for at in range(0, len(body), size)])

    site = await serve(handler, http2=True)
    client = await connect(site, window=70_000)
    assert (await client.get("/")).body == body


async def test_events_arrive_as_they_are_written_and_a_reset_ends_their_writer(serve: Serve, connect: Connect) -> None:
    writers: asyncio.Queue[StreamWriter] = asyncio.Queue()
    ended: asyncio.Queue[str] = asyncio.Queue()

    async def handler(asked: Request) -> Answer:
        async def run(writer: StreamWriter) -> None:
            await writers.put(writer)
            try:
                await writer.closed
                ended.put_nowait("told")
            except asyncio.CancelledError:
                ended.put_nowait("cancelled")
                raise

        return StreamResponse(200, [("Content-Type", "application/json")], run)

    site = await serve(handler, http2=True)
    client = await connect(site)
    number = client.ask("/watch")
    writer = await writers.get()
    for event in (b"one\n", b"two\n"):
        writer.write(event)
        await client.until(lambda event=event: client.streams[number].body.endswith(event))
    client.reset(number)
    async with asyncio.timeout(20):
        assert await ended.get() in ("told", "cancelled")
    assert writer.is_closed
    again = client.ask("/watch")
    (await writers.get()).write(b"three\n")
    await client.until(lambda: client.streams[again].body == b"three\n")


async def test_a_stream_that_ends_well_ends_and_a_torn_one_is_reset(serve: Serve, connect: Connect) -> None:
    async def handler(asked: Request) -> Answer:
        async def run(writer: StreamWriter) -> None:
            writer.write(b"begun")
            await writer.drain()
            if asked.path == "/torn":
                raise ValueError("torn")

        return StreamResponse(200, (), run, length=10 if asked.path == "/short" else None)

    site = await serve(handler, http2=True, on_error=quiet)
    client = await connect(site)
    assert (await client.get("/whole")).body == b"begun"
    for path in ("/torn", "/short"):
        with pytest.raises(ConnectionResetError, match=str(INTERNAL_ERROR)):
            await client.get(path)
    assert (await client.get("/whole")).body == b"begun"


# Bodies


async def echo_whole(asked: Request) -> Answer:
    return Response(200, await asked.read_body())


@pytest.mark.parametrize("size", [0, 1, 16_000, 70_000, LARGE - 1])
@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_is_read_whole(serve: Serve, connect: Connect, size: int, announced: bool) -> None:
    site = await serve(echo_whole, http2=True, reads_bodies=True)
    client = await connect(site)
    body = bytes(range(251)) * (size // 251 + 1)
    number = client.ask("/", "POST", [("content-length", str(size))] if announced else [], end=False)
    await client.send(number, body[:size], end=True)
    assert (await client.answer(number)).body == body[:size]


async def test_a_handler_that_wants_complete_requests_gets_them(serve: Serve, connect: Connect) -> None:
    site = await serve(describe, http2=True)
    client = await connect(site)
    number = client.ask("/", "PUT", end=False)
    await asyncio.sleep(0.05)
    await client.send(number, b"x" * 100_000, end=True)
    assert (await client.answer(number)).body.endswith(b"x" * 100_000)


async def test_a_body_that_is_too_large_is_refused_announced_or_not(serve: Serve, connect: Connect) -> None:
    site = await serve(echo_whole, http2=True, reads_bodies=True, max_body=50_000)
    client = await connect(site)
    announced = client.ask("/", "POST", [("content-length", "50001")], end=False)
    assert (await client.answer(announced)).status == 413
    silent = client.ask("/", "POST", end=False)
    await client.send(silent, b"x" * 50_001)
    assert (await client.answer(silent)).status == 413
    assert (await client.get("/")).status == 200


async def test_a_body_that_stops_coming_ends_in_a_refusal_and_others_go_on(serve: Serve, connect: Connect) -> None:
    site = await serve(echo_whole, http2=True, reads_bodies=True, body_timeout=0.4)
    client = await connect(site)
    slow = client.ask("/", "POST", end=False)
    await client.send(slow, b"x")
    assert (await client.answer(slow)).status == 408
    assert (await client.get("/")).status == 200


async def test_a_streamed_body_that_stops_coming_is_reset(serve: Serve, connect: Connect) -> None:
    async def handler(asked: Request) -> Answer:
        assert asked.body_stream is not None
        async for _ in asked.body_stream:
            pass
        return Response(200)

    site = await serve(handler, http2=True, stream_body=lambda asked: True, body_timeout=0.4)
    client = await connect(site)
    with pytest.raises(ConnectionResetError):
        await client.answer(client.ask("/", "POST", end=False))


async def test_a_streamed_body_waits_on_the_clients_side_until_it_is_read(serve: Serve, connect: Connect) -> None:
    may_read = asyncio.Event()
    arrived: list[int] = []

    async def handler(asked: Request) -> Answer:
        if asked.body_stream is None:
            return Response(200, b"other")
        await may_read.wait()
        arrived.append(asked.body_stream.arrived)
        received = bytearray()
        async for data in asked.body_stream:
            received += data
        return Response(200, bytes(received))

    site = await serve(handler, http2=True, stream_body=lambda asked: True)
    client = await connect(site)
    body = bytes(range(256)) * (LARGE // 256)
    number = client.ask("/", "POST", end=False)
    sending = asyncio.create_task(client.send(number, body, end=True))
    await client.until(lambda: client.h2.local_flow_control_window(number) == 0)
    assert (await client.get("/")).body == b"other"
    may_read.set()
    await sending
    assert (await client.answer(number)).body == body
    assert arrived[0] < 200_000


async def test_a_client_that_waits_to_be_asked_for_its_body_is_asked(serve: Serve, connect: Connect) -> None:
    site = await serve(echo_whole, http2=True, reads_bodies=True)
    client = await connect(site)
    number = client.ask("/", "POST", [("expect", "100-continue"), ("content-length", "5")], end=False)
    await client.until(lambda: client.streams[number].informational == [100])
    await client.send(number, b"hello", end=True)
    assert (await client.answer(number)).body == b"hello"


async def test_an_answer_before_the_end_of_a_body_is_enough(serve: Serve, connect: Connect) -> None:
    async def handler(asked: Request) -> Answer:
        return Response(403, b"no")

    site = await serve(handler, http2=True, reads_bodies=True)
    client = await connect(site)
    number = client.ask("/", "POST", end=False)
    answer = await client.answer(number)
    assert (answer.status, answer.body) == (403, b"no")
    assert (await client.get("/")).status == 403


# Refusals


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({":method": "GET /evil HTTP/1.1\r\nX: "}, 501),
        ({":method": "get"}, 501),
        ({":path": "/a b"}, 400),
        ({":path": "/a\r\nx: y"}, 400),
        ({":path": "/a#b"}, 400),
        ({":path": "/\xe4"}, 400),
        ({":path": "/%zz"}, 400),
        ({":path": "http://elsewhere/"}, 400),
        ({":path": "a"}, 400),
        ({":authority": "user@localhost"}, 400),
        ({":authority": "a b"}, 400),
        ({":authority": ""}, 400),
        ({"host": "elsewhere"}, 400),
        ({"x-field": "a\x01b"}, 400),
        ({"x-field": " a"}, 400),
        ({"expect": "something"}, 417),
        ({f"x-{number}": "" for number in range(129)}, 431),
    ],
)
async def test_what_http_1_would_refuse_reaches_no_handler(
    serve: Serve, connect: Connect, change: dict[str, str], status: int
) -> None:
    asked: list[str] = []

    async def handler(incoming: Request) -> Answer:
        asked.append(incoming.target)
        return Response(200)

    site = await serve(handler, http2=True)
    client = await connect(site, validate=False)
    fields = {":method": "GET", ":scheme": "https", ":path": "/", ":authority": "localhost"} | change
    assert (await client.answer(client.open(list(fields.items()), end=True))).status == status
    assert (await client.get("/fine")).status == 200
    assert asked == ["/fine"]


# Through a relay


async def test_requests_answers_and_streams_pass_a_relay(serve: Serve, front: Front, connect: Connect) -> None:
    async def behind(asked: Request) -> Answer:
        if asked.path != "/stream":
            return await describe(asked)

        async def run(writer: StreamWriter) -> None:
            for _ in range(50):
                writer.write(b"x" * 100_000)
                await writer.drain()

        return StreamResponse(200, (), run)

    upstream = await serve(behind)
    client = await connect(await front(upstream.port, http2=True))
    number = client.ask("/a?b=c", "POST", [("x-mine", "1")], end=False)
    await client.send(number, b"hello" * 50_000, end=True)
    answer = await client.answer(number)
    assert answer.status == 201
    assert answer.body.startswith(b"POST /a?b=c\n")
    assert answer.body.endswith(b"hello" * 50_000)
    assert len((await client.get("/stream")).body) == 5_000_000
