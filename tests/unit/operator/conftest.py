"""Two clusters on an API server in this process; operators run there with the rights their bundle gives them, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster.apiserver.auth.identity import User
from muster.apiserver.server import ApiServer, ServerConfig
from muster.operator.bundle import Operator, bundle
from muster.operator.names import DEPLOYMENTS, OPERATOR_NAMESPACE
from muster.registration.installing import await_definitions
from muster.runtime.clock import SYSTEM
from muster.runtime.direct import InProcessClient
from muster.runtime.errors import NotFound
from muster.runtime.resource import DEFINITIONS, Object, Resource
from muster.runtime.verbs import JSON, Query

HERE, FAR = "default", "far"
SECONDS = 20.0


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


@dataclass
class Place:
    """One cluster, seen as its administrator."""

    server: ApiServer
    name: str
    admin: InProcessClient = field(init=False)

    def __post_init__(self) -> None:
        self.admin = InProcessClient(self.server.client(self.server.clusters[self.name]), self.name)

    def account(self, namespace: str, name: str) -> CountingClient:
        """A client with the rights of a service account."""
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        user = User(f"system:serviceaccount:{namespace}:{name}", groups=groups)
        return CountingClient(self.server.client(self.server.clusters[self.name], user), self.name)

    async def operator(self, operator: Operator) -> CountingClient:
        """Install what is around an operator; gives its own client."""
        documents = bundle(operator)
        for resource, document in documents:
            await self.admin.apply(resource, document, manager="test")
        names = [document["metadata"]["name"] for resource, document in documents if resource is DEFINITIONS]
        await await_definitions(self.admin, names, SYSTEM)
        return self.account(OPERATOR_NAMESPACE, operator.name)

    async def find(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        try:
            return await self.admin.get(resource, name, namespace)
        except NotFound:
            return None

    async def until(self, probe: Callable[[], Awaitable[Any]], what: str, seconds: float = SECONDS) -> Any:
        try:
            async with asyncio.timeout(seconds):
                while True:
                    found = await probe()
                    if found:
                        return found
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"never so: {what}") from None

    async def until_found(self, resource: Resource, name: str, namespace: str = "") -> Object:
        found: Object = await self.until(lambda: self.find(resource, name, namespace), f"there is {resource} {namespace}/{name}")
        return found

    async def until_gone(self, resource: Resource, name: str, namespace: str = "", seconds: float = SECONDS) -> None:
        async def gone() -> bool:
            return await self.find(resource, name, namespace) is None

        await self.until(gone, f"{resource} {namespace}/{name} is gone", seconds)

    async def set_available(self, name: str, namespace: str, *, available: bool = True) -> None:
        """What a kubelet and the Deployment controller would say."""
        found = await self.until_found(DEPLOYMENTS, name, namespace)
        replicas = found["spec"]["replicas"]
        ready = replicas if available else 0
        status = {
            "observedGeneration": found["metadata"]["generation"],
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": ready,
            "availableReplicas": ready,
        }
        await self.admin.patch(DEPLOYMENTS, name, {"status": status}, namespace, subresource="status")

    async def condition(self, resource: Resource, name: str, kind: str) -> Object:
        found = await self.find(resource, name)
        conditions = ((found or {}).get("status") or {}).get("conditions") or ()
        return next((one for one in conditions if one["type"] == kind), {})

    async def until_condition(self, resource: Resource, name: str, kind: str, status: str, reason: str = "") -> Object:
        async def so() -> Object | None:
            found = await self.condition(resource, name, kind)
            return found if found.get("status") == status and (not reason or found["reason"] == reason) else None

        try:
            found: Object = await self.until(so, f"{kind} of {name} is {status} {reason}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {await self.condition(resource, name, kind)}") from None
        return found


@asynccontextmanager
async def running(work: Awaitable[Any]) -> AsyncIterator[asyncio.Future[Any]]:
    """Until the block ends, or the work does by itself."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled() and task.exception() is not None:
        raise task.exception()  # type: ignore[misc]  # just looked


@pytest.fixture
async def here() -> AsyncIterator[Place]:
    server = ApiServer(ServerConfig(store="memory", clusters=(HERE, FAR)))
    await server.start()
    yield Place(server, HERE)
    await server.stop(grace=0.1)


@pytest.fixture
def far(here: Place) -> Place:
    return Place(here.server, FAR)
