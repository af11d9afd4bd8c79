"""Streams to one server that share an HTTP/2 connection, if the server offers that.

Over HTTP/1.1 a watch takes a TLS connection of its own, which costs memory and a handshake on both sides. Over HTTP/2 it takes a
stream. A connection is shared by all streams of one TLS identity as long as the server permits more of them; after that, or when
the server closes it (GOAWAY), the next stream uses a new connection. So does a changed identity.

A stream that is not read blocks no other one: its data are bounded by its flow-control window, and the connection's window is
always extended. Whether a server offers HTTP/2 is found out by one connection and cached for a while.
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
"""Unread bytes of one stream."""
LIMITS: Final = Http2Limits(stream_window=STREAM_WINDOW, connection_window=4 * 1024 * 1024)
KEEPALIVE: Final = KeepAlive(time=30.0, timeout=15.0)
"""As in Go's clients."""
UNUSED_TIMEOUT: Final = 15.0
"""Seconds for which a connection without streams is kept."""
NOT_OFFERED_TTL: Final = 600.0
"""Seconds after which HTTP/2 is tried again with a server that did not offer it."""
MOST_ATTEMPTS: Final = 3
"""Attempts for a stream that servers refuse to process."""


class _NotBegun(Exception):
    """The server has not processed the request: it may be sent again."""


class SharedStream:
    """One response as it arrives. Its owner closes it."""

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
        """Send the request and wait until the response begins. Raises UpstreamError, or _NotBegun."""
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
        """A header of the response."""
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self._head or () if key == wanted), None)

    async def body(self) -> bytes:
        """The data received since the last call; empty at the end. Raises UpstreamError."""
        while not self._pieces and not self._is_over:
            if self._failure is not None:
                raise self._failure
            await self._wait()
        data = self.body_at_hand()
        self.resume_reading()
        return data

    def body_at_hand(self) -> bytes:
        """The data received so far, without waiting; empty if there are none."""
        data = b"".join(self._pieces)
        if data:
            self._pieces.clear()
            self._ends_with_line = data.endswith(b"\n")
        return data

    def resume_reading(self) -> None:
        """The received data were consumed: extend the window."""
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

    # Callbacks of the stream

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
        """A reset after whole lines is a normal end: servers end watches at any time."""
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
        """Whether HTTP/2 may be tried: the server has not refused it recently."""
        return self._clock.monotonic() >= self._not_offered_until

    async def begin(self, key: UpstreamKey, block: bytes) -> SharedStream | None:
        """A response that has begun, for the request of this header block; None if the server does not offer HTTP/2. Raises
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
        """A connection that permits another stream, made if there is none: one attempt for all waiting callers."""
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
            # The close does not wait for the peer: it may not answer, and the event loop may end before.
            connection.abort()
