"""HTTP/2 connections of an `HttpServer`, with the same handler, limits and graceful stop as HTTP/1.1 connections.

One connection may have the requests of many users, because its client is a proxy: kube-apiserver's aggregator uses one or two
connections per server. So limits apply to single streams: slow readers are cut by stream, and cancelled requests, which are
frequent with many users, have a large allowance. Unauthenticated clients have the small one.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from muster.http.http2.exchange import Exchange
from muster.http.http2.fields import Fields
from muster.http.http2.frames import window_update
from muster.http.http2.messages import HeadReader
from muster.http.http2.server import READ_BUFFER, ServerConnection, ServerLimits
from muster.http.http2.stream import Stream
from muster.http.message import Connection
from muster.machinery.clock import SYSTEM, Clock

if TYPE_CHECKING:
    from muster.http.server import HttpServer

WIDE: Final = 1024 * 1024
"""The window of an authenticated connection."""
NUISANCE_BURST: Final = 4000.0
NUISANCE_RATE: Final = 400.0
"""The burst of cancelled requests and similar frames per connection, and their rate per second."""


class MultiplexedConnection(ServerConnection):
    deadline = 0.0
    """It has several deadlines, which the server's sweep checks."""

    def __init__(self, host: Multiplexing, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(host, loop)
        self._http = server
        self.heads = HeadReader(server.max_headers)
        self._wide = False

    def widen(self) -> None:
        if not self._wide:
            self._wide = True
            more = WIDE - self.limits.connection_window
            self._allowance += more
            self.put(window_update(0, more))

    def expire(self) -> None:
        now = time.monotonic()
        self.sweep(now)
        for exchange in self._exchanges():
            exchange.sweep(now)
        if self._idle_since is not None and now - self._idle_since >= self._http.idle_timeout:
            self.drain(None)

    def _exchanges(self) -> list[Exchange]:
        return [stream.handler for stream in self.streams.values() if isinstance(stream.handler, Exchange)]

    def retire(self) -> None:
        self.drain(None)

    def shut_down(self) -> None:
        for exchange in self._exchanges():
            exchange.announce_end()
        self.drain(None)

    def cancel(self) -> None:
        if not self.streams:
            self.close()
        for exchange in self._exchanges():
            exchange.cancel()

    def pinged(self, after_data: bool) -> None:
        """Go's clients ping a silent connection every 30 s, with or without streams. The allowance limits them."""

    def held(self) -> int:
        """Without the data of streams, which are counted separately."""
        return super().held() - self.unsent

    def check_unsent(self) -> None:
        if self.is_stranger():
            super().check_unsent()


class Multiplexing:
    """The shared state of a server's HTTP/2 connections."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self.limits = ServerLimits(
            max_fields=server.max_header_bytes,
            send_timeout=server.send_timeout,
            connection_timeout=server.idle_timeout,
            nuisance_burst=NUISANCE_BURST,
            nuisance_rate=NUISANCE_RATE,
        )
        self.clock: Clock = SYSTEM
        self.flushing = server.flushing
        self.backlogs = server.backlogs
        self.read_buffer = memoryview(bytearray(READ_BUFFER))

    def connection(self, loop: asyncio.AbstractEventLoop) -> MultiplexedConnection:
        return MultiplexedConnection(self, self._server, loop)

    def request(self, stream: Stream, fields: Fields, info: Connection) -> Exchange:
        connection = stream.connection
        assert isinstance(connection, MultiplexedConnection), "of ours"
        return Exchange(self._server, connection, stream, fields)

    def admit(self, connection: ServerConnection) -> bool:
        assert isinstance(connection, MultiplexedConnection), "of ours"
        return self._server.admit(connection)

    def forget(self, connection: ServerConnection) -> None:
        assert isinstance(connection, MultiplexedConnection), "of ours"
        self.backlogs.discard(connection)
        self._server.forget(connection)
