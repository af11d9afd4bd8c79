"""What both ends of an HTTP/2 connection do: take frames apart, keep windows and streams, and write once per loop turn.

Bytes become frames here and frames become calls of the streams' handlers; what is particular to a server or a client is in
their own modules. An error of one stream resets it, an error of the connection ends it with GOAWAY, and both are told by the
codes that RFC 9113 asks for. Everything that the other side can make us keep is bounded: a frame by its size, a header block by
`max_fields`, data by the windows that we open, what is unsent by `max_unsent`, what the transport holds by its limits, streams
by their number, and the record of streams we have given up by `_ABANDONED`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from muster.http.flow import GONE
from muster.http.flushing import FlushQueue
from muster.http.http2 import frames
from muster.http.http2.fields import (
    FieldDecoder,
    Fields,
    FieldsTooLarge,
    MalformedFields,
    UndecodableFields,
    check_trailers,
    content_length,
)
from muster.http.http2.frames import ErrorCode
from muster.http.http2.guard import Guard
from muster.http.http2.stream import Stream
from muster.machinery.clock import Clock

TURN_BYTES: Final = 256 * 1024
"""The most data that one connection puts into one write."""
TRANSPORT_BYTES: Final = 64 * 1024
"""Bytes in a connection's transport from which on the other side is behind."""
MOST_CONTINUATIONS: Final = 32
SMALL_WINDOW_UPDATE: Final = 256
"""Whoever opens windows by less has us send data by the byte."""
_ABANDONED: Final = 256


@dataclass(frozen=True, kw_only=True)
class Http2Limits:
    """Times are seconds, sizes bytes."""

    max_streams: int = 1000
    """That the other side may have open at once."""
    max_fields: int = 64 * 1024
    """Of one head, as RFC 9113 counts it."""
    max_unsent: int = 16 * 1024 * 1024
    """Of all streams of a connection."""
    stream_window: int = frames.DEFAULT_WINDOW
    """Bytes that may come on a stream before anybody has looked at its head."""
    connection_window: int = frames.DEFAULT_WINDOW
    ping_interval: float = 30.0
    """Of silence, after which the other side is asked for a sign of life."""
    ping_timeout: float = 10.0
    send_timeout: float = 60.0
    """For a connection that takes nothing of what was written."""
    nuisance_burst: float = 1000.0
    """How many resets, pings, settings and the like may come at once, and per second from then on."""
    nuisance_rate: float = 100.0


class ConnectionFailure(Exception):
    """The other side broke the protocol; the connection ends."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class StreamFailure(Exception):
    """The other side broke the rules of one stream."""

    def __init__(self, stream: int, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.stream = stream
        self.code = code


class Http2Connection(asyncio.BufferedProtocol):
    def __init__(
        self, loop: asyncio.AbstractEventLoop, read_buffer: memoryview, flushing: FlushQueue, limits: Http2Limits, clock: Clock
    ) -> None:
        self.loop = loop
        self.limits = limits
        self.window = frames.DEFAULT_WINDOW
        """Bytes that we may send on all streams together."""
        self.frame_limit = frames.FRAME_LIMIT
        self.holding = False
        """No data can leave in this turn."""
        self.ready: dict[Stream, None] = {}
        """Streams with data to send that wait for the connection."""
        self.streams: dict[int, Stream] = {}
        self.unsent = 0
        self.has_sent = False
        """Heads or data, since the last ping came."""
        self.lost = False
        self.closing = False
        """We have said that this is the end."""
        self.last_read = clock.monotonic()
        self._clock = clock
        self._read_buffer = read_buffer
        self._flush_soon = flushing.add
        self._transport: Any = GONE
        self._out: list[bytes] = []
        self._out_size = 0
        self._write_paused = False
        self._partial = b""
        self._decoder = FieldDecoder(limits.max_fields)
        self._block: tuple[int, int, bytearray] | None = None
        """Of a head that is not there in full: stream, flags, bytes."""
        self._continuations = 0
        self._first_stream_window = frames.DEFAULT_WINDOW
        """What the other side lets us send on a new stream."""
        self._allowance = frames.DEFAULT_WINDOW
        self._unacknowledged = 0
        self._last = 0
        """The highest stream that the other side has opened."""
        self._abandoned: dict[int, None] = {}
        self._settled = False
        self._settings_acknowledged = False
        self._guard = Guard(limits.nuisance_burst, limits.nuisance_rate, self.last_read)
        self._ping_sent: float | None = None
        self._stuck_since: float | None = None
        self._stuck_size = 0

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
        """Into this turn's write."""
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
        """Each stream in turn, as long as anything can leave; whoever had a turn stands behind those who had none."""
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
            self.fail(ErrorCode.ENHANCE_YOUR_CALM, "too much is unsent: open the windows, or ask for less")

    def held(self) -> int:
        """Everything that is kept until the other side reads it."""
        return 0 if self.lost else self.unsent + self._out_size + int(self._transport.get_write_buffer_size())

    # Ending

    def fail(self, code: ErrorCode, reason: str = "") -> None:
        """End the connection at once, and say why."""
        if self.lost or self._transport.is_closing():
            return
        self.closing = True
        self.put(frames.goaway(self._last, code, reason.encode()[:128]))
        self.flush()
        self._lose_streams()
        self._transport.close()

    def close(self) -> None:
        """After everything that was written."""
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
        """We want no more of it; what is on its way will be ignored."""
        if not stream.remote_ended:
            self.ignore(stream.id)
        self._remove(stream)

    def ignore(self, number: int) -> None:
        """Whatever is still on its way of this stream. What comes of one that was given up long ago is an error."""
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

    # What the roles do

    def head(self, number: int, fields: Fields, ended: bool) -> None:
        """Of a stream that is not known. Raises ConnectionFailure and StreamFailure."""
        raise NotImplementedError

    def check_head(self, fields: Fields) -> bool:
        """Whether this is the last head before the data, on a known stream that has had none. Raises MalformedFields."""
        raise NotImplementedError

    def pinged(self, after_data: bool) -> None:
        """`after_data` is whether we have sent anything since the ping before: clients measure by pings how much is on its way,
        one for each round trip. Raises ConnectionFailure."""

    def told_to_go(self, last: int, code: int, reason: bytes) -> None:
        """By the other side."""

    def idle(self) -> None:
        """No stream is left."""

    def gone(self, error: Exception | None) -> None:
        """The connection is lost."""

    def pong(self) -> None:
        """Our ping was answered."""

    def is_stranger(self) -> bool:
        return False

    def charge(self, cost: float = 1.0) -> None:
        """For what costs us more than the other side. Raises ConnectionFailure."""
        if not self._guard.charge(self.last_read, stranger=self.is_stranger(), cost=cost):
            raise ConnectionFailure(ErrorCode.ENHANCE_YOUR_CALM, "too many resets, refusals or control frames")

    def nuisance(self) -> None:
        """As `charge`, from outside of reading."""
        try:
            self.charge()
        except ConnectionFailure as failure:
            self.fail(failure.code, failure.reason)

    # Keeping alive

    def ping(self) -> None:
        self.put(frames.ping(b"\0\0\0\0\0\0\0\1"))

    def keep_alive(self, now: float, interval: float, timeout: float) -> None:
        """Ask a silent peer for a sign of life, and give up one that gives none."""
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

    # Frames

    def _feed(self, data: bytes) -> None:
        position, end = 0, len(data)
        while end - position >= frames.HEADER_SIZE:
            high, low, kind, flags, number = frames.unpack_header(data, position)
            size = high << 16 | low
            if size > frames.FRAME_LIMIT:
                raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "a frame is larger than agreed upon")
            start = position + frames.HEADER_SIZE
            if end - start < size:
                break
            position = start + size
            try:
                self._frame(kind, flags, number & frames.LARGEST_STREAM, data[start:position])
            except StreamFailure as failure:
                self._fail_stream(failure)
            if self.lost or self._transport.is_closing():
                return
        self._partial = data[position:]

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if not self._settled and (kind != frames.SETTINGS or flags & frames.ACK):
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "the first frame must be SETTINGS")
        if self._block is not None and (kind != frames.CONTINUATION or self._block[0] != number):
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "a head must be sent in one piece")
        if kind >= len(_FRAMES):
            self.charge()  # an extension that nobody asked for is to be ignored
            return
        _FRAMES[kind](self, flags, number, payload)

    def _fail_stream(self, failure: StreamFailure) -> None:
        self.charge()
        stream = self.streams.get(failure.stream)
        self.put(frames.reset(failure.stream, failure.code))
        if stream is not None:
            self.abandon_lost(stream, failure.code)

    def abandon_lost(self, stream: Stream, code: int) -> None:
        handler = stream.handler
        self.abandon(stream)
        handler.lost(code)

    def _is_idle(self, number: int) -> bool:
        """Whether nobody has opened a stream of this number."""
        return number > self._last

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        if not number:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "DATA belong to a stream")
        self._allowance -= size
        if self._allowance < 0:
            raise ConnectionFailure(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection's window allows")
        stream = self.streams.get(number)
        if stream is None or stream.remote_ended:
            self._late(stream, number, size)
            return
        stream.allowance -= size
        if stream.allowance < 0:
            self.consumed(size)
            raise StreamFailure(number, ErrorCode.FLOW_CONTROL_ERROR)
        data = _unpadded(flags, payload) if flags & frames.PADDED else payload
        if size != len(data):
            self.consumed(size - len(data))
        if stream.expected is not None:
            stream.expected -= len(data)
            if stream.expected < 0:
                self.consumed(len(data))
                raise StreamFailure(number, ErrorCode.PROTOCOL_ERROR)
        ended = bool(flags & frames.END_STREAM)
        if data:
            stream.unconsumed += len(data)
            stream.handler.data_received(data)
        elif not ended:
            self.charge()
        if ended:
            self._end(stream, [])

    def _late(self, stream: Stream | None, number: int, size: int) -> None:
        """Data of a stream that takes none."""
        if stream is not None:
            self.consumed(size)
            raise StreamFailure(number, ErrorCode.STREAM_CLOSED)
        if self._is_idle(number):
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "DATA on a stream that was not opened")
        if number not in self._abandoned:
            raise ConnectionFailure(ErrorCode.STREAM_CLOSED, "DATA on a closed stream")
        self.consumed(size)

    def _end(self, stream: Stream, trailers: Fields) -> None:
        if stream.closed:
            return
        if stream.expected:
            raise StreamFailure(stream.id, ErrorCode.PROTOCOL_ERROR)
        stream.remote_ended = True
        handler = stream.handler
        if stream.local_ended:
            self._remove(stream)
        handler.ended(trailers)

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        if not number:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "HEADERS belong to a stream")
        block = _unpadded(flags, payload) if flags & frames.PADDED else payload
        depends: int | None = None
        if flags & frames.WITH_PRIORITY:
            if len(block) < 5:
                raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "HEADERS are too short for their priority")
            depends = int.from_bytes(block[:4], "big") & frames.LARGEST_STREAM
            block = block[5:]
        if flags & frames.END_HEADERS:
            self._complete(flags, number, block)
        else:
            self._block = (number, flags, bytearray(block))
            self._continuations = 0
            self._check_block()
        if depends == number:
            raise StreamFailure(number, ErrorCode.PROTOCOL_ERROR)

    def _continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing")
        self._continuations += 1
        self._block[2].extend(payload)
        self._check_block()
        if flags & frames.END_HEADERS:
            _, first, block = self._block
            self._block = None
            self._complete(first, number, bytes(block))

    def _check_block(self) -> None:
        if self._block is not None and (len(self._block[2]) > self.limits.max_fields or self._continuations > MOST_CONTINUATIONS):
            raise ConnectionFailure(ErrorCode.ENHANCE_YOUR_CALM, "a head is too large, or comes in too many pieces")

    def _complete(self, flags: int, number: int, block: bytes) -> None:
        """A header block is there: a head or trailers."""
        try:
            fields = self._decoder.decode(block)
        except FieldsTooLarge:
            raise ConnectionFailure(ErrorCode.ENHANCE_YOUR_CALM, "the fields of a head are too large") from None
        except UndecodableFields:
            raise ConnectionFailure(ErrorCode.COMPRESSION_ERROR, "a header block that is no HPACK") from None
        ended = bool(flags & frames.END_STREAM)
        stream = self.streams.get(number)
        if stream is None:
            if number in self._abandoned:
                self.charge()
                return
            self.head(number, fields, ended)
            return
        if stream.remote_ended:
            raise StreamFailure(number, ErrorCode.STREAM_CLOSED)
        try:
            if not stream.head_seen:
                stream.head_seen = self.check_head(fields)
                if stream.head_seen:
                    stream.expected = content_length(fields)
                    stream.handler.head_received(fields)
                    if ended:
                        stream.expected = None  # of an answer that has a head only, it may be what a body would have
                        self._end(stream, [])
                elif ended:
                    raise StreamFailure(number, ErrorCode.PROTOCOL_ERROR)
                return
            check_trailers(fields)
        except MalformedFields:
            raise StreamFailure(number, ErrorCode.PROTOCOL_ERROR) from None
        if not ended:
            raise StreamFailure(number, ErrorCode.PROTOCOL_ERROR)
        self._end(stream, fields)

    def _priority(self, flags: int, number: int, payload: bytes) -> None:
        self.charge()
        if not number:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "PRIORITY belongs to a stream")
        if len(payload) != 5:
            raise StreamFailure(number, ErrorCode.FRAME_SIZE_ERROR)
        if int.from_bytes(payload[:4], "big") & frames.LARGEST_STREAM == number:
            raise StreamFailure(number, ErrorCode.PROTOCOL_ERROR)

    def _reset(self, flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM has four bytes")
        if not number or self._is_idle(number):
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "RST_STREAM of a stream that was not opened")
        self.charge()
        stream = self.streams.get(number)
        if stream is not None:
            stream.remote_ended = True
            handler = stream.handler
            self._remove(stream)
            handler.lost(int.from_bytes(payload, "big"))

    def _settings(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "SETTINGS are the connection's")
        if flags & frames.ACK:
            if payload:
                raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS is empty")
            if self._settings_acknowledged:
                self.charge()
            self._settings_acknowledged = True
            return
        if len(payload) % 6:
            raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS have six bytes each")
        if self._settled:
            self.charge(1 + len(payload) // 600)
        first_window = self._first_stream_window
        for key, value in frames.unpack_setting(payload):
            if key == frames.INITIAL_WINDOW_SIZE:
                if value > frames.LARGEST_WINDOW:
                    raise ConnectionFailure(ErrorCode.FLOW_CONTROL_ERROR, "no window can be so large")
                first_window = value
            elif key == frames.MAX_FRAME_SIZE:
                if not frames.FRAME_LIMIT <= value <= frames.LARGEST_FRAME:
                    raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of range")
            elif key == frames.ENABLE_PUSH and value > 1:
                raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is 0 or 1")
            else:
                self.setting(key, value)
        self._settled = True
        self.put(frames.SETTINGS_ACK)
        if first_window != self._first_stream_window:
            self._change_windows(first_window - self._first_stream_window)
            self._first_stream_window = first_window
        self.settings_received()

    def setting(self, key: int, value: int) -> None:
        """Of the other side."""

    def settings_received(self) -> None:
        """All of one frame have been heeded."""

    def _change_windows(self, difference: int) -> None:
        for stream in list(self.streams.values()):
            stream.window += difference
            if stream.window > frames.LARGEST_WINDOW:
                raise ConnectionFailure(ErrorCode.FLOW_CONTROL_ERROR, "no window can be so large")
            if difference > 0 and stream.unsent:
                stream.pump()

    def _push_promise(self, flags: int, number: int, payload: bytes) -> None:
        raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "nobody asked for PUSH_PROMISE")

    def _ping(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "PING is the connection's")
        if len(payload) != 8:
            raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "PING has eight bytes")
        if flags & frames.ACK:
            self.pong()
            return
        asked_for = self.has_sent
        self.has_sent = False
        if not asked_for:
            self.charge()
        self.put(frames.ping(payload, ack=True))
        self.pinged(asked_for)

    def _goaway(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "GOAWAY is the connection's")
        if len(payload) < 8:
            raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY has eight bytes at least")
        self.charge()
        last, code = frames.unpack_goaway(payload)
        self.told_to_go(last & frames.LARGEST_STREAM, code, payload[8:])

    def _window_update(self, flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE has four bytes")
        increment = int.from_bytes(payload, "big") & frames.LARGEST_WINDOW
        if increment < SMALL_WINDOW_UPDATE:
            self.charge()
        if not number:
            self._open_window(increment)
            return
        stream = self.streams.get(number)
        if stream is None:
            if self._is_idle(number):
                raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of a stream that was not opened")
            return
        if not increment:
            raise StreamFailure(number, ErrorCode.PROTOCOL_ERROR)
        stream.window += increment
        if stream.window > frames.LARGEST_WINDOW:
            raise StreamFailure(number, ErrorCode.FLOW_CONTROL_ERROR)
        if stream.unsent:
            stream.pump()

    def _open_window(self, increment: int) -> None:
        if not increment:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        self.window += increment
        if self.window > frames.LARGEST_WINDOW:
            raise ConnectionFailure(ErrorCode.FLOW_CONTROL_ERROR, "no window can be so large")
        if self.ready and not self.holding:
            self._pump_ready()


_FRAMES: Final = (
    Http2Connection._data,
    Http2Connection._headers,
    Http2Connection._priority,
    Http2Connection._reset,
    Http2Connection._settings,
    Http2Connection._push_promise,
    Http2Connection._ping,
    Http2Connection._goaway,
    Http2Connection._window_update,
    Http2Connection._continuation,
)
"""By their numbers."""


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "more padding than there is")
    return payload[1 : len(payload) - payload[0]]
