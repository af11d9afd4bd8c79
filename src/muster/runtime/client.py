"""The client over HTTP: one keep-alive session per TLS identity, retries where they are safe, nothing that outlives `close`.

A session belongs to one generation of credentials. When a certificate, key or CA changes on disk, the next request opens a new
session; the old one is closed once its running requests and watches have ended, so nothing is cut in the middle. What is
retried: 429 and 503 with Retry-After (the server did not act), a connection that could not be made (nothing was sent), and for
idempotent requests a connection that broke. One 401 is forgiven where a plugin can issue a fresh credential.

aiohttp is imported by the first request: command lines that never make one start without it.
"""

from __future__ import annotations

import asyncio
import copy
import random as chance
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from muster.runtime.clock import SYSTEM, Backoff, Clock, Random, sleep
from muster.runtime.credentials import CredentialError, Credentials
from muster.runtime.errors import KubeError, NoCredential, StatusError, Unauthorized, Unreachable, Untrusted, status_error
from muster.runtime.kubeconfig import ClientConfig
from muster.runtime.metrics import Counter, Metrics
from muster.runtime.verbs import JSON, KubeClient, Query

if TYPE_CHECKING:
    import aiohttp

ATTEMPTS = 4
THROTTLED_ATTEMPTS = 10
"""How often a request is sent that the server keeps putting off: client-go's number."""
LONGEST_PAUSE = 30.0
MAX_LINE = 64 * 1024 * 1024
"""No object is larger than 1.5 MB in etcd; a line beyond this is no event."""


class HttpClient(KubeClient):
    """`KubeClient` for the server of a `ClientConfig`.

    `timeout` bounds one attempt of a plain request; `idle` is how long a watch may stay silent: servers send a bookmark about
    every minute, so a longer silence means that the connection is dead. `at_once` bounds the plain requests under way, and so the
    connections beside those of watches: each costs a quarter of a MiB here, and the server a handshake.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        agent: str = "muster",
        timeout: float = 30.0,
        idle: float = 180.0,
        at_once: int = 0,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self._config = config
        self._agent = agent
        self._timeout = timeout
        self._idle = idle
        self._clock = clock
        self._random = random
        self._metrics = metrics or Metrics()
        self._answers: dict[tuple[str, str], Counter] = {}
        self._connections = _Connections(config, clock)
        self._turns: AbstractAsyncContextManager[None] = asyncio.Semaphore(at_once) if at_once else nullcontext()
        self._impersonation: tuple[tuple[str, str], ...] = ()

    @property
    def server(self) -> str:
        return self._config.server

    @property
    def requests(self) -> int:
        """Attempts sent so far, those as somebody else included."""
        return self._connections.requests

    def as_user(self, name: str) -> HttpClient:
        other = copy.copy(self)
        other._impersonation = (("Impersonate-User", name),)
        return other

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        backoff = Backoff(0.1, 2.0, random=self._random)
        refreshed = False
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._attempt(method, path, query, body, media)
            except Unauthorized:
                if refreshed or not self._connections.credentials.renewable:
                    raise
                refreshed = True
                self._connections.credentials.forget()
            except StatusError as error:
                if error.retry_after is None or error.code not in (429, 503) or attempt >= THROTTLED_ATTEMPTS:
                    raise
                await sleep(self._clock, min(error.retry_after, LONGEST_PAUSE) + backoff.next())
            except (NoCredential, Untrusted):
                raise
            except Unreachable as error:
                if attempt >= ATTEMPTS or not (idempotent or not error.sent):
                    raise
                await sleep(self._clock, backoff.next())

    async def _attempt(self, method: str, path: str, query: Query, body: bytes | None, media: str) -> bytes:
        async with self._turns, self._request(method, path, query, body, media, total=self._timeout) as response:
            content = await response.read()
            if response.status >= 400:
                raise status_error(response.status, content, response.headers.get("Retry-After"))
            return content

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        # A server that forgets the end it was asked for is left half a minute later.
        total = None if timeout is None else timeout + 30
        async with self._request("GET", path, query, None, JSON, total=total, idle=self._idle) as response:
            if response.status >= 400:
                error = status_error(response.status, await response.read(), response.headers.get("Retry-After"))
                if isinstance(error, Unauthorized):
                    self._connections.credentials.forget()
                raise error
            if opened is not None:
                opened()
            rest = bytearray()
            async for chunk in response.content.iter_any():
                if b"\n" not in chunk:
                    rest += chunk
                    if len(rest) > MAX_LINE:
                        raise Unreachable(self.server, "a watch sent a line without end")
                    continue
                *complete, tail = (bytes(rest) + chunk).split(b"\n") if rest else chunk.split(b"\n")
                rest = bytearray(tail)
                for line in complete:
                    if line:
                        yield line
            if rest.strip():
                yield bytes(rest)

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        query: Query,
        body: bytes | None,
        media: str,
        *,
        total: float | None,
        idle: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        import aiohttp

        try:
            session = await self._connections.current()
            headers = [("Accept", JSON), ("User-Agent", self._agent), ("Accept-Encoding", "identity"), *self._impersonation]
            headers += await self._connections.credentials.headers()
        except CredentialError as error:
            raise NoCredential(self.server, str(error)) from error
        if body is not None:
            headers.append(("Content-Type", media))
        options: dict[str, Any] = {}
        if self._config.tls_server_name:
            options["server_hostname"] = self._config.tls_server_name
        if self._config.proxy_url:
            options["proxy"] = self._config.proxy_url
        self._connections.requests += 1
        session.users += 1
        try:
            async with session.http.request(
                method,
                self._config.server + path,
                params=query or None,
                data=body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=total, sock_connect=10, sock_read=idle),
                allow_redirects=False,
                **options,
            ) as response:
                self._count(method, str(response.status))
                yield response
        except aiohttp.ClientConnectorCertificateError as error:
            raise Untrusted(self.server, _reason(error)) from error
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError, aiohttp.ConnectionTimeoutError) as error:
            raise Unreachable(self.server, _reason(error), sent=False) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(self.server, _reason(error)) from error
        finally:
            session.users -= 1
            await self._connections.retire()

    def _count(self, method: str, code: str) -> None:
        counter = self._answers.get((method, code))
        if counter is None:
            counter = self._answers[method, code] = self._metrics.counter(
                "rest_client_requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host",
                host=urlsplit(self.server).netloc,
                method=method,
                code=code,
            )
        counter.inc()

    async def close(self) -> None:
        await self._connections.close()


class _Connections:
    """The sessions of one configuration, shared by a client and those that act as somebody else through it."""

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        self.credentials = Credentials(config, clock)
        self.requests = 0
        self._server = config.server
        self._session: _Session | None = None
        self._closed = False
        self._retiring: set[_Session] = set()

    async def current(self) -> _Session:
        import aiohttp

        if self._closed:
            raise KubeError(f"the client of {self._server} is closed")
        context = await self.credentials.tls()
        generation = self.credentials.generation
        if self._session is None or self._session.generation != generation:
            if self._session is not None:
                self._retiring.add(self._session)
            connector = aiohttp.TCPConnector(limit=0, ssl=context if context is not None else True)
            http = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)
            self._session = _Session(generation, http)
            await self.retire()
        return self._session

    async def retire(self) -> None:
        for session in [session for session in self._retiring if not session.users]:
            self._retiring.discard(session)
            await session.http.close()

    async def close(self) -> None:
        self._closed = True
        sessions = [*self._retiring, *([self._session] if self._session else [])]
        self._retiring.clear()
        self._session = None
        for session in sessions:
            await session.http.close()
        # aiohttp closes TLS transports in the turn after.
        await asyncio.sleep(0)


class _Session:
    __slots__ = ("generation", "http", "users")

    def __init__(self, generation: int, http: aiohttp.ClientSession) -> None:
        self.generation = generation
        self.http = http
        self.users = 0


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
