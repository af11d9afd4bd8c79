"""The relay and upstreams that fail: dead, slow, torn, talking nonsense or too much."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.http import (
    UpstreamPool,
)

from .conftest import OK, Front, Serve, describe
from .wire import request


class Scripted:
    """An upstream that answers each connection with the next of its scripts: bytes to send, then close."""

    def __init__(self, *scripts: list[bytes | None]) -> None:
        self.scripts = list(scripts)
        self.connections = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for answer in self.scripts.pop(0) if self.scripts else []:
            if not await reader.read(65536):
                break
            if answer is None:
                await asyncio.sleep(30)
                break
            writer.write(answer)
        writer.close()


async def test_a_dead_upstream_is_unavailable(front: Front) -> None:
    async with Scripted() as port:
        pass
    reply = await (await (await front(port, tls=None)).peer()).get("/")
    assert reply.status == 503
    assert f"127.0.0.1:{port}".encode() in reply.body


async def test_an_upstream_that_does_not_answer_times_out(front: Front) -> None:
    async with Scripted([None]) as port:
        peer = await (await front(port, tls=None, head_timeout=0.1)).peer()
        assert (await peer.get("/")).status == 504


async def test_an_upstream_that_speaks_no_tls_or_is_not_trusted_is_refused(serve: Serve, front: Front) -> None:
    untrusting = ssl.create_default_context()
    async with Scripted([b"garbage"]) as port:
        peer = await (await front(port, tls=untrusting)).peer()
        assert (await peer.get("/")).status == 502
    upstream = await serve(describe, scheme="https")
    peer = await (await front(upstream.port, tls=untrusting)).peer()
    assert (await peer.get("/")).status == 502


@pytest.mark.parametrize("garbage", [b"nonsense\r\n\r\n", b"HTTP/1.1 101 Up\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"])
async def test_an_answer_that_is_none_is_reported(front: Front, garbage: bytes) -> None:
    async with Scripted([garbage]) as port:
        peer = await (await front(port, tls=None)).peer()
        assert (await peer.get("/")).status == 500


async def test_interim_answers_are_skipped_and_bodies_that_end_with_the_connection_are_passed(front: Front) -> None:
    script = [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nuntil the end"]
    async with Scripted(list(script)) as port:
        reply = await (await (await front(port, tls=None)).peer()).get("/")
    assert (reply.status, reply.body) == (200, b"until the end")
    assert "link" not in reply.headers


@pytest.mark.parametrize("framing", [b"Content-Length: 100\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"])
async def test_a_torn_answer_tears_the_clients_connection(front: Front, framing: bytes) -> None:
    async with Scripted([b"HTTP/1.1 200 OK\r\n" + framing]) as port:
        peer = await (await front(port, tls=None)).peer()
        peer.send(request("GET", "/"))
        await peer.head()
        try:
            rest = await peer.rest()
        except (ConnectionError, ssl.SSLError):
            rest = b""
    assert len(rest) < 100
    assert not rest.endswith(b"0\r\n\r\n")


ANSWER_FRAGMENTS = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 Up\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"\r\n",
    b"3\r\nabc\r\n",
    b"0\r\n\r\n",
    b"abc",
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.one_of(st.sampled_from(ANSWER_FRAGMENTS), st.binary(max_size=8)), max_size=12).map(b"".join))
async def test_whatever_an_upstream_says_the_client_hears_an_end(front: Front, data: bytes) -> None:
    async with Scripted([data]) as port:
        site = await front(port, tls=None, head_timeout=1.0)
        peer = await site.peer()
        peer.send(request("GET", "/", "Connection: close"))
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await peer.rest()
        await site.end()


async def test_a_stale_connection_is_retried_once_for_safe_requests_only(front: Front) -> None:
    for method, status in (("GET", 200), ("POST", 503)):
        upstream = Scripted([OK, b""], [OK])
        async with upstream as port:
            peer = await (await front(port, tls=None, stream=False)).peer()
            assert (await peer.get("/")).status == 200
            peer.send(request(method, "/", body=b"" if method == "GET" else b"body"))
            assert (await peer.reply()).status == status
            assert upstream.connections == (2 if status == 200 else 1)


async def test_a_request_is_not_retried_once_the_upstream_has_spoken(front: Front) -> None:
    upstream = Scripted([OK, b"HTTP/1.1 "], [OK])
    async with upstream as port:
        peer = await (await front(port, tls=None)).peer()
        assert (await peer.get("/")).status == 200
        assert (await peer.get("/")).status == 503
        assert upstream.connections == 1


async def test_unasked_bytes_on_an_idle_connection_are_never_taken_for_an_answer(front: Front, pool: UpstreamPool) -> None:
    upstream = Scripted([OK + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"], [OK])
    async with upstream as port:
        peer = await (await front(port, tls=None)).peer()
        assert [(await peer.get("/")).body for _ in range(2)] == [b"ok", b"ok"]
        assert upstream.connections == 2
