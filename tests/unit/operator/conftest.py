"""Two clusters on an API server in this process; operators run there with the rights their bundle gives them, and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.operator.bundle import Operator
from muster.operator.names import OPERATOR_NAMESPACE
from muster.runtime.client.rest import JSON, Query
from tests.support.operating import Observed, running

if TYPE_CHECKING:
    from tests.unit.operator.hubs import Hub

__all__ = ["Cluster", "CountingClient", "running"]

HERE, FAR = "default", "far"


class CountingClient(InProcessClient):
    """Notes every request that is no watch, as (verb, path)."""

    requests: list[tuple[str, str]]

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        self.__dict__.setdefault("requests", []).append((method, path))
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)

    def taken(self) -> list[tuple[str, str]]:
        """Requests since the last call."""
        found = self.__dict__.get("requests", [])
        self.__dict__["requests"] = []
        return list(found)


class Cluster(Observed):
    """One of the clusters."""

    def __init__(self, server: ApiServer, name: str) -> None:
        super().__init__(InProcessClient(server.client(server.clusters[name]), name))
        self.server = server
        self.name = name

    def account(self, namespace: str, name: str) -> CountingClient:
        """A client with the rights of a service account."""
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        user = UserInfo(f"system:serviceaccount:{namespace}:{name}", groups=groups)
        return CountingClient(self.server.client(self.server.clusters[self.name], user), self.name)

    def user(self, name: str, *groups: str) -> CountingClient:
        user = UserInfo(name, groups=(*groups, "system:authenticated"))
        return CountingClient(self.server.client(self.server.clusters[self.name], user), self.name)

    async def operator(self, operator: Operator) -> CountingClient:
        """Install what is around an operator; gives its own client."""
        await self.surround(operator)
        return self.account(OPERATOR_NAMESPACE, operator.name)


@pytest.fixture
async def here() -> AsyncIterator[Cluster]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=(HERE, FAR)))
    await server.start()
    yield Cluster(server, HERE)
    await server.stop(grace=0.1)


@pytest.fixture
def far(here: Cluster) -> Cluster:
    return Cluster(here.server, FAR)


@pytest.fixture
async def hub(here: Cluster) -> AsyncIterator[Hub]:
    # It stands on what this module has.
    from tests.unit.operator.hubs import operated

    async with operated(here, removal_timeout=timedelta(seconds=1)) as hub:
        yield hub
