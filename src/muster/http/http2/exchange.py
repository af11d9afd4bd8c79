"""One request of an `HttpServer` and its response on an HTTP/2 stream: with the same handlers, bodies and writers as on HTTP/1.1.

Request data are limited by the stream's window until the body is read. Unread response data wait in their own stream, count towards
the owner's limit, and only that stream is cut: other streams of the connection may belong to other users, if the client is a proxy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from muster.http.bodies import SMALL_BODY, BodyRefused, Hold
from muster.http.eager_tasks import begin
from muster.http.flow import NEVER
from muster.http.http2.fields import Fields
from muster.http.http2.frames import ErrorCode
from muster.http.http2.messages import CONTINUE, RefusedHead, answer_head
from muster.http.http2.stream import Stream
from muster.http.message import Answer, Request, Response, StreamResponse, discard, has_length
from muster.http.protocol import MOST_UNSENT
from muster.http.reader import Rejection
from muster.http.stream import BodyStream, StreamWriter

if TYPE_CHECKING:
    from muster.http.http2.multiplexing import MultiplexedConnection
    from muster.http.server import HttpServer

WINDOW: Final = 128 * 1024
"""Bytes of a body that may be in flight to a reader."""


class Exchange:
    __slots__ = (
        "_answered",
        "_body",
        "_connection",
        "_deadline",
        "_early",
        "_fields",
        "_hold",
        "_length",
        "_lost",
        "_mark",
        "_paused",
        "_reading",
        "_received",
        "_request",
        "_stream",
        "_task",
        "_writer",
        "info",
        "loop",
        "server",
    )

    def __init__(self, server: HttpServer, connection: MultiplexedConnection, stream: Stream, fields: Fields) -> None:
        self.server = server
        self.loop = connection.loop
        self.info = connection.info
        self._connection = connection
        self._stream = stream
        self._fields = fields
        self._length = stream.expected
        self._request: Request | None = None
        self._body: BodyStream | None = None
        self._early: list[bytes] = []
        """Body data before the request began."""
        self._received = 0
        self._reading = self._paused = False
        """Whether the body has a reader; whether too much waits for it."""
        self._task: asyncio.Task[Any] | None = None
        self._writer: StreamWriter | None = None
        self._hold: Hold | None = None
        self._answered = self._lost = False
        self._mark = 0
        self._deadline = NEVER

    # The stream

    def begin(self) -> None:
        if self._lost:
            return
        try:
            request = self._request = self._connection.heads.request(self._fields, self.info)
            self._open_body(request)
            task, answer = begin(self.loop, self.server.handler(request))
        except RefusedHead as refused:
            self._reject(refused.status, refused.message)
        except Exception as error:
            self._fail(error)
        except asyncio.CancelledError:
            self.abort()
        else:
            self._fields = []
            if task is None:
                self._answer(answer)
            else:
                self._work(task, self._handled)

    def head_received(self, fields: Fields) -> None:
        """Only responses have later heads."""

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self.info.owner is not None:
            # The stream's window bounds it; the connection's is opened for the other streams.
            self._connection.widen()
            self._stream.consumed(len(data))
        body = self._body
        if body is None:
            if not self._answered:
                self._early.append(data)
            return
        body.feed(data)
        if self._reading:
            self._allow()

    def ended(self, trailers: Fields) -> None:
        if self._body is not None:
            self._body.end()

    def lost(self, code: int | None) -> None:
        if self._lost:
            return
        self._lost = True
        if self._body is not None:
            self._body.tear()
        if self._writer is not None:
            self._writer.lost()
        self._finished()
        if self._task is not None:
            self._task.cancel()

    # The body

    def _open_body(self, request: Request) -> None:
        """Raises BodyRefused."""
        early = self._early
        complete = self._stream.remote_ended
        if complete and not early:
            return
        if self.server.stream_body(request) or not complete:
            expects = not complete and "expect" in request.headers
            whole = not self.server.stream_body(request)
            self._body = request.body_stream = BodyStream(self, self._length, expects_continue=expects, whole=whole)
            for data in early:
                self._body.feed(data)
            if complete:
                self._body.end()
            else:
                self._wait(self.server.body_timeout)
        else:
            request.body = early[0] if len(early) == 1 else b"".join(early)
        self._early = []
        if self._received > SMALL_BODY:
            budget, holder = self.server.arrivals.of(self.info)
            self._hold = budget.try_hold(holder, self._received)

    def pause_reading(self) -> None:
        self._reading, self._paused = False, True

    def resume_reading(self) -> None:
        self._reading, self._paused = True, False
        self._allow()

    def _allow(self) -> None:
        stream = self._stream
        if stream.unconsumed:
            stream.consumed(stream.unconsumed)
        if stream.allowance * 2 < WINDOW:
            stream.allow(WINDOW)

    async def hold_body(self, size: int, abandon: Callable[[], None]) -> Hold:
        self._release_body()
        budget, holder = self.server.bodies.of(self.info)
        self._hold = hold = await budget.hold(holder, size, abandon)
        return hold

    def _release_body(self) -> None:
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def send_continue(self) -> None:
        if not self._lost and not self._answered:
            self._stream.send_head(CONTINUE)

    # The answer

    def _work(self, task: asyncio.Task[Any], done: Callable[[asyncio.Task[Any]], None]) -> None:
        self._task = task
        task.add_done_callback(done)
        if self._lost:
            task.cancel()

    def _handled(self, task: asyncio.Task[Answer]) -> None:
        self._task = None
        if task.cancelled():
            self.abort()
            return
        error = task.exception()
        if self._lost:
            if error is None:
                discard(task.result())
        elif error is None:
            self._answer(task.result())
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, BodyRefused):
            self._reject(error.status, error.message)
        else:
            self._send(self.server.error_response(self._request, error))

    def _reject(self, status: int, message: str) -> None:
        self._send(self.server.rejection_response(Rejection(status, message, self._request)))

    def _answer(self, answer: Answer | None) -> None:
        if isinstance(answer, Response):
            self._send(answer)
        elif isinstance(answer, StreamResponse):
            self._send_stream(answer)
        else:
            discard(answer)
            self._fail(TypeError(f"the handler answered a request of HTTP/2 with {type(answer).__name__}"))

    def _send(self, response: Response) -> None:
        status, body = response.status, response.body
        bodiless = status == 204 or status == 304 or (self._request is not None and self._request.method == "HEAD")
        length = len(body) if isinstance(body, bytes) else sum(map(len, body))
        counted = not bodiless or not (status == 204 or status == 304 or has_length(response))
        try:
            head = answer_head(status, response.headers, response.content_type, self.server.date_value, length if counted else None)
        except ValueError as error:
            failure = self.server.error_response(self._request, error)
            body, length = failure.body, len(failure.body)
            head = answer_head(500, (), None, self.server.date_value, length)
        stream = self._stream
        self._answered = True
        if bodiless or not length:
            stream.send_head(head, end=True)
        elif isinstance(body, bytes):
            stream.send_head(head)
            stream.send(body, end=True)
        else:
            stream.send_head(head)
            for part in body:
                stream.send(part)
            stream.send(b"", end=True)
        self._wait_for_taker()
        self._finished()

    def _send_stream(self, answer: StreamResponse) -> None:
        try:
            head = answer_head(answer.status, answer.headers, None, self.server.date_value, answer.length)
        except ValueError as error:
            discard(answer)
            self._fail(error)
            return
        self._answered = True
        self._deadline = NEVER
        if self._request is not None and self._request.method == "HEAD":
            discard(answer)
            self._stream.send_head(head, end=True)
            self._finished()
            return
        self._stream.send_head(head)
        self._writer = writer = StreamWriter(self, chunked=False, length=answer.length)
        try:
            task, _ = begin(self.loop, answer.run(writer))
        except (Exception, asyncio.CancelledError) as error:
            self._stream_ended(error)
        else:
            if task is None:
                self._stream_ended(None)
            else:
                self._work(task, self._stream_done)

    def _stream_done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._stream_ended(asyncio.CancelledError() if task.cancelled() else task.exception())

    def _stream_ended(self, error: BaseException | None) -> None:
        writer = self._writer
        if self._lost or writer is None:
            return
        if error is not None:
            if isinstance(error, Exception):
                self.server.error_response(self._request, error)
            self.abort()
        elif not writer.finish():
            self.abort()
        else:
            self._stream.send(b"", end=True)
            self._wait_for_taker()
            self._finished()

    def _finished(self) -> None:
        """The request's work has ended; unsent data may still be sent."""
        self._release_body()
        self._writer = self._body = self._request = None
        self._early = []
        if self._lost or not self._stream.unsent:
            self.server.backlogs.discard(self)

    # For the answer's writer

    def write_stream(self, data: bytes) -> None:
        stream = self._stream
        stream.send(data)
        if stream.unsent > MOST_UNSENT:
            self.server.backlogs.add(self)
            if stream.unsent > self.server.max_stream_buffer:
                self.abort()

    def write_backlog(self) -> int:
        return self._stream.unsent

    @property
    def is_behind(self) -> bool:
        return self._stream.unsent > MOST_UNSENT

    async def writable(self) -> None:
        if self._lost or self._stream.closed:
            raise ConnectionResetError("the client went away")
        if self.is_behind:
            await self._stream.writable()

    # For the server's sweep

    def held(self) -> int:
        """All unsent data."""
        return self._stream.unsent

    def abort(self) -> None:
        """End the stream at once, with an error, so that the client does not take the partial response for a complete one."""
        self._stream.reset(ErrorCode.INTERNAL_ERROR)
        if self._writer is not None:
            self._writer.lost()
        # The handler of this stream may be running.
        self.loop.call_soon(self.lost, None)

    def announce_end(self) -> None:
        """The server stops."""
        if self._writer is not None:
            self._writer.announce_end()

    def cancel(self) -> None:
        """The server's grace period is over."""
        if self._task is not None:
            self._task.cancel()
        else:
            self.abort()

    def sweep(self, now: float) -> None:
        """Extend the deadline of a body, or of the client's reading, if there was progress; else end it."""
        unsent = self._stream.unsent
        if not unsent:
            self.server.backlogs.discard(self)
        if now < self._deadline:
            return
        if self._answered:
            if unsent < self._mark:
                self._wait_for_taker()
            elif self._writer is None:
                self.abort()
            return
        self._expire_body(now)

    def _expire_body(self, now: float) -> None:
        """A body must make progress while it is read, and a buffered one must be complete in time."""
        body, request = self._body, self._request
        if body is None or request is None or body.complete:
            self._deadline = NEVER
            return
        held_back = self._paused or body.awaits_continue or body.awaits_room
        late = body.whole and now - request.received > self.server.max_body_time
        if (self._received - self._mark >= self.server.min_body_progress or held_back) and not late:
            self._mark = self._received
            self._wait(self.server.body_timeout)
        elif body.whole:
            self._deadline = NEVER
            body.feed_eof(BodyRefused(408, "the request body came too slowly"))
        else:
            self.abort()

    def _wait_for_taker(self) -> None:
        self._mark = self._stream.unsent
        if self._mark:
            self.server.backlogs.add(self)
            self._wait(self.server.send_timeout)
        else:
            self._deadline = NEVER

    def _wait(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
