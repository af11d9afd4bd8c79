"""Servers of both versions of HTTP on one port, and clients that choose HTTP/2."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from muster.http import server_context
from muster.http.tls import HTTP_2_OR_1
from tests.support.h2_client import H2Client
from tests.unit.http.conftest import Site
from tests.unit.http.pki import Authority, client_context


@pytest.fixture
def scheme() -> str:
    return "https"


@pytest.fixture
def server_tls(server_ca: Authority, client_ca: Authority) -> ssl.SSLContext:
    cert, key, _ = server_ca.issue("server", client=False)
    return server_context(cert, key, client_ca.pem, alpn=HTTP_2_OR_1)


@pytest.fixture(scope="session")
def choosing_tls(server_ca: Authority, client_ca: Authority) -> ssl.SSLContext:
    """Of a client that speaks both and has a certificate, as Go's do."""
    certificate, key, _ = client_ca.issue("client", client=True)
    context = client_context(server_ca, certificate, key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


Connect = Callable[..., Awaitable[H2Client]]


@pytest.fixture
async def connect(choosing_tls: ssl.SSLContext) -> AsyncIterator[Connect]:
    clients: list[H2Client] = []

    async def open_one(site: Site, **options: Any) -> H2Client:
        client = await H2Client.connect(site.port, options.pop("tls", choosing_tls), **options)
        clients.append(client)
        return client

    yield open_one
    for client in clients:
        await client.close()
