"""The HTTP/2 server: connections, keepalive, enforcement of ping limits, and graceful stop.

A request is dispatched on its head, after all data of the same read: what needs no waiting is answered in the same iteration of the
event loop. Unauthenticated connections (without `info.owner`) have few concurrent streams and a small allowance. Pings are limited
as by grpc-go's servers: more than two that come too early, with nothing sent in between, end the connection.

A graceful stop sends GOAWAY for later streams, a ping to know that it was received, and GOAWAY with the last stream that is served.
The connection closes when its streams have ended.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from muster.http.acceptor import Accepting, Acceptor, describe
from muster.http.backlogs import Backlogs
from muster.http.connections import ServedConnection
from muster.http.flush_queue import FlushQueue
from muster.http.http2 import frames
from muster.http.http2.connection import Http2Connection
from muster.http.http2.fields import TABLE_SIZE, Fields, MalformedFields, check_request, content_length
from muster.http.http2.flow import TRANSPORT_BYTES
from muster.http.http2.frames import ErrorCode
from muster.http.http2.limits import ConnectionFailure, Http2Limits, StreamFailure
from muster.http.http2.stream import Stream, StreamHandler
from muster.http.message import Connection
from muster.http.tls import HTTP_2
from muster.machinery.clock import SYSTEM, Clock, Timer

READ_BUFFER: Final = 64 * 1024
"""Of one connection per iteration: heads are small, and many of them would delay others."""
BEGUN_PER_TURN: Final = 16
"""Requests of one connection per iteration."""
MOST_PING_STRIKES: Final = 2
IDLE_PING_INTERVAL: Final = 7200.0
"""The minimum between pings of a client without streams, if it may not ping without one."""
STRANGER_STREAMS: Final = 32
DRAIN_PING_TIMEOUT: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class ServerLimits(Http2Limits):
    connection_timeout: float = 120.0
    """For the TLS handshake and the client's preface, and for an unauthenticated client without a stream."""
    min_ping_interval: float = 5.0
    """The minimum between pings of a client with streams."""
    permit_ping_without_stream: bool = False
    max_connection_age: float | None = None
    max_connection_age_grace: float | None = None
    """For the streams of a connection that has reached its maximum age; None is forever."""
    max_connections: int = 20_000
    strangers: float = 0.25
    """The part of `max_connections` for unauthenticated clients."""
    max_owner_backlog: int = 64 * 1024 * 1024
    max_backlog: int = 256 * 1024 * 1024


class Request(StreamHandler, Protocol):
    """The handler of a stream. It begins when everything that came with the head was received."""

    def begin(self) -> None:
        """Called before all other methods except `data_received`, `ended` and `lost` for data that came with the head."""


RequestFactory = Callable[[Stream, Fields, Connection], Request]


class ConnectionHost(Protocol):
    """The owner of connections: their shared state, and the factory of requests."""

    limits: ServerLimits
    clock: Clock
    flushing: FlushQueue
    read_buffer: memoryview
    backlogs: Backlogs

    @property
    def request(self) -> RequestFactory: ...

    def admit(self, connection: ServerConnection) -> bool: ...

    def forget(self, connection: ServerConnection) -> None: ...


class ServerConnection(Http2Connection, ServedConnection):
    def __init__(self, server: ConnectionHost, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, server.read_buffer, server.flushing, server.limits, server.clock)
        self.info: Connection
        self._server = server
        self._limits = server.limits
        self._made = self.last_read
        self._preface = frames.PREFACE
        self._heads: list[Request] = []
        """Requests that have not begun."""
        self._checked: Fields | None = None
        self._length: int | None = None
        self._idle_since: float | None = self.last_read
        self._last_ping: float | None = None
        self._ping_strikes = 0
        self._draining = False
        self._served: int | None = None
        """The last stream that is served, once GOAWAY was sent."""
        self._drain_since = 0.0
        self._drain_grace: float | None = None

    # Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.info = describe(transport)
        secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if (secured is not None and secured.selected_alpn_protocol() != HTTP_2) or not self._server.admit(self):
            self.abort()
            return
        limits = self._limits
        self.put(
            frames.settings(
                (
                    (frames.HEADER_TABLE_SIZE, TABLE_SIZE),
                    (frames.MAX_CONCURRENT_STREAMS, limits.max_streams),
                    (frames.INITIAL_WINDOW_SIZE, limits.stream_window),
                    (frames.MAX_HEADER_LIST_SIZE, limits.max_fields),
                )
            )
        )
        if limits.connection_window > frames.DEFAULT_WINDOW:
            self.put(frames.window_update(0, limits.connection_window - frames.DEFAULT_WINDOW))
            self._allowance = limits.connection_window

    def buffer_updated(self, nbytes: int) -> None:
        waiting = bool(self._heads)
        super().buffer_updated(nbytes)
        if self._heads and not waiting:
            self._begin()

    def _begin(self) -> None:
        """Begin a few requests now, the others after other connections had their turn."""
        heads = self._heads[:BEGUN_PER_TURN]
        del self._heads[:BEGUN_PER_TURN]
        for request in heads:
            request.begin()
        if self._heads:
            self.loop.call_soon(self._begin)

    def _feed(self, data: bytes) -> None:
        if self._preface:
            expected = self._preface
            if data[: len(expected)] != expected[: len(data)]:
                raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "this is HTTP/2")
            self._preface = expected[len(data) :]
            data = data[len(expected) :]
            if self._preface:
                self._partial = b""
                return
        super()._feed(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._server.backlogs.add(self)

    def check_unsent(self) -> None:
        if self.unsent > TRANSPORT_BYTES:
            self._server.backlogs.add(self)
        super().check_unsent()

    def gone(self, error: Exception | None) -> None:
        self._server.forget(self)

    # Streams

    def head(self, number: int, fields: Fields, ended: bool) -> None:
        if not number & 1:
            raise ConnectionFailure(ErrorCode.PROTOCOL_ERROR, "a client's streams have odd numbers")
        if number <= self._last:
            raise ConnectionFailure(ErrorCode.STREAM_CLOSED, "HEADERS on a closed stream")
        if self._served is not None:
            return  # GOAWAY was sent
        self._last = number
        if len(self.streams) >= (
            min(STRANGER_STREAMS, self._limits.max_streams) if self.is_stranger() else self._limits.max_streams
        ):
            raise self._given_up(number, ErrorCode.REFUSED_STREAM, ended)
        try:
            expected = self._checked_length(fields)
        except MalformedFields:
            raise self._given_up(number, ErrorCode.PROTOCOL_ERROR, ended) from None
        if ended and expected:
            raise StreamFailure(number, ErrorCode.PROTOCOL_ERROR)
        stream = Stream(self, number, self._first_stream_window, self._limits.stream_window)
        stream.head_seen = True
        stream.expected = expected
        self.streams[number] = stream
        self._idle_since = None
        stream.handler = request = self._server.request(stream, fields, self.info)
        self._heads.append(request)
        if ended:
            self._end(stream, [])

    def _checked_length(self, fields: Fields) -> int | None:
        """Raises MalformedFields. Equal fields of repeated requests are checked once."""
        if fields is not self._checked:
            check_request(fields)
            self._length = content_length(fields)
            self._checked = fields
        return self._length

    def _given_up(self, number: int, code: ErrorCode, ended: bool) -> StreamFailure:
        if not ended:
            self.ignore(number)
        return StreamFailure(number, code)

    def check_head(self, fields: Fields) -> bool:
        raise AssertionError("a request's stream is made by its head")

    def sent_end(self, stream: Stream) -> None:
        if not stream.remote_ended:
            # RFC 9113, 8.1: the response is complete, and further data of the client are of no use.
            self.put(frames.reset(stream.id, ErrorCode.NO_ERROR))
            self.abandon(stream)
        else:
            self._remove(stream)

    def idle(self) -> None:
        self._idle_since = self.last_read
        if self._served is not None:
            self.loop.call_soon(self.close)

    def is_stranger(self) -> bool:
        return self.info.owner is None

    # Keepalive

    def pinged(self, after_data: bool) -> None:
        now, last = self.last_read, self._last_ping
        self._last_ping = now
        if after_data:
            self._ping_strikes = 0
            return
        limits = self._limits
        interval = limits.min_ping_interval if self.streams or limits.permit_ping_without_stream else IDLE_PING_INTERVAL
        if last is not None and now - last < interval:
            self._ping_strikes += 1
            if self._ping_strikes > MOST_PING_STRIKES:
                raise ConnectionFailure(ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings")

    def sweep(self, now: float) -> None:
        limits = self._limits
        if not self._settled and now - self._made >= limits.connection_timeout:
            self.abort()
            return
        if self.is_stranger() and self._idle_since is not None and now - self._idle_since >= limits.connection_timeout:
            self.fail(ErrorCode.NO_ERROR, "nothing was asked for")
            return
        if limits.max_connection_age is not None and now - self._made >= limits.max_connection_age:
            self.drain(limits.max_connection_age_grace)
        if self._draining:
            self._go_on_draining(now)
        if not self.unsent and not self._write_paused:
            self._server.backlogs.discard(self)
        self.keep_alive(now, limits.ping_interval, limits.ping_timeout)

    # The end

    def drain(self, grace: float | None) -> None:
        """Accept no new streams, let the open ones end for `grace` seconds, then close."""
        if self._draining or self.closing or self.lost:
            return
        self._draining = True
        self._drain_since = self._clock.monotonic()
        self._drain_grace = grace
        self.put(frames.goaway(frames.LARGEST_STREAM, ErrorCode.NO_ERROR))
        self.ping()

    def pong(self) -> None:
        if self._draining and self._served is None:
            self._refuse_streams()

    def _refuse_streams(self) -> None:
        """The client has received GOAWAY: later streams are refused."""
        self._served = self._last
        self.put(frames.goaway(self._last, ErrorCode.NO_ERROR))
        if not self.streams:
            self.loop.call_soon(self.close)

    def _go_on_draining(self, now: float) -> None:
        if self._served is None and now - self._drain_since >= DRAIN_PING_TIMEOUT:
            self._refuse_streams()
        if self._drain_grace is not None and now - self._drain_since >= self._drain_grace + DRAIN_PING_TIMEOUT:
            self.close()

    def goaway_received(self, last: int, code: int, reason: bytes) -> None:
        """The client opens no more streams."""

    # For the table of connections

    def waiting_since(self) -> float | None:
        return self._idle_since


class Http2Server(Accepting[ServerConnection]):
    """Serves what `request` makes of heads."""

    def __init__(
        self,
        request: RequestFactory,
        *,
        tls: ssl.SSLContext | None = None,
        limits: ServerLimits | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        self.request = request
        self.limits = limits = limits or ServerLimits()
        self.clock = clock
        self.flushing = FlushQueue()
        self.read_buffer = memoryview(bytearray(READ_BUFFER))
        """The buffer for reads of all connections: data are copied out before the next read."""
        self.backlogs = Backlogs(limits.max_owner_backlog, limits.max_backlog)
        self._acceptor: Acceptor[ServerConnection] = Acceptor(
            lambda loop: ServerConnection(self, loop),
            tls=tls,
            max_connections=limits.max_connections,
            strangers=limits.strangers,
            first_word=limits.connection_timeout,
        )
        self._timer: Timer | None = None
        times = [limits.connection_timeout, limits.ping_interval, limits.ping_timeout, limits.send_timeout]
        self._tick = min(1.0, min(times) / 4, (limits.max_connection_age or 4.0) / 4)

    async def start(self, host: str, port: int) -> None:
        """Listen on one address; may be called again for further ones."""
        await self._acceptor.start(host, port)
        if self._timer is None:
            self._sweep()

    def connection(self) -> ServerConnection:
        """The server side of a connection over another transport, whose owner delivers the data."""
        if self._timer is None:
            self._sweep()
        return ServerConnection(self, asyncio.get_running_loop())

    @property
    def streams(self) -> int:
        return sum(len(connection.streams) for connection in self._acceptor.connections)

    async def drain(self, grace: float) -> None:
        """Accept no more, send GOAWAY to all clients, and let streams end for `grace` seconds."""
        self._acceptor.close()
        for connection in list(self._acceptor.connections):
            connection.drain(grace)
        await self._acceptor.until_empty(grace)

    async def stop(self) -> None:
        """Close all connections."""
        acceptor = self._acceptor
        acceptor.close()
        for connection in list(acceptor.connections):
            connection.fail(ErrorCode.NO_ERROR)
        await acceptor.until_empty(1.0)
        for connection in list(acceptor.connections):
            connection.abort()
        await acceptor.until_empty(1.0)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        now = self.clock.monotonic()
        for connection in list(self._acceptor.connections):
            connection.sweep(now)
        self._acceptor.sweep()
        self.backlogs.sweep(now)
        self._timer = self.clock.call_later(self._tick, self._sweep)

    # For connections

    def admit(self, connection: ServerConnection) -> bool:
        return self._acceptor.admit(connection)

    def forget(self, connection: ServerConnection) -> None:
        self.backlogs.discard(connection)
        self._acceptor.forget(connection)
