"""The HTTP/1.1 server: listening, limits, the sweep over deadlines, the flush of streams, and an orderly stop.

One sweep per tick compares each connection's deadline, and one callback per loop turn flushes whatever was
written in it, so an idle connection costs no timer and a broadcast to a thousand streams costs one scheduled callback.
TLS material can be replaced while serving: the listener's context only hands each handshake to the current one.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

from muster.confinement import listening, may_listen
from muster.http.keepalive import keep_tcp_alive
from muster.http.message import Connection, Handler, Request, Response
from muster.http.protocol import ServerConnection
from muster.http.reader import Rejection
from muster.http.stream import StreamWriter
from muster.http.tls import PeerCertificates, SwappableContext, shrink_tls_buffers

READ_BUFFER = 256 * 1024

logger = logging.getLogger("muster.http")


def _plain_error(request: Request | None, error: BaseException) -> Response:
    logger.error("handler of %s failed", request.method if request else "no request", exc_info=error)
    return Response(500, b"internal server error\n", content_type="text/plain; charset=utf-8")


def _plain_rejection(status: int, message: str) -> Response:
    return Response(status, message.encode() + b"\n", content_type="text/plain; charset=utf-8")


def _never(request: Request) -> bool:
    return False


class HttpServer:
    """Serves `handler`. Times are seconds, sizes bytes; the hooks make the answers the layer gives by itself.

    `on_error` also hears of streams and takeovers that fail after their head has gone; its answer is unused then.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        tls: ssl.SSLContext | None = None,
        max_body: int = 3 * 1024 * 1024,
        max_header_bytes: int = 64 * 1024,
        max_headers: int = 128,
        max_connections: int = 20_000,
        max_stream_buffer: int = 16 * 1024 * 1024,
        header_timeout: float = 30.0,
        idle_timeout: float = 180.0,
        body_timeout: float = 30.0,
        min_body_progress: int = 1024,
        send_timeout: float = 60.0,
        stream_body: Callable[[Request], bool] = _never,
        on_body_too_large: Callable[[Request], Response] | None = None,
        on_error: Callable[[Request | None, Exception], Response] = _plain_error,
        on_bad_request: Callable[[int, str], Response] = _plain_rejection,
    ) -> None:
        self.handler = handler
        self.max_body = max_body
        self.max_header_bytes = max_header_bytes
        self.max_headers = max_headers
        self.max_connections = max_connections
        self.max_stream_buffer = max_stream_buffer
        self.header_timeout = header_timeout
        self.idle_timeout = idle_timeout
        self.body_timeout = body_timeout
        self.min_body_progress = min_body_progress
        self.send_timeout = send_timeout
        self.stream_body = stream_body
        self.stopping = False
        self.date = ""
        self.refused_connections = 0
        self.read_buffer = memoryview(bytearray(READ_BUFFER))
        """Where every connection's bytes arrive: each is copied out before the next read, so one buffer serves all."""
        self._on_body_too_large = on_body_too_large
        self._on_error = on_error
        self._on_bad_request = on_bad_request
        self._tls = None if tls is None else SwappableContext(tls)
        self._connections: set[ServerConnection] = set()
        self._unflushed: list[StreamWriter | ServerConnection] = []
        self._listeners: list[asyncio.Server] = []
        self._ends: list[Callable[[], None]] = []
        """Of listening, to be told when that ends."""
        self._sweeper: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._empty: asyncio.Future[None] | None = None
        self._tick = min(1.0, min(header_timeout, idle_timeout, body_timeout, send_timeout) / 4)

    async def start(self, host: str, port: int) -> None:
        """Listen on one address; may be called again for further ones."""
        loop = self._loop = asyncio.get_running_loop()
        self.stopping = False
        may_listen(host)
        if self._tls is not None:
            shrink_tls_buffers()
        listener = await loop.create_server(
            lambda: ServerConnection(self, loop),
            host,
            port,
            ssl=None if self._tls is None else self._tls.listening,
            ssl_handshake_timeout=None if self._tls is None else self.header_timeout,
            backlog=4096,
        )
        for opened in listener.sockets:
            keep_tcp_alive(opened)
            self._ends.append(listening(*opened.getsockname()[:2]))
        self._listeners.append(listener)
        if self._sweeper is None:
            self._sweep()

    @property
    def port(self) -> int:
        """The port of the first listener (useful after starting on port 0)."""
        return int(self._listeners[0].sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        return len(self._connections)

    def replace_tls(self, context: ssl.SSLContext) -> None:
        """Serve new handshakes with `context`; established connections go on with theirs."""
        if self._tls is None:
            raise ValueError("the server was made without TLS")
        self._tls.replace(context)

    async def stop(self, grace: float) -> None:
        """Accept no more, close idle connections, let running requests and streams end for `grace` seconds, then cut."""
        self.stopping = True
        for listener in self._listeners:
            listener.close()
        while self._ends:
            self._ends.pop()()
        for connection in list(self._connections):
            connection.shut_down()
        await self._until_empty(grace)
        for connection in list(self._connections):
            connection.cancel()
        await self._until_empty(1.0)
        for connection in list(self._connections):
            connection.abort()
        await self._until_empty(1.0)
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._listeners.clear()

    async def _until_empty(self, seconds: float) -> None:
        if self._connections:
            self._empty = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._empty], timeout=max(0.0, seconds))
            self._empty = None

    # For connections

    def describe(self, transport: asyncio.BaseTransport) -> Connection:
        peer = transport.get_extra_info("peername")
        remote = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) and len(peer) >= 2 else ("", 0)
        secured = transport.get_extra_info("ssl_object")
        info = Connection(remote, "http" if secured is None else "https")
        if secured is not None:
            certificates = PeerCertificates.of(secured)
            info.peer_certificate = certificates.verified
            info.peer_chain = certificates.chain
            info.foreign_certificate = certificates.foreign
        return info

    def admit(self, connection: ServerConnection) -> bool:
        if self.stopping or len(self._connections) >= self.max_connections:
            self.refused_connections += 1
            return False
        self._connections.add(connection)
        return True

    def forget(self, connection: ServerConnection) -> None:
        self._connections.discard(connection)
        if not self._connections and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    def flush_soon(self, writer: StreamWriter | ServerConnection) -> None:
        """Flush at the end of this loop turn. Answers wait for it too: writes in a row were measured to cost less than
        writes between reads (docs/decisions/0001)."""
        unflushed = self._unflushed
        if not unflushed and self._loop is not None:
            self._loop.call_soon(self._flush)
        unflushed.append(writer)

    def _flush(self) -> None:
        unflushed, self._unflushed = self._unflushed, []
        for writer in unflushed:
            writer.flush()

    def _sweep(self) -> None:
        self.date = f"Date: {formatdate(usegmt=True)}\r\n"
        now = time.monotonic()
        for connection in [c for c in self._connections if c.deadline <= now]:
            connection.expire()
        if self._loop is not None:
            self._sweeper = self._loop.call_later(self._tick, self._sweep)

    def rejection_response(self, rejection: Rejection) -> Response:
        try:
            if rejection.status == 413 and rejection.request is not None and self._on_body_too_large is not None:
                return self._on_body_too_large(rejection.request)
            return self._on_bad_request(rejection.status, rejection.message)
        except Exception as error:
            return _plain_error(rejection.request, error)

    def error_response(self, request: Any, error: BaseException) -> Response:
        if not isinstance(request, Request):
            request = None
        if not isinstance(error, Exception):
            return _plain_error(request, error)
        try:
            return self._on_error(request, error)
        except Exception as second:
            return _plain_error(request, second)
