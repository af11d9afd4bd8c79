"""What the server refuses, how it says so, and that nothing a client sends makes it crash or hang."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.http import Answer, Request, Response
from muster.http.message import Connection
from muster.http.reader import Rejection, RequestReader

from .conftest import Serve, Site
from .wire import WAIT, request


async def echo(incoming: Request) -> Answer:
    return Response(200, incoming.path.encode() + incoming.body)


MALFORMED = {
    "no request at all": (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", {400, 501}),
    "unknown method": (request("FROB", "/"), {501}),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 501, 505}),
    "unknown version": (b"GET / HTTP/3.7\r\nHost: a\r\n\r\n", {400, 505}),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", {400}),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", {400}),
    "bad escape": (request("GET", "/%zz"), {400}),
    "truncated escape": (request("GET", "/a%2"), {400}),
    "path not UTF-8": (request("GET", "/%ff"), {400}),
    "target not ASCII": ("GET /\u00e9 HTTP/1.1\r\nHost: a\r\n\r\n".encode(), {400}),
    "fragment": (request("GET", "/a#b"), {400}),
    "length and chunked": (request("POST", "/", "Content-Length: 3", "Transfer-Encoding: chunked") + b"abc", {400}),
    "two lengths": (request("POST", "/", "Content-Length: 3", "Content-Length: 4") + b"abcd", {400}),
    "negative length": (request("POST", "/", "Content-Length: -1"), {400}),
    "huge length": (request("POST", "/", "Content-Length: 99999999999999999999999"), {400}),
    "other coding": (request("POST", "/", "Transfer-Encoding: gzip, chunked"), {501}),
    "bad chunk size": (request("POST", "/", "Transfer-Encoding: chunked") + b"xyz\r\n", {400}),
    "space before colon": (request("GET", "/", "X : y"), {400}),
    "bare newline in a field": (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\nY: b\r\n\r\n", {400}),
    "NUL in a field": (b"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", {400}),
    "unknown expectation": (request("POST", "/", "Expect: miracles", body=b"x"), {417}),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_request_is_refused_and_the_connection_ended(serve: Serve, name: str) -> None:
    data, statuses = MALFORMED[name]
    peer = await (await serve(echo, scheme="http")).peer()
    peer.send(request("GET", "/good") + data)
    assert (await peer.reply()).body == b"/good"
    refusal = await peer.reply()
    assert refusal.status in statuses
    assert refusal.headers["connection"] == "close"
    assert await peer.ended()


async def test_the_bad_request_hook_shapes_the_refusal(serve: Serve) -> None:
    peer = await (await serve(echo, on_bad_request=lambda status, text: Response(status, b"custom"))).peer()
    peer.send(b"nonsense\r\n\r\n")
    assert (await peer.reply()).body == b"custom"


async def test_a_head_that_is_too_large_is_refused(serve: Serve) -> None:
    peer = await (await serve(echo, max_header_bytes=16 * 1024)).peer()
    peer.send(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 40_000)
    assert (await peer.reply()).status == 431


async def test_too_many_fields_are_refused(serve: Serve) -> None:
    peer = await (await serve(echo, max_headers=10)).peer()
    peer.send(request("GET", "/", *[f"X-{n}: y" for n in range(10)]))
    assert (await peer.reply()).status == 431


async def test_chunk_framing_without_body_is_bounded(serve: Serve) -> None:
    peer = await (await serve(echo, max_header_bytes=4096)).peer()
    peer.send(request("POST", "/", "Transfer-Encoding: chunked") + b"1;" + b"x" * 300_000)
    assert (await peer.reply()).status == 400


async def test_a_head_that_trickles_in_is_timed_out(serve: Serve) -> None:
    peer = await (await serve(echo, header_timeout=0.2)).peer()

    async def trickle() -> None:
        for byte in request("GET", "/" + "a" * 1000):
            peer.send(bytes([byte]))
            await asyncio.sleep(0.02)

    trickling = asyncio.create_task(trickle())
    assert (await peer.reply()).status == 408
    trickling.cancel()


async def test_a_connection_that_says_nothing_is_closed(serve: Serve) -> None:
    peer = await (await serve(echo, header_timeout=0.2)).peer()
    assert await peer.ended()


async def test_a_kept_connection_is_closed_when_idle(serve: Serve) -> None:
    peer = await (await serve(echo, idle_timeout=0.2)).peer()
    assert (await peer.get("/")).status == 200
    assert await peer.ended()


async def test_a_body_that_trickles_in_is_timed_out(serve: Serve) -> None:
    peer = await (await serve(echo, body_timeout=0.2, min_body_progress=100)).peer()
    peer.send(request("POST", "/", "Content-Length: 1000"))

    async def trickle() -> None:
        while True:
            peer.send(b"x")
            await asyncio.sleep(0.02)

    trickling = asyncio.create_task(trickle())
    assert (await peer.reply()).status == 408
    trickling.cancel()


async def test_a_slow_body_that_makes_progress_is_accepted(serve: Serve) -> None:
    peer = await (await serve(echo, body_timeout=0.2, min_body_progress=10)).peer()
    peer.send(request("POST", "/", "Content-Length: 600"))
    for _ in range(20):
        peer.send(b"x" * 30)
        await asyncio.sleep(0.03)
    assert (await peer.reply()).body == b"/" + b"x" * 600


async def test_a_client_that_never_reads_its_large_answer_is_cut(serve: Serve) -> None:
    async def large(incoming: Request) -> Answer:
        return Response(200, b"x" * (64 * 1024 * 1024))

    site = await serve(large, send_timeout=0.3)
    peer = await site.peer()
    peer.send(request("GET", "/"))
    await peer.head()
    await site.emptied()


async def test_unparsed_input_of_a_busy_connection_is_bounded(serve: Serve) -> None:
    release = asyncio.Event()

    async def wait(incoming: Request) -> Answer:
        await release.wait()
        return Response(200)

    peer = await (await serve(wait)).peer()
    flood = request("GET", "/") * 800_000
    assert await peer.flood(flood) < len(flood)
    release.set()


FRAGMENTS = [
    b"GET / HTTP/1.1\r\n",
    b"POST /a?b HTTP/1.1\r\n",
    b"CONNECT a:1 HTTP/1.1\r\n",
    b"Host: a\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: upgrade\r\nUpgrade: x\r\n",
    b"Connection: close\r\n",
    b"Expect: 100-continue\r\n",
    b"\r\n",
    b"\n",
    b"3\r\nabc\r\n",
    b"0\r\n\r\n",
    b"abc",
    b"HTTP/1.0\r\n",
    b"\x00",
]
anything = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.binary(max_size=12)), max_size=30).map(b"".join)


def _read(data: bytes, cuts: list[int]) -> list[tuple[object, ...]]:
    reader = RequestReader(Connection(("", 0), "http"), lambda *_: None, max_body=1000, max_head=4096, max_headers=20)
    outcome: list[tuple[object, ...]] = []
    rest = b""
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        rest += data[start:end]
        while rest and not reader.ended:
            rest = reader.feed(rest)
            if not reader.ready:
                break
            outcome += [_summary(item) for item in reader.ready]
            reader.ready.clear()
        outcome += [_summary(item) for item in reader.ready]
        reader.ready.clear()
    return outcome


def _summary(item: Request | Rejection) -> tuple[object, ...]:
    if isinstance(item, Rejection):
        return ("rejected", item.status)
    return (item.method, item.target, item.body, item.upgrade, item.keep_alive)


@settings(max_examples=400, deadline=None)
@given(anything, st.data())
def test_how_bytes_are_cut_never_changes_what_is_read(data: bytes, choice: st.DataObject) -> None:
    cuts = sorted(choice.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    assert _read(data, cuts) == _read(data, [])


async def _asked(site: Site, path: str) -> bytes:
    """What is answered to somebody else; on a busy machine a fifth of a second may be over before he has said a word."""
    async with asyncio.timeout(WAIT):
        while True:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                return (await (await site.peer()).get(path)).body


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(anything)
async def test_any_bytes_leave_the_server_serving(serve: Serve, data: bytes) -> None:
    site = await serve(echo, scheme="http", header_timeout=0.2, body_timeout=0.2, idle_timeout=0.2)
    peer = await site.peer()
    peer.send(data)
    assert await _asked(site, "/fine") == b"/fine"
    with contextlib.suppress(ConnectionError):
        await peer.rest()
    await site.end()
