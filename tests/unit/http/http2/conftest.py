"""An HTTP/2 server on a real socket in the clear, and a peer that says what it likes, frame by frame."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvloop
from hpack import Decoder, Encoder

from muster.http.http2 import frames
from muster.http.http2.fields import Fields, encode
from muster.http.http2.server import Http2Server, ServerLimits
from muster.http.http2.stream import Stream
from muster.http.message import Connection

WAIT = 10.0
ANSWER = b"hello, world\n"
Frame = tuple[int, int, int, bytes]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Exchange:
    """Answers a request when it is complete. `/hold` is not answered, `/known` makes its connection somebody's."""

    def __init__(self, site: Site, stream: Stream, fields: Fields, info: Connection) -> None:
        self.site = site
        self.stream = stream
        self.fields = dict(fields)
        self.path = self.fields[b":path"]
        self.received = b""
        self.trailers: Fields | None = None
        self.reset: int | str | None = None
        if self.path == b"/known":
            info.owner = "somebody"
        site.exchanges.append(self)

    def begin(self) -> None:
        self.begun = True
        if self.trailers is not None:
            self._answer()

    begun = False

    def head_received(self, fields: Fields) -> None:
        raise AssertionError

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.stream.consumed(len(data))
        self.stream.allow(frames.DEFAULT_WINDOW)

    def ended(self, trailers: Fields) -> None:
        self.trailers = trailers
        if self.begun:
            self._answer()

    def lost(self, code: int | None) -> None:
        self.reset = "connection" if code is None else code

    def _answer(self) -> None:
        if self.path == b"/hold":
            return
        self.stream.send_head(encode(((b":status", b"200"), (b"content-type", b"text/plain"))))
        self.stream.send(self.site.answer)
        self.stream.finish(encode(((b"end", b"yes"),)))


class Site:
    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.answer = ANSWER
        self.server: Http2Server

    def request(self, stream: Stream, fields: Fields, info: Connection) -> Exchange:
        return Exchange(self, stream, fields, info)


class Peer:
    """A client with hands: it sends frames as told, and reads what comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.encoder = Encoder()
        self.decoder = Decoder()

    def send(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))

    def request(self, stream: int, path: bytes = b"/", *, end: bool = True, fields: Fields | None = None) -> None:
        self.send(frames.headers(stream, self.block(path, fields), end=end))

    def block(self, path: bytes = b"/", fields: Fields | None = None) -> bytes:
        head = [(b":method", b"POST"), (b":scheme", b"https"), (b":path", path), (b":authority", b"x")]
        return self.encoder.encode([*head, *(fields or [])])

    async def frame(self) -> Frame:
        async with asyncio.timeout(WAIT):
            head = await self.reader.readexactly(9)
            high, low, kind, flags, stream = struct.unpack(">BHBBL", head)
            return kind, flags, stream, await self.reader.readexactly(high << 16 | low)

    async def until(self, kind: int, stream: int | None = None) -> Frame:
        """The next frame of this kind; others are passed over."""
        while True:
            found = await self.frame()
            if found[0] == kind and (stream is None or found[2] == stream) and not (kind in (4, 6) and found[1] & 1):
                return found

    async def until_ack(self, kind: int) -> bytes:
        while True:
            found = await self.frame()
            if found[0] == kind and found[1] & frames.ACK:
                return found[3]

    async def goaway(self) -> tuple[int, bytes]:
        """The code and reason that the connection is ended with."""
        while True:
            *_, payload = await self.until(frames.GOAWAY)
            code = int.from_bytes(payload[4:8], "big")
            return code, payload[8:]

    async def reset(self, stream: int) -> int:
        return int.from_bytes((await self.until(frames.RST_STREAM, stream))[3], "big")

    async def answer(self, stream: int) -> tuple[dict[bytes, bytes], bytes, dict[bytes, bytes]]:
        """Head, data and trailers."""
        head: dict[bytes, bytes] | None = None
        data = b""
        while True:
            kind, flags, number, payload = await self.frame()
            if number != stream or kind not in (frames.DATA, frames.HEADERS):
                assert kind not in (frames.RST_STREAM, frames.GOAWAY), (kind, payload)
                continue
            if kind == frames.DATA:
                data += payload
            else:
                fields = dict(self.decoder.decode(payload, raw=True))
                if head is not None or flags & frames.END_STREAM:
                    return head or fields, data, fields
                head = fields

    async def closed(self) -> None:
        """Until the server has closed the connection."""
        async with asyncio.timeout(WAIT):
            try:
                while await self.reader.read(1 << 16):
                    pass
            except ConnectionError:
                pass

    def close(self) -> None:
        self.writer.transport.abort()


Serve = Callable[..., Awaitable[Site]]
Connect = Callable[..., Awaitable[Peer]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    sites: list[Site] = []

    async def start(**options: Any) -> Site:
        site = Site()
        more = {name: options.pop(name) for name in ("tls", "clock") if name in options}
        site.server = Http2Server(site.request, limits=ServerLimits(**options), **more)
        await site.server.start("127.0.0.1", 0)
        sites.append(site)
        return site

    yield start
    for site in sites:
        await site.server.stop()
        assert site.server.connections == 0


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    peers: list[Peer] = []

    async def open_peer(
        site: Site, *, greet: bool = True, settings: tuple[tuple[int, int], ...] = (), limit: int = 1 << 16
    ) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", site.server.port, limit=limit))
        peers.append(peer)
        if greet:
            peer.send(frames.PREFACE, frames.settings(settings))
            await peer.until(frames.SETTINGS)
            peer.send(frames.SETTINGS_ACK)
        return peer

    yield open_peer
    for peer in peers:
        peer.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class Wire(asyncio.Transport):
    """A transport that only notes what is written."""

    def __init__(self, written: list[bytes]) -> None:
        super().__init__()
        self.written = written
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.written.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


def check_frames(data: bytes) -> None:
    """That these are whole frames, of kinds that there are."""
    position = 0
    last = -1
    while position < len(data):
        high, low, last, _, _ = frames.unpack_header(data, position)
        position += 9 + (high << 16 | low)
    assert position == len(data)
    assert last in range(10)
