"""A konnectivity server of our own, on the transport's HTTP/2 and gRPC code: it leads to servers on this machine as the real one
would with its agents, or does what a test makes it do, which the real one never would."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from muster.gateway.konnectivity.packets import PROXY, PacketType, data_packet
from muster.http.http2.fields import Fields
from muster.http.http2.frames import ErrorCode
from muster.http.http2.server import Http2Server, ServerLimits
from muster.http.http2.stream import Stream
from muster.http.message import Connection
from muster.machinery.protobuf import BYTES, VARINT, read_fields, signed, write_varint
from muster.transport.rpc import headers
from muster.transport.rpc.messages import MAX_MESSAGE, MessageReader, prefixed
from muster.transport.rpc.status import Code

AGENT_PIECE = 4096
"""What upstream's agent reads at once."""


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A protobuf message of these fields."""
    written = b""
    for number, value in fields:
        if isinstance(value, int):
            written += write_varint(number << 3 | VARINT) + write_varint(value & (1 << 64) - 1)
        else:
            raw = value.encode() if isinstance(value, str) else value
            written += write_varint(number << 3 | BYTES) + write_varint(len(raw)) + raw
    return written


def dial_response(random: int, connect_id: int = 0, error: str = "") -> bytes:
    return message((1, PacketType.DIAL_RSP), (3, message((1, error), (2, connect_id), (3, random))))


def dial_close(random: int) -> bytes:
    return message((1, PacketType.DIAL_CLS), (7, message((1, random))))


def close_response(connect_id: int, error: str = "") -> bytes:
    return message((1, PacketType.CLOSE_RSP), (6, message((1, error), (2, connect_id))))


DRAIN = message((1, PacketType.DRAIN), (8, b""))
_PAYLOADS = {PacketType.DIAL_REQ: 2, PacketType.DATA: 4, PacketType.CLOSE_REQ: 5}


def read(packet: bytes) -> tuple[PacketType, dict[int, Any]]:
    """A client's packet: its type, and the fields of its payload."""
    found: dict[int, Any] = {number: value for number, _, value in read_fields(packet)}
    kind = PacketType(found.get(1, 0))
    return kind, {number: value for number, _, value in read_fields(found[_PAYLOADS[kind]])}


class ProxyCall:
    """One call of a client, which a behaviour reads and answers."""

    def __init__(self, server: KonnectivityServer, stream: Stream, fields: Fields) -> None:
        self.stream = stream
        self.received = 0
        """Bytes of data from the client."""
        self.number = 0
        self._server = server
        self._method = dict(fields).get(b":path")
        self._reader = MessageReader(MAX_MESSAGE)
        self._packets: deque[tuple[PacketType, dict[int, Any]]] = deque()
        self._ended = False
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # What the stream tells

    def begin(self) -> None:
        if self._method != PROXY.encode():
            self.stream.send_head(headers.trailers_only(Code.UNIMPLEMENTED, "no such method"), end=True)
            return
        self.stream.send_head(headers.OK_HEAD)
        self._task = asyncio.create_task(self._run())
        self._server.tasks.add(self._task)
        self._task.add_done_callback(self._server.tasks.discard)

    async def _run(self) -> None:
        with suppress(ConnectionError):
            await self._server.behaviour(self)
        self.stream.finish(headers.OK_TRAILERS)

    def head_received(self, fields: Fields) -> None:
        raise AssertionError("a request has one head")

    def data_received(self, data: bytes) -> None:
        self.stream.consumed(len(data))
        self._reader.feed(data)
        self._packets += map(read, self._reader.messages)
        self._reader.messages = []
        self._news.set()

    def ended(self, trailers: Fields) -> None:
        self._ended = True
        self._news.set()

    def lost(self, code: int | None) -> None:
        self._server.resets += code is not None
        self.ended([])

    # For behaviours

    async def next(self) -> tuple[PacketType, dict[int, Any]] | None:
        """The next packet, after which there is room for another; None when the client sends no more."""
        while not self._packets and not self._ended:
            # A packet may be larger than the window.
            self.stream.allow(max(self._server.window, self._reader.missing))
            self._news.clear()
            await self._news.wait()
        if not self._packets:
            return None
        kind, fields = self._packets.popleft()
        self.stream.allow(self._server.window)
        self.received += len(fields.get(3, b"")) if kind is PacketType.DATA else 0
        return kind, fields

    async def dialled(self) -> tuple[str, int]:
        """The host that is dialled, and the dial's number."""
        packet = await self.next()
        assert packet is not None
        kind, fields = packet
        assert (kind, fields[1]) == (PacketType.DIAL_REQ, b"tcp")
        host, _, port = fields[2].decode().rpartition(":")
        assert port == "443"
        return host, signed(fields[3])

    async def over(self) -> None:
        """Until the client sends no more."""
        while await self.next() is not None:
            pass

    async def send(self, packet: bytes) -> None:
        if not self.stream.closed:
            self.stream.send(prefixed(packet))
            if self.stream.unsent:
                await self.stream.writable()

    def reset(self) -> None:
        self.stream.reset(ErrorCode.INTERNAL_ERROR)


Behaviour = Callable[[ProxyCall], Awaitable[None]]


class KonnectivityServer:
    """`routes` are ports on this machine by cluster."""

    def __init__(self, tls: ssl.SSLContext, window: int = 65535) -> None:
        self.routes: dict[str, int] = {}
        self.behaviour: Behaviour = self.lead
        self.window = window
        self.calls: list[ProxyCall] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.resets = 0
        """Calls that clients did not end in peace."""
        self.http = Http2Server(self._request, tls=tls, limits=ServerLimits(stream_window=window, connection_window=1 << 22))

    def _request(self, stream: Stream, fields: Fields, connection: Connection) -> ProxyCall:
        # Whoever shows a certificate is no stranger, and has many streams.
        connection.owner = connection.peer_certificate and "client"
        call = ProxyCall(self, stream, fields)
        self.calls.append(call)
        call.number = len(self.calls)
        return call

    async def start(self, port: int = 0) -> None:
        await self.http.start("127.0.0.1", port)

    @property
    def port(self) -> int:
        return self.http.port

    async def stop(self) -> None:
        await self.http.stop()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def lead(self, call: ProxyCall) -> None:
        """As the real one does with its agents."""
        host, random = await call.dialled()
        if host not in self.routes:
            await call.send(dial_response(random, error="No agent available"))
            return await call.over()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.routes[host])
        except OSError as error:
            await call.send(dial_response(random, error=f"dial tcp: {error}"))
            return await call.over()
        await call.send(dial_response(random, call.number))
        down = asyncio.create_task(self._down(call, reader))
        try:
            while (packet := await call.next()) is not None and packet[0] is PacketType.DATA:
                assert signed(packet[1][1]) == call.number
                writer.write(packet[1][3])
                await writer.drain()
        finally:
            down.cancel()
            await asyncio.gather(down, return_exceptions=True)
            writer.close()

    async def _down(self, call: ProxyCall, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(AGENT_PIECE):
            await call.send(data_packet(call.number, data))
        await call.send(close_response(call.number))
