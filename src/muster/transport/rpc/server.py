"""gRPC's server: unary calls and server streams over HTTP/2, with optional client certificates.

A call is checked by its head, before its message is read: whether it is gRPC, whether its method exists, then its authentication.
Unauthenticated calls are answered by trailers alone and the rest of them is ignored; data that came together with the head are kept
meanwhile, within HTTP/2's window and, beyond `SMALL_BODY`, within the budget for unauthenticated bodies. After authentication,
memory for a large message is taken from the budget of its owner before the window is extended for it, so the memory for all callers
is bounded too.

A call ends in one of three ways: its method ends, its client is gone, or its deadline has passed. In the last two the method is
cancelled, or not started if the call was still waiting.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from struct import Struct
from typing import Any, Final

from muster.http.bodies import SMALL_BODY, TOTAL, BodyRefused, Budgets, Hold
from muster.http.eager_tasks import begin
from muster.http.http2.fields import Fields
from muster.http.http2.server import Http2Server, Request, ServerLimits
from muster.http.http2.stream import Stream
from muster.http.message import Connection
from muster.machinery.clock import SYSTEM, Clock
from muster.transport.rpc import headers
from muster.transport.rpc.interfaces import Authenticate, CallObserver, Metadata, Methods, Unary
from muster.transport.rpc.messages import MAX_MESSAGE, MessageReader, prefixed
from muster.transport.rpc.status import Code, RpcError

MESSAGE_TIMEOUT: Final = 60.0
"""Seconds for a caller's message, from when it may be sent."""
_PREFIX: Final = Struct(">BL")

logger = logging.getLogger("muster.transport")


class _Refusal(Exception):
    """A call that ends with its head, by an HTTP status."""

    def __init__(self, status: bytes, code: Code, message: str, *extra: tuple[bytes, bytes]) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.extra = extra


class _Call:
    """Head, call and response in one object: there is one for each open stream."""

    __slots__ = (
        "_complete",
        "_early",
        "_ended",
        "_head_sent",
        "_hold",
        "_news",
        "_problem",
        "_reader",
        "_server",
        "_stream",
        "_task",
        "_timer",
        "caller",
        "connection",
        "deadline",
        "metadata",
        "method",
        "since",
    )

    def __init__(self, server: RpcServer, stream: Stream, connection: Connection, now: float) -> None:
        self._server = server
        self._stream = stream
        self.connection = connection
        self.since = now
        self.method = ""
        self.metadata: Metadata = {}
        self.deadline: float | None = None
        self.caller: Any = None
        self._early: list[bytes] | None = []
        """Data that came before authentication; None after it."""
        self._reader = MessageReader(server.max_receive)
        self._problem: Exception | None = None
        self._complete = False
        self._head_sent = self._ended = False
        self._hold: Hold | None = None
        self._news: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # Callbacks of the stream

    def read_head(self, fields: Fields) -> None:
        try:
            self._read_head(fields)
        except (RpcError, _Refusal) as problem:
            self._problem = problem

    def _read_head(self, fields: Fields) -> None:
        found = dict(fields)
        self.method = found.get(b":path", b"").decode("latin-1")
        if found.get(b":method") != b"POST":
            raise _Refusal(b"405", Code.INTERNAL, "gRPC's calls are POST requests")
        if not headers.is_grpc(found.get(b"content-type", b"")):
            raise _Refusal(b"415", Code.INVALID_ARGUMENT, "the content-type must be application/grpc")
        timeout = found.get(b"grpc-timeout")
        if timeout is not None:
            self.deadline = self.since + headers.parse_timeout(timeout)
        if found.get(b"grpc-encoding", b"identity") != b"identity":
            raise _Refusal(
                b"200", Code.UNIMPLEMENTED, "messages are taken uncompressed only", (b"grpc-accept-encoding", b"identity")
            )
        self.metadata = headers.metadata_of(fields)
        if self.method not in self._server.methods:
            raise RpcError(Code.UNIMPLEMENTED, f"there is no method {self.method[:200]!r} here")

    def head_received(self, fields: Fields) -> None:
        raise AssertionError("a request has one head")

    def data_received(self, data: bytes) -> None:
        if self._ended:
            self._stream.consumed(len(data))
        elif self._early is None:
            self._feed(data)
        else:
            self._early.append(data)
            if self._stream.unconsumed > SMALL_BODY and self._hold is None and self.connection.owner is None:
                self._hold_early()

    def _hold_early(self) -> None:
        budget, holder = self._server.bodies.of(self.connection)
        try:
            self._hold = budget.try_hold(holder, self._server.stream_window)
        except BodyRefused:
            self._fail(RpcError(Code.RESOURCE_EXHAUSTED, "too many messages are being received; try again later"))

    def _feed(self, data: bytes) -> None:
        self._stream.consumed(len(data))
        if self._problem is not None:
            return
        known = self._reader.announced is not None
        try:
            self._reader.feed(data)
        except RpcError as error:
            self._problem = error
        if len(self._reader.messages) > 1:
            self._problem = RpcError(Code.INTERNAL, "cardinality violation: the call takes one message, and several came")
        if self._problem is not None or (not known and self._reader.announced is not None):
            self._wake()

    def ended(self, trailers: Fields) -> None:
        self._complete = True
        self._wake()

    def lost(self, code: int | None) -> None:
        self._ended = True
        self._clean_up()
        self._server.observe(self, Code.CANCELLED)
        if self._task is not None:
            self._task.cancel()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # Processing

    def begin(self) -> None:
        server = self._server
        if self._ended:
            return
        if self._problem is not None:
            self._fail(self._problem)
            return
        if server.observer is not None:
            server.observer.started(self.method)
        loop = self._stream.connection.loop
        if self.deadline is not None:
            if self.deadline <= loop.time():
                self._expire()
                return
            self._timer = loop.call_at(self.deadline, self._expire)
        server.calls.add(self)
        try:
            task, _ = begin(loop, self._run())
        except asyncio.CancelledError:
            return
        if task is not None:
            self._go_on(task)

    def _go_on(self, task: asyncio.Task[None]) -> None:
        """Continue after the first step, in which the connection may have been lost."""
        self._task = task
        if self._ended:
            task.cancel()

    async def _run(self) -> None:
        try:
            self.caller = await self._server.authenticate(self)
            self._admit()
            method = self._server.methods[self.method]
            message = self._reader.messages[0] if self._complete and self._is_whole() else await self._message()
            if len(message) > SMALL_BODY and self._hold is None:
                self._hold_message(len(message))
            if self._server.observer is not None:
                self._server.observer.received(self.method, len(message))
            if isinstance(method, Unary):
                self.answer(await method.run(self, message))
            else:
                await method.run(self, message, self)
            self.end(Code.OK)
        except asyncio.CancelledError:
            self.end(Code.CANCELLED, "the call was cancelled")
            raise
        except Exception as error:
            self._fail(error)
        finally:
            self._task = None
            self._clean_up()

    def _admit(self) -> None:
        """The caller is authenticated: extend the window for its message."""
        if self.connection.owner is None:
            self.connection.owner = ("caller", self.connection.remote[0])
        if self._hold is not None:
            self._hold.release()
            self._hold = None
        early, self._early = self._early, None
        for data in early or ():
            self._feed(data)

    def _hold_message(self, size: int) -> None:
        """Account for a message that came within the window without being waited for. Raises RpcError."""
        budget, holder = self._server.bodies.of(self.connection)
        try:
            self._hold = budget.try_hold(holder, size)
        except BodyRefused as refusal:
            raise RpcError(Code.RESOURCE_EXHAUSTED, refusal.message) from None

    def _is_whole(self) -> bool:
        return self._problem is None and len(self._reader.messages) == 1 and self._reader.is_between

    async def _message(self) -> bytes:
        """Raises RpcError."""
        try:
            async with asyncio.timeout(self._server.message_timeout):
                while self._problem is None and not self._complete:
                    await self._make_room()
                    if self._problem is None and not self._complete:
                        self._news = self._stream.connection.loop.create_future()
                        await self._news
        except TimeoutError:
            raise RpcError(Code.CANCELLED, "the message did not come in time") from None
        if self._problem is not None:
            raise self._problem
        if not self._reader.is_between:
            raise RpcError(Code.INTERNAL, "the call's data ended within a message")
        if not self._reader.messages:
            raise RpcError(Code.INTERNAL, "cardinality violation: the call takes one message, and none came")
        return self._reader.messages[0]

    async def _make_room(self) -> None:
        size = self._reader.announced
        if size is None:
            return
        if size > SMALL_BODY and self._hold is None:
            budget, holder = self._server.bodies.of(self.connection)
            try:
                self._hold = await budget.hold(holder, size, self._abandon_body)
            except BodyRefused as refusal:
                raise RpcError(Code.RESOURCE_EXHAUSTED, refusal.message) from None
        self._stream.allow(self._reader.missing)

    def _abandon_body(self) -> None:
        """Release the memory of a message that does not arrive."""
        self._problem = RpcError(Code.RESOURCE_EXHAUSTED, "the message came too slowly, and others waited; try again later")
        self._wake()

    def _expire(self) -> None:
        self.end(Code.DEADLINE_EXCEEDED, "the call's deadline has passed")
        if self._task is not None:
            self._task.cancel()

    def stop(self) -> None:
        """The server shuts down."""
        self.end(Code.UNAVAILABLE, "the server is shutting down")
        if self._task is not None:
            self._task.cancel()

    def _clean_up(self) -> None:
        self._server.calls.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    # Response

    def start(self, metadata: Metadata) -> None:
        if not self._head_sent and not self._ended:
            self._stream.send_head(headers.answer_head(metadata))
            self._head_sent = True

    def send(self, message: bytes) -> None:
        if not self._head_sent:
            self.start({})
        self._stream.send(_PREFIX.pack(0, len(message)) + message)
        if self._server.observer is not None:
            self._server.observer.sent(self.method, len(message))

    @property
    def unsent(self) -> int:
        return self._stream.unsent

    async def writable(self) -> None:
        await self._stream.writable()

    def answer(self, message: bytes) -> None:
        if not self._ended:
            self._stream.send_head(headers.OK_HEAD)
            self._head_sent = True
            self._stream.send(prefixed(message))
            if self._server.observer is not None:
                self._server.observer.sent(self.method, len(message))

    def end(self, code: Code, message: str = "") -> None:
        if self._ended:
            return
        self._ended = True
        if self._head_sent:
            self._stream.finish(headers.trailers(code, message))
        else:
            self._stream.send_head(headers.trailers_only(code, message), end=True)
        self._clean_up()
        self._server.observe(self, code)

    def _fail(self, error: Exception) -> None:
        connection = self._stream.connection
        if isinstance(error, RpcError):
            self.end(error.code, error.message)
        elif isinstance(error, _Refusal):
            self._ended = True
            self._stream.send_head(headers.trailers_only(error.code, error.message, error.status, error.extra), end=True)
        elif isinstance(error, ConnectionResetError) and self._stream.closed:
            self._ended = True
        else:
            logger.error("method %s failed", self.method, exc_info=error)
            self.end(Code.INTERNAL, "internal error")
        if self.connection.owner is None:
            connection.nuisance()  # limits repeated unauthenticated calls


class RpcServer:
    """Serves `methods` to authenticated callers.

    `authenticate` may set the connection's `owner`, by which limits are counted; otherwise it is the caller's address. A server
    without `tls` is for tests and behind a proxy: there are no client certificates.
    """

    def __init__(
        self,
        methods: Methods,
        authenticate: Authenticate,
        *,
        tls: ssl.SSLContext | None = None,
        max_receive: int = MAX_MESSAGE,
        max_bodies: int = TOTAL,
        message_timeout: float = MESSAGE_TIMEOUT,
        limits: ServerLimits | None = None,
        observer: CallObserver | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        limits = limits or ServerLimits()
        self.methods = methods
        self.authenticate = authenticate
        self.max_receive = max_receive
        self.message_timeout = message_timeout
        self.observer = observer
        self.bodies = Budgets(max_bodies, max_receive, limits.strangers)
        self.stream_window = limits.stream_window
        self.calls: set[_Call] = set()
        self._http = Http2Server(self._request, tls=tls, limits=limits, clock=clock)

    async def start(self, host: str, port: int) -> None:
        """Listen on one address; may be called again for further ones. Raises OSError."""
        await self._http.start(host, port)

    @property
    def port(self) -> int:
        return self._http.port

    @property
    def connections(self) -> int:
        return self._http.connections

    def replace_tls(self, context: ssl.SSLContext) -> None:
        """Use another certificate or other client CAs for new connections. It must request client certificates if the first context
        does."""
        self._http.replace_tls(context)

    async def stop(self, grace: float) -> None:
        """Send GOAWAY, let calls end for `grace` seconds, then end them and close."""
        await self._http.drain(grace)
        for call in list(self.calls):
            call.stop()
        await self._http.stop()

    def _request(self, stream: Stream, fields: Fields, connection: Connection) -> Request:
        call = _Call(self, stream, connection, stream.connection.loop.time())
        call.read_head(fields)
        return call

    def observe(self, call: _Call, code: Code) -> None:
        if self.observer is not None and call.method in self.methods:
            self.observer.handled(call.method, code, call._stream.connection.loop.time() - call.since)
