"""One exchange on an HTTP/2 connection: what may still be sent and received on it, and what waits to be sent.

Data leave with the connection's next write if the other side's windows allow it; the rest is kept in order and leaves as windows
open. Nobody waits in `send`: `unsent` says how many bytes are kept, and it is the sender's business to keep few. Receiving is the
other way round: the other side may send what was allowed, and `allow` is called when there is room for more.
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
    """Whom a stream tells what comes. All of it is called while frames are read, and must be quick."""

    def head_received(self, fields: Fields) -> None:
        """An answer's head; a request's is handed over when its stream is made."""

    def data_received(self, data: bytes) -> None:
        """To be given back by `Stream.consumed` when it is no longer kept."""

    def ended(self, trailers: Fields) -> None:
        """The other side has sent all it had to."""

    def lost(self, code: int | None) -> None:
        """The other side has reset the stream, by an error of this code, or the connection is gone (None). Never after `close`."""


class _NullHandler:
    """Stands where a handler was once a stream is closed: the two would hold each other until a garbage collection."""

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
        """Bytes that the other side may send."""
        self.handler: StreamHandler = _NULL_HANDLER
        self.expected: int | None = None
        """What is left of the announced length of the other side's data."""
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
        """Put data into the connection's next write, or keep what its limits hold back."""
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
        """End our side after all that was sent; `trailers` is a header block."""
        if self.closed or self.local_ended:
            return
        self._end = trailers
        self.pump()

    def pump(self) -> None:
        """Send what is kept, as far as the limits allow."""
        connection, queue = self.connection, self._queue
        while queue:
            if self.window <= 0:
                return  # pumped again when its window opens
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
        """Until nothing is unsent. Raises ConnectionResetError when that will never be."""
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
        """Let the other side have so many bytes on the way, if it may not already."""
        if size > self.allowance and not self.closed and not self.remote_ended:
            self.connection.put(window_update(self.id, size - self.allowance))
            self.allowance = size

    def consumed(self, size: int) -> None:
        """So many bytes that were received are no longer kept: the connection has room for others."""
        self.unconsumed -= size
        self.connection.consumed(size)

    def close(self) -> None:
        """For the connection: nothing more will come or go."""
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
