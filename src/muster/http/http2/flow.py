"""The transport side of an HTTP/2 connection: one write per iteration of the event loop, flow control, keepalive, and the end.

All data of an iteration are joined and written with its flush. Data are held back (`holding`) when an iteration has produced
enough, or while the transport's buffer is full; waiting streams are served in rotation. Memory that the peer can cause is bounded:
unsent data by `max_unsent`, the transport's buffer by its limits, abandoned streams by `_ABANDONED`, and frames that cost us more
than the peer by an allowance.
"""

from __future__ import annotations

import abc
import asyncio
from typing import Any, Final

from muster.http.flow import GONE
from muster.http.flush_queue import FlushQueue
from muster.http.http2 import frames
from muster.http.http2.frames import ErrorCode
from muster.http.http2.guard import Guard
from muster.http.http2.limits import ConnectionFailure, Http2Limits
from muster.http.http2.stream import Stream
from muster.machinery.clock import Clock

TURN_BYTES: Final = 256 * 1024
"""The most data in one write of a connection."""
TRANSPORT_BYTES: Final = 64 * 1024
"""Bytes in a connection's transport above which the peer counts as slow."""
_ABANDONED: Final = 256


class Http2Flow(asyncio.BufferedProtocol, abc.ABC):
    def __init__(
        self, loop: asyncio.AbstractEventLoop, read_buffer: memoryview, flushing: FlushQueue, limits: Http2Limits, clock: Clock
    ) -> None:
        self.loop = loop
        self.limits = limits
        self.window = frames.DEFAULT_WINDOW
        """Bytes that we may send on all streams together."""
        self.frame_limit = frames.FRAME_LIMIT
        self.holding = False
        """Whether no more data can be sent in this iteration."""
        self.ready: dict[Stream, None] = {}
        """Streams with data that wait for the connection's window."""
        self.streams: dict[int, Stream] = {}
        self.unsent = 0
        self.has_sent = False
        """Heads or data, since the last ping arrived."""
        self.lost = False
        self.closing = False
        """Whether GOAWAY was sent."""
        self.last_read = clock.monotonic()
        self._clock = clock
        self._read_buffer = read_buffer
        self._flush_soon = flushing.add
        self._transport: Any = GONE
        self._out: list[bytes] = []
        self._out_size = 0
        self._write_paused = False
        self._partial = b""
        self._allowance = frames.DEFAULT_WINDOW
        """Bytes that the peer may send on all streams together."""
        self._unacknowledged = 0
        self._last = 0
        """The highest stream that the peer has opened."""
        self._abandoned: dict[int, None] = {}
        self._guard = Guard(limits.nuisance_burst, limits.nuisance_rate, self.last_read)
        self._ping_sent: float | None = None
        self._stuck_since: float | None = None
        self._stuck_size = 0

    @abc.abstractmethod
    def _feed(self, data: bytes) -> None:
        """Parse what was read, and keep an incomplete frame in `_partial`. Raises ConnectionFailure."""

    # Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(TRANSPORT_BYTES)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.closing and not self.streams:
            return
        self.last_read = self._clock.monotonic()
        data = bytes(self._read_buffer[:nbytes])
        try:
            self._feed(self._partial + data if self._partial else data)
        except ConnectionFailure as failure:
            self.fail(failure.code, failure.reason)

    def eof_received(self) -> bool | None:
        return None

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._transport = GONE
        self._out.clear()
        self._partial = b""
        self._lose_streams()
        self.gone(error)

    def pause_writing(self) -> None:
        self._write_paused = self.holding = True
        self._stuck_since = self._clock.monotonic()
        self._stuck_size = self._transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        self._write_paused = self.holding = False
        self._stuck_since = None
        self._pump_ready()

    def put(self, data: bytes) -> None:
        """Add to the write of this iteration."""
        if not self._out:
            self._flush_soon(self)
        self._out.append(data)
        self._out_size += len(data)
        if self._out_size > TURN_BYTES:
            self.holding = True

    def flush(self) -> None:
        if self.lost or not self._out:
            return
        out = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        self._out_size = 0
        self.holding = self._write_paused
        self._transport.write(out)
        if self._write_paused:
            if self._transport.get_write_buffer_size() > self.limits.max_unsent:
                self.abort()
        elif self.ready:
            self._pump_ready()

    def _pump_ready(self) -> None:
        """Serve the waiting streams in rotation, as long as data can be sent."""
        ready, self.ready = self.ready, {}
        for stream in list(ready):
            if self.holding or self.window <= 0:
                break
            del ready[stream]
            if not stream.closed:
                stream.pump()
        if ready:
            self.ready = {**ready, **self.ready}

    def check_unsent(self) -> None:
        if self.unsent > self.limits.max_unsent:
            self.fail(ErrorCode.ENHANCE_YOUR_CALM, "too much data is unsent: open the windows, or request less")

    def held(self) -> int:
        """All unsent data."""
        return 0 if self.lost else self.unsent + self._out_size + int(self._transport.get_write_buffer_size())

    # Ending

    def fail(self, code: ErrorCode, reason: str = "") -> None:
        """End the connection at once, with this code and reason."""
        if self.lost or self._transport.is_closing():
            return
        self.closing = True
        self.put(frames.goaway(self._last, code, reason.encode()[:128]))
        self.flush()
        self._lose_streams()
        self._transport.close()

    def close(self) -> None:
        """Close after everything that was written."""
        if not self.lost and not self._transport.is_closing():
            self.closing = True
            self.flush()
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def _lose_streams(self) -> None:
        streams, self.streams = self.streams, {}
        self.ready.clear()
        for stream in streams.values():
            stream.lost(None)

    # For streams

    def sent_end(self, stream: Stream) -> None:
        if stream.remote_ended:
            self._remove(stream)

    def abandon(self, stream: Stream) -> None:
        """The stream was ended by us; data in flight will be ignored."""
        if not stream.remote_ended:
            self.ignore(stream.id)
        self._remove(stream)

    def ignore(self, number: int) -> None:
        """Ignore data in flight of this stream. Data of a stream that was abandoned long ago are an error."""
        self._abandoned[number] = None
        if len(self._abandoned) > _ABANDONED:
            del self._abandoned[next(iter(self._abandoned))]

    def _remove(self, stream: Stream) -> None:
        self.streams.pop(stream.id, None)
        self.ready.pop(stream, None)
        stream.close()
        if not self.streams:
            self.idle()

    def consumed(self, size: int) -> None:
        self._unacknowledged += size
        if self._unacknowledged * 2 >= self.limits.connection_window and not self.lost:
            self.put(frames.window_update(0, self._unacknowledged))
            self._allowance += self._unacknowledged
            self._unacknowledged = 0

    # For the roles

    def idle(self) -> None:
        """No stream is open."""

    def gone(self, error: Exception | None) -> None:
        """The connection is lost."""

    def is_stranger(self) -> bool:
        return False

    def charge(self, cost: float = 1.0) -> None:
        """Account for a frame that costs us more than the peer. Raises ConnectionFailure."""
        if not self._guard.charge(self.last_read, stranger=self.is_stranger(), cost=cost):
            raise ConnectionFailure(ErrorCode.ENHANCE_YOUR_CALM, "too many resets, refusals or control frames")

    def nuisance(self) -> None:
        """As `charge`, outside of reading."""
        try:
            self.charge()
        except ConnectionFailure as failure:
            self.fail(failure.code, failure.reason)

    # Keeping alive

    def ping(self) -> None:
        self.put(frames.ping(b"\0\0\0\0\0\0\0\1"))

    def keep_alive(self, now: float, interval: float, timeout: float) -> None:
        """Ping a silent peer, and close the connection without an answer."""
        if self._ping_sent is not None:
            if self.last_read >= self._ping_sent:
                self._ping_sent = None
            elif now - self._ping_sent >= timeout:
                self.abort()
                return
        if self._ping_sent is None and now - self.last_read >= interval:
            self._ping_sent = now
            self.ping()
        self._check_progress(now)

    def _check_progress(self, now: float) -> None:
        if self._stuck_since is None or now - self._stuck_since < self.limits.send_timeout:
            return
        size = self._transport.get_write_buffer_size()
        if size >= self._stuck_size:
            self.abort()
        else:
            self._stuck_since, self._stuck_size = now, size
