"""gRPC's client: calls to one server over one connection, which is opened when a call needs it.

Calls that the server has not processed are sent again on another connection, so a server that shuts down fails no calls. Any other
call that was sent may have been executed, and ends with UNAVAILABLE. When the certificate changes (`replace_tls`), the next call
opens a new connection; the former one ends with its calls. A token is only sent over TLS.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from muster.http.http2.client import CLIENT_LIMITS, ClientConnection, ConnectionGoing, KeepAlive, connect
from muster.http.http2.fields import Fields, encode
from muster.http.http2.frames import ErrorCode
from muster.http.http2.limits import Http2Limits
from muster.http.http2.stream import Stream
from muster.http.tunnel import Proxy
from muster.http.upstream import UpstreamError, host_port
from muster.machinery.clock import SYSTEM, Clock
from muster.transport.rpc import headers
from muster.transport.rpc.interfaces import Metadata
from muster.transport.rpc.messages import MAX_MESSAGE, PREFIX_SIZE, MessageReader, prefixed
from muster.transport.rpc.status import Code, RpcError

CONNECT_TIMEOUT: Final = 10.0
MOST_ATTEMPTS: Final = 3
"""Attempts for a call that servers refuse to process."""

Token = Callable[[], Awaitable[str]]

_BY_RESET: Final = {
    ErrorCode.CANCEL: Code.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: Code.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: Code.PERMISSION_DENIED,
    ErrorCode.REFUSED_STREAM: Code.UNAVAILABLE,
}


class _NotBegun(Exception):
    """The server has not processed the call: it may be sent again."""


class _Call:
    """One call: gets the callbacks of its stream, and is read by its caller."""

    def __init__(self, window: int, max_receive: int) -> None:
        self.stream: Stream | None = None
        self.metadata: Metadata = {}
        self._window = window
        self._reader = MessageReader(max_receive)
        self._messages: deque[bytes] = deque()
        self._buffered = 0
        self._head: Fields | None = None
        self._outcome: Exception | None = None
        """How the call ended; RpcError with OK is success."""
        self._news: asyncio.Future[None] | None = None

    # Callbacks of the stream

    def head_received(self, fields: Fields) -> None:
        self._head = fields
        self.metadata = headers.answer_metadata(fields)
        found = dict(fields)
        status = int(found[b":status"])
        if not headers.is_grpc(found.get(b"content-type", b"")) or status != 200:
            self._end(headers.read_status(fields) or headers.status_of_http(status))
        elif found.get(b"grpc-encoding", b"identity") != b"identity":
            self._end(RpcError(Code.INTERNAL, "the server compresses messages although compression was not requested"))
        self._wake()

    def data_received(self, data: bytes) -> None:
        stream = self.stream
        assert stream is not None
        stream.consumed(len(data))
        if self._outcome is not None:
            return
        reader = self._reader
        try:
            reader.feed(data)
        except RpcError as error:
            self._end(error)
            return
        if reader.messages:
            self._buffered += sum(map(len, reader.messages)) + PREFIX_SIZE * len(reader.messages)
            self._messages += reader.messages
            reader.messages = []
            self._wake()
        if reader.announced is not None and not self._messages:
            # A message that is larger than the window must be able to arrive, but only after those before it were taken.
            stream.allow(reader.missing)

    def ended(self, trailers: Fields) -> None:
        status = headers.read_status(trailers or self._head or [])
        if status is None:
            status = RpcError(Code.INTERNAL, "the server ended the call without a status")
        elif status.code is Code.OK and not self._reader.is_between:
            status = RpcError(Code.INTERNAL, "the server ended the call within a message")
        self._end(status)

    def lost(self, code: int | None) -> None:
        if code == ErrorCode.REFUSED_STREAM and self._head is None:
            self._end(_NotBegun())
        elif code is None:
            self._end(self._lost_connection())
        else:
            known = _BY_RESET.get(ErrorCode(code), Code.INTERNAL) if code in set(ErrorCode) else Code.INTERNAL
            self._end(RpcError(known, f"the server reset the call (HTTP/2 error {code})"))

    def _lost_connection(self) -> RpcError:
        connection = self.stream.connection if self.stream is not None else None
        reason = ""
        if isinstance(connection, ClientConnection):
            if connection.farewell is not None:
                reason = f": it said {connection.farewell[1].decode('utf-8', 'replace') or connection.farewell[0]}"
            elif connection.failure is not None:
                reason = f": {connection.failure}"
        return RpcError(Code.UNAVAILABLE, f"the connection to the server was lost{reason}")

    def _end(self, outcome: Exception) -> None:
        if self._outcome is None:
            self._outcome = outcome
            self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # For the caller

    async def head(self) -> None:
        """Wait until a response has begun. Raises RpcError for a call that has failed before."""
        while self._head is None and self._outcome is None:
            await self._wait()
        if isinstance(self._outcome, _NotBegun) or (isinstance(self._outcome, RpcError) and self._outcome.code is not Code.OK):
            raise self._outcome

    async def single(self) -> bytes:
        """The message of a unary call. Raises RpcError."""
        while self._outcome is None and len(self._messages) < 2:
            await self._wait()
        if self._outcome is None:
            raise RpcError(Code.INTERNAL, "cardinality violation: one message was expected, several came")
        if not (isinstance(self._outcome, RpcError) and self._outcome.code is Code.OK):
            raise self._outcome
        if len(self._messages) != 1:
            raise RpcError(Code.INTERNAL, f"cardinality violation: one message was expected, {len(self._messages)} came")
        return self._messages[0]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._messages:
            if self._outcome is not None:
                if isinstance(self._outcome, RpcError) and self._outcome.code is Code.OK:
                    raise StopAsyncIteration
                raise self._outcome
            await self._wait()
        message = self._messages.popleft()
        self._buffered -= len(message) + PREFIX_SIZE
        self._open_window()
        return message

    def _open_window(self) -> None:
        stream, reader = self.stream, self._reader
        if stream is None:
            return
        if stream.allowance < self._window // 2:
            stream.allow(self._window - self._buffered - reader.kept)
        if reader.announced is not None and not self._messages:
            stream.allow(reader.missing)

    async def _wait(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    @property
    def is_full(self) -> bool:
        """The server cannot send more before a message is taken."""
        return self.stream is not None and self.stream.allowance <= 0

    # For bidirectional calls

    def send(self, message: bytes) -> None:
        """Send a further message with the connection's next write. It is queued if the server's flow control requires that."""
        if self.stream is not None:
            self.stream.send(prefixed(message))

    @property
    def unsent(self) -> int:
        """Bytes of messages that the server's flow control holds back."""
        return 0 if self.stream is None else self.stream.unsent

    async def writable(self) -> None:
        """Wait until nothing is unsent. Raises ConnectionResetError if that can never happen."""
        if self.stream is not None:
            await self.stream.writable()

    def finish(self) -> None:
        """End our side of the call: no further messages."""
        if self.stream is not None:
            self.stream.send(b"", end=True)

    def close(self) -> None:
        """The caller has no further interest in the call."""
        if self.stream is not None and not self.stream.closed:
            self.stream.reset(ErrorCode.CANCEL)


class RpcChannel:
    """Calls to `host` and `port`. `server_name` is the name in the server's certificate if it is not the host.

    `proxy` is used by CONNECT. `token` is called for each call.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None,
        server_name: str = "",
        token: Token | None = None,
        proxy: Proxy | None = None,
        keepalive: KeepAlive | None = None,
        limits: Http2Limits = CLIENT_LIMITS,
        max_receive: int = MAX_MESSAGE,
        connect_timeout: float = CONNECT_TIMEOUT,
        user_agent: str = "muster",
        clock: Clock = SYSTEM,
    ) -> None:
        if tls is None and token is not None:
            raise ValueError("a token is sent over TLS only: give `tls`, or no token")
        if tls is None and proxy is not None:
            raise ValueError("a proxy leads to servers that speak TLS only: give `tls`, or no proxy")
        self.name = host_port(host, port)
        self._host = host
        self._port = port
        self._tls = tls
        self._server_name = server_name or None
        self._token = token
        self._proxy = proxy
        self._keepalive = keepalive
        self._limits = limits
        self._max_receive = max_receive
        self._connect_timeout = connect_timeout
        self._clock = clock
        self._agent = user_agent.encode("ascii")
        self._authority = (server_name or host_port(host, port)).encode("ascii")
        self._blocks: dict[str, bytes] = {}
        self._connection: ClientConnection | None = None
        self._connections: set[ClientConnection] = set()
        """Open connections, including former ones."""
        self._dialing: asyncio.Task[ClientConnection] | None = None
        self._closed = False

    @property
    def connections(self) -> int:
        """The number of open connections: the one for new calls, and those that end with their calls."""
        return len(self._connections)

    def replace_tls(self, context: ssl.SSLContext) -> None:
        """Use another certificate or other CAs for new calls; calls under way continue on their connection."""
        if self._tls is None:
            raise ValueError("the channel was made without TLS")
        self._tls = context
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.retire()

    async def unary(self, method: str, message: bytes, *, timeout: float) -> bytes:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                for attempt in range(MOST_ATTEMPTS):
                    call = await self._begin(method, message, deadline)
                    try:
                        return await call.single()
                    except _NotBegun:
                        if attempt + 1 == MOST_ATTEMPTS:
                            raise self._refused() from None
                    finally:
                        call.close()
        except TimeoutError:
            raise RpcError(Code.DEADLINE_EXCEEDED, f"{self.name}: no answer within {timeout:g} s") from None
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def stream(self, method: str, message: bytes, *, timeout: float) -> AsyncIterator[_Call]:
        call = await self._answered(method, message, timeout, end=True)
        try:
            yield call
        finally:
            call.close()

    @asynccontextmanager
    async def bidirectional(self, method: str, message: bytes, *, timeout: float) -> AsyncIterator[_Call]:
        """A bidirectional call, with `message` as our first one."""
        call = await self._answered(method, message, timeout, end=False)
        try:
            yield call
        finally:
            call.close()

    async def _answered(self, method: str, message: bytes, timeout: float, *, end: bool) -> _Call:
        """A call whose response has begun; the caller must close it. Raises RpcError."""
        try:
            async with asyncio.timeout(timeout):
                for attempt in range(MOST_ATTEMPTS):
                    call = await self._begin(method, message, None, end=end)
                    try:
                        await call.head()
                    except _NotBegun:
                        if attempt + 1 == MOST_ATTEMPTS:
                            raise self._refused() from None
                    except BaseException:
                        call.close()
                        raise
                    else:
                        return call
        except TimeoutError:
            raise RpcError(Code.DEADLINE_EXCEEDED, f"{self.name}: no answer within {timeout:g} s") from None
        raise AssertionError("the last attempt returns or raises")

    def _refused(self) -> RpcError:
        return RpcError(Code.UNAVAILABLE, f"{self.name}: the server takes no calls")

    async def _begin(self, method: str, message: bytes, deadline: float | None, *, end: bool = True) -> _Call:
        """Send a call; `end`: its message is its only one. Raises RpcError."""
        for _ in range(MOST_ATTEMPTS):
            token = await self._token() if self._token is not None else ""
            connection = await self._connected()
            call = _Call(connection.limits.stream_window, self._max_receive)
            try:
                call.stream = stream = await connection.open(self._block(method, token, deadline), call)
            except ConnectionGoing:
                continue
            stream.send(prefixed(message), end=end)
            return call
        raise self._refused()

    def _block(self, method: str, token: str, deadline: float | None) -> bytes:
        block = self._blocks.get(method)
        if block is None:
            block = self._blocks[method] = encode(
                (
                    (b":method", b"POST"),
                    (b":scheme", b"http" if self._tls is None else b"https"),
                    (b":path", method.encode("ascii")),
                    (b":authority", self._authority),
                    (b"te", b"trailers"),
                    (b"content-type", headers.CONTENT_TYPE),
                    (b"user-agent", self._agent),
                )
            )
        if deadline is not None:
            left = deadline - asyncio.get_running_loop().time()
            block += encode(((b"grpc-timeout", headers.format_timeout(left)),))
        if token:
            try:
                block += encode(((b"authorization", f"Bearer {token}".encode("latin-1")),))
            except ValueError:
                raise RpcError(Code.UNAUTHENTICATED, "the token has a character that no header can have") from None
        return block

    async def _connected(self) -> ClientConnection:
        """Raises RpcError."""
        if self._closed:
            raise RpcError(Code.CANCELLED, f"{self.name}: the channel is closed")
        connection = self._connection
        if connection is not None and connection.usable:
            return connection
        dialing = self._dialing
        if dialing is None or dialing.done():
            dialing = self._dialing = asyncio.create_task(self._dial(), name=f"dial {self.name}")
            dialing.add_done_callback(_retrieve)
        try:
            return await asyncio.shield(dialing)
        except UpstreamError as error:
            raise RpcError(Code.UNAVAILABLE, str(error)) from error
        except asyncio.CancelledError:
            if dialing.cancelled():  # by `close`
                raise RpcError(Code.CANCELLED, f"{self.name}: the channel is closed") from None
            raise

    async def _dial(self) -> ClientConnection:
        while True:
            tls = self._tls
            made = await connect(
                (self._host, self._port, tls, self._server_name),
                timeout=self._connect_timeout,
                proxy=self._proxy,
                keepalive=self._keepalive,
                limits=self._limits,
                clock=self._clock,
                on_end=self._connections.discard,
            )
            if not made.lost:
                self._connections.add(made)
            if tls is self._tls:
                self._connection = made
                return made
            made.retire()  # the certificate was replaced meanwhile

    async def close(self) -> None:
        """End all calls."""
        self._closed = True
        if self._dialing is not None:
            self._dialing.cancel()
        for connection in list(self._connections):
            connection.fail(ErrorCode.NO_ERROR)
            # The close does not wait for the peer: it may not answer, and the event loop may end before.
            connection.abort()
        # TLS, sockets and connections are closed in one iteration of the event loop each.
        for _ in range(3):
            await asyncio.sleep(0)


def _retrieve(task: asyncio.Task[ClientConnection]) -> None:
    """Marks the exception of a task without waiters as retrieved."""
    if not task.cancelled():
        task.exception()
