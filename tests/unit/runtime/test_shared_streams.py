"""Watches of a server that offers HTTP/2 share a connection, stall nobody, and end as watches do."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.http.http2.fields import Fields, encode
from muster.http.http2.frames import ErrorCode
from muster.http.http2.server import Http2Server, ServerLimits
from muster.http.http2.stream import Stream
from muster.http.message import Connection
from muster.http.tls import HTTP_1_1, HTTP_2, server_context
from muster.runtime.client import AuthInfo, ClientConfig, Forbidden, HttpClient, Unreachable, Untrusted
from muster.runtime.client.shared_streams import STREAM_WINDOW, UNUSED_TIMEOUT
from tests.support.fake_clock import FakeClock
from tests.support.pki import Authority
from tests.unit.runtime.conftest import eventually
from tests.unit.runtime.wire import Scripted

LINE = b'{"n":1}\n'


class Watching:
    """One request at the server's end."""

    def __init__(self, site: Site, stream: Stream, fields: Fields, connection: Connection) -> None:
        self.stream = stream
        self.fields = dict(fields)
        self.connection = connection
        self.is_lost = False
        self._site = site

    @property
    def path(self) -> str:
        return self.fields[b":path"].decode()

    def begin(self) -> None:
        self.stream.send_head(encode([(b":status", self._site.status)]))
        if self._site.status != b"200":
            self.stream.send(b'{"kind":"Status","reason":"Forbidden","message":"not yours"}', end=True)

    def say(self, data: bytes, *, end: bool = False) -> None:
        self.stream.send(data, end=end)

    def head_received(self, fields: Fields) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def ended(self, trailers: Fields) -> None: ...

    def lost(self, code: int | None) -> None:
        self.is_lost = True


class Site:
    server: Http2Server
    url: str

    def __init__(self) -> None:
        self.status = b"200"
        self.watches: list[Watching] = []

    def request(self, stream: Stream, fields: Fields, connection: Connection) -> Watching:
        connection.owner = "known"
        self.watches.append(Watching(self, stream, fields, connection))
        return self.watches[-1]

    @property
    def connections(self) -> int:
        return len({id(watch.connection) for watch in self.watches})


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ca")


def tls(authority: Authority, alpn: str) -> ssl.SSLContext:
    pair = authority.issue("server", hosts=("127.0.0.1",))
    return server_context(pair.cert, pair.key, alpn=alpn)


@asynccontextmanager
async def serving(authority: Authority, **limits: Any) -> AsyncIterator[Site]:
    site = Site()
    site.server = Http2Server(site.request, tls=tls(authority, HTTP_2), limits=ServerLimits(**limits))
    await site.server.start("127.0.0.1", 0)
    site.url = f"https://127.0.0.1:{site.server._acceptor.port}"
    try:
        yield site
    finally:
        await site.server.stop()


@asynccontextmanager
async def client_of(url: str, authority: Authority, **options: Any) -> AsyncIterator[HttpClient]:
    client = HttpClient(ClientConfig(url, ca=authority.pair.cert, identity=AuthInfo(token="sesame")), **options)
    try:
        yield client
    finally:
        await client.close()


Lines = AsyncGenerator[bytes, None]


async def watch(client: HttpClient, site: Site, path: str = "/watch") -> tuple[Lines, asyncio.Task[bytes], Watching]:
    """The lines of a watch, a task that waits for the first, and the server's end of it."""
    before = len(site.watches)
    lines = client.lines(path, {"watch": "true"}, None, None)
    first = asyncio.create_task(anext(lines))
    await eventually(lambda: len(site.watches) > before or first.done())
    return lines, first, site.watches[before]


async def test_watches_share_one_connection_and_each_has_its_own_lines(authority: Authority) -> None:
    async with serving(authority) as site, client_of(site.url, authority) as client:
        watches = [await watch(client, site, f"/w{number}") for number in range(20)]
        for number, (_, _, served) in enumerate(watches):
            served.say(b'{"n":%d}\n' % number)
        assert [await first for _, first, _ in watches] == [b'{"n":%d}' % number for number in range(20)]
        assert site.connections == 1
        served = watches[3][2]
        assert served.path == "/w3?watch=true"
        assert served.fields[b"authorization"] == b"Bearer sesame"
        assert served.fields[b":authority"].decode() in site.url


async def test_a_line_may_come_in_pieces(authority: Authority) -> None:
    async with serving(authority) as site, client_of(site.url, authority) as client:
        lines, first, served = await watch(client, site)
        served.say(b'{"a":')
        served.say(b'1}\n{"b":2}\n{"c"')
        assert await first == b'{"a":1}'
        assert await anext(lines) == b'{"b":2}'
        served.say(b":3}\n", end=True)
        assert [line async for line in lines] == [b'{"c":3}']


async def test_where_the_server_allows_no_more_streams_the_next_watch_takes_another_connection(authority: Authority) -> None:
    async with serving(authority, max_streams=2) as site, client_of(site.url, authority) as client:
        watches = [await watch(client, site) for _ in range(5)]
        assert site.connections == 3
        for _, first, served in watches:
            served.say(LINE)
            await first


async def test_a_refusal_is_raised_with_the_servers_words(authority: Authority) -> None:
    async with serving(authority) as site, client_of(site.url, authority) as client:
        site.status = b"403"
        with pytest.raises(Forbidden, match="not yours"):
            await anext(client.lines("/watch", {}, None, None))


async def test_a_reset_after_whole_lines_is_an_ordinary_end(authority: Authority) -> None:
    async with serving(authority) as site, client_of(site.url, authority) as client:
        lines, first, served = await watch(client, site)
        served.say(LINE)
        await first
        served.stream.reset(ErrorCode.INTERNAL_ERROR)
        assert [line async for line in lines] == []


async def test_a_reset_within_a_line_is_not(authority: Authority) -> None:
    async with serving(authority) as site, client_of(site.url, authority) as client:
        lines, first, served = await watch(client, site)
        served.say(LINE + b'{"n":')
        await first
        served.stream.reset(ErrorCode.CANCEL)
        with pytest.raises(Unreachable, match="reset"):
            await anext(lines)


async def test_a_server_that_says_goodbye_lets_watches_end_and_the_next_one_finds_another_connection(authority: Authority) -> None:
    async with serving(authority) as site, client_of(site.url, authority) as client:
        lines, first, served = await watch(client, site)
        served.say(LINE)
        await first
        (connection,) = site.server._acceptor.connections
        connection.drain(60)
        shared = client._transport._shared
        assert shared is not None
        await eventually(lambda: not shared._connections[0][1].usable)
        _, second, later = await watch(client, site)
        assert site.connections == 2
        later.say(LINE)
        await second
        served.say(b'{"last":1}\n', end=True)
        assert [line async for line in lines] == [b'{"last":1}']


async def test_a_connection_that_breaks_is_a_server_that_did_not_answer(authority: Authority) -> None:
    async with serving(authority) as site, client_of(site.url, authority) as client:
        lines, first, served = await watch(client, site)
        served.say(LINE)
        await first
        (connection,) = site.server._acceptor.connections
        connection.abort()
        with pytest.raises(Unreachable):
            await anext(lines)


async def test_whoever_leaves_ends_the_stream_and_a_connection_without_streams_is_closed(
    authority: Authority, clock: FakeClock
) -> None:
    async with serving(authority) as site, client_of(site.url, authority, clock=clock) as client:
        lines, first, served = await watch(client, site)
        served.say(LINE)
        await first
        await lines.aclose()
        await eventually(lambda: served.is_lost)
        assert len(site.server._acceptor.connections) == 1
        await clock.advance(UNUSED_TIMEOUT)
        await eventually(lambda: not site.server._acceptor.connections)


async def test_a_watch_that_nobody_reads_holds_up_only_itself_and_is_bounded(authority: Authority) -> None:
    async with serving(authority) as site, client_of(site.url, authority) as client:
        unread, first, flooding = await watch(client, site, "/unread")
        flooding.say(LINE)
        await first
        line = b"x" * 65_535 + b"\n"
        for _ in range(100):
            flooding.say(line)
        await eventually(lambda: flooding.stream.window == 0)
        assert flooding.stream.unsent >= 100 * len(line) - STREAM_WINDOW
        _, other, served = await watch(client, site, "/read")
        served.say(LINE)
        assert await other == LINE.strip()
        assert [len(await anext(unread)) for _ in range(100)] == [65_535] * 100


async def test_a_new_certificate_goes_over_a_new_connection_and_the_old_one_ends_with_its_watches(
    authority: Authority, clock: FakeClock
) -> None:
    identity = authority.issue("me")
    async with serving(authority) as site:
        config = ClientConfig(site.url, ca=authority.pair.cert, identity=AuthInfo(cert=identity.cert, key=identity.key))
        client = HttpClient(config)
        lines, first, served = await watch(client, site)
        served.say(LINE)
        await first
        authority.issue("me")
        _, second, later = await watch(client, site)
        later.say(LINE)
        await second
        assert site.connections == 2
        served.say(LINE, end=True)
        assert [line async for line in lines] == [LINE.strip()]
        await eventually(lambda: len(site.server._acceptor.connections) == 1)
        await client.close()


async def test_a_server_without_http2_is_asked_for_it_once(authority: Authority) -> None:
    async def endless(writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n" + LINE + b"\r\n")
        return True

    script = Scripted(endless)
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0, ssl=tls(authority, HTTP_1_1))
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with client_of(url, authority) as client:
        watches = [client.lines("/watch", {}, None, None) for _ in range(3)]
        assert [await anext(lines) for lines in watches] == [LINE.strip()] * 3
        assert script.connections - 3 in (0, 1), "the attempt at HTTP/2 may have ended before it was noticed"
        shared = client._transport._shared
        assert shared is not None
        assert not shared.may_be_offered
        for lines in watches:
            await lines.aclose()
    server.close()


async def test_a_server_that_is_not_trusted_is_not_asked_anything(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with serving(authority) as site, client_of(site.url, Authority(tmp_path / "other", "other")) as client:
        with pytest.raises(Untrusted):
            await anext(client.lines("/watch", {}, None, None))
        assert site.watches == []


async def test_those_who_wait_for_one_connection_share_its_failure(authority: Authority) -> None:
    attempts = 0

    async def slam(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        writer.close()

    server = await asyncio.start_server(slam, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with client_of(url, authority) as client:
        ends = await asyncio.gather(
            *(anext(client.lines("/watch", {}, None, None)) for _ in range(50)),
            return_exceptions=True,
        )
        assert {type(end) for end in ends} == {Unreachable}
        assert attempts == 1
    server.close()
