"""The reading half of a server connection: from the bytes of a socket to requests and bodies, within the memory limits.

Data after the current request are kept unparsed up to a limit, then the socket is no longer read. A request whose body did not come
with its head is dispatched on its head; the body is read when the handler requests it, and within the server's budgets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from muster.http.bodies import SMALL_BODY, BodyRefused, Hold
from muster.http.flow import BODY, BUSY, HEAD, IDLE, NEVER, SENDING, Flow
from muster.http.message import Request
from muster.http.reader import Rejection, RequestReader
from muster.http.stream import BodyStream, RawConnection

if TYPE_CHECKING:
    from muster.http.server import HttpServer


class Receiver(Flow):
    __slots__ = ("_current", "_hold", "_lingering", "_takeover", "_unfed", "reader")

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server, loop)
        self.reader: RequestReader
        self._current: Request | Rejection | None = None
        self._takeover: RawConnection | None = None
        self._unfed = b""
        self._lingering = False
        self._hold: Hold | None = None

    def _start(self, item: Request | Rejection) -> None:
        """Serve a request, or answer with its rejection."""

    def _feed(self, data: bytes) -> None:
        reader = self.reader
        rest = reader.feed(data)
        if self._current is None and reader.ready:
            self._unfed = rest
            self._start(reader.ready.pop(0))
            if self._unfed and reader.receiving is not None and self._takeover is None:
                rest, self._unfed = self._unfed, b""
                self._feed(rest)
            return
        self._unfed = rest
        if self._current is None or reader.receiving is not None:
            self._wait_for_input()
        elif self._phase == BODY:
            self._phase, self.deadline = BUSY, NEVER

    def _wait_for_input(self) -> None:
        """Set the deadline for missing input; a running deadline is not extended by single bytes."""
        reader = self.reader
        if reader.receiving is not None:
            if self._phase != BODY:
                self._mark = 0
                self._wait_in(BODY, self.server.body_timeout)
        elif reader.has_partial_head():
            self._hold_head()
            if self._phase != HEAD:
                self._wait_in(HEAD, self.server.header_timeout)
        else:
            self._wait_in(IDLE, self.server.idle_timeout)

    def _next(self) -> None:
        """Serve the next pipelined request, or continue reading; runs once per iteration of the event loop."""
        if self.lost or self._lingering or self._current is not None or self._phase == SENDING:
            return
        reader = self.reader
        if reader.ready:
            self._start(reader.ready.pop(0))
            return
        data, self._unfed = self._unfed, b""
        self.resume_reading()
        if data or reader.receiving is not None:
            self._feed(data)

    def _open_body(self, request: Request, length: int | None, expects_continue: bool, late: bool) -> BodyStream | None:
        if not late and not self.server.stream_body(request):
            return None
        return BodyStream(self, length, expects_continue=expects_continue, whole=late)

    async def hold_body(self, size: int, abandon: Callable[[], None]) -> Hold:
        """Memory for the body of the current request until it is answered; raises BodyRefused."""
        self._release_body()
        budget, holder = self.server.bodies.of(self.info)
        self._hold = hold = await budget.hold(holder, size, abandon)
        return hold

    def _hold_head(self) -> None:
        """A large incomplete head is counted like a body."""
        if self._hold is None and self.reader.head_bytes > SMALL_BODY:
            budget, holder = self.server.arrivals.of(self.info)
            try:
                self._hold = budget.try_hold(holder, self.server.max_header_bytes)
            except BodyRefused as refused:
                self.reader.reject(refused.status, refused.message)
                self.loop.call_soon(self._next)

    def _hold_arrived(self, request: Request) -> None:
        """Count the received part of a request: it may wait before it is processed."""
        self._release_body()
        arrived = len(request.body) if request.body_stream is None else request.body_stream.arrived
        if arrived > SMALL_BODY:
            budget, holder = self.server.arrivals.of(self.info)
            self._hold = budget.try_hold(holder, arrived)

    def _release_body(self) -> None:
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def send_continue(self) -> None:
        if not self.lost:
            self._emit(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _expire_body(self) -> None:
        """A body must make progress while it is read, and a buffered one must be complete in time."""
        request, received = self.reader.receiving, self.reader.body_bytes
        body = None if request is None else request.body_stream
        if request is None or body is None:
            self._phase, self.deadline = BUSY, NEVER
            return
        held_back = self._reading_paused or body.awaits_continue or body.awaits_room
        late = body.whole and time.monotonic() - request.received > self.server.max_body_time
        if (received - self._mark >= self.server.min_body_progress or held_back) and not late:
            self._mark = received
            self._wait_in(BODY, self.server.body_timeout)
        elif body.whole:
            self._phase, self.deadline = BUSY, NEVER
            self.reader.reject(408, "the request body came too slowly")
        else:
            self.abort()
