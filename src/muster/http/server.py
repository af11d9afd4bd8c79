"""The HTTP/1.1 server: limits, the sweep over deadlines, the flush of streams, and an orderly stop.

One sweep per tick compares each connection's deadline, and one callback per loop turn flushes whatever was
written in it, so an idle connection costs no timer and a broadcast to a thousand streams costs one scheduled callback.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any, Protocol

from muster.http import bodies
from muster.http.acceptor import Accepting, Acceptor
from muster.http.backlogs import Backlogs
from muster.http.bodies import Budgets
from muster.http.connections import ConnectionEntry
from muster.http.flush_queue import FlushQueue
from muster.http.message import Answer, Connection, Handler, Request, Response
from muster.http.negotiation import Negotiation
from muster.http.protocol import ServerConnection
from muster.http.reader import Rejection
from muster.http.tls import HTTP_2

LINGERING_STRANGERS = 16

logger = logging.getLogger("muster.http")


def _plain_error(request: Request | None, error: BaseException) -> Response:
    logger.error("handler of %s failed", request.method if request else "no request", exc_info=error)
    return Response(500, b"internal server error\n", content_type="text/plain; charset=utf-8")


def _plain_rejection(status: int, message: str) -> Response:
    headers = [("Retry-After", "1")] if status == 429 else []
    return Response(status, message.encode() + b"\n", headers, "text/plain; charset=utf-8")


def _with_body(handler: Handler) -> Handler:
    """For handlers that need the whole body from the start."""

    async def when_complete(request: Request) -> Answer:
        await request.read_body()
        return await handler(request)

    def with_body(request: Request) -> Awaitable[Answer]:
        body = request.body_stream
        return handler(request) if body is None or not body.whole else when_complete(request)

    return with_body


def _never(request: Request) -> bool:
    return False


class HttpConnection(ConnectionEntry, Protocol):
    """An accepted connection of either version."""

    info: Connection
    deadline: float
    """When `expire` is called, unless it is extended."""

    def expire(self) -> None: ...

    def retire(self) -> None:
        """Close after the current request is answered completely."""

    def shut_down(self) -> None:
        """Close after the current request is answered; streams are requested to end."""

    def cancel(self) -> None:
        """Cancel the current request."""

    def abort(self) -> None: ...


class HttpServer(Accepting[HttpConnection]):
    """Serves `handler`. Times are in seconds, sizes in bytes; the hooks make the layer's own responses.

    A handler that `reads_bodies` gets each request on its head and awaits `read_body` where it needs the body; others get complete
    requests. Requests that `stream_body` selects come on their head too, with a body that is streamed. `strangers` is the part of
    the limits on connections and bodies for unauthenticated clients.

    With `http2`, clients that choose it by ALPN are served by HTTP/2; `tls` must offer both (`muster.http.tls.HTTP_2_OR_1`).

    `on_error` is also called for streams and takeovers that fail after their head was sent; its response is unused then.
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
        max_owner_backlog: int = 64 * 1024 * 1024,
        max_backlog: int = 256 * 1024 * 1024,
        header_timeout: float = 30.0,
        idle_timeout: float = 180.0,
        body_timeout: float = 30.0,
        min_body_progress: int = 1024,
        max_body_time: float = 60.0,
        max_bodies: int = bodies.TOTAL,
        reads_bodies: bool = False,
        strangers: float = 1.0,
        send_timeout: float = 60.0,
        stream_body: Callable[[Request], bool] = _never,
        on_error: Callable[[Request | None, Exception], Response] = _plain_error,
        on_bad_request: Callable[[int, str], Response] = _plain_rejection,
        http2: bool = False,
    ) -> None:
        self.handler = handler if reads_bodies else _with_body(handler)
        self.max_body = max_body
        self.max_header_bytes = max_header_bytes
        self.max_headers = max_headers
        self.max_stream_buffer = max_stream_buffer
        self.header_timeout = header_timeout
        self.idle_timeout = idle_timeout
        self.body_timeout = body_timeout
        self.min_body_progress = min_body_progress
        self.max_body_time = max_body_time
        self.send_timeout = send_timeout
        self.stream_body = stream_body
        self.date = self.date_value = ""
        """The Date field, and its value alone."""
        self.backlogs = Backlogs(max_owner_backlog, max_backlog)
        self._on_error = on_error
        self._on_bad_request = on_bad_request
        self.bodies = Budgets(max_bodies, max_body, strangers)
        """For buffered bodies."""
        self.arrivals = Budgets(max_bodies, max_body, strangers)
        """For data that come with a head. Separate, so that complete requests never wait for slow ones."""
        self.flushing = FlushQueue()
        self.flush_soon = self.flushing.add
        """At the end of this iteration; responses wait for it too."""
        self._acceptor: Acceptor[HttpConnection] = Acceptor(
            self._either_protocol() if http2 else lambda loop: ServerConnection(self, loop),
            tls=tls,
            max_connections=max_connections,
            strangers=strangers,
            first_word=header_timeout,
        )
        self._lingering: set[HttpConnection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._tick = min(1.0, min(header_timeout, idle_timeout, body_timeout, send_timeout) / 4)

    async def start(self, host: str, port: int) -> None:
        """Listen on one address; may be called again for further ones."""
        await self._acceptor.start(host, port)
        if self._sweeper is None:
            self._sweep()

    @property
    def stopping(self) -> bool:
        return self._acceptor.stopping

    def retire_unproven(self) -> None:
        """Close connections without a client certificate, after their current requests: clients do not send one to a server that
        does not list its CA, and the server may have new client CAs now."""
        for connection in list(self._acceptor.connections):
            if connection.info.peer_certificate is None:
                connection.retire()

    async def stop(self, grace: float) -> None:
        """Accept no more, close idle connections, let running requests and streams end for `grace` seconds, then cut."""
        acceptor = self._acceptor
        acceptor.close()
        for connection in list(acceptor.connections):
            connection.shut_down()
        await acceptor.until_empty(grace)
        for connection in list(acceptor.connections):
            connection.cancel()
        await acceptor.until_empty(1.0)
        for connection in list(acceptor.connections):
            connection.abort()
        await acceptor.until_empty(1.0)
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def _either_protocol(self) -> Callable[[asyncio.AbstractEventLoop], asyncio.BaseProtocol]:
        # Few servers use HTTP/2, and the others need not import it.
        from muster.http.http2.multiplexing import Multiplexing

        multiplexing = Multiplexing(self)
        return lambda loop: Negotiation({HTTP_2: lambda: multiplexing.connection(loop)}, lambda: ServerConnection(self, loop))

    # For connections

    def may_linger(self, connection: ServerConnection) -> bool:
        """Whether the connection may linger to deliver its last response: discarded input takes memory, so few unauthenticated ones
        at once."""
        if connection.owner is None:
            if len(self._lingering) >= LINGERING_STRANGERS:
                return False
            self._lingering.add(connection)
        return True

    def admit(self, connection: HttpConnection) -> bool:
        return self._acceptor.admit(connection)

    def forget(self, connection: HttpConnection) -> None:
        self._lingering.discard(connection)
        self._acceptor.forget(connection)

    def _sweep(self) -> None:
        self.date_value = formatdate(usegmt=True)
        self.date = f"Date: {self.date_value}\r\n"
        now = time.monotonic()
        for connection in [c for c in self._acceptor.connections if c.deadline <= now]:
            connection.expire()
        self._acceptor.sweep()
        self.backlogs.sweep(now)
        self._sweeper = asyncio.get_running_loop().call_later(self._tick, self._sweep)

    def rejection_response(self, rejection: Rejection) -> Response:
        try:
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
