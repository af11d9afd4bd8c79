"""The frame handling of both sides of an HTTP/2 connection: parsing, validation, and callbacks of the streams' handlers.

Server and client have their differences in modules of their own. An error of one stream resets it, an error of the connection ends
it with GOAWAY, with the codes of RFC 9113. Memory is bounded: a frame by its size, a header block by `max_fields`, data by the
windows that we open, streams by their number.
"""

from __future__ import annotations

import abc
import asyncio
from typing import Final

from muster.http.flush_queue import FlushQueue
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
from muster.http.http2.flow import Http2Flow
from muster.http.http2.frames import ErrorCode
from muster.http.http2.limits import ConnectionFailure, Http2Limits, StreamFailure
from muster.http.http2.stream import Stream
from muster.machinery.clock import Clock

MOST_CONTINUATIONS: Final = 32
SMALL_WINDOW_UPDATE: Final = 256
"""A peer that opens windows by less makes us send tiny data frames."""


class Http2Connection(Http2Flow):
    def __init__(
        self, loop: asyncio.AbstractEventLoop, read_buffer: memoryview, flushing: FlushQueue, limits: Http2Limits, clock: Clock
    ) -> None:
        super().__init__(loop, read_buffer, flushing, limits, clock)
        self._decoder = FieldDecoder(limits.max_fields)
        self._block: tuple[int, int, bytearray] | None = None
        """An incomplete head: stream, flags, bytes."""
        self._continuations = 0
        self._first_stream_window = frames.DEFAULT_WINDOW
        """The peer's initial window of a new stream."""
        self._settled = False
        self._settings_acknowledged = False

    # For the roles

    @abc.abstractmethod
    def head(self, number: int, fields: Fields, ended: bool) -> None:
        """The head of an unknown stream. Raises ConnectionFailure and StreamFailure."""

    @abc.abstractmethod
    def check_head(self, fields: Fields) -> bool:
        """Whether this is the final head before the data, on a known stream without one. Raises MalformedFields."""

    def pinged(self, after_data: bool) -> None:
        """`after_data` is whether we have sent anything since the ping before: clients estimate bandwidth by pings, one per round
        trip. Raises ConnectionFailure."""

    def goaway_received(self, last: int, code: int, reason: bytes) -> None:
        """By the other side."""

    def pong(self) -> None:
        """Our ping was answered."""

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
            self.charge()  # unknown extensions are ignored
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
        """Whether no stream of this number was opened."""
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
        """Data of a stream that accepts none."""
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
        """A complete header block: a head or trailers."""
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
                        stream.expected = None  # in a response without body, it may be the length that the body would have
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
        """A setting of the peer."""

    def settings_received(self) -> None:
        """All settings of one frame have been applied."""

    def _change_windows(self, difference: int) -> None:
        for stream in list(self.streams.values()):
            stream.window += difference
            if stream.window > frames.LARGEST_WINDOW:
                raise ConnectionFailure(ErrorCode.FLOW_CONTROL_ERROR, "no window can be so large")
            if difference > 0 and stream.unsent:
                stream.pump()

    def _push_promise(self, flags: int, number: int, payload: bytes) -> None:
        raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE is not enabled")

    def _ping(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "PING is the connection's")
        if len(payload) != 8:
            raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "PING has eight bytes")
        if flags & frames.ACK:
            self.pong()
            return
        is_solicited = self.has_sent
        self.has_sent = False
        if not is_solicited:
            self.charge()
        self.put(frames.ping(payload, ack=True))
        self.pinged(is_solicited)

    def _goaway(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "GOAWAY is the connection's")
        if len(payload) < 8:
            raise ConnectionFailure(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY has eight bytes at least")
        self.charge()
        last, code = frames.unpack_goaway(payload)
        self.goaway_received(last & frames.LARGEST_STREAM, code, payload[8:])

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
"""By frame type."""


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "more padding than there is")
    return payload[1 : len(payload) - payload[0]]
