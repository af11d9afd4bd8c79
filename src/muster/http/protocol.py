"""One server connection: requests and responses in order, one at a time.

The first request is served within the call that delivered its bytes; a further pipelined one waits for the next iteration of the
event loop, so that no client gets more than one request per iteration. Large bodies are written in slices, one per iteration and
only while the client reads them. A lost connection cancels its task; a takeover has a few seconds to deliver its data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from muster.http.acceptor import describe
from muster.http.bodies import BodyRefused
from muster.http.connections import ServedConnection
from muster.http.eager_tasks import begin
from muster.http.flow import BODY, BUSY, CLOSING, HEAD, NEVER, SENDING
from muster.http.message import Answer, Request, Response, StreamResponse, Takeover, discard, encode_head, has_length
from muster.http.reader import Rejection, RequestReader
from muster.http.receiver import Receiver
from muster.http.stream import READ_AHEAD, RawConnection, StreamWriter, lose_nothing_unread

if TYPE_CHECKING:
    from muster.http.server import HttpServer

SLICE = 256 * 1024
"""The most that one connection writes in one iteration; up to this a head and its body are one write."""
MOST_UNSENT = 64 * 1024
"""Bytes in a connection's transport above which its client counts as slow."""
LINGER = 1.0
"""Seconds for a client that is still sending to read the refusal."""
LINGER_BYTES = 256 * 1024
"""Data that are read and discarded meanwhile."""
TAKEOVER_LINGER = 5.0
STRANGER_BACKLOG = 32 * 1024
"""Unread data of an unauthenticated client under TLS above which it gets no further responses."""


class ServerConnection(Receiver, ServedConnection):
    __slots__ = (
        "_close_after",
        "_discarded",
        "_narrow",
        "_out",
        "_out_left",
        "_retiring",
        "_task",
    )

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server, loop)
        self._task: asyncio.Task[Any] | None = None
        self._out: Iterator[bytes] | None = None
        self._out_left = 0
        self._close_after = False
        self._discarded = 0
        self._narrow = False
        self._retiring = False

    # Transport callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(MOST_UNSENT)  # TLS would buffer eight times as much
        self.info = describe(transport)
        if self.info.scheme == "https":
            self._transport.set_read_buffer_limits(READ_AHEAD)  # what TLS reads while reading is paused
            self._narrow = self.info.owner is None
            if self._narrow:
                self._transport.set_write_buffer_limits(STRANGER_BACKLOG)
        limits = self.server
        self.reader = RequestReader(
            self.info,
            self._open_body,
            max_body=limits.max_body,
            max_head=limits.max_header_bytes,
            max_headers=limits.max_headers,
        )
        if not self.server.admit(self):
            self.abort()
            return
        self._wait_in(HEAD, self.server.header_timeout)

    def buffer_updated(self, nbytes: int) -> None:
        if self._lingering:
            self._discarded += nbytes
            if self._discarded > LINGER_BYTES:
                self.pause_reading()
            return
        data = bytes(self._read_buffer[:nbytes])
        if self._takeover is not None:
            self._takeover.feed(data)
        elif self._unfed or self._phase == SENDING or (self._current is not None and self.reader.receiving is not self._current):
            self._unfed += data
            if len(self._unfed) > READ_AHEAD:
                self.pause_reading()
        else:
            self._feed(data)

    def eof_received(self) -> bool | None:
        half_open = self.info.scheme == "http"
        if self._takeover is not None:
            self._takeover.feed_eof()
            return half_open
        if self._out is not None and half_open:
            self._close_after = True
            return True
        return None

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self.deadline = NEVER
        self.server.forget(self)
        if self.reader.receiving is not None and self.reader.receiving.body_stream is not None:
            self.reader.receiving.body_stream.tear()
        self.reader.drop()
        self._release_body()
        self._let_go()
        self._unfed = self._held = b""
        self._out = None
        self._out_left = 0
        if self._writer is not None:
            self._writer.lost()
            self._writer = None
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if self._takeover is not None:
            self._takeover.feed_eof()
            self._takeover = None  # It refers to this connection: a cycle would need the garbage collector.
            if self._task is not None:
                self.loop.call_later(TAKEOVER_LINGER, self._task.cancel)
        elif self._task is not None:
            self._task.cancel()

    def _resumed(self) -> None:
        if self._out is not None:
            self.loop.call_soon(self._pump)
        elif self._current is None and self._phase == SENDING:
            self._ready_for_next()

    # Handling

    def _start(self, item: Request | Rejection) -> None:
        self._current = item
        self._phase, self.deadline = BUSY, NEVER
        if isinstance(item, Rejection):
            self._send(item.request, self.server.rejection_response(item), keep=False)
            return
        try:
            if item.body or item.body_stream is not None or self._hold is not None:
                self._hold_arrived(item)
            task, answer = begin(self.loop, self.server.handler(item))
        except Exception as error:
            self._fail(item, error)
        except asyncio.CancelledError:
            self.abort()
        else:
            if task is None:
                self._answer(item, answer)
            else:
                self._task = task
                task.add_done_callback(self._handled)
                if self.reader.receiving is not None:
                    self._mark = 0
                    self._wait_in(BODY, self.server.body_timeout)

    def _handled(self, task: asyncio.Task[Answer]) -> None:
        self._task = None
        if task.cancelled():
            self.abort()
            return
        error = task.exception()
        request = self._current if isinstance(self._current, Request) else None
        if self.lost:
            if error is None:
                discard(task.result())
        elif error is None:
            self._answer(request, task.result())
        else:
            self._fail(request, error)

    def _fail(self, request: Request | None, error: BaseException) -> None:
        if isinstance(error, BodyRefused):
            refusal = self.server.rejection_response(Rejection(error.status, error.message, request))
            self._send(request, refusal, keep=False)
        else:
            self._send(request, self.server.error_response(request, error), keep=True)

    def _answer(self, request: Any, answer: Answer | None) -> None:
        if self._narrow and self.info.owner is not None:
            self._narrow = False
            self._transport.set_write_buffer_limits(MOST_UNSENT)
        if type(answer) is Response:
            self._send(request, answer, keep=True)
        elif isinstance(answer, StreamResponse):
            self._stream(request, answer)
        elif isinstance(answer, Takeover) and request.upgrade:
            self._take_over(answer)
        elif isinstance(answer, Response):
            self._send(request, answer, keep=True)
        else:
            discard(answer)
            error = TypeError(f"the handler answered {request.method} with {type(answer).__name__}")
            self._send(request, self.server.error_response(request, error), keep=True)

    def _keeps_alive(self, request: Request) -> bool:
        body = request.body_stream
        return request.keep_alive and not (self.server.stopping or self._retiring) and (body is None or body.complete)

    def _tail(self, request: Request | None, framing: str, keep: bool) -> str:
        connection = "" if keep else "Connection: close\r\n"
        if keep and request is not None and request.version == "1.0":
            connection = "Connection: keep-alive\r\n"
        return f"{self.server.date}{framing}{connection}\r\n"

    def _send(self, request: Request | None, response: Response, *, keep: bool) -> None:
        """Write a complete response and continue with the next request."""
        keep = keep and request is not None and self._keeps_alive(request)
        status, body = response.status, response.body
        size = len(body) if isinstance(body, bytes) else sum(map(len, body))
        framing = f"Content-Length: {size}\r\n"
        bodiless = status == 204 or status == 304 or (request is not None and request.method == "HEAD")
        if bodiless and (status == 204 or status == 304 or has_length(response)):
            framing = ""
        try:
            head = encode_head(status, response.headers, response.content_type, self._tail(request, framing, keep))
        except ValueError as error:
            failure = self.server.error_response(request, error)
            tail = self._tail(request, f"Content-Length: {len(failure.body)}\r\n", keep)
            head, body, size = encode_head(500, (), None, tail), failure.body, len(failure.body)
        if bodiless:
            self._emit(head)
        elif size <= SLICE:
            self._held = head + body if isinstance(body, bytes) else b"".join((head, *body))
            self.server.flush_soon(self)
        else:
            self._out = _slices(head, body)
            self._out_left = len(head) + size
            self._close_after = not keep
            self._pump()
            return
        self._finished(keep)

    def _pump(self) -> None:
        """Write one slice of a large body; the next one in a later iteration, once the client has read enough."""
        if self.lost or self._out is None:
            return
        if self._write_paused:
            self._wait_for_taker()
            return
        piece = next(self._out, None)
        if piece is None:
            self._out = None
            self._finished(not self._close_after)
            return
        self._out_left -= len(piece)
        self._emit(piece)
        self.loop.call_soon(self._pump)

    def held(self) -> int:
        return self.write_backlog() + self._out_left

    def _finished(self, keep: bool) -> None:
        self._current = None
        self._writer = None
        if self._hold is not None:
            self._release_body()
        if not keep or self.server.stopping:
            self._close_gently()
        elif self._write_paused:
            self._wait_for_taker()
        else:
            self._ready_for_next()

    def _ready_for_next(self) -> None:
        self._wait_for_input()
        if self.reader.ready or self.reader.receiving is not None or self._unfed or self._reading_paused:
            self.loop.call_soon(self._next)

    # Streams and takeovers

    def _stream(self, request: Request, answer: StreamResponse) -> None:
        keep = self._keeps_alive(request)
        chunked = answer.length is None and request.version == "1.1"
        if answer.length is not None:
            framing = f"Content-Length: {answer.length}\r\n"
        elif chunked:
            framing = "Transfer-Encoding: chunked\r\n"
        else:
            framing, keep = "", False
        try:
            head = encode_head(answer.status, answer.headers, None, self._tail(request, framing, keep))
        except ValueError as error:
            discard(answer)
            self._send(request, self.server.error_response(request, error), keep=keep)
            return
        self._emit(head)
        if request.method == "HEAD":
            discard(answer)
            self._finished(keep)
            return
        self._close_after = not keep
        self._writer = writer = StreamWriter(self, chunked=chunked, length=answer.length)
        try:
            task, _ = begin(self.loop, answer.run(writer))
        except (Exception, asyncio.CancelledError) as error:
            self._stream_ended(error)
        else:
            if task is None:
                self._stream_ended(None)
            else:
                self._task = task
                task.add_done_callback(self._stream_done)

    def _stream_done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._stream_ended(asyncio.CancelledError() if task.cancelled() else task.exception())

    def _stream_ended(self, error: BaseException | None) -> None:
        writer, request = self._writer, self._current
        if self.lost or writer is None or not isinstance(request, Request):
            return
        if error is not None:
            if isinstance(error, Exception):
                self.server.error_response(request, error)
            self.abort()
        elif not writer.finish():
            self.abort()
        else:
            self._finished(not self._close_after and self._keeps_alive(request))

    def _take_over(self, answer: Takeover) -> None:
        initial, self._unfed = self._unfed, b""
        self.reader.ended = True
        self._takeover = raw = RawConnection(self, initial)
        if raw.secure:
            lose_nothing_unread(self._transport)
        self.resume_reading()
        try:
            task, _ = begin(self.loop, answer.run(raw))
        except (Exception, asyncio.CancelledError) as error:
            self._taken_over(error)
        else:
            if task is None:
                self.close()
            else:
                self._task = task
                task.add_done_callback(self._takeover_done)

    def _takeover_done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._taken_over(asyncio.CancelledError() if task.cancelled() else task.exception())

    def _taken_over(self, error: BaseException | None) -> None:
        if error is None:
            self.close()
            return
        if isinstance(error, Exception) and not (self.lost and isinstance(error, ConnectionError)):
            self.server.error_response(self._current, error)
        self.abort()

    # For the table of connections

    def waiting_since(self) -> float | None:
        """An unauthenticated client that does not send its body or read its response counts as waited for too; others are being
        served then."""
        phase = self._phase
        return None if phase == BUSY or (phase in (BODY, SENDING) and self.info.owner is not None) else self.since

    # Ending

    def shut_down(self) -> None:
        """The server stops: close at once if idle, else after the current or incoming request is answered."""
        if self._writer is not None:
            self._writer.announce_end()
        else:
            self._close_if_idle()

    def retire(self) -> None:
        """Close at once if idle, else after the current or incoming request is answered completely."""
        self._retiring = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._current is None and not self._lingering and self.reader.receiving is None and not self.reader.has_partial_head():
            self.close()

    def cancel(self) -> None:
        """The server's grace period is over."""
        if self._task is not None:
            self._task.cancel()
        else:
            self.abort()

    def _close_gently(self) -> None:
        """Close so that the client can still read the answer: unread input would make the kernel reset the connection."""
        if self.reader.receiving is None and not self._unfed and not self.reader.rejected:
            self.close()
            return
        if not self.server.may_linger(self):
            self.flush()
            self.abort()
            return
        self._lingering = True
        self._unfed = b""
        self.reader.abandon()
        self.resume_reading()
        self.write_eof()
        self._mark = self.write_backlog()
        self._wait_in(CLOSING, LINGER)

    def expire(self) -> None:
        """The deadline has passed: extend it if there was progress, else close."""
        if self._phase in (SENDING, CLOSING):
            backlog = self.write_backlog()
            if 0 < backlog < self._mark:
                self._mark = backlog
                self._wait_in(self._phase, self.server.send_timeout)
            elif backlog == 0 and self._discarded <= LINGER_BYTES and not self._transport.is_closing():
                self.close()
            else:
                self.abort()
        elif self._phase == BODY:
            self._expire_body()
        elif self._phase == HEAD and self.reader.has_partial_head():
            self._time_out("the request head came too slowly")
        else:
            self.close()

    def _time_out(self, message: str) -> None:
        self.reader.reject(408, message)
        self._start(self.reader.ready.pop(0))


def _slices(head: bytes, body: Any) -> Iterator[bytes]:
    """Head and body in pieces of about SLICE bytes; small parts are joined, large ones cut without copying."""
    gathered: list[bytes | memoryview] = [head]
    size = len(head)
    for part in (body,) if isinstance(body, bytes) else body:
        view = memoryview(part)
        while size + len(view) >= SLICE:
            room = SLICE - size
            gathered.append(view[:room])
            yield b"".join(gathered)
            view = view[room:]
            gathered.clear()
            size = 0
        if view:
            gathered.append(view)
            size += len(view)
    if gathered:
        yield b"".join(gathered)
