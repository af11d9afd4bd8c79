"""The client over HTTP: kept connections per TLS identity, retries where they are safe, and nothing left open after `close`.

Retried are 429 and 503 with Retry-After (the server did not act), failed connections (nothing was sent), and idempotent requests on
a connection that broke. One 401 is retried if a plugin can issue a fresh credential.
"""

from __future__ import annotations

import asyncio
import copy
import random as chance
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from urllib.parse import urlsplit

from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.machinery.metrics import Counter, Metrics
from muster.runtime.client.errors import NoCredential, StatusError, Unauthorized, Unreachable, Untrusted, status_error
from muster.runtime.client.gate import Gate
from muster.runtime.client.kubeconfig import ClientConfig
from muster.runtime.client.rest import JSON, Query, RestClient
from muster.runtime.client.transport import Fields, OutgoingRequest, Transport, Upgraded

ATTEMPTS = 4
THROTTLED_ATTEMPTS = 10
"""How often a throttled request is sent, as in client-go."""
MAX_RETRY_AFTER = 30.0
MAX_IDLE = 64
"""The most idle connections that are kept."""
MAX_LINE = 64 * 1024 * 1024
"""The longest line of a watch: no object in etcd is larger than 1.5 MB."""
MAX_COMPLAINT = 1024 * 1024
"""The longest error body that is read when a watch is refused."""

PROBE_TIMEOUT = 5.0
UNREADY_TIMEOUT = 30.0
"""How long to wait for a server that answers that it is not ready."""


class HttpClient(RestClient):
    """`KubeClient` for the server of a `ClientConfig`.

    `timeout` bounds one attempt of a plain request; `idle` is how long a watch may be silent: servers send a bookmark about every
    minute, so a longer silence means that the connection is dead. `at_once` bounds the concurrent plain requests, hence the
    connections besides those of watches: each costs a quarter of a MiB here, and a handshake at the server.
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
        self._timeout = timeout
        self._idle = idle
        self._clock = clock
        self._random = random
        self._metrics = metrics or Metrics()
        self._answers: dict[tuple[str, int], Counter] = {}
        self._transport = Transport(config, agent, clock, max_idle=at_once or MAX_IDLE, random=random)
        self._turns: AbstractAsyncContextManager[None] = asyncio.Semaphore(at_once) if at_once else nullcontext()
        self._impersonation: tuple[tuple[str, str], ...] = ()
        self._gate = Gate(config.server, self.probe, clock=clock, random=random)
        self._unready_since: float | None = None

    @property
    def server(self) -> str:
        return self._config.server

    @property
    def gate(self) -> Gate:
        return self._gate

    @property
    def requests(self) -> int:
        """Attempts sent so far, including those of impersonating clients."""
        return self._transport.requests

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
                return await self._attempt(OutgoingRequest(method, path, query, body, media), idempotent)
            except Unauthorized:
                if refreshed or not self._transport.credentials.refused():
                    raise
                refreshed = True
            except StatusError as error:
                if error.retry_after is None or error.code not in (429, 503) or attempt >= THROTTLED_ATTEMPTS:
                    raise
                await sleep(self._clock, min(error.retry_after, MAX_RETRY_AFTER) + backoff.next())
            except (NoCredential, Untrusted):
                raise
            except Unreachable as error:
                if attempt >= ATTEMPTS or not (idempotent or not error.sent):
                    raise
                await sleep(self._clock, backoff.next())

    async def _attempt(self, request: OutgoingRequest, idempotent: bool) -> bytes:
        async with self._turns:
            reply = await self._transport.send(request, self._impersonation, self._timeout, idempotent=idempotent)
        self._count(request.method, reply.status)
        if not 200 <= reply.status < 300:
            raise status_error(reply.status, reply.content, reply.retry_after)
        self._gate.hurry()
        return reply.content

    async def probe(self) -> None:
        """One attempt to reach the server, for the gate. A server that answers is reachable, whatever it permits. A server that is
        not ready yet may refuse what it will permit in a moment: it is waited for, with a timeout."""
        try:
            await self._reach("/readyz")
        except StatusError:
            now = self._clock.monotonic()
            if self._unready_since is None:
                self._unready_since = now
            if now - self._unready_since < UNREADY_TIMEOUT:
                raise
            await self._reach("/version")
        else:
            self._unready_since = None

    async def _reach(self, path: str) -> None:
        reply = await self._transport.send(OutgoingRequest("GET", path, {}), (), PROBE_TIMEOUT, idempotent=True)
        self._count("GET", reply.status)
        if reply.status >= 500:
            raise status_error(reply.status, reply.content)

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        # A watch that outlives its timeout by half a minute is ended by the client.
        total = None if timeout is None else timeout + 30
        request = OutgoingRequest("GET", path, query)
        async with self._transport.stream(request, self._impersonation, total=total, idle=self._idle) as stream:
            self._count("GET", stream.status)
            if not 200 <= stream.status < 300:
                error = status_error(stream.status, await stream.read(MAX_COMPLAINT), stream.retry_after)
                if isinstance(error, Unauthorized):
                    self._transport.credentials.refused()
                raise error
            if opened is not None:
                opened()
            rest = bytearray()
            async for piece in stream.pieces():
                if b"\n" not in piece:
                    rest += piece
                    if len(rest) > MAX_LINE:
                        raise Unreachable(self.server, "a watch sent a line without end")
                    continue
                *complete, tail = (bytes(rest) + piece).split(b"\n") if rest else piece.split(b"\n")
                rest = bytearray(tail)
                for line in complete:
                    if line:
                        yield line
            if rest.strip():
                yield bytes(rest)

    async def upgrade(self, path: str, fields: Fields) -> Upgraded:
        """A connection that is switched to another protocol by `fields` (with `Upgrade`); one attempt. Raises StatusError for
        another answer, and Unreachable."""
        answer = await self._transport.upgrade(OutgoingRequest("GET", path, {}), (*fields, *self._impersonation), self._timeout)
        if isinstance(answer, Upgraded):
            self._count("GET", answer.head.status)
            return answer
        self._count("GET", answer.status)
        error = status_error(answer.status, answer.content, answer.retry_after)
        if isinstance(error, Unauthorized):
            self._transport.credentials.refused()
        raise error

    def _count(self, method: str, status: int) -> None:
        counter = self._answers.get((method, status))
        if counter is None:
            counter = self._answers[method, status] = self._metrics.counter(
                "rest_client_requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host",
                code=str(status),
                host=urlsplit(self.server).netloc,
                method=method,
            )
        counter.inc()

    async def close(self) -> None:
        await self._transport.close()
