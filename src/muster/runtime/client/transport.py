"""HTTP to the server of one `ClientConfig`: encoded requests, kept connections, and errors of `errors`.

A connection belongs to one TLS identity: when a certificate, key or CA file changes, the next request uses a new connection; former
ones end with their current requests, or when they are idle. A kept connection that the server has closed meanwhile is replaced at
once if the request may be repeated.

Requests use HTTP/1.1. Streams share an HTTP/2 connection if the server offers that, and no proxy is configured.
"""

from __future__ import annotations

import asyncio
import contextlib
import random as chance
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote, urlencode, urlsplit

from muster.http import UpstreamError, UpstreamPool
from muster.http.http2.fields import encode
from muster.http.pool import UpstreamKey
from muster.http.tunnel import ProxiedPool
from muster.http.upstream import FORBIDDEN_HEADER_CHARS, AnswerHead, UpstreamConnection
from muster.machinery import confinement
from muster.machinery.clock import Clock, Random
from muster.runtime.client.credentials import CredentialError, Credentials
from muster.runtime.client.errors import KubeError, NoCredential, Unreachable, Untrusted
from muster.runtime.client.kubeconfig import ClientConfig
from muster.runtime.client.proxies import proxy_for
from muster.runtime.client.rest import JSON, Query
from muster.runtime.client.shared_streams import SharedStreams

CONNECT_TIMEOUT: Final = 10.0
IDLE_TIMEOUT: Final = 15.0
"""How long an idle connection is kept: servers and load balancers close them after half a minute or later."""
LONGEST_REFUSAL: Final = 1024 * 1024
"""The longest body that is read from a server that does not switch protocols."""
_PLAIN: Final = re.compile(r"[!-\"$->@-~]*").fullmatch
"""A valid path: visible ASCII, no query and no fragment."""
_SAFE: Final = "/%:@!$&'()*+,;=~"
Fields = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request without credentials."""

    method: str
    path: str
    query: Query
    body: bytes | None = None
    media: str = JSON


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    retry_after: str | None
    content: bytes


class Head(Protocol):
    """The head of a response, of either version of HTTP."""

    @property
    def status(self) -> int: ...

    def field(self, name: str) -> str | None: ...


class Body(Protocol):
    """The source of a response's body."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def body_at_hand(self) -> bytes: ...

    def resume_reading(self) -> None: ...

    async def body(self) -> bytes: ...


class Stream:
    """A response whose body is read as it arrives."""

    def __init__(self, server: str, connection: Body, head: Head, idle: float, deadline: float | None) -> None:
        self.status = head.status
        self.retry_after = _retry_after(head)
        self._server = server
        self._connection = connection
        self._idle = idle
        self._deadline = deadline

    async def read(self, enough: int) -> bytes:
        """The whole body, or as much as makes `enough` bytes."""
        content = bytearray()
        async with contextlib.aclosing(self.pieces()) as pieces:
            async for piece in pieces:
                content += piece
                if len(content) >= enough:
                    break
        return bytes(content)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Raises Unreachable on an idle timeout, or if the body is incomplete or exceeds its total timeout."""
        connection = self._connection
        while True:
            piece = connection.body_at_hand()
            if piece:
                connection.resume_reading()
                if self._deadline is not None and connection.loop.time() > self._deadline:
                    raise Unreachable(self._server, "the answer did not end in time")
            else:
                piece = await self._next()
            if not piece:
                return
            yield piece

    async def _next(self) -> bytes:
        loop = self._connection.loop
        end = loop.time() + self._idle
        try:
            async with asyncio.timeout_at(end if self._deadline is None else min(end, self._deadline)):
                return await self._connection.body()
        except TimeoutError:
            raise Unreachable(self._server, "nothing more came in time") from None
        except UpstreamError as error:
            raise Unreachable(self._server, error.reason) from error


class Upgraded:
    """A connection after the server has switched protocols."""

    def __init__(self, connection: UpstreamConnection, head: AnswerHead) -> None:
        self.head = head
        self._connection = connection

    async def read(self) -> bytes:
        """The data received since the last call; empty at the end."""
        return await self._connection.body()

    def write(self, data: bytes) -> None:
        self._connection.write(data)

    async def drain(self) -> None:
        await self._connection.drain()

    def close(self) -> None:
        self._connection.close()

    def abort(self) -> None:
        self._connection.abort()


class Transport:
    """Shared by a client and the impersonating clients made from it."""

    def __init__(
        self,
        config: ClientConfig,
        agent: str,
        clock: Clock,
        *,
        max_idle: int,
        environ: Mapping[str, str] | None = None,
        random: Random = chance.random,
    ) -> None:
        self.credentials = Credentials(config, clock, random)
        self.requests = 0
        """Attempts so far."""
        self._server = config.server
        self._server_name = config.tls_server_name or None
        parts = urlsplit(config.server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._closed = False
        proxy = config.proxy_url or proxy_for(config.server, confinement.environ() if environ is None else environ)
        self._pool = (
            ProxiedPool(proxy, max_idle=max_idle, idle_timeout=IDLE_TIMEOUT)
            if proxy
            else UpstreamPool(max_idle=max_idle, idle_timeout=IDLE_TIMEOUT)
        )
        self._root = parts.path.rstrip("/")
        self._agent = agent
        self._authority = parts.netloc.rpartition("@")[2]
        self._shared = SharedStreams(clock) if parts.scheme == "https" and not proxy else None
        self._fixed = (
            f" HTTP/1.1\r\nHost: {self._authority}\r\nAccept: {JSON}\r\nUser-Agent: {agent}\r\nAccept-Encoding: identity\r\n"
        )
        if isinstance(self._pool, ProxiedPool) and parts.scheme == "http":
            # The proxy reads plain http requests itself, and forwards them.
            self._root = f"http://{self._authority}{self._root}"
            self._fixed += self._pool.authorization

    async def send(self, request: OutgoingRequest, fields: Fields, timeout: float, *, idempotent: bool) -> Reply:
        """One attempt. Raises Unreachable and its subclasses."""
        key, message = await self._prepare(request, fields)
        self.requests += 1
        try:
            async with asyncio.timeout(timeout):
                head, content = await self._pool.request(
                    key, message, timeout=CONNECT_TIMEOUT, repeat=idempotent, bodiless=request.method == "HEAD"
                )
        except TimeoutError:
            raise Unreachable(self._server, f"no answer within {timeout:g} s") from None
        except UpstreamError as error:
            raise self._problem(error) from error
        return Reply(head.status, _retry_after(head), content)

    @asynccontextmanager
    async def stream(self, request: OutgoingRequest, fields: Fields, *, total: float | None, idle: float) -> AsyncIterator[Stream]:
        """`total` bounds the whole response, `idle` each silence."""
        self.requests += 1
        loop = asyncio.get_running_loop()
        deadline = None if total is None else loop.time() + total
        try:
            async with asyncio.timeout(idle if total is None else min(idle, total)):
                connection, head, release = await self._begin(request, fields)
        except TimeoutError:
            raise Unreachable(self._server, "no answer in time") from None
        except UpstreamError as error:
            raise self._problem(error) from error
        try:
            yield Stream(self._server, connection, head, idle, deadline)
        finally:
            release()

    async def _begin(self, request: OutgoingRequest, fields: Fields) -> tuple[Body, Head, Callable[[], None]]:
        """Send a request with a streamed response and wait until that begins; the callable is to be called at its end."""
        shared = self._shared
        if shared is not None and shared.may_be_offered:
            stream = await shared.begin(*await self._prepare_shared(request, fields))
            if stream is not None:
                return stream, stream, lambda: shared.release(stream)
        key, message = await self._prepare(request, fields)
        connection, head = await self._pool.begin(key, message, timeout=CONNECT_TIMEOUT, repeat=True)
        return connection, head, lambda: self._pool.release(key, connection)

    async def upgrade(self, request: OutgoingRequest, fields: Fields, timeout: float) -> Upgraded | Reply:
        """Request a switch to the protocol in `fields`: returns the connection, or another response. Raises Unreachable and its
        subclasses."""
        key, message = await self._prepare(request, (*fields, ("Connection", "Upgrade")))
        self.requests += 1
        try:
            async with asyncio.timeout(timeout):
                connection = await self._pool.connect(key, CONNECT_TIMEOUT, fresh=True)
                try:
                    connection.exchange(message, bodiless=False, upgrade=True)
                    head = await connection.answer()
                    if connection.switched:
                        return Upgraded(connection, head)
                    content = await connection.whole_body(LONGEST_REFUSAL)
                except BaseException:
                    connection.abort()
                    raise
                self._pool.release(key, connection)
        except TimeoutError:
            raise Unreachable(self._server, f"no answer within {timeout:g} s") from None
        except UpstreamError as error:
            raise self._problem(error) from error
        return Reply(head.status, _retry_after(head), content)

    def _problem(self, error: UpstreamError) -> Unreachable:
        # TLS may also fail while a server shuts down: only a certificate error concerns trust.
        if isinstance(error.__cause__, ssl.SSLCertVerificationError):
            return Untrusted(self._server, error.reason)
        return Unreachable(self._server, error.reason, sent=error.sent)

    async def _prepare(self, request: OutgoingRequest, fields: Fields) -> tuple[UpstreamKey, bytes]:
        """The connection key and the encoded request."""
        tls, given = await self._identity(self.credentials.tls, fields)
        lines, body = "".join([f"{name}: {value}\r\n" for name, value in given]), request.body
        end = f"Content-Type: {request.media}\r\nContent-Length: {len(body)}\r\n\r\n" if body is not None else "\r\n"
        head = f"{request.method} {self._target(request)}{self._fixed}{lines}{end}".encode()
        return (self._host, self._port, tls, self._server_name), head + body if body else head

    async def _prepare_shared(self, request: OutgoingRequest, fields: Fields) -> tuple[UpstreamKey, bytes]:
        """The connection key and the HTTP/2 header block; the request has no body."""
        tls, given = await self._identity(self.credentials.shared_tls, fields)
        block = encode(
            [
                (b":method", request.method.encode()),
                (b":scheme", b"https"),
                (b":authority", self._authority.encode()),
                (b":path", self._target(request).encode()),
                (b"accept", JSON.encode()),
                (b"user-agent", self._agent.encode()),
                *((name.lower().encode(), value.encode()) for name, value in given),
            ]
        )
        return (self._host, self._port, tls, self._server_name), block

    async def _identity(
        self, context: Callable[[], Awaitable[ssl.SSLContext | None]], fields: Fields
    ) -> tuple[ssl.SSLContext | None, list[tuple[str, str]]]:
        """The TLS context, and these headers with those of the credentials. Raises NoCredential."""
        if self._closed:
            raise KubeError(f"the client of {self._server} is closed")
        try:
            return await context(), [_checked(*field) for field in (*fields, *await self.credentials.headers())]
        except CredentialError as error:
            raise NoCredential(self._server, str(error)) from error

    def _target(self, request: OutgoingRequest) -> str:
        path = request.path if _PLAIN(request.path) else quote(request.path, safe=_SAFE)
        return f"{self._root}{path}?{urlencode(request.query)}" if request.query else f"{self._root}{path}"

    async def close(self) -> None:
        self._closed = True
        await self.credentials.close()
        self._pool.close()
        if self._shared is not None:
            self._shared.close()
        # TLS, sockets and connections are closed in one iteration of the event loop each.
        for _ in range(3):
            await asyncio.sleep(0)


def _checked(name: str, value: str) -> tuple[str, str]:
    if FORBIDDEN_HEADER_CHARS(value):
        raise CredentialError(f"the value for {name} has a character that no header can have")
    return name, value


def _retry_after(head: Head) -> str | None:
    return head.field("retry-after") if head.status >= 400 else None
