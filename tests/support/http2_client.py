"""A client of HTTP/2 on raw frames, for tests of servers: it sends whatever it is told to, and is honest only if it is used so.

`Connection` opens TLS and HTTP/2, reads what the server says and counts it. `Bystander` makes honest calls on a connection of its
own for as long as it is entered, and knows how long each took. Nothing here knows whose server it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Final

from hpack import Decoder, Encoder

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PUBLISH: Final = "/io.cloudevents.v1.CloudEventService/Publish"
SUBSCRIBE: Final = "/io.cloudevents.v1.CloudEventService/Subscribe"
MESSAGE: Final = bytes.fromhex("00000000100a0e0a01691201731a03312e30220174")
"""A PublishRequest of an event that says next to nothing. (Upstream's server dies of one that has no event.)"""
WINDOW: Final = 2**31 - 1
CONNECT_TIMEOUT: Final = 30.0
ANSWER_TIMEOUT: Final = 10.0
STALL_TIMEOUT: Final = 1.0


class Frame(IntEnum):
    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Flag(IntFlag):
    NONE = 0
    END_STREAM = 1
    ACK = 1
    END_HEADERS = 4


class Setting(IntEnum):
    HEADER_TABLE_SIZE = 1
    INITIAL_WINDOW_SIZE = 4


ERRORS: Final = (
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
)


def error_name(code: int) -> str:
    return ERRORS[code] if code < len(ERRORS) else str(code)


@dataclass(frozen=True)
class Target:
    """A server, how its certificate is checked and, in `tls`, which certificate a client shows."""

    host: str
    port: int
    tls: ssl.SSLContext
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Of every call."""
    cluster: str = "cluster1"
    """In whose name streams are opened."""


def client_tls(ca: Path, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca))
    context.set_alpn_protocols(["h2"])
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(values: Mapping[int, int]) -> bytes:
    return frame(Frame.SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in values.items()))


def window_update(stream: int, increment: int) -> bytes:
    return frame(Frame.WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))


def reset(stream: int, code: int = 8) -> bytes:
    return frame(Frame.RST_STREAM, 0, stream, struct.pack(">I", code))


def request_fields(target: Target, path: str) -> list[tuple[str, str]]:
    return [
        (":method", "POST"),
        (":scheme", "https"),
        (":path", path),
        (":authority", f"{target.host}:{target.port}"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *target.metadata.items(),
    ]


def subscription(target: Target) -> bytes:
    """The message of a Subscribe to the cluster's works."""
    kind = b"io.open-cluster-management.works.v1alpha1.manifestbundles"
    name = target.cluster.encode()
    message = b"\x12" + bytes([len(name)]) + name + b"\x1a" + bytes([len(kind)]) + kind
    return b"\0" + struct.pack(">I", len(message)) + message


class Connection:
    """A TLS connection with HTTP/2's opening done. What the server sends is read and counted; unless `polite`, not acted upon."""

    def __init__(self, target: Target, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, polite: bool) -> None:
        self.target = target
        self.encoder = Encoder()
        self.goaway = ""
        self.closed = False
        self.stalled = False
        """Whether the server has stopped reading what is sent."""
        self.resets = 0
        self.answers = 0
        self.statuses: dict[int, str] = {}
        """`grpc-status` by stream, as far as it has come."""
        self.ended: dict[int, asyncio.Future[str]] = {}
        self._decoder = Decoder()
        self._reader = reader
        self._writer = writer
        self._polite = polite
        self._paused = False
        self._next = 1
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, target: Target, values: Mapping[int, int] | None = None, *, polite: bool = True) -> Connection:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(target.host, target.port, ssl=target.tls, server_hostname=target.host)
        connection = cls(target, reader, writer, polite=polite)
        connection.write(PREFACE + settings(values or {}))
        return connection

    def stream(self) -> int:
        number, self._next = self._next, self._next + 2
        return number

    def request(self, stream: int, path: str, *, flags: Flag = Flag.END_HEADERS) -> bytes:
        return frame(Frame.HEADERS, flags, stream, self.encoder.encode(request_fields(self.target, path)))

    def write(self, data: bytes) -> None:
        if not self.closed:
            self._writer.write(data)

    async def flush(self) -> bool:
        """Until the kernel has it; whether the connection still stands and the server reads."""
        try:
            async with asyncio.timeout(STALL_TIMEOUT):
                await self._writer.drain()
        except TimeoutError:
            self.stalled = True
        except (OSError, ssl.SSLError):
            self.closed = True
        # The reader is given its turn, or a goodbye would go unseen for as long as there is room to write.
        await asyncio.sleep(0)
        return not (self.closed or self.goaway or self.stalled)

    async def call(self, path: str, message: bytes) -> str:
        """The `grpc-status` of an honest call; empty when the server gave none."""
        stream = self.stream()
        ended = self.ended[stream] = asyncio.get_running_loop().create_future()
        try:
            self.write(self.request(stream, path) + frame(Frame.DATA, Flag.END_STREAM, stream, message))
            await self.flush()
            async with asyncio.timeout(ANSWER_TIMEOUT):
                return await ended
        finally:
            self.ended.pop(stream, None)

    async def pause(self) -> None:
        """Read nothing more, until `settled`. The server must have nothing half said."""
        self._reading.cancel()
        await asyncio.wait({self._reading})
        self._paused, self.closed = True, False

    async def settled(self, seconds: float) -> None:
        """Until the server has ended it, or the time is over."""
        if self._paused:
            self._paused, self._reading = False, asyncio.create_task(self._read())
        await asyncio.wait({self._reading}, timeout=seconds)

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.wait({self._reading})
        self._writer.transport.abort()

    async def _read(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(9)
                length = int.from_bytes(head[:3], "big")
                kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
                self._received(kind, flags, stream, await self._reader.readexactly(length))
        except (OSError, EOFError, ssl.SSLError):
            pass
        finally:
            self.closed = True
            for future in self.ended.values():
                if not future.done():
                    future.set_exception(ConnectionError(f"the server ended the connection ({self.goaway or 'no GOAWAY'})"))

    def _received(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == Frame.GOAWAY:
            self.goaway = error_name(struct.unpack(">I", payload[4:8])[0])
        elif kind == Frame.RST_STREAM:
            self.resets += 1
            self._end(stream)
        elif kind == Frame.HEADERS:
            for name, value in self._decoder.decode(payload, raw=True):
                if name == b"grpc-status":
                    self.statuses[stream] = value.decode()
        elif self._polite and not flags & Flag.ACK and kind in (Frame.SETTINGS, Frame.PING):
            self.write(frame(kind, Flag.ACK, 0, payload if kind == Frame.PING else b""))
        elif self._polite and kind == Frame.DATA and payload:
            self.write(window_update(0, len(payload)) + window_update(stream, len(payload)))
        if kind in (Frame.HEADERS, Frame.DATA) and flags & Flag.END_STREAM:
            self._end(stream)

    def _end(self, stream: int) -> None:
        self.answers += 1
        status = self.statuses.pop(stream, "")
        future = self.ended.get(stream)
        if future is not None and not future.done():
            future.set_result(status)


@contextlib.asynccontextmanager
async def opened(target: Target, values: Mapping[int, int] | None = None, *, polite: bool = True) -> AsyncIterator[Connection]:
    connection = await Connection.open(target, values, polite=polite)
    try:
        yield connection
    finally:
        await connection.close()


class Bystander:
    """Honest calls, one after the other on a connection of its own, while it is entered."""

    def __init__(self, target: Target, path: str = PUBLISH, message: bytes = MESSAGE, interval: float = 0.01) -> None:
        self.target = target
        self.samples: list[tuple[float, float]] = []
        """When each call began and how long it took; forever, if it was not answered."""
        self.statuses: set[str] = set()
        self._path = path
        self._message = message
        self._interval = interval

    async def __aenter__(self) -> Bystander:
        self._calling = asyncio.create_task(self._call())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._calling.cancel()
        await asyncio.wait({self._calling})

    def p99(self, since: float, until: float) -> float:
        """In seconds, of the calls that began between two readings of `time.monotonic`."""
        found = sorted(took for began, took in self.samples if since <= began < until)
        return found[int(0.99 * (len(found) - 1))] if found else float("inf")

    async def _call(self) -> None:
        while True:
            try:
                async with opened(self.target) as connection:
                    while not connection.goaway:
                        await self._measure(connection)
                        await asyncio.sleep(self._interval)
            except (OSError, ssl.SSLError, TimeoutError):
                self.samples.append((time.monotonic(), float("inf")))
                await asyncio.sleep(0.2)

    async def _measure(self, connection: Connection) -> None:
        began = time.monotonic()
        self.statuses.add(await connection.call(self._path, self._message))
        self.samples.append((began, time.monotonic() - began))


@dataclass(frozen=True)
class Credentials:
    """The files of a client."""

    ca: Path
    certificate: Path | None = None
    key: Path | None = None

    def tls(self) -> ssl.SSLContext:
        return client_tls(self.ca, self.certificate, self.key)

    def arguments(self) -> list[str]:
        given = {"--ca": self.ca, "--cert": self.certificate, "--key": self.key}
        return [text for flag, path in given.items() if path is not None for text in (flag, str(path))]
