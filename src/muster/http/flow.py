"""The transport side of a server connection: buffering, pausing, writing, closing, and its current deadline.

Responses are buffered until the end of the event loop's iteration (`flush`), everything else is written at once after them. Both
directions are bounded: reading pauses when the layer above requests it, and `_write_paused` is set when the client is slow.
`_phase` and `deadline` are plain values that the server's sweep compares; there are no timers here.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from muster.http.message import Connection
from muster.http.readbuffer import read_buffer

if TYPE_CHECKING:
    from muster.http.server import HttpServer
    from muster.http.stream import StreamWriter

NEVER = float("inf")

IDLE, HEAD, BODY, BUSY, SENDING, CLOSING = range(6)
"""Waiting for a request, the rest of a head, the rest of a body, the handler, the client to read a response, the end."""


class _Gone:
    """Replaces the transport once the connection is lost: a TLS transport and its protocol refer to each other, and a connection
    that referred to them would keep their buffers until a full garbage collection."""

    def is_closing(self) -> bool:
        return True

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


GONE = _Gone()


class Flow(asyncio.BufferedProtocol):
    __slots__ = (
        "_held",
        "_mark",
        "_phase",
        "_read_buffer",
        "_reading_paused",
        "_transport",
        "_writable",
        "_write_paused",
        "_writer",
        "deadline",
        "info",
        "loop",
        "lost",
        "server",
        "since",
    )

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.loop = loop
        self.info: Connection
        self.lost = False
        self.deadline = NEVER
        self.since = 0.0
        """When the wait for the deadline began."""
        self._transport: Any = None
        self._writer: StreamWriter | None = None
        self._read_buffer = read_buffer(loop)
        self._held = b""
        self._phase = IDLE
        self._mark = 0
        self._reading_paused = False
        self._write_paused = False
        self._writable: asyncio.Future[None] | None = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read_buffer

    def pause_writing(self) -> None:
        self._write_paused = True
        self.server.backlogs.add(self)

    def resume_writing(self) -> None:
        self._write_paused = False
        self.server.backlogs.discard(self)
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._resumed()

    def _resumed(self) -> None:
        """The client has read enough of what was written."""

    def _let_go(self) -> None:
        self._transport = GONE
        self.server.backlogs.discard(self)

    def pause_reading(self) -> None:
        if not self._reading_paused and not self._transport.is_closing():
            self._reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._reading_paused and not self._transport.is_closing():
            self._reading_paused = False
            self._transport.resume_reading()

    def flush(self) -> None:
        """Write the buffered response."""
        if self._held and not self.lost:
            held, self._held = self._held, b""
            self._transport.write(held)
            if self._write_paused and self._phase in (IDLE, HEAD):
                self._wait_for_taker()

    def _emit(self, data: bytes) -> None:
        """Write at once, after buffered data."""
        if self._held:
            self.flush()
        self._transport.write(data)

    def write_raw(self, data: bytes) -> None:
        if not self.lost and data:
            self._emit(data)

    def write_stream(self, data: bytes) -> None:
        self._transport.write(data)
        if self._write_paused and self.write_backlog() > self.server.max_stream_buffer:
            self.abort()

    def write_backlog(self) -> int:
        return 0 if self.lost else len(self._held) + int(self._transport.get_write_buffer_size())

    @property
    def is_behind(self) -> bool:
        """Whether the client has not read enough of what was written."""
        return self._write_paused

    def held(self) -> int:
        """All unsent data."""
        return self.write_backlog()

    def write_eof(self) -> bool:
        if self.lost or self._transport.is_closing() or not self._transport.can_write_eof():
            return False
        self.flush()
        self._transport.write_eof()
        return True

    async def writable(self) -> None:
        while self._write_paused and not self.lost:
            if self._writable is None or self._writable.done():
                self._writable = self.loop.create_future()
            await asyncio.shield(self._writable)
        if self.lost:
            raise ConnectionResetError("the client went away")

    def _wait_in(self, phase: int, seconds: float) -> None:
        self._phase = phase
        self.since = now = time.monotonic()
        self.deadline = now + seconds

    def _wait_for_taker(self) -> None:
        self._mark = self.write_backlog()
        self._wait_in(SENDING, self.server.send_timeout)

    def close(self) -> None:
        if not self.lost:
            self.flush()
            self._mark = self.write_backlog()
            self._wait_in(CLOSING, self.server.send_timeout)
            self._transport.close()

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.lost()
        self._transport.abort()
