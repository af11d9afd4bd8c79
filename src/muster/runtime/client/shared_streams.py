"""Streams to one server that share a connection, by HTTP/2 where the server offers it.

Over HTTP/1.1 a watch takes a TLS connection of its own, which costs memory and a handshake at both ends. Here it takes a stream. A
connection is shared by all streams of one TLS identity as long as the server opens more of them on it; then, or when the server
wants no more (GOAWAY), the next stream goes over a new one. An identity that has changed does the same.

A stream that is not read holds up nobody but itself: what may come on it is bounded by its window, and the connection's window is
opened for all that comes. That a server does not offer HTTP/2 is found out by one connection and remembered for a while.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from muster.http.http2.client import ClientConnection, ConnectionGoing, KeepAlive, NotOffered, connect
from muster.http.http2.fields import Fields
from muster.http.http2.frames import ErrorCode
from muster.http.http2.limits import Http2Limits
from muster.http.http2.stream import Stream
from muster.http.pool import UpstreamKey
from muster.http.upstream import UpstreamError, UpstreamUnavailable
from muster.machinery.clock import Clock

CONNECT_TIMEOUT: Final = 10.0
STREAM_WINDOW: Final = 256 * 1024
"""Bytes of one stream that nobody has read yet."""
LIMITS: Final = Http2Limits(stream_window=STREAM_WINDOW, connection_window=4 * 1024 * 1024)
KEEPALIVE: Final = KeepAlive(time=30.0, timeout=15.0)
"""As Go's clients do."""
UNUSED_TIMEOUT: Final = 15.0
"""Seconds for which a connection is kept without a stream."""
NOT_OFFERED_TTL: Final = 600.0
"""Seconds after which a server that does not offer HTTP/2 is asked again."""
MOST_ATTEMPTS: Final = 3
"""For a stream that servers do not begin with."""


class _NotBegun(Exception):
    """The server has not looked at the request: it may be sent again."""


class SharedStream:
    """One answer as it comes. Whoever has it closes it."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self._stream: Stream | None = None
        self._head: Fields | None = None
        self._pieces: deque[bytes] = deque()
        self._is_over = False
        self._failure: Exception | None = None
        self._ends_with_line = True
        self._news: asyncio.Future[None] | None = None

    async def begin(self, block: bytes) -> None:
        """Send the request and wait until an answer begins. Raises UpstreamError, or _NotBegun."""
        try:
            self._stream = await self.connection.open(block, self, end=True)
        except ConnectionGoing:
            raise _NotBegun from None
        while self._head is None:
            if self._failure is not None:
                raise self._failure
            await self._wait()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self.connection.loop

    @property
    def status(self) -> int:
        return int(self.field(":status") or 0)

    def field(self, name: str) -> str | None:
        """Of the answer's head."""
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self._head or () if key == wanted), None)

    async def body(self) -> bytes:
        """What came since; empty at the end. Raises UpstreamError."""
        while not self._pieces and not self._is_over:
            if self._failure is not None:
                raise self._failure
            await self._wait()
        data = self.body_at_hand()
        self.resume_reading()
        return data

    def body_at_hand(self) -> bytes:
        """What came since, without waiting; empty if nothing did."""
        data = b"".join(self._pieces)
        if data:
            self._pieces.clear()
            self._ends_with_line = data.endswith(b"\n")
        return data

    def resume_reading(self) -> None:
        """What came is no longer kept: more may come."""
        stream = self._stream
        if stream is not None and stream.allowance * 2 < STREAM_WINDOW:
            stream.allow(STREAM_WINDOW)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.reset(ErrorCode.CANCEL)
            self._stream = None

    async def _wait(self) -> None:
        self._news = self.connection.loop.create_future()
        await self._news

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # What the stream tells

    def head_received(self, fields: Fields) -> None:
        self._head = fields
        self._wake()

    def data_received(self, data: bytes) -> None:
        assert self._stream is not None
        self._stream.consumed(len(data))
        self._pieces.append(data)
        self._wake()

    def ended(self, trailers: Fields) -> None:
        self._is_over = True
        self._wake()

    def lost(self, code: int | None) -> None:
        """A reset after whole lines is an end like any other: servers end watches when it suits them."""
        whole = self._pieces[-1].endswith(b"\n") if self._pieces else self._ends_with_line
        if self._head is None and code == ErrorCode.REFUSED_STREAM:
            self._failure = _NotBegun()
        elif self._head is not None and code is not None and whole:
            self._is_over = True
        else:
            self._failure = UpstreamUnavailable(self.connection.name, self._reason(code))
        self._wake()

    def _reason(self, code: int | None) -> str:
        connection = self.connection
        if code is not None:
            return f"the server reset the stream (HTTP/2 error {code})"
        if connection.farewell is not None and connection.farewell[1]:
            return f"the connection was closed: {connection.farewell[1].decode('utf-8', 'replace')}"
        return f"the connection was lost: {connection.failure}" if connection.failure else "the connection was closed"


class SharedStreams:
    """The HTTP/2 connections to one server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._connections: list[tuple[UpstreamKey, ClientConnection]] = []
        self._connecting = asyncio.Lock()
        self._not_offered_until = float("-inf")
        self._failure: UpstreamError | None = None
        self._failed_at = float("-inf")
        self._closed = False

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def may_be_offered(self) -> bool:
        """Whether the server has not said lately that it does not offer HTTP/2."""
        return self._clock.monotonic() >= self._not_offered_until

    async def begin(self, key: UpstreamKey, block: bytes) -> SharedStream | None:
        """An answer that has begun to the request of this header block; None where the server does not offer HTTP/2. Raises
        UpstreamError."""
        for attempt in range(MOST_ATTEMPTS):
            connection = await self._connection(key)
            if connection is None:
                return None
            stream = SharedStream(connection)
            try:
                await stream.begin(block)
            except _NotBegun:
                if attempt == MOST_ATTEMPTS - 1:
                    raise UpstreamUnavailable(connection.name, "the server begins no more streams") from None
            except BaseException:
                self.release(stream)
                raise
            else:
                return stream
        raise AssertionError("the last attempt returns or raises")

    def release(self, stream: SharedStream) -> None:
        stream.close()
        connection = stream.connection
        if not connection.streams and not connection.lost:
            self._clock.call_later(UNUSED_TIMEOUT, lambda: None if connection.streams else connection.retire())

    async def _connection(self, key: UpstreamKey) -> ClientConnection | None:
        """One with room for another stream, made if there is none: one attempt for all who wait."""
        came = self._clock.monotonic()
        async with self._connecting:
            if not self.may_be_offered:
                return None
            if self._failure is not None and self._failed_at >= came:
                raise self._failure.with_traceback(None)
            for known, connection in self._connections:
                if known != key:
                    connection.retire()
                elif connection.has_room:
                    return connection
            try:
                made = await connect(
                    key, timeout=CONNECT_TIMEOUT, keepalive=KEEPALIVE, limits=LIMITS, clock=self._clock, on_end=self._forget
                )
            except NotOffered:
                self._not_offered_until = self._clock.monotonic() + NOT_OFFERED_TTL
                return None
            except UpstreamError as error:
                error.sent = False
                self._failure, self._failed_at = error, self._clock.monotonic()
                raise
            if self._closed:
                made.close()
            self._connections.append((key, made))
            return made

    def _forget(self, connection: ClientConnection) -> None:
        self._connections = [(key, other) for key, other in self._connections if other is not connection]

    def close(self) -> None:
        self._closed = True
        for _, connection in list(self._connections):
            connection.close()
            # Who closes does not wait for the other side's farewell: it may never come, and the loop may end before.
            connection.abort()
