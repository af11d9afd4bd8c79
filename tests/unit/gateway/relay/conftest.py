"""Clusters and a gateway on real sockets, under TLS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvloop

from tests.unit.http.pki import Authority

from .harness import Behaviour, Cluster, Gateway, ok

StartCluster = Callable[..., Awaitable[Cluster]]
StartGateway = Callable[..., Awaitable[Gateway]]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("ca")


@pytest.fixture(scope="session")
def client_ca() -> Authority:
    return Authority("client-ca")


@pytest.fixture
async def start_cluster(authority: Authority, client_ca: Authority) -> AsyncIterator[StartCluster]:
    started: list[Cluster] = []

    async def start(name: str = "foo", behaviour: Behaviour = ok, **options: Any) -> Cluster:
        cluster = Cluster(name, behaviour, options.pop("authority", authority), client_ca)
        await cluster.server.start("127.0.0.1", 0)
        started.append(cluster)
        return cluster

    yield start
    for cluster in started:
        await cluster.server.stop(0.1)


@pytest.fixture
async def start_gateway(authority: Authority) -> AsyncIterator[StartGateway]:
    started: list[Gateway] = []

    async def start(*clusters: Cluster, **options: Any) -> Gateway:
        gateway = Gateway(authority, **options)
        await gateway.server.start("127.0.0.1", 0)
        gateway.knows(*(cluster.target() for cluster in clusters))
        started.append(gateway)
        return gateway

    yield start
    for gateway in started:
        await gateway.end()
