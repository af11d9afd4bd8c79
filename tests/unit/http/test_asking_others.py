"""What another server may answer, and what becomes of the connection: a wrong byte must not reach the next request."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.http import UpstreamBroken, UpstreamError, UpstreamPool, UpstreamUnavailable
from muster.http.pool import UpstreamKey, explained
from muster.http.upstream import UpstreamConnection, encode_request

from .wire import WAIT

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
GET = encode_request("GET", "/", [("Host", "test")])


class Site:
    """A server of raw bytes; `open` are the connections to it at present."""

    def __init__(self, talk: Talk) -> None:
        self.made = 0
        self.open = 0
        self.key: UpstreamKey = ("", 0, None, None)
        self._talk = talk

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made += 1
        self.open += 1
        try:
            await self._talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def left_with(self, connections: int) -> None:
        async with asyncio.timeout(WAIT):
            while self.open > connections:  # noqa: ASYNC110 - the server has no event for what only tests wait for
                await asyncio.sleep(0.005)


@asynccontextmanager
async def talking(talk: Talk) -> AsyncIterator[tuple[Site, UpstreamPool]]:
    """Whatever happens in the meantime: when the pool is closed, no connection is left."""
    site, pool = Site(talk), UpstreamPool()
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.key = ("127.0.0.1", server.sockets[0].getsockname()[1], None, None)
    try:
        yield site, pool
    finally:
        pool.close()
        server.close()
        await site.left_with(0)


def always(answer: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(answer)

    return talk


async def ask(site: Site, pool: UpstreamPool, asked: bytes = GET, *, repeat: bool = True, **options: Any) -> tuple[int, bytes]:
    async with asyncio.timeout(WAIT):
        head, body = await pool.request(site.key, asked, timeout=WAIT, repeat=repeat, **options)
    return head.status, body


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 099 Early\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 000 \r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nok",
        CHUNKED + b"-2\r\nok\r\n0\r\n\r\n",
        CHUNKED + b"ffffffffffffffffff\r\nok\r\n0\r\n\r\n",
        CHUNKED + b"2\nok\n0\n\n",
        CHUNKED + b"2\r\nok!\r\n0\r\n\r\n",
    ],
)
async def test_what_can_be_read_in_two_ways_or_was_not_asked_for_is_no_answer(answer: bytes) -> None:
    async with talking(always(answer)) as (site, pool):
        with pytest.raises(UpstreamBroken):
            await ask(site, pool)
        assert pool.idle == 0


@pytest.mark.parametrize(
    "rest",
    [
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 2",
        b"H",
        OK,
        b"surplus",
    ],
)
async def test_a_connection_with_something_after_the_answer_is_not_used_again(rest: bytes) -> None:
    async with talking(always(OK + rest)) as (site, pool):
        for number in (1, 2):
            assert await ask(site, pool) == (200, b"ok")
            assert pool.idle == 0
            assert site.made == number


@pytest.mark.parametrize(
    "answer",
    [
        OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"),
        OK.replace(b"OK\r\n", b"OK\r\nConnection: foo, Close\r\n"),
        OK.replace(b"1.1", b"1.0"),
    ],
)
@pytest.mark.parametrize("head", [False, True])
async def test_a_connection_that_the_other_side_means_to_close_is_not_used_again(answer: bytes, head: bool) -> None:
    async with talking(always(answer[:-2] if head else answer)) as (site, pool):
        assert await ask(site, pool, bodiless=head) == (200, b"" if head else b"ok")
        assert pool.idle == 0


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"\r\n" + OK,
        OK + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + OK,
        b"HTTP/1.1 200\r\nContent-Length: 2 \t\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n2;a=b;c\r\nok\r\n0;d\r\nX-Late: yes\r\n\r\n",
        OK.replace(b"1.1", b"1.0").replace(b"OK\r\n", b"OK\r\nConnection: keep-alive\r\n"),
    ],
)
async def test_answers_of_many_forms_are_understood_and_the_connection_is_kept(answer: bytes) -> None:
    async with talking(always(answer)) as (site, pool):
        for _ in range(3):
            assert await ask(site, pool) == (200, b"ok")
        assert (site.made, pool.idle) == (1, 1)


@pytest.mark.parametrize("framing", [b"Content-Length: 2\r\n", b"Transfer-Encoding: chunked\r\n"])
async def test_an_answer_to_head_has_no_body_and_its_connection_is_kept(framing: bytes) -> None:
    async with talking(always(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n")) as (site, pool):
        for _ in range(3):
            assert await ask(site, pool, encode_request("HEAD", "/", []), bodiless=True) == (200, b"")
        assert (site.made, pool.idle) == (1, 1)


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (CHUNKED + b"2\r\nok\r\n0\r\n", b"X: y\r\n"),
        (CHUNKED + b"2\r\nok\r\n0\r\nX: ", b"y"),
        (CHUNKED + b"2;", b"y"),
    ],
)
async def test_a_head_or_a_wrapping_without_end_is_given_up(begin: bytes, again: bytes) -> None:
    async def without_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        while True:
            writer.write(again * 2000)
            await writer.drain()

    async with talking(without_end) as (site, pool):
        with pytest.raises(UpstreamBroken, match="too large"):
            await ask(site, pool)
        assert pool.idle == 0


async def test_an_answer_that_comes_before_the_request_has_left_counts_and_ends_the_connection() -> None:
    seen = asyncio.Event()

    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await seen.wait()

    async with talking(early) as (site, pool):
        for number in (1, 2):
            assert await ask(site, pool, encode_request("POST", "/", [], b"x" * 32_000_000), repeat=False) == (413, b"no")
            assert pool.idle == 0
            assert site.made == number
        seen.set()


async def test_whenever_a_request_is_given_up_nobody_gets_its_answer_and_no_connection_stays() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            target = (await reader.readuntil(b"\r\n\r\n")).split()[1]
            for piece in (b"HTTP/1.1 200 OK\r\nContent-Le", b"ngth: %d\r\n\r\n" % len(target), target[:2], target[2:]):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)

    async with talking(echo) as (site, pool):
        finished = 0
        for turns in range(80):
            asking = asyncio.create_task(ask(site, pool, encode_request("GET", f"/given-up-{turns}", [])))
            for _ in range(turns % 40):
                await asyncio.sleep(0)
            finished += not asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            assert await ask(site, pool, encode_request("GET", f"/{turns}", [])) == (200, f"/{turns}".encode())
        assert finished < 80
        await site.left_with(pool.idle)


async def test_of_many_requests_at_once_each_gets_its_own_answer_and_few_connections_are_kept() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            target = (await reader.readuntil(b"\r\n\r\n")).split()[1]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(target), target))

    async with talking(echo) as (site, pool):
        asked = [ask(site, pool, encode_request("GET", f"/{number}", [])) for number in range(200)]
        assert await asyncio.gather(*asked) == [(200, f"/{number}".encode()) for number in range(200)]
        assert pool.idle == 32


async def test_what_must_not_be_sent_twice_is_not_sent_on_a_connection_that_has_just_been_closed() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    heads: list[bytes] = []
    leave, left = threading.Event(), threading.Event()

    def serve() -> None:
        for first in (True, False):
            connection, _ = listener.accept()
            with connection:
                heads.append(connection.recv(65536))
                connection.sendall(OK)
                if first:
                    leave.wait(WAIT)
            left.set()

    thread = threading.Thread(target=serve)
    thread.start()
    site, pool = Site(always(b"")), UpstreamPool()
    site.key = ("127.0.0.1", listener.getsockname()[1], None, None)
    try:
        await ask(site, pool)
        assert pool.idle == 1
        leave.set()
        assert left.wait(WAIT), "the loop is held up on purpose: it cannot have seen the end"
        assert pool.idle == 1
        assert await ask(site, pool, encode_request("POST", "/", [], b""), repeat=False) == (200, b"ok")
    finally:
        pool.close()
        await asyncio.to_thread(thread.join, WAIT)
        listener.close()
    assert [head.split()[0] for head in heads] == [b"GET", b"POST"]


async def test_what_must_not_be_sent_twice_is_not() -> None:
    async def hang_up_on_the_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await reader.readuntil(b"\r\n\r\n")

    async with talking(hang_up_on_the_second) as (site, pool):
        await ask(site, pool)
        with pytest.raises(UpstreamUnavailable) as closed:
            await ask(site, pool, encode_request("POST", "/", [], b"{}"), repeat=False)
        assert closed.value.sent
        assert site.made == 1


async def test_a_server_that_tires_of_a_kept_connection_is_asked_again_on_a_new_one() -> None:
    tired = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (OK, tired):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)

    async with talking(once) as (site, pool):
        for number in (1, 2):
            assert await ask(site, pool) == (200, b"ok")
            assert site.made == number
        assert (await ask(site, pool, encode_request("POST", "/", [], b""), repeat=False))[0] == 408
        assert site.made == 2
    async with talking(always(tired)) as (site, pool):
        assert (await ask(site, pool))[0] == 408
        assert site.made == 1


class Wire:
    """A transport of which only what it did is seen."""

    def __init__(self) -> None:
        self.closed = False

    def get_extra_info(self, name: str) -> Any:
        return socket.socket() if name == "socket" else None

    def write(self, data: bytes) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True


def outcome(pieces: list[bytes], loop: asyncio.AbstractEventLoop) -> tuple[Any, bool]:
    """What becomes of an answer that comes in these pieces, and whether the connection is good for another."""
    connection, wire = UpstreamConnection(loop, "test"), Wire()
    connection.connection_made(wire)  # type: ignore[arg-type]
    connection.exchange(GET, bodiless=False)
    for piece in pieces:
        if wire.closed:
            break
        connection.get_buffer(len(piece))[: len(piece)] = piece
        connection.buffer_updated(len(piece))
    settled = connection.settled
    connection.connection_lost(None)

    async def read() -> Any:
        try:
            return (await connection.answer()).status, await connection.whole_body()
        except UpstreamError as error:
            return type(error)

    return loop.run_until_complete(read()), settled


def often(usual: bytes, *others: bytes) -> st.SearchStrategy[bytes]:
    return st.sampled_from([*[usual] * (len(others) + 1), *others])


ANSWERS = st.tuples(
    often(b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"\r\n", b"HTTP/1.1 103 E\r\nX: y\r\n\r\n", b"x"),
    often(
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 204 N\r\n",
        b"HTTP/1.0 200 OK\r\n",
        b"HTTP/1.1 101 U\r\nUpgrade: x\r\n",
        b"HTTP/1.1 099 -\r\n",
    ),
    often(b"", b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Connection: Upgrade\r\n", b"X: y\r\n", b"X : y\r\n"),
    st.sampled_from(
        [
            b"Content-Length: 2\r\n\r\nok",
            b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nX: y\r\n\r\n",
            b"Content-Length: 0\r\n\r\n",
            b"Content-Length: 3\r\n\r\nok",
            b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
            b"Transfer-Encoding: gzip\r\n\r\nok",
            b"\r\nok",
        ]
    ),
    often(b"", b"H", b"HTTP/1.1 204 N\r\n\r\n", OK, b"surplus"),
).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(ANSWERS, st.lists(st.integers(1, 40), max_size=8))
def test_what_an_answer_means_does_not_hang_on_where_it_is_cut(answer: bytes, cuts: list[int]) -> None:
    edges = [0, *(edge for edge in itertools.accumulate(cuts) if edge < len(answer)), len(answer)]
    loop = asyncio.new_event_loop()
    try:
        whole = outcome([answer], loop)
        assert outcome([answer[begin:end] for begin, end in itertools.pairwise(edges)], loop) == whole
        assert outcome([bytes([byte]) for byte in answer], loop) == whole
    finally:
        loop.close()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionResetError(), "connection reset"),
        (OSError(113, "No route to host"), "No route to host"),
        (BrokenPipeError(), "BrokenPipe"),
    ],
)
def test_an_error_without_words_gets_some(error: OSError, words: str) -> None:
    with pytest.raises(UpstreamUnavailable, match=words), explained("there:1"):
        raise error


@pytest.mark.parametrize(
    ("name", "value"), [("X-A", "b\r\nX-B: c"), ("X-A", "b\nc"), ("X-A", "b\rc"), ("X-A", "b\0"), ("X\r\nY", "secret")]
)
def test_a_field_that_would_be_several_is_refused_without_telling_its_value(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"the header field .* contains a line break or NUL") as refusal:
        encode_request("GET", "/", [("Host", "test"), (name, value)])
    assert value not in str(refusal.value)


@pytest.mark.parametrize(("method", "target"), [("GET", "/ HTTP/1.1\r\nX-A: b"), ("GET", "/\n"), ("GET\r\n", "/"), ("GET", "/\0")])
def test_a_target_that_would_be_more_than_a_target_is_refused(method: str, target: str) -> None:
    with pytest.raises(ValueError, match="the request line contains a line break or NUL"):
        encode_request(method, target, [("Host", "test")])


def test_what_is_asked_for_is_one_request() -> None:
    asked = encode_request("POST", "/x?y=z", iter([("Host", "test"), ("X-A", "b c")]), b"body")
    assert asked == b"POST /x?y=z HTTP/1.1\r\nHost: test\r\nX-A: b c\r\nContent-Length: 4\r\n\r\nbody"
