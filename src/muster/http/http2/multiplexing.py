"""HTTP/2 connections of an `HttpServer`: beside those of HTTP/1.1, with its handler, its limits and its orderly stop.

One connection may carry the requests of many people, because its client is a proxy: kube-apiserver's aggregator sends all that is
for a server by one or two. So what one of them does costs that one. Who does not read is bounded and cut by the stream, and
cancelled requests, of which a crowd has many, have a large allowance. A client that has not proved who it is has the small one.
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
"""The window of a connection whose client has proved who it is."""
NUISANCE_BURST: Final = 4000.0
NUISANCE_RATE: Final = 400.0
"""Cancelled requests and the like that a connection may have at once, and per second."""


class MultiplexedConnection(ServerConnection):
    deadline = 0.0
    """It has several, and looks at them whenever the server does."""

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
        """Go's clients ask every 30 s whether a silent connection lives, with streams or without. The allowance bounds it."""

    def held(self) -> int:
        """Without what waits in streams, which count by themselves."""
        return super().held() - self.unsent

    def check_unsent(self) -> None:
        if self.is_stranger():
            super().check_unsent()


class Multiplexing:
    """What the HTTP/2 connections of a server have in common."""

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
