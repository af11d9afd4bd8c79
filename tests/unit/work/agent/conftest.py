"""A hub and a managed cluster in this process, agents between them, and clients that die when a test says so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from muster.api.crds import HUB, SPOKE, definitions
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.metrics import Metrics
from muster.machinery.objects import Object
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, NAMESPACES
from muster.runtime.client.errors import NotFound, Unreachable
from muster.runtime.client.rest import JSON, Query
from muster.runtime.install import await_definitions
from muster.work.agent.agent import WorkAgent
from muster.work.agent.options import WorkAgentOptions
from muster.work.kinds import APPLIED_WORKS, MANIFEST_WORKS

CLUSTER = "cluster1"
HUB_URL = "https://hub.example"


class Life:
    """Of one agent: it ends with the n-th request, `before` it is carried out or after."""

    def __init__(self, requests: int | None = None, *, before: bool = False) -> None:
        self.left = requests
        self.before = before
        self.asked: list[tuple[str, str]] = []
        self.over = asyncio.Event()

    def begin(self, method: str, path: str) -> None:
        if self.over.is_set():
            raise Unreachable("in-process", "dead")
        self.asked.append((method, path))
        if self.left is not None:
            self.left -= 1
            if self.left < 0 and self.before:
                self.over.set()
                raise Unreachable("in-process", "died before it was sent")

    def end(self) -> None:
        if self.over.is_set() or (self.left is not None and self.left < 0):
            self.over.set()
            raise Unreachable("in-process", "died before it was answered")

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path in self.asked if method not in ("GET", "WATCH")]


class Mortal(InProcessClient):
    """Every request may be the last one; a watch is no request."""

    def __init__(self, client: Any, name: str, life: Life) -> None:
        super().__init__(client, name)
        self._life = life

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        self._life.begin(method, path)
        answer = await super().exchange(method, path, query, body, media, idempotent=idempotent)
        self._life.end()
        return answer

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        async for line in super().lines(path, query, timeout, opened):
            yield line


def config_map(name: str, namespace: str = "app", /, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


class Site:
    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.hub = InProcessClient(server.client(server.clusters["hub"]))
        self.spoke = InProcessClient(server.client(server.clusters["spoke"]))

    async def prepare(self) -> None:
        for client, kinds in ((self.hub, HUB), (self.spoke, SPOKE)):
            wanted = [kind for kind in kinds if kind.resource.group == "work.open-cluster-management.io"]
            for document in definitions(wanted):
                await client.create(CRDS, document)
            await await_definitions(client, [kind.name for kind in wanted], SYSTEM)
        await self.hub.create(NAMESPACES, namespace(CLUSTER))
        await self.spoke.create(NAMESPACES, namespace("app"))

    @contextlib.asynccontextmanager
    async def agent(
        self, life: Life | None = None, *, clock: Clock = SYSTEM, metrics: Metrics | None = None, **options: Any
    ) -> AsyncIterator[Life]:
        life = life or Life()
        hub = Mortal(self.server.client(self.server.clusters["hub"]), HUB_URL, life)
        spoke = Mortal(self.server.client(self.server.clusters["spoke"]), "https://spoke.example", life)
        agent = WorkAgent(hub, spoke, WorkAgentOptions(cluster_name=CLUSTER, **options), clock=clock, metrics=metrics)
        task = asyncio.create_task(agent.run())
        try:
            yield life
            assert life.over.is_set() or not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def create(self, name: str, *manifests: Object, **spec: Any) -> Object:
        kind = {"apiVersion": MANIFEST_WORKS.api_version, "kind": MANIFEST_WORKS.kind}
        metadata = {"name": name, "namespace": CLUSTER}
        return await self.hub.create(
            MANIFEST_WORKS, {**kind, "metadata": metadata, "spec": {"workload": {"manifests": list(manifests)}, **spec}}
        )

    async def change(self, name: str, *manifests: Object) -> None:
        await self.hub.patch(MANIFEST_WORKS, name, {"spec": {"workload": {"manifests": list(manifests)}}}, CLUSTER)

    async def work(self, name: str) -> Object | None:
        try:
            return await self.hub.get(MANIFEST_WORKS, name, CLUSTER)
        except NotFound:
            return None

    async def applied(self, name: str) -> bool:
        work = await self.work(name)
        conditions = ((work or {}).get("status") or {}).get("conditions") or ()
        generation = (work or {"metadata": {"generation": 0}})["metadata"]["generation"]
        return any(
            one["type"] == "Applied" and one["status"] == "True" and one.get("observedGeneration") == generation
            for one in conditions
        )

    async def config_maps(self, namespace: str = "app") -> Mapping[str, Object]:
        found = (await self.spoke.list(CONFIG_MAPS, namespace)).items
        return {one["metadata"]["name"]: one for one in found if one["metadata"]["name"] != "kube-root-ca.crt"}

    async def records(self) -> list[Object]:
        return (await self.spoke.list(APPLIED_WORKS)).items


async def until(look: Callable[[], Awaitable[Any]], what: str, seconds: float = 30.0) -> Any:
    """What `look` gives, once that is true in the sense of `if`."""
    end = asyncio.get_running_loop().time() + seconds
    while not (seen := await look()):
        assert asyncio.get_running_loop().time() < end, f"waited {seconds:g} s for {what}"
        await asyncio.sleep(0.005)
    return seen


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub", "spoke")))
    await server.start()
    site = Site(server)
    await site.prepare()
    yield site
    await server.stop(grace=0.1)
