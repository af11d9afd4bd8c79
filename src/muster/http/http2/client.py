"""The client side of an HTTP/2 connection: requests as streams, until the server or the client closes it.

A closing connection, because of the server's GOAWAY or because it is `retire`d, opens no more streams and ends with its last one.
Streams that the server has not processed end with REFUSED_STREAM, and may be repeated on another connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from muster.http.flush_queue import FlushQueue
from muster.http.http2 import frames
from muster.http.http2.connection import Http2Connection
from muster.http.http2.fields import TABLE_SIZE, Fields, check_response
from muster.http.http2.frames import ErrorCode
from muster.http.http2.limits import ConnectionFailure, Http2Limits
from muster.http.http2.stream import Stream, StreamHandler
from muster.http.keepalive import keep_tcp_alive
from muster.http.pool import UpstreamKey, explained, open_connection
from muster.http.readbuffer import read_buffer
from muster.http.tls import HTTP_2, presented_chain
from muster.http.tunnel import Proxy
from muster.http.upstream import UpstreamConnection, UpstreamTimeout, UpstreamUntrusted, host_port
from muster.machinery.clock import SYSTEM, Clock, Timer

STREAM_WINDOW: Final = 1024 * 1024
CONNECTION_WINDOW: Final = 4 * 1024 * 1024
LAST_NUMBER: Final = frames.LARGEST_STREAM - 2
CLIENT_LIMITS: Final = Http2Limits(stream_window=STREAM_WINDOW, connection_window=CONNECTION_WINDOW)


@dataclass(frozen=True, kw_only=True)
class KeepAlive:
    """Pings to a silent server. Servers close connections with too many of them."""

    time: float = 30.0
    timeout: float = 10.0
    permit_without_stream: bool = False


class NotOffered(UpstreamUntrusted):
    """The server did not choose HTTP/2 by ALPN."""


class ConnectionGoing(Exception):
    """The connection opens no more streams."""


class ClientConnection(Http2Connection):
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        *,
        keepalive: KeepAlive | None = None,
        limits: Http2Limits = CLIENT_LIMITS,
        clock: Clock = SYSTEM,
        on_end: Callable[[ClientConnection], None] = lambda _: None,
    ) -> None:
        super().__init__(loop, read_buffer(loop), FlushQueue(), limits, clock)
        self.name = name
        self.going = False
        """Whether it opens no more streams."""
        self.failure: Exception | None = None
        """Why the connection was lost, if that is known."""
        self.farewell: tuple[int, bytes] | None = None
        """The code and the debug data of the server's GOAWAY."""
        self._keepalive = keepalive
        self._on_end = on_end
        self._next = 1
        self._most_streams = frames.LARGEST_STREAM
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: Timer | None = None
        self._first_settings: asyncio.Future[None] = loop.create_future()

    @property
    def presented(self) -> tuple[bytes, ...]:
        """The certificates (DER) that the server has sent on an open connection, its own first, verified or not."""
        secured = None if self.lost else self._transport.get_extra_info("ssl_object")
        return () if secured is None else presented_chain(secured)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        keep_tcp_alive(transport.get_extra_info("socket"))
        secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if secured is not None and secured.selected_alpn_protocol() != HTTP_2:
            self.failure = NotOffered(self.name, "the server does not speak HTTP/2 (by ALPN it did not choose h2)")
            self.abort()
            return
        limits = self.limits
        self.put(frames.PREFACE)
        self.put(
            frames.settings(
                (
                    (frames.HEADER_TABLE_SIZE, TABLE_SIZE),
                    (frames.ENABLE_PUSH, 0),
                    (frames.INITIAL_WINDOW_SIZE, limits.stream_window),
                    (frames.MAX_HEADER_LIST_SIZE, limits.max_fields),
                )
            )
        )
        if limits.connection_window > frames.DEFAULT_WINDOW:
            self.put(frames.window_update(0, limits.connection_window - frames.DEFAULT_WINDOW))
            self._allowance = limits.connection_window
        if self._keepalive is not None:
            self._sweep()

    async def wait_ready(self) -> None:
        """Wait for the server's HTTP/2 preface. Raises ConnectionResetError, or why the connection failed."""
        if not self.lost:
            await asyncio.shield(self._first_settings)
        if self.lost:
            raise self.failure or ConnectionResetError("the server closed the connection before its SETTINGS")

    # Streams

    @property
    def usable(self) -> bool:
        return not (self.going or self.lost or self.closing or self._transport.is_closing())

    @property
    def has_room(self) -> bool:
        """Whether a stream would be opened at once."""
        return self.usable and len(self.streams) < self._most_streams

    async def open(self, block: bytes, handler: StreamHandler, *, end: bool = False) -> Stream:
        """Open a stream with this header block, and without data if `end`, as soon as the server permits one more. Raises
        ConnectionGoing."""
        while self.usable and len(self.streams) >= self._most_streams:
            turn = self.loop.create_future()
            self._waiting.append(turn)
            try:
                await turn
            finally:
                if turn.cancelled():
                    self._waiting.remove(turn)
        if not self.usable:
            raise ConnectionGoing
        number, self._next = self._next, self._next + 2
        if self._next > LAST_NUMBER:
            self.going = True
        stream = self.streams[number] = Stream(self, number, self._first_stream_window, self.limits.stream_window)
        stream.handler = handler
        stream.send_head(block, end=end)
        return stream

    def setting(self, key: int, value: int) -> None:
        if key == frames.MAX_CONCURRENT_STREAMS:
            self._most_streams = value
            self._call_waiting()

    def settings_received(self) -> None:
        if not self._first_settings.done():
            self._first_settings.set_result(None)

    def _call_waiting(self) -> None:
        """Wake as many waiting callers as streams are permitted; all if there will be none."""
        room = self._most_streams - len(self.streams) if self.usable else len(self._waiting)
        while self._waiting and room > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1

    def _remove(self, stream: Stream) -> None:
        super()._remove(stream)
        if self._waiting:
            self._call_waiting()

    def _is_idle(self, number: int) -> bool:
        return number >= self._next or not number & 1

    def head(self, number: int, fields: Fields, ended: bool) -> None:
        if self._is_idle(number):
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "HEADERS on a stream that was not opened")
        raise ConnectionFailure(ErrorCode.STREAM_CLOSED, "HEADERS on a closed stream")

    def check_head(self, fields: Fields) -> bool:
        return check_response(fields) >= 200

    # The end

    def retire(self) -> None:
        """Let the open streams end, and open no more."""
        self.going = True
        self._call_waiting()
        if not self.streams:
            self.close()

    def goaway_received(self, last: int, code: int, reason: bytes) -> None:
        self.farewell = (code, reason)
        self.going = True
        for stream in [stream for number, stream in self.streams.items() if number > last]:
            stream.remote_ended = True
            handler = stream.handler
            self._remove(stream)
            handler.lost(ErrorCode.REFUSED_STREAM)
        self._call_waiting()
        if not self.streams:
            self.loop.call_soon(self.close)

    def idle(self) -> None:
        if self.going:
            self.loop.call_soon(self.close)

    def gone(self, error: Exception | None) -> None:
        self.failure = self.failure or error
        if self._timer is not None:
            self._timer.cancel()
        if not self._first_settings.done():
            self._first_settings.set_result(None)
        self._call_waiting()
        # The reference is dropped, since it may refer to this connection, and ended connections must not need a garbage collection.
        on_end, self._on_end = self._on_end, lambda _: None
        on_end(self)

    def _sweep(self) -> None:
        keepalive = self._keepalive
        if self.lost or keepalive is None:
            return
        if self.streams or keepalive.permit_without_stream:
            self.keep_alive(self._clock.monotonic(), keepalive.time, keepalive.timeout)
        self._timer = self._clock.call_later(min(1.0, keepalive.time / 4, keepalive.timeout / 4), self._sweep)


async def connect(
    key: UpstreamKey,
    *,
    timeout: float,
    proxy: Proxy | None = None,
    keepalive: KeepAlive | None = None,
    limits: Http2Limits = CLIENT_LIMITS,
    clock: Clock = SYSTEM,
    on_end: Callable[[ClientConnection], None] = lambda _: None,
) -> ClientConnection:
    """A connection with the server's preface. Raises UpstreamError."""
    host, port, tls, _ = key
    name = host_port(host, port)
    loop = asyncio.get_running_loop()
    made = ClientConnection(loop, name, keepalive=keepalive, limits=limits, clock=clock, on_end=on_end)
    try:
        with explained(name):
            async with asyncio.timeout(timeout):
                if proxy is None or tls is None:
                    await open_connection(key, lambda: made)
                else:
                    outer = await proxy.reach(lambda upstream: UpstreamConnection(loop, upstream))
                    await proxy.tunnel(outer, key, made)
                await made.wait_ready()
    except TimeoutError:
        made.abort()
        raise UpstreamTimeout(name, f"no connection within {timeout:g} s") from None
    except BaseException:
        made.abort()
        raise
    return made
