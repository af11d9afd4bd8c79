"""The handler's interfaces of an open connection: chunks (`StreamWriter`), a request body (`BodyStream`), raw bytes
(`RawConnection`).

Writes are collected into one transport write per connection and iteration of the event loop, because each is a system call (and a
TLS record). Nothing here blocks a broadcaster: writing never waits, `buffered` is how far behind the client is, and a stream beyond
the server's limit is cut. Received data are bounded too: reading from the socket pauses while the handler has not taken them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from muster.http.bodies import BodyRefused
from muster.http.message import decode_chunks, encode_chunk

if TYPE_CHECKING:
    from muster.http.bodies import Hold
    from muster.http.protocol import ServerConnection
    from muster.http.server import HttpServer

READ_AHEAD = 64 * 1024
PIECE_OVERHEAD = 64
"""The cost of a piece besides its bytes: a client that sends single bytes must not cause fifty times their memory."""
GATHERED = 256 * 1024
"""Bytes after which the writes of one iteration are flushed."""


class Outlet(Protocol):
    """The target of a response body: a connection, or one stream of it."""

    loop: asyncio.AbstractEventLoop
    server: HttpServer

    def write_stream(self, data: bytes) -> None: ...

    def write_backlog(self) -> int: ...

    @property
    def is_behind(self) -> bool: ...

    async def writable(self) -> None: ...

    def abort(self) -> None: ...


class StreamWriter:
    """The body of one StreamResponse."""

    __slots__ = ("_chunked", "_closed", "_connection", "_ending", "_expected", "_gathered", "_gathered_bytes", "is_closed")

    def __init__(self, connection: Outlet, *, chunked: bool, length: int | None) -> None:
        self._connection = connection
        self._chunked = chunked
        self._expected = length
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._closed: asyncio.Future[None] | None = None
        self._ending = False
        self.is_closed = False

    def write(self, payload: bytes) -> None:
        """Send `payload`, as one chunk where the chunked coding is used. Ignored once closed."""
        if not payload or self.is_closed:
            return
        if self._expected is not None:
            self._expected -= len(payload)
            if self._expected < 0:
                raise ValueError("more was written than the announced length")
        self._gather(encode_chunk(payload) if self._chunked else payload)

    def write_framed(self, framed: bytes) -> None:
        """Send chunks made by `encode_chunk` before, shared by many connections."""
        if self._chunked:
            if not self.is_closed:
                self._gather(framed)
        else:
            self.write(decode_chunks(framed))

    def _gather(self, data: bytes) -> None:
        gathered = self._gathered
        if not gathered:
            self._connection.server.flush_soon(self)
        gathered.append(data)
        self._gathered_bytes += len(data)

    def flush(self) -> None:
        """Pass on the collected writes; the server does this once per iteration."""
        gathered = self._gathered
        if not gathered:
            return
        data = gathered[0] if len(gathered) == 1 else b"".join(gathered)
        gathered.clear()
        self._gathered_bytes = 0
        if not self.is_closed:
            self._connection.write_stream(data)

    @property
    def buffered(self) -> int:
        """Bytes the kernel has not taken yet (under TLS up to one socket buffer of 64 KiB more is out of sight)."""
        return self._gathered_bytes + self._connection.write_backlog()

    @property
    def is_behind(self) -> bool:
        """Whether large writes should `drain` first."""
        return self._connection.is_behind or self._gathered_bytes > GATHERED

    async def drain(self) -> None:
        """Wait until the client has read enough that more may be written."""
        self.flush()
        await self._connection.writable()

    @property
    def closed(self) -> asyncio.Future[None]:
        """Resolves when the client is gone or the stream is to end; then `run` should return."""
        if self._closed is None or self._closed.cancelled():
            self._closed = self._connection.loop.create_future()
            if self.is_closed or self._ending or self._connection.server.stopping:
                self._closed.set_result(None)
        return self._closed

    def abort(self) -> None:
        """Cut the connection at once and drop what is buffered: the end of a slow consumer."""
        self._connection.abort()

    def announce_end(self) -> None:
        """Request that `run` returns: the server stops, or the stream is no longer permitted."""
        self._ending = True
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def lost(self) -> None:
        self.is_closed = True
        self._gathered.clear()
        self._gathered_bytes = 0
        self.announce_end()

    def finish(self) -> bool:
        """Send the end marker; False if less was written than announced."""
        if self._chunked:
            self._gather(b"0\r\n\r\n")
        self.flush()
        self.is_closed = True
        return not self._expected


class Pausable(Protocol):
    """A connection whose socket can be left unread for a while."""

    loop: asyncio.AbstractEventLoop

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _NullFlow:
    """Replaces the connection of an inbox once it is lost: they would be a reference cycle until a garbage collection."""

    loop: asyncio.AbstractEventLoop

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


_NULL_FLOW = _NullFlow()


def lose_nothing_unread(transport: Any) -> None:
    """Make TLS stop reading from the socket as soon as data wait for a paused reader. uvloop discards waiting data at the socket's
    end, so the last data of a server that closes at once, as those in Go do, would be lost."""
    transport.set_read_buffer_limits(1, 0)


class Inbox:
    """Bytes from a socket for one reader, with the socket paused while too many wait."""

    __slots__ = ("_connection", "_ended", "_error", "_held", "_parts", "_sink", "_waiter")

    def __init__(self, connection: Pausable) -> None:
        self._connection = connection
        self._sink: Callable[[bytes], bool] | None = None
        self._parts: list[bytes] = []
        self._held = 0
        self._ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def feed(self, data: bytes) -> None:
        if not data:
            return
        if self._sink is not None:
            self._pour(data, self._sink)
            return
        self._parts.append(data)
        self._held += len(data) + PIECE_OVERHEAD
        if self._held > READ_AHEAD:
            self._connection.pause_reading()
        self._wake()

    def feed_eof(self, error: Exception | None = None) -> None:
        """No more data; with `error`, the reader learns that the data are incomplete."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._wake()

    def let_go(self) -> None:
        """The connection is lost, and its end was fed: received data can still be read."""
        self._connection = _NULL_FLOW

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def taken(self) -> bytes:
        """All received data, without waiting."""
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        return data

    async def _more(self) -> None:
        """Wait for data."""
        self._waiter = self._connection.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _pour(self, data: bytes, sink: Callable[[bytes], bool]) -> None:
        try:
            if sink(data):
                return
        except Exception as error:
            # The error concerns the reader only.
            self.feed_eof(error)
        self._sink = None
        self._wake()

    async def drain_into(self, sink: Callable[[bytes], bool]) -> bool:
        """Pass data to `sink` as they arrive, until that returns False. False at the end.

        For relays: waking a reader for each piece of a stream costs more than the piece.
        """
        if self._parts and not sink(self.taken()):
            return True
        self._connection.resume_reading()
        if not self._ended:
            self._sink = sink
            try:
                await self._more()
            finally:
                self._sink = None
        if self._parts or not self._ended:
            return True
        if self._error is not None:
            raise self._error
        return False

    async def take(self) -> bytes:
        """All received data, after waiting for some; empty at the end."""
        while not self._parts and not self._ended:
            await self._more()
        data = self.taken()
        if not data and self._error is not None:
            raise self._error
        self._connection.resume_reading()
        return data


class BodySource(Pausable, Protocol):
    """The connection of a request body, with its memory budget."""

    server: HttpServer

    async def hold_body(self, size: int, abandon: Callable[[], None]) -> Hold: ...

    def send_continue(self) -> None: ...


class BodyStream(Inbox):
    """A request body as it arrives: streamed for requests that the server's `stream_body` selects, else buffered."""

    __slots__ = ("_gathered", "_server_connection", "awaits_continue", "awaits_room", "complete", "length", "whole")

    def __init__(self, connection: BodySource, length: int | None, *, expects_continue: bool, whole: bool = False) -> None:
        super().__init__(connection)
        self.length = length
        """The announced length; None for a chunked body."""
        self.whole = whole
        """Whether it is buffered until it is complete, with a limit, a deadline and memory from the server's budget."""
        self.complete = False
        """Whether all of it has arrived, read or not."""
        self._gathered: bytearray | None = None
        self._server_connection = connection
        self.awaits_continue = expects_continue
        self.awaits_room = False

    @property
    def arrived(self) -> int:
        """Bytes that wait to be read."""
        return self._held

    async def read_whole(self) -> bytes:
        """All of it, held within the server's budget until its request is answered. Raises BodyRefused."""
        connection = self._server_connection
        limit = connection.server.max_body
        if self.length is not None and self.length > limit:
            raise BodyRefused(413, "the request body is too large")
        self.awaits_room = True
        try:
            hold = await connection.hold_body(limit if self.length is None else self.length, self._abandon_body)
        finally:
            self.awaits_room = False
        gathered = self._gathered = bytearray()
        self.feed(self.taken())
        connection.resume_reading()
        self._grant_continue()
        while not self._ended:
            await self._more()
        if self._error is not None:
            raise self._error
        hold.abandon = None
        return bytes(gathered)

    def feed(self, data: bytes) -> None:
        """A buffered body has memory already: its reader is woken at the end, and reading never pauses."""
        if self._gathered is None:
            super().feed(data)
        elif self._error is None:
            self._gathered += data
            if len(self._gathered) > self._server_connection.server.max_body:
                self.feed_eof(BodyRefused(413, "the request body is too large"))

    def _abandon_body(self) -> None:
        self.feed_eof(BodyRefused(429, "the request body came slowly and others waited, please try again later"))

    async def read(self) -> bytes:
        """The next bytes; empty at the end. The first call sends `100 Continue` if the client waits for it."""
        self._grant_continue()
        return await self.take()

    def _grant_continue(self) -> None:
        if self.awaits_continue:
            self.awaits_continue = False
            self._server_connection.send_continue()

    def __aiter__(self) -> BodyStream:
        return self

    async def __anext__(self) -> bytes:
        data = await self.read()
        if not data:
            raise StopAsyncIteration
        return data

    def end(self) -> None:
        self.complete = True
        self.feed_eof()

    def tear(self) -> None:
        self.feed_eof(ConnectionResetError("the client went away in the middle of its request body"))


class RawConnection:
    """The socket of a Takeover. `initial` has the data that the client sent after its request head."""

    __slots__ = ("_connection", "_inbox", "initial")

    def __init__(self, connection: ServerConnection, initial: bytes) -> None:
        self._connection = connection
        self._inbox = Inbox(connection)
        self.initial = initial

    async def read(self) -> bytes:
        """The data received since the last call; empty when the client has ended its direction or is gone."""
        return await self._inbox.take()

    def write(self, data: bytes) -> None:
        self._connection.write_raw(data)

    async def drain(self) -> None:
        await self._connection.writable()

    def write_eof(self) -> bool:
        """End our direction only; False where the transport cannot (TLS)."""
        return self._connection.write_eof()

    def close(self) -> None:
        """Close after what was written has been sent."""
        self._connection.close()

    def abort(self) -> None:
        self._connection.abort()

    @property
    def is_closed(self) -> bool:
        return self._connection.lost

    @property
    def secure(self) -> bool:
        """Under TLS there is no half-close: a client that ends its direction is gone."""
        return self._connection.info.scheme == "https"

    def feed(self, data: bytes) -> None:
        self._inbox.feed(data)

    def feed_eof(self) -> None:
        self._inbox.feed_eof()
