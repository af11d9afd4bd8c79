"""One exchange on an HTTP/2 connection: its flow control in both directions, and its unsent data.

Data are sent with the connection's next write if the peer's windows permit it; the rest is kept in order until windows open. `send`
never waits: `unsent` is the number of bytes kept, which the sender must limit. For receiving, the peer may send within its window,
and `allow` extends that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Protocol

from muster.http.http2.fields import Fields
from muster.http.http2.frames import DATA, END_STREAM, frame_header, headers, reset, window_update

if TYPE_CHECKING:
    from muster.http.http2.flow import Http2Flow


class StreamHandler(Protocol):
    """The callbacks of a stream. They are called while frames are parsed, and must be quick."""

    def head_received(self, fields: Fields) -> None:
        """A response's head; a request's is passed when its stream is made."""

    def data_received(self, data: bytes) -> None:
        """To be released by `Stream.consumed` when it is no longer kept."""

    def ended(self, trailers: Fields) -> None:
        """The peer has ended its side."""

    def lost(self, code: int | None) -> None:
        """The peer has reset the stream with this error code, or the connection is lost (None). Never after `close`."""


class _NullHandler:
    """Replaces the handler of a closed stream: the two would be a reference cycle until a garbage collection."""

    def head_received(self, fields: Fields) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def ended(self, trailers: Fields) -> None: ...

    def lost(self, code: int | None) -> None: ...


_NULL_HANDLER = _NullHandler()


class Stream:
    __slots__ = (
        "_end",
        "_offset",
        "_queue",
        "_writable",
        "allowance",
        "closed",
        "connection",
        "expected",
        "handler",
        "head_seen",
        "id",
        "local_ended",
        "remote_ended",
        "unconsumed",
        "unsent",
        "window",
    )

    def __init__(self, connection: Http2Flow, number: int, window: int, allowance: int) -> None:
        self.connection = connection
        self.id = number
        self.window = window
        """Bytes that we may send."""
        self.allowance = allowance
        """Bytes that the peer may send."""
        self.handler: StreamHandler = _NULL_HANDLER
        self.expected: int | None = None
        """The rest of the announced length of the peer's data."""
        self.unsent = 0
        self.unconsumed = 0
        self.head_seen = False
        self.local_ended = self.remote_ended = self.closed = False
        self._queue: deque[bytes] = deque()
        self._offset = 0
        self._end: bytes | None = None
        self._writable: asyncio.Future[None] | None = None

    # Sending

    def send_head(self, block: bytes, *, end: bool = False) -> None:
        if not self.closed and not self.local_ended:
            self.connection.has_sent = True
            self.connection.put(headers(self.id, block, end=end, limit=self.connection.frame_limit))
            if end:
                self._ended_here()

    def send(self, data: bytes, *, end: bool = False) -> None:
        """Send data with the connection's next write, or keep what flow control holds back."""
        size = len(data)
        connection = self.connection
        if (
            size <= self.window
            and size <= connection.window
            and size <= connection.frame_limit
            and not connection.holding
            and not self.unsent
            and not self.local_ended
            and not self.closed
        ):
            self.window -= size
            connection.window -= size
            connection.has_sent = True
            connection.put(frame_header(size, DATA, END_STREAM if end else 0, self.id) + data)
            if end:
                self._ended_here()
        elif not self.closed and not self.local_ended:
            if size:
                self._queue.append(data)
                self.unsent += size
                connection.unsent += size
            if end:
                self._end = b""
            self.pump()
            connection.check_unsent()

    def finish(self, trailers: bytes) -> None:
        """End our side after all data; `trailers` is a header block."""
        if self.closed or self.local_ended:
            return
        self._end = trailers
        self.pump()

    def pump(self) -> None:
        """Send kept data, as far as flow control permits."""
        connection, queue = self.connection, self._queue
        while queue:
            if self.window <= 0:
                return  # called again when its window opens
            room = min(self.window, connection.window, connection.frame_limit)
            if room <= 0 or connection.holding:
                connection.ready[self] = None
                return
            data, offset = queue[0], self._offset
            size = min(len(data) - offset, room)
            whole = size == len(data) - offset
            last = whole and len(queue) == 1 and self._end == b""
            piece = data if whole and not offset else data[offset : offset + size]
            self.window -= size
            connection.window -= size
            connection.has_sent = True
            connection.put(frame_header(size, DATA, END_STREAM if last else 0, self.id) + piece)
            self.unsent -= size
            connection.unsent -= size
            if whole:
                queue.popleft()
                self._offset = 0
            else:
                self._offset = offset + size
            if last:
                self._ended_here()
                return
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if self._end is not None and not self.local_ended:
            if self._end:
                self.connection.put(headers(self.id, self._end, end=True, limit=connection.frame_limit))
            else:
                self.connection.put(frame_header(0, DATA, END_STREAM, self.id))
            self._ended_here()

    async def writable(self) -> None:
        """Wait until nothing is unsent. Raises ConnectionResetError if that can never happen."""
        while self.unsent and not self.closed:
            if self._writable is None or self._writable.done():
                self._writable = self.connection.loop.create_future()
            await asyncio.shield(self._writable)
        if self.closed:
            raise ConnectionResetError("the stream is closed")

    def _ended_here(self) -> None:
        self.local_ended = True
        self._end = None
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self.connection.sent_end(self)

    def reset(self, code: int) -> None:
        """End both sides at once."""
        if not self.closed:
            self.connection.put(reset(self.id, code))
            self.connection.abandon(self)

    # Receiving

    def allow(self, size: int) -> None:
        """Extend the peer's window to this number of bytes, if it is smaller."""
        if size > self.allowance and not self.closed and not self.remote_ended:
            self.connection.put(window_update(self.id, size - self.allowance))
            self.allowance = size

    def consumed(self, size: int) -> None:
        """Received bytes are no longer kept: extend the connection's window."""
        self.unconsumed -= size
        self.connection.consumed(size)

    def close(self) -> None:
        """For the connection: the stream is over."""
        self.closed = True
        self.handler = _NULL_HANDLER
        self.connection.unsent -= self.unsent
        self.unsent = 0
        self._queue.clear()
        if self.unconsumed:
            self.consumed(self.unconsumed)
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def lost(self, code: int | None) -> None:
        """For the connection."""
        if not self.closed:
            handler = self.handler
            self.close()
            handler.lost(code)
