"""Connections to other HTTP/1.1 servers, and a small pool that keeps idle ones.

A connection carries one exchange at a time: `exchange` sends a head, `answer` waits for the other side's head, `body`
gives its body as it comes. It goes back to the pool only after an answer that was read to its end and allowed it; data that
arrive on an idle connection end it. `received` tells whether the other side has said anything in this exchange:
only if it has not may a request be tried again, and only if the connection had been used before.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httptools

from muster.http.keepalive import keep_tcp_alive
from muster.http.stream import Inbox

MAX_HEAD = 256 * 1024
READ_BUFFER = 256 * 1024


class UpstreamError(Exception):
    """The other server could not be made to answer; `upstream` is its address."""

    def __init__(self, upstream: str, reason: str) -> None:
        super().__init__(f"{upstream}: {reason}")
        self.upstream = upstream
        self.reason = reason
        self.sent = True
        """False when there was no connection to send anything on."""


class UpstreamUnavailable(UpstreamError):
    """Not reachable: no such name, refused, unreachable, or closed before it answered."""


class UpstreamTimeout(UpstreamError):
    """Did not accept the connection or did not begin to answer in time."""


class UpstreamUntrusted(UpstreamError):
    """TLS could not be established, e.g. its certificate does not verify."""


class UpstreamBroken(UpstreamError):
    """What it sent is not an HTTP answer, or ended before its announced end."""


class AnswerHead:
    __slots__ = ("fields", "length", "status")

    def __init__(self, status: int, fields: list[tuple[str, str]], length: int | None) -> None:
        self.status = status
        self.fields = fields
        self.length = length

    def field(self, name: str) -> str | None:
        """The value of the first field of this name, which is given in lower case."""
        return next((value for one, value in self.fields if one.lower() == name), None)


def message(method: str, target: str, fields: Iterable[tuple[str, str]], body: bytes | None = None) -> bytes:
    """A request in bytes; the length of its body is told."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
    return f"{method} {target} HTTP/1.1\r\n{lines}{length}\r\n".encode("latin-1") + (body or b"")


class UpstreamConnection(asyncio.BufferedProtocol):
    def __init__(self, loop: asyncio.AbstractEventLoop, upstream: str, read_buffer: memoryview) -> None:
        self._read_buffer = read_buffer
        self.loop = loop
        self.upstream = upstream
        self.used = False
        """Has carried an exchange before the present one."""
        self.lost = False
        self.secure = False
        self.received = False
        self.complete = True
        self.reusable = False
        self.switched = False
        self.idle_since = 0.0
        self._transport: Any = None
        self._parser: Any = None
        self._answer: asyncio.Future[AnswerHead] | None = None
        self._inbox = Inbox(self)
        self._fields: list[tuple[str, str]] = []
        self._head_bytes = 0
        self._bodiless = False
        self._ends_with_connection = False
        self._interim = False
        self._reading_paused = False
        self._write_paused = False
        self._writable: asyncio.Future[None] | None = None

    # An exchange

    def exchange(self, head: bytes, *, bodiless: bool) -> None:
        """Send a request head (and what is joined to it); `bodiless` answers (to HEAD) have no body whatever they say."""
        self.received = self.complete = self.reusable = False
        self._parser = httptools.HttpResponseParser(self)
        self._answer = self.loop.create_future()
        self._inbox = Inbox(self)
        self._fields = []
        self._head_bytes = 0
        self._bodiless = bodiless
        if self.lost:
            self._fail(UpstreamUnavailable(self.upstream, "the connection was closed"))
        else:
            self.resume_reading()
            self._transport.write(head)

    async def answer(self) -> AnswerHead:
        assert self._answer is not None
        return await asyncio.shield(self._answer)

    async def body(self) -> bytes:
        """The next bytes of the body, or of the other protocol after a switch; empty at the end."""
        return await self._inbox.take()

    async def whole_body(self, longest: int | None = None) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while piece := await self.body():
            pieces.append(piece)
            size += len(piece)
            if longest is not None and size > longest:
                raise UpstreamBroken(self.upstream, "the answer is too long")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def body_at_hand(self) -> bytes:
        return self._inbox.taken()

    def write(self, data: bytes) -> None:
        if not self.lost and data:
            self._transport.write(data)

    def write_eof(self) -> bool:
        if self.lost or self._transport.is_closing() or not self._transport.can_write_eof():
            return False
        self._transport.write_eof()
        return True

    async def drain(self) -> None:
        while self._write_paused and not self.lost:
            if self._writable is None or self._writable.done():
                self._writable = self.loop.create_future()
            await asyncio.shield(self._writable)
        if self.lost:
            raise ConnectionResetError(f"{self.upstream} closed the connection")

    def close(self) -> None:
        if not self.lost:
            self._transport.close()

    def abort(self) -> None:
        if not self.lost:
            self._transport.abort()

    @property
    def alive(self) -> bool:
        return not self.lost and not self._transport.is_closing()

    async def start_tls(self, inner: UpstreamConnection, context: ssl.SSLContext, server_hostname: str) -> None:
        """Hand the connection over to `inner`, which goes on in it by TLS: the other side is a tunnel to a third one."""
        transport = await self.loop.start_tls(self._transport, inner, context, server_hostname=server_hostname)
        if transport is None:
            raise ConnectionResetError("the connection was closed")
        inner.connection_made(transport)

    # Transport callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.secure = transport.get_extra_info("ssl_object") is not None
        keep_tcp_alive(transport.get_extra_info("socket"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._read_buffer[:nbytes])
        self.received = True
        if self.switched:
            self._inbox.feed(data)
            return
        if self.complete or self._parser is None:
            self.reusable = False
            self.abort()
            return
        if self._answer is not None and not self._answer.done():
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._inbox.feed(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if not self.complete:
                self._fail(UpstreamBroken(self.upstream, f"malformed answer: {error}"))
            self.reusable = False
            self.abort()
        if self._head_bytes > MAX_HEAD and self._answer is not None and not self._answer.done():
            self._fail(UpstreamBroken(self.upstream, "the head of the answer is too large"))
            self.abort()

    def eof_received(self) -> bool | None:
        if self.switched:
            self._inbox.feed_eof()
            return not self.secure
        return None

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if self.switched or self.complete:
            self._inbox.feed_eof()
        elif self._answer is not None and self._answer.done() and self._ends_with_connection and error is None:
            self.complete = True
            self._inbox.feed_eof()
        elif self._answer is not None and self._answer.done():
            self._fail(UpstreamBroken(self.upstream, "the answer ended before its end"))
        else:
            self._fail(UpstreamUnavailable(self.upstream, "the connection was closed before an answer came"))
        self._parser = None

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def pause_reading(self) -> None:
        if not self._reading_paused and self.alive:
            self._reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._reading_paused and self.alive:
            self._reading_paused = False
            self._transport.resume_reading()

    def _fail(self, error: UpstreamError) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
            self._answer.exception()  # whoever waits still gets it; nobody waiting is not worth a warning
        self._inbox.feed_eof(error)

    # Callbacks of the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name.decode("latin-1"), value.decode("latin-1").rstrip(" \t")))

    def on_headers_complete(self) -> None:
        fields, self._fields = self._fields, []
        status = self._parser.get_status_code()
        self._interim = 100 <= status < 200 and status != 101
        if self._interim or self._answer is None or self._answer.done():
            return
        self.switched = status == 101
        length: int | None = None
        chunked = False
        for name, value in fields:
            lowered = name.lower()
            if lowered == "content-length":
                length = int(value)
            elif lowered == "transfer-encoding":
                chunked = True
        bodiless = self._bodiless or self.switched or status in (204, 304)
        self._ends_with_connection = not bodiless and length is None and not chunked
        self._answer.set_result(AnswerHead(status, fields, length))
        if self._bodiless:
            self._end(self._parser.should_keep_alive() or length is not None)

    def on_body(self, data: bytes) -> None:
        if self.complete:
            self.reusable = False
        else:
            self._inbox.feed(data)

    def on_message_complete(self) -> None:
        if self._interim:
            self._interim = False
        elif not self.complete and not self.switched:
            self._end(self._parser.should_keep_alive())

    def _end(self, reusable: bool) -> None:
        self.complete = True
        self.reusable = reusable
        self._inbox.feed_eof()


@contextmanager
def explained(upstream: str, whose: str = "") -> Iterator[None]:
    """What goes wrong in connecting, as UpstreamError, but for the time that it takes; `whose` begins the reason."""
    try:
        yield
    except TimeoutError:
        raise
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or "TLS failed"
        raise UpstreamUntrusted(upstream, f"{whose}TLS: {reason}") from error
    except ConnectionRefusedError as error:
        raise UpstreamUnavailable(upstream, f"{whose}connection refused") from error
    except OSError as error:
        raise UpstreamUnavailable(upstream, f"{whose}{error.strerror or error}") from error


UpstreamKey = tuple[str, int, ssl.SSLContext | None, str | None]


class UpstreamPool:
    """Idle connections by upstream; the TLS context is part of the key, so one identity never rides on another's connection."""

    def __init__(self, *, max_idle: int = 32, idle_timeout: float = 30.0) -> None:
        self._max_idle = max_idle
        self._idle_timeout = idle_timeout
        self._idle: dict[UpstreamKey, list[UpstreamConnection]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False
        self._read_buffer = memoryview(bytearray(READ_BUFFER))

    @property
    def idle(self) -> int:
        return sum(map(len, self._idle.values()))

    async def connect(self, key: UpstreamKey, timeout: float, *, fresh: bool = False) -> UpstreamConnection:
        """An idle connection if there is one (and not `fresh`), else a new one."""
        kept = [] if fresh else self._idle.get(key, [])
        while kept:
            connection = kept.pop()
            if connection.alive and connection.complete and connection.reusable:
                return connection
            connection.abort()
        try:
            return await self._new(key, timeout)
        except UpstreamError as error:
            error.sent = False
            raise

    async def _new(self, key: UpstreamKey, timeout: float) -> UpstreamConnection:
        upstream = f"{key[0]}:{key[1]}"
        try:
            with explained(upstream):
                async with asyncio.timeout(timeout):
                    return await self.open(key)
        except TimeoutError:
            raise UpstreamTimeout(upstream, f"no connection within {timeout:g} s") from None

    async def ask(
        self, key: UpstreamKey, message: bytes, *, timeout: float, repeat: bool, longest: int | None = None
    ) -> tuple[AnswerHead, bytes]:
        """One whole exchange: what is answered to `message`, with a body of `longest` bytes at most. `timeout` is for connecting.
        With `repeat`, a kept connection that the other side closed without a word is replaced. Raises UpstreamError."""
        fresh = False
        while True:
            connection = await self.connect(key, timeout, fresh=fresh)
            try:
                connection.exchange(message, bodiless=False)
                return await connection.answer(), await connection.whole_body(longest)
            except UpstreamUnavailable:
                if fresh or not repeat or not connection.used or connection.received:
                    raise
                fresh = True
            finally:
                self.release(key, connection)

    async def open(self, key: UpstreamKey) -> UpstreamConnection:
        """A new connection; what goes wrong is raised as it comes."""
        host, port, tls, server_hostname = key
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: self.protocol(f"{host}:{port}"),
            host,
            port,
            ssl=tls,
            server_hostname=(server_hostname or host) if tls is not None else None,
        )
        return connection

    def protocol(self, upstream: str) -> UpstreamConnection:
        return UpstreamConnection(asyncio.get_running_loop(), upstream, self._read_buffer)

    def release(self, key: UpstreamKey, connection: UpstreamConnection) -> None:
        """Keep the connection if its exchange ended in a way that allows another, else close it."""
        kept = self._idle.setdefault(key, [])
        if not (connection.complete and connection.reusable and connection.alive) or self._closed:
            connection.abort()
        elif len(kept) >= self._max_idle:
            connection.close()
        else:
            connection.used = True
            connection.idle_since = time.monotonic()
            kept.append(connection)
            if self._sweeper is None:
                self._sweeper = connection.loop.call_later(self._idle_timeout, self._sweep, connection.loop)
        if not kept:
            del self._idle[key]

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        oldest = time.monotonic() - self._idle_timeout
        for key, kept in list(self._idle.items()):
            stale = [connection for connection in kept if connection.idle_since <= oldest or not connection.alive]
            for connection in stale:
                kept.remove(connection)
                connection.close()
            if not kept:
                del self._idle[key]
        self._sweeper = loop.call_later(self._idle_timeout / 2, self._sweep, loop) if self._idle else None

    def close(self) -> None:
        """Close what is idle; connections in use are closed when they come back."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for kept in self._idle.values():
            for connection in kept:
                connection.close()
        self._idle.clear()
