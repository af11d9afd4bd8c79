"""A hub's world on an API server in this process: real definitions, real RBAC, a clock that the test moves, drivers it scripts."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest

from muster.api.cluster.v1 import ManagedCluster
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.metrics import Metrics
from muster.machinery.objects import GVR, Object
from muster.registration.drivers.interfaces import GrantResult, HubDriver, Vote
from muster.registration.hub.context import HubControllerContext
from muster.registration.hub.install import ACCOUNT, install
from muster.registration.hub.manager import CONTROLLERS
from muster.registration.hub.options import HubOptions
from muster.registration.kinds import MANAGED_CLUSTERS, MANIFEST_WORKS
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.cache.informer import Informers
from muster.runtime.client.builtin import NAMESPACES
from muster.runtime.client.errors import NotFound
from muster.runtime.client.rest import JSON, Query
from muster.runtime.controller.context import ControllerContext
from muster.runtime.controller.events import EventRecorder
from tests.support.fake_clock import FakeClock

C = TypeVar("C", bound=InProcessClient)


class CountingClient(InProcessClient):
    """Notes every request that is no watch, as (verb, path)."""

    requests: list[tuple[str, str]]

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        self.__dict__.setdefault("requests", []).append((method, path))
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)

    def writes(self) -> list[tuple[str, str]]:
        """Requests other than reads since the last call, events left out."""
        found = [(method, path) for method, path in self.__dict__.get("requests", ()) if method != "GET" and "/events" not in path]
        self.__dict__["requests"] = []
        return found


class DeafClient(CountingClient):
    """Does not hear of changes in some collection for a while, as over a connection that is slow or broken."""

    _deaf_to = ""
    _hearing: asyncio.Event

    def deaf_to(self, part: str = "") -> None:
        """From now on, to watches with this in their path; to none when it is empty."""
        if not part:
            self._hearing.set()
        else:
            self._hearing = asyncio.Event()
        self._deaf_to = part

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        async for line in super().lines(path, query, timeout, opened):
            if self._deaf_to and self._deaf_to in path:
                await self._hearing.wait()
            yield line


@dataclass
class ScriptedDriver:
    """Owns every cluster; answers what the test put in; notes what it was asked."""

    outcome: Callable[[ManagedCluster], GrantResult] = lambda cluster: GrantResult()
    ballot: Callable[[ManagedCluster], Vote] = lambda cluster: Vote.ABSTAIN
    mine: Callable[[ManagedCluster], bool] = lambda cluster: True
    named: Callable[[ManagedCluster], frozenset[str] | None] = lambda cluster: None
    calls: list[tuple[str, str]] = field(default_factory=list)

    def owns(self, cluster: ManagedCluster) -> bool:
        return self.mine(cluster)

    def vote(self, cluster: ManagedCluster) -> Vote:
        return self.ballot(cluster)

    def agents(self, cluster: ManagedCluster) -> frozenset[str] | None:
        return self.named(cluster)

    async def grant(self, cluster: ManagedCluster) -> GrantResult:
        self.calls.append(("grant", cluster.metadata.name))
        return self.outcome(cluster)

    async def revoke(self, cluster: ManagedCluster) -> GrantResult:
        self.calls.append(("revoke", cluster.metadata.name))
        return self.outcome(cluster)

    async def run(self) -> None:
        await asyncio.Event().wait()


class Play:
    """One hub: its server, what the administrator does to it, and what can be seen there."""

    def __init__(self, server: ApiServer, clock: FakeClock) -> None:
        self.server = server
        self.clock = clock
        self.admin = self.client()
        self.driver = ScriptedDriver()
        self.options = HubOptions()
        self.hub_client = self.as_hub(CountingClient)
        self.metrics = Metrics()

    def client(self, user: str = "", *groups: str) -> InProcessClient:
        """A client of the server: the loopback administrator's, or any user's with the rights RBAC gives."""
        cluster = self.server.clusters["default"]
        if not user:
            return InProcessClient(self.server.client(cluster))
        return InProcessClient(self.server.client(cluster, UserInfo(user, groups=(*groups, "system:authenticated"))))

    def as_hub(self, kind: type[C]) -> C:
        """A client with the rights of the hub's own service account and no others."""
        user = UserInfo(
            f"system:serviceaccount:{HUB_NAMESPACE}:{ACCOUNT}", groups=("system:serviceaccounts", "system:authenticated")
        )
        return kind(self.server.client(self.server.clusters["default"], user))

    def agent(self, cluster: str, *, external: bool = False) -> InProcessClient:
        prefix = "" if external else "system:"
        return self.client(f"{prefix}open-cluster-management:{cluster}:a", f"{prefix}open-cluster-management:{cluster}")

    def world(self, *, drivers: dict[str, HubDriver] | None = None, **options: Any) -> HubControllerContext:
        informers = Informers(self.hub_client, clock=self.clock)
        recorder = EventRecorder(self.hub_client, "registration-controller", "test", metrics=self.metrics, clock=self.clock)
        found = {"scripted": self.driver} if drivers is None else drivers
        chosen = replace(self.options, **options)
        return HubControllerContext(
            ControllerContext(self.hub_client, informers, recorder, self.metrics, self.clock, lambda: 0.0, chosen.workers),
            chosen,
            found,
        )

    @asynccontextmanager
    async def running(self, *makers: Callable[[HubControllerContext], Any], **options: Any) -> AsyncIterator[HubControllerContext]:
        """The controllers that `makers` make of one world, but for those switched off, for as long as the block lasts."""
        world = self.world(**options)
        disabled = [CONTROLLERS[name] for name in world.options.disabled_controllers]
        controllers = [make(world) for make in makers if make not in disabled]
        runners = [world.context.informers, world.context.events, *controllers]
        tasks = [asyncio.create_task(runner.run()) for runner in runners]
        try:
            yield world
            for task in tasks:
                assert not task.done(), task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def create_cluster(self, name: str, *, accepts: bool = False, **metadata: Any) -> Object:
        body = {"metadata": {"name": name, **metadata}, "spec": {"hubAcceptsClient": accepts}}
        whole = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind, **body}
        return await self.admin.create(MANAGED_CLUSTERS, whole)

    async def accept(self, name: str, accepts: bool = True) -> None:
        await self.admin.patch(MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": accepts}})

    async def deny(self, name: str) -> None:
        await self.accept(name, False)

    async def create_work(self, cluster: str, name: str, *, held: bool = False, **metadata: Any) -> Object:
        if not await self.get(NAMESPACES, cluster):
            await self.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster}})
        finalizers = ["cluster.open-cluster-management.io/manifest-work-cleanup"] if held else []
        metadata = {"name": name, "namespace": cluster, "finalizers": finalizers, **metadata}
        body = {"apiVersion": MANIFEST_WORKS.api_version, "kind": MANIFEST_WORKS.kind, "metadata": metadata, "spec": {}}
        return await self.admin.create(MANIFEST_WORKS, body)

    async def let_go(self, resource: GVR, name: str, namespace: str = "") -> None:
        """Take all finalizers off, as whoever put them would."""
        await self.admin.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)

    async def get(self, resource: GVR, name: str, namespace: str = "") -> Object | None:
        try:
            return await self.admin.get(resource, name, namespace)
        except NotFound:
            return None

    async def condition(self, cluster: str, kind: str = "HubAcceptedManagedCluster") -> Object:
        found = await self.get(MANAGED_CLUSTERS, cluster)
        conditions = ((found or {}).get("status") or {}).get("conditions") or []
        return next((condition for condition in conditions if condition["type"] == kind), {})

    async def until_condition(self, cluster: str, status: str, reason: str, kind: str = "HubAcceptedManagedCluster") -> Object:
        async def probe() -> Object | None:
            found = await self.condition(cluster, kind)
            return found if (found.get("status"), found.get("reason")) == (status, reason) else None

        found: Object = await self.until(probe)
        return found

    async def until_gone(self, resource: GVR, name: str, namespace: str = "") -> None:
        async def gone() -> bool:
            return await self.get(resource, name, namespace) is None

        await self.until(gone)

    async def until(self, probe: Callable[[], Awaitable[Any]], seconds: float = 30.0) -> Any:
        """The first true answer; the clock goes on meanwhile, so that what is to be tried again is."""
        async with asyncio.timeout(seconds):
            while True:
                found = await probe()
                if found:
                    return found
                await self.clock.advance(0.1)
                await asyncio.sleep(0.002)

    async def at_rest(self) -> None:
        """Until the hub has made no request for a while."""
        quiet, last = 0, -1
        while quiet < 10:
            await asyncio.sleep(0.005)
            await self.clock.advance(0.01)
            count = len(self.hub_client.__dict__.get("requests", ()))
            quiet, last = (quiet + 1, last) if count == last else (0, count)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def play(clock: FakeClock) -> AsyncIterator[Play]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("default",)))
    await server.start()
    hub = Play(server, clock)
    await install(hub.admin)
    yield hub
    await server.stop(grace=0.1)
