"""Servers on real sockets, on both event loops, in the clear and under TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvloop

from muster.http import (
    Answer,
    Handler,
    HttpServer,
    Request,
    RequestBodyTooLarge,
    Response,
    UpstreamBroken,
    UpstreamError,
    UpstreamPool,
    UpstreamTimeout,
    UpstreamUnavailable,
    UpstreamUntrusted,
    end_to_end_fields,
    relay,
    server_context,
)

from .pki import Authority, client_context
from .wire import WAIT, Peer


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def server_ca() -> Authority:
    return Authority("server-ca")


@pytest.fixture(scope="session")
def client_ca() -> Authority:
    return Authority("client-ca")


@pytest.fixture(scope="session")
def client_tls(server_ca: Authority) -> ssl.SSLContext:
    return client_context(server_ca)


@pytest.fixture
def server_tls(server_ca: Authority, client_ca: Authority) -> ssl.SSLContext:
    cert, key, _ = server_ca.issue("server", client=False)
    return server_context(cert, key, client_ca.pem)


class Site:
    """A running server and the peers a test connected to it."""

    def __init__(self, server: HttpServer, context: ssl.SSLContext | None) -> None:
        self.server = server
        self._context = context
        self._peers: list[Peer] = []

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def tls(self) -> ssl.SSLContext | None:
        """With which to call it."""
        return self._context

    async def peer(self, context: ssl.SSLContext | None = None) -> Peer:
        peer = await Peer.connect(self.port, context or self._context)
        self._peers.append(peer)
        return peer

    async def emptied(self) -> None:
        """Wait until the server has lost all its connections."""
        async with asyncio.timeout(WAIT):
            while self.server.connections:  # noqa: ASYNC110 - the server has no event for what only tests wait for
                await asyncio.sleep(0.01)

    async def end(self) -> None:
        for peer in self._peers:
            peer.close()
        await self.server.stop(0.2)


Serve = Callable[..., Awaitable[Site]]


@pytest.fixture(params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def serve(scheme: str, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> AsyncIterator[Serve]:
    sites: list[Site] = []

    async def start(handler: Handler, **options: Any) -> Site:
        secure = options.pop("scheme", scheme) == "https"
        server = HttpServer(handler, tls=server_tls if secure else None, **options)
        await server.start("127.0.0.1", 0)
        site = Site(server, client_tls if secure else None)
        sites.append(site)
        return site

    yield start
    for site in reversed(sites):
        await site.end()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
STATUS_OF_ERROR = {
    UpstreamUnavailable: 503,
    UpstreamTimeout: 504,
    UpstreamUntrusted: 502,
    UpstreamBroken: 500,
    RequestBodyTooLarge: 413,
}


@pytest.fixture
async def pool() -> AsyncIterator[UpstreamPool]:
    pool = UpstreamPool()
    yield pool
    pool.close()


Front = Callable[..., Awaitable[Site]]


@pytest.fixture
def front(serve: Serve, pool: UpstreamPool, scheme: str, client_tls: ssl.SSLContext) -> Front:
    """A server that relays everything to a port, its bodies streamed."""

    async def start(port: int, *, stream: bool = True, http2: bool = False, **options: Any) -> Site:
        options.setdefault("tls", client_tls if scheme == "https" else None)
        options.setdefault("server_hostname", "localhost")

        async def forward(incoming: Request) -> Answer:
            fields = [*end_to_end_fields(incoming.headers), ("X-Relayed", "yes")]
            try:
                return await relay(
                    incoming, pool=pool, host="127.0.0.1", port=port, path=incoming.target, headers=fields, **options
                )
            except (UpstreamError, RequestBodyTooLarge) as error:
                return Response(STATUS_OF_ERROR[type(error)], str(error).encode())

        return await serve(forward, stream_body=lambda incoming: stream, on_error=quiet, http2=http2)

    return start


def quiet(incoming: Request | None, error: Exception) -> Response:
    return Response(500, repr(error).encode())


async def describe(incoming: Request) -> Answer:
    lines = [f"{incoming.method} {incoming.target}", *[f"{name}={value}" for name, value in incoming.headers.items()]]
    return Response(201, "\n".join(lines).encode() + b"\n" + incoming.body, [("X-Answer", "1"), ("X-Answer", "2")])
