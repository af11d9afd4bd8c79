"""A client connection to an HTTP/1.1 server, for one exchange at a time.

`exchange` sends a head, `answer` waits for the response's head, `body` returns its body as it arrives. A response is complete as
announced, or an UpstreamError: never a part, never data of another response. Another exchange may follow (`settled`) only after a
complete response that permits it, without extra data, and a request that was sent completely; data on an idle connection end it.
`received` is whether any data of this response were received: only without them may a request be repeated, and only if the
connection had been used before.
"""

from __future__ import annotations

import asyncio
import re
import select
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

import httptools

from muster.http.flow import GONE, NEVER
from muster.http.keepalive import keep_tcp_alive
from muster.http.readbuffer import read_buffer
from muster.http.stream import Inbox, lose_nothing_unread

MAX_HEAD = 256 * 1024
"""Of a head, and of everything before, between and after the pieces of a body."""
FORBIDDEN_HEADER_CHARS: Final = re.compile(r"[\r\n\0]").search
"""Characters that would end a header field, and start another one or another request."""
_FRAMING_LENGTHS: Final = frozenset(map(len, ("content-length", "transfer-encoding")))


class UpstreamError(Exception):
    """The exchange with the server failed; `upstream` is its address."""

    def __init__(self, upstream: str, reason: str) -> None:
        super().__init__(f"{upstream}: {reason}")
        self.upstream = upstream
        self.reason = reason
        self.sent = True
        """False if there was no connection to send on."""


class UpstreamUnavailable(UpstreamError):
    """Not reachable: no such name, refused, unreachable, or closed before the response."""


class UpstreamTimeout(UpstreamError):
    """The connection or the response did not begin in time."""


class UpstreamUntrusted(UpstreamError):
    """TLS failed, e.g. the certificate cannot be verified; then `verify_code` is OpenSSL's code."""

    def __init__(self, upstream: str, reason: str, verify_code: int = 0) -> None:
        super().__init__(upstream, reason)
        self.verify_code = verify_code


class UpstreamBroken(UpstreamError):
    """The data are no HTTP response, or ended before the announced end."""


class AnswerHead:
    __slots__ = ("fields", "length", "status")

    def __init__(self, status: int, fields: list[tuple[str, str]], length: int | None) -> None:
        self.status = status
        self.fields = fields
        self.length = length

    def field(self, name: str) -> str | None:
        """The value of the first field of this name, which is given in lower case."""
        return next((value for one, value in self.fields if one.lower() == name), None)


def host_port(host: str, port: int) -> str:
    """As in addresses and Host fields: IPv6 is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def encode_request(method: str, target: str, fields: Iterable[tuple[str, str]], body: bytes | None = None) -> bytes:
    """An encoded request, with the length of its body. Raises ValueError for invalid header fields."""
    fields = tuple(fields)
    if FORBIDDEN_HEADER_CHARS(method + target):
        raise ValueError("the request line contains a line break or NUL: give the path percent-encoded")
    for name, value in fields:
        if FORBIDDEN_HEADER_CHARS(name + value):
            # The value may be a credential, and is not repeated.
            raise ValueError(f"the header field {name!r} contains a line break or NUL")
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    length = f"Content-Length: {len(body)}\r\n" if body is not None else ""
    return f"{method} {target} HTTP/1.1\r\n{lines}{length}\r\n".encode("latin-1") + (body or b"")


def _unanswered(upstream: str, error: Exception | None) -> UpstreamUnavailable:
    """Closed before the response; TLS may have the reason, e.g. that a certificate is required."""
    reason = "the connection was closed before an answer came"
    if not isinstance(error, ssl.SSLError):
        return UpstreamUnavailable(upstream, reason)
    problem = UpstreamUnavailable(upstream, f"{reason}: TLS: {error.reason or error}")
    problem.__cause__ = error
    return problem


class UpstreamConnection(asyncio.BufferedProtocol):
    def __init__(self, loop: asyncio.AbstractEventLoop, upstream: str) -> None:
        self._read_buffer = read_buffer(loop)
        self.loop = loop
        self.upstream = upstream
        self.used = False
        """Whether it was used for an exchange before the current one."""
        self.lost = False
        self.secure = False
        self.received = False
        self.complete = True
        self.reusable = False
        self.switched = False
        self.idle_since = 0.0
        self._transport: Any = None
        self._parser: Any = None
        self._parser_is_ready = False
        """Whether the parser has read a complete response, and nothing after it: another one may follow."""
        self._answer: asyncio.Future[AnswerHead] | None = None
        self._inbox = Inbox(self)
        self._fields: list[tuple[str, str]] = []
        self._wordless = 0
        """Bytes since the last ones that belonged to a body."""
        self._bodiless = False
        self._upgrade = False
        self._ends_with_connection = False
        self._interim = False
        self._reading_paused = False
        self._write_paused = False
        self._writable: asyncio.Future[None] | None = None
        self._deadline = NEVER
        """Until when the response must have begun, if `_timeout` is its time."""
        self._timeout = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ends = NEVER

    # An exchange

    def exchange(self, head: bytes, *, bodiless: bool, upgrade: bool = False) -> None:
        """Send a request head (and data joined to it); `bodiless` responses (to HEAD) have no body, and the server may switch
        protocols only if that was requested (`upgrade`)."""
        self.received = self.complete = self.reusable = False
        if self._parser_is_ready:
            self._parser_is_ready = False
        else:
            self._parser = httptools.HttpResponseParser(self)
        self._answer = self.loop.create_future()
        self._inbox = Inbox(self)
        self._fields = []
        self._wordless = 0
        self._bodiless = bodiless
        self._upgrade = upgrade
        if self.lost:
            self._fail(UpstreamUnavailable(self.upstream, "the connection was closed"))
        else:
            self.resume_reading()
            self._transport.write(head)

    async def answer(self) -> AnswerHead:
        assert self._answer is not None
        return await asyncio.shield(self._answer)

    async def answer_within(self, seconds: float) -> AnswerHead:
        """As `answer`, for a single caller that closes the connection on a timeout. Raises UpstreamTimeout.

        Nearly all responses come in time, so there is one timer per connection and not per exchange: it is set by the first, and
        when it fires it is set again for the current one.
        """
        answer = self._answer
        assert answer is not None
        if answer.done():
            return answer.result()
        self._timeout = seconds
        self._deadline = time.monotonic() + seconds
        if self._deadline < self._timer_ends:
            self._set_timer(seconds)
        try:
            return await answer
        finally:
            self._deadline = NEVER

    def _set_timer(self, seconds: float) -> None:
        self._drop_timer()
        self._timer_ends = self._deadline
        self._timer = self.loop.call_later(seconds, self._timer_rang)

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._timer_ends = NEVER

    def _timer_rang(self) -> None:
        self._timer, self._timer_ends = None, NEVER
        if self._deadline == NEVER:
            return
        left = self._deadline - time.monotonic()
        if left > 0:
            # Event loops count in milliseconds; less than one would fire at once, again and again.
            self._set_timer(max(left, 0.001))
        elif self._answer is not None and not self._answer.done():
            self._answer.set_exception(UpstreamTimeout(self.upstream, f"no answer within {self._timeout:g} s"))

    async def body(self) -> bytes:
        """The next bytes of the body, or of the other protocol after a switch; empty at the end."""
        return await self._inbox.take()

    async def body_into(self, sink: Callable[[bytes], bool]) -> bool:
        """Pass the body to `sink`, as it arrives, until that returns False; False at the end."""
        return await self._inbox.drain_into(sink)

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

    @property
    def settled(self) -> bool:
        """Another exchange may follow. Not while a part of the last request is unsent: a response may come before."""
        return self.complete and self.reusable and self.alive and not self._transport.get_write_buffer_size()

    def silent(self) -> bool:
        """Whether there are no received data that the event loop has not seen yet: above all, no close."""
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    async def start_tls(self, inner: asyncio.BaseProtocol, context: ssl.SSLContext, server_hostname: str) -> None:
        """Pass the connection to `inner`, which continues with TLS: the peer is a tunnel to another server."""
        transport = await self.loop.start_tls(self._transport, inner, context, server_hostname=server_hostname)
        if transport is None:
            raise ConnectionResetError("the connection was closed")
        inner.connection_made(transport)

    # Transport callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.secure = transport.get_extra_info("ssl_object") is not None
        if self.secure:
            lose_nothing_unread(self._transport)
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
        self._wordless += nbytes
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._inbox.feed(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if not self.complete:
                self._fail(UpstreamBroken(self.upstream, f"malformed answer: {error}"))
            self.reusable = False
            self.abort()
        if self._wordless > MAX_HEAD and not self.complete and not self.switched:
            self._refuse("the head of the answer, or what its body is wrapped in, is too large")

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
            self._fail(_unanswered(self.upstream, error))
        self._parser = None
        self._drop_timer()
        self._inbox.let_go()
        self._transport = GONE

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
            self._answer.exception()  # marks the exception as retrieved
        self._inbox.feed_eof(error)

    def _refuse(self, reason: str) -> None:
        self._fail(UpstreamBroken(self.upstream, reason))
        self.abort()

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        if self.complete:
            # A second response without a request: the connection cannot be reused.
            self.reusable = self._parser_is_ready = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._answer is not None and self._answer.done():
            return  # a trailer
        self._fields.append((name.decode("latin-1"), value.decode("latin-1").rstrip(" \t")))

    def on_headers_complete(self) -> None:
        fields, self._fields = self._fields, []
        status = self._parser.get_status_code()
        self._interim = 100 <= status < 200 and status != 101
        if self._interim or self._answer is None or self._answer.done():
            return
        if status < 100 or (status == 101 and not self._upgrade):
            self._refuse("it switched protocols without a request" if status == 101 else f"malformed answer: status {status}")
            return
        length: int | None = None
        chunked = False
        for name, value in fields:
            if len(name) not in _FRAMING_LENGTHS:
                continue
            lowered = name.lower()
            if lowered == "content-length":
                length = int(value)
            elif lowered == "transfer-encoding":
                if chunked or value.lower() != "chunked":
                    self._refuse("the answer has a transfer coding that was not requested")
                    return
                chunked = True
        self.switched = status == 101
        bodiless = self._bodiless or self.switched or status in (204, 304)
        self._ends_with_connection = not bodiless and length is None and not chunked
        self._answer.set_result(AnswerHead(status, fields, length))
        if self._bodiless:
            self._end(self._parser.should_keep_alive())

    def on_body(self, data: bytes) -> None:
        self._wordless = 0
        if self.complete:
            self.reusable = False
        else:
            self._inbox.feed(data)

    def on_message_complete(self) -> None:
        if self._interim:
            self._interim = False
        elif not self.complete and not self.switched:
            self._parser_is_ready = True
            self._end(self._parser.should_keep_alive())

    def _end(self, reusable: bool) -> None:
        self.complete = True
        self.reusable = reusable
        self._inbox.feed_eof()
