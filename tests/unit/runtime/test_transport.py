"""Bytes on the wire: what a request looks like, answers in any pieces, and kept connections that end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.runtime.client.errors import KubeError, NoCredential, ServerFailure, StatusError, Unreachable, Untrusted
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import AuthInfo, ClientConfig
from muster.runtime.client.transport import OutgoingRequest, Stream
from tests.support.pki import Authority
from tests.support.proxy import Proxy
from tests.unit.runtime.wire import OK, Scripted, get, ok, serving, transport


async def test_a_request_has_what_the_api_needs_and_its_path_is_quoted() -> None:
    identity = AuthInfo(token="sesame")
    async with serving(ok) as (script, url), transport(ClientConfig(f"{url}/base/", identity=identity)) as way:
        await get(way, "/apis/x/ä b?c#d%2F", labelSelector="a=b,c in (d)")
        post = OutgoingRequest("POST", "/api", {}, b'{"a":1}', "application/json")
        await way.send(post, [("Impersonate-User", "jürgen")], 5, idempotent=False)
    first, second = (head.split("\r\n") for head in script.heads)
    assert first[0] == "GET /base/apis/x/%C3%A4%20b%3Fc%23d%2F?labelSelector=a%3Db%2Cc+in+%28d%29 HTTP/1.1"
    assert set(first[1:-2]) == {
        f"Host: {url[7:]}",
        "Accept: application/json",
        "User-Agent: test",
        "Accept-Encoding: identity",
        "Authorization: Bearer sesame",
    }
    assert {"Impersonate-User: jürgen", "Content-Type: application/json", "Content-Length: 7"} <= set(second)
    assert script.connections == 1


@pytest.mark.parametrize("name", ["eve\r\nAuthorization: Bearer stolen", "eve\nx: y", "a\0b"])
async def test_nobody_slips_a_header_in(name: str) -> None:
    async with serving(ok) as (script, url), transport(ClientConfig(url)) as way:
        with pytest.raises(NoCredential, match="Impersonate-User"):
            await way.send(OutgoingRequest("GET", "/", {}), [("Impersonate-User", name)], 5, idempotent=True)
    assert script.heads == []


async def test_a_kept_connection_that_has_ended_is_replaced_where_asking_twice_does_no_harm() -> None:
    async def once_each(writer: asyncio.StreamWriter, number: int) -> bool:
        # Every second request finds a connection that its server gives up without an answer.
        if number % 2:
            writer.write(OK)
        return number % 2 == 1

    async with serving(once_each) as (script, url), transport(ClientConfig(url)) as way:
        await get(way)
        assert (await get(way)).content == b"{}"
        assert script.connections == 2
        with pytest.raises(Unreachable) as broken:
            await way.send(OutgoingRequest("POST", "/", {}, b"{}"), (), 5, idempotent=False)
        assert broken.value.sent
        assert way.requests == 3


async def test_a_watch_finds_its_way_when_the_server_has_just_closed_the_kept_connection() -> None:
    async def leaving(writer: asyncio.StreamWriter, number: int) -> bool:
        if number != 2:
            writer.write(OK)
        return number != 2

    async with serving(leaving) as (script, url), transport(ClientConfig(url)) as way:
        await get(way)
        async with way.stream(OutgoingRequest("GET", "/", {"watch": "true"}), (), total=None, idle=5) as stream:
            assert await stream.read(100) == b"{}"
        assert script.connections == 2
        assert way.requests == 2


async def test_a_watch_that_a_new_connection_does_not_answer_is_not_asked_for_again() -> None:
    async def leaving(writer: asyncio.StreamWriter, number: int) -> bool:
        return False

    async with serving(leaving) as (script, url), transport(ClientConfig(url)) as way:
        with pytest.raises(Unreachable):
            async with way.stream(OutgoingRequest("GET", "/", {}), (), total=None, idle=5):
                pass
        assert script.connections == 1


async def test_a_head_request_has_no_body_to_wait_for() -> None:
    async def headless(writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(OK[:-2])
        return True

    async with serving(headless) as (script, url):
        client = HttpClient(ClientConfig(url))
        assert [await client.raw("HEAD", "/version") for _ in range(2)] == [b"", b""]
        await client.close()
        assert script.connections == 1


@pytest.mark.parametrize("status", [b"302 Found", b"304 Not Modified"])
async def test_an_answer_that_leads_elsewhere_is_no_success(status: bytes) -> None:
    async def elsewhere(writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(b"HTTP/1.1 " + status + b"\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n")
        return True

    async with serving(elsewhere) as (_, url):
        client = HttpClient(ClientConfig(url))
        with pytest.raises(StatusError) as asked:
            await client.raw("GET", "/version")
        with pytest.raises(StatusError) as watched:
            await anext(client.lines("/watch", {}, None, None))
        await client.close()
    assert asked.value.code == watched.value.code == int(status[:3])


async def test_a_connection_that_the_server_says_it_ends_is_not_used_again() -> None:
    async def closing(writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        return False

    async with serving(closing) as (script, url), transport(ClientConfig(url)) as way:
        for _ in range(3):
            assert (await way.send(OutgoingRequest("POST", "/", {}, b"{}"), (), 5, idempotent=False)).status == 200
        assert script.connections == 3


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=300), st.lists(st.integers(1, 60), max_size=12), st.booleans())
def test_an_answer_may_come_in_any_pieces(body: bytes, cuts: list[int], chunked: bool) -> None:
    if chunked:
        halves = (body[:100], body[100:])
        framed = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in halves if part) + b"0\r\n\r\n"
        answer = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n" + framed
    else:
        answer = f"HTTP/1.1 201 Created\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def in_pieces(writer: asyncio.StreamWriter, number: int) -> bool:
        edges = [0, *(edge for edge in itertools.accumulate(cuts) if edge < len(answer)), len(answer)]
        for begin, end in itertools.pairwise(edges):
            writer.write(answer[begin:end])
            await writer.drain()
            await asyncio.sleep(0)
        return True

    async def play() -> None:
        async with serving(in_pieces) as (script, url), transport(ClientConfig(url)) as way:
            for _ in range(2):
                reply = await get(way)
                assert (reply.status, reply.content) == (201, body)
            assert script.connections == 1

    asyncio.run(play())


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"HTTP/1.1 200 OK\r\nContent-Le", b"SSH-2.0-x\r\n\r\n", b""]
)
async def test_an_answer_that_is_cut_or_none_is_no_answer(answer: bytes) -> None:
    async def cut(writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(answer)
        return False

    async with serving(cut) as (_, url), transport(ClientConfig(url)) as way:
        with pytest.raises(Unreachable):
            await get(way)


async def silent(writer: asyncio.StreamWriter, number: int) -> bool:
    return True


async def test_a_server_that_says_nothing_is_left_and_its_connection_with_it() -> None:
    async with serving(silent) as (script, url), transport(ClientConfig(url)) as way:
        for _ in range(2):
            with pytest.raises(Unreachable, match=r"no answer within 0\.5 s"):
                await get(way, timeout=0.5)
        assert script.connections == 2


async def test_an_answer_that_drips_is_left_in_time() -> None:
    async def drip(writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            writer.write(b"y")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with serving(drip) as (_, url), transport(ClientConfig(url)) as way:
        with pytest.raises(Unreachable, match="no answer within 1 s"):
            await get(way, timeout=1)


@pytest.mark.parametrize(("idle", "total"), [(1.0, None), (30.0, 1.0)])
async def test_a_watch_that_falls_silent_is_left(idle: float, total: float | None) -> None:
    async def begins(writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n")
        return True

    async with (
        serving(begins) as (_, url),
        transport(ClientConfig(url)) as way,
        way.stream(OutgoingRequest("GET", "/", {}), (), total=total, idle=idle) as stream,
    ):
        pieces = stream.pieces()
        assert await anext(pieces) == b"{}\n"
        with pytest.raises(Unreachable, match="nothing more came in time"):
            await anext(pieces)


async def test_a_refusal_without_end_is_cut_short() -> None:
    async def complaining(writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(b"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"8\r\noh dear \r\n" * 1000)
            await writer.drain()

    async with serving(complaining) as (_, url):
        client = HttpClient(ClientConfig(url))
        with pytest.raises(ServerFailure, match="oh dear oh dear"):
            async with asyncio.timeout(20):
                await anext(client.lines("/watch", {}, None, None))
        await client.close()


async def read_slowly(stream: Stream) -> None:
    async for _ in stream.pieces():
        await asyncio.sleep(0.01)


async def test_a_watch_that_goes_on_beyond_its_time_is_left_though_it_has_always_more_to_say() -> None:
    async def chatter(writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"3\r\n{}\n\r\n" * 1000)
            await writer.drain()

    async with (
        asyncio.timeout(20),
        serving(chatter) as (_, url),
        transport(ClientConfig(url)) as way,
        way.stream(OutgoingRequest("GET", "/", {}), (), total=1.5, idle=30) as stream,
    ):
        with pytest.raises(Unreachable, match="in time"):
            await read_slowly(stream)


async def test_a_server_that_speaks_no_tls_is_not_taken_for_an_impostor() -> None:
    async def bluntly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(bluntly, "127.0.0.1", 0)
    async with server, transport(ClientConfig(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")) as way:
        with pytest.raises(Unreachable, match="TLS") as failure:
            await get(way)
        assert not isinstance(failure.value, Untrusted)
        assert not failure.value.sent


async def test_what_is_to_be_secret_is_however_https_is_spelled() -> None:
    async with serving(ok) as (script, url):
        config = ClientConfig(url.replace("http:", "HTTPS:"), identity=AuthInfo(token="sesame"))
        async with transport(config) as way:
            with pytest.raises(Unreachable):
                await get(way, timeout=0.5)
        assert script.heads == []


@pytest.mark.parametrize("host", ["a..b", "a" * 70 + ".example"])
async def test_a_name_that_no_host_can_have_is_as_good_as_none(host: str) -> None:
    async with transport(ClientConfig(f"http://{host}")) as way:
        with pytest.raises(Unreachable, match="no host can have this name") as failure:
            await get(way)
        assert not failure.value.sent


async def test_a_host_is_reached_by_whichever_of_its_addresses_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(ok) as (script, url):
        port = int(url.rpartition(":")[2])
        with socket.create_server(("127.0.0.1", 0)) as taken:
            nobody = taken.getsockname()[1]

        def resolve(host: str, *_: Any, **__: Any) -> Any:
            assert host == "hub.example"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", place)) for place in (nobody, port)]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        async with transport(ClientConfig("http://hub.example")) as way:
            assert (await get(way)).content == b"{}"
            connection = await way._pool.connect(("hub.example", 80, None, None), 5)
            assert connection._transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            connection.abort()
        assert "Host: hub.example" in script.heads[0]


@pytest.mark.parametrize("proxied", [False, True])
async def test_the_dot_that_ends_a_full_name_is_in_no_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxied: bool
) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("hub", hosts=("hub.example",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    server = await asyncio.start_server(Scripted(ok).serve, "127.0.0.1", 0, ssl=context)
    place = server.sockets[0].getsockname()
    name = f"hub.example.:{place[1]}"
    config = ClientConfig(f"https://{name}", authority.pair.cert.read_bytes())
    resolved = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place)]
    with contextlib.ExitStack() as stack:
        if proxied:
            proxy = stack.enter_context(Proxy(routes={name: f"127.0.0.1:{place[1]}"}))
            config = replace(config, proxy_url=proxy.url)
        else:
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved)
        async with server, transport(config) as way:
            assert (await get(way)).content == b"{}"


async def test_what_tls_says_at_the_end_of_a_connection_is_told(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("hub", hosts=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    context.load_verify_locations(authority.pair.cert)
    context.verify_mode = ssl.CERT_REQUIRED
    listener, heard = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def refuse() -> None:
        accepted, _ = listener.accept()
        secured = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        with secured, contextlib.suppress(ssl.SSLError):
            try:
                secured.do_handshake()
            finally:
                # Closed too early, what it said would be lost with what it has not read.
                heard.wait(30)

    thread = threading.Thread(target=refuse)
    thread.start()
    try:
        config = ClientConfig(f"https://127.0.0.1:{listener.getsockname()[1]}", authority.pair.cert.read_bytes())
        async with transport(config) as way:
            with pytest.raises(Unreachable, match="CERTIFICATE_REQUIRED") as failure:
                await way.send(OutgoingRequest("POST", "/", {}, b"{}"), (), 20, idempotent=False)
        assert not isinstance(failure.value, Untrusted)
        assert failure.value.sent
    finally:
        heard.set()
        await asyncio.to_thread(thread.join, 30)
        listener.close()


async def test_a_closed_client_sends_nothing() -> None:
    async with serving(ok) as (script, url), transport(ClientConfig(url)) as way:
        await way.close()
        with pytest.raises(KubeError, match="closed"):
            await get(way)
    assert script.heads == []


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("secured", [False, True])
def test_nothing_of_a_closed_client_is_left(tmp_path: Path, run: Any, secured: bool) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("hub", hosts=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)

    async def play() -> None:
        server = await asyncio.start_server(Scripted(ok).serve, "127.0.0.1", 0, ssl=context if secured else None)
        url = f"http{'s' if secured else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, transport(ClientConfig(url, authority.pair.cert.read_bytes())) as way:
            await asyncio.gather(*(get(way) for _ in range(4)))
            (kept,) = (list(connections) for connections in way._pool._idle.values())
            await way.close()
            assert [connection.lost for connection in kept] == [True] * 4

    run(play())
