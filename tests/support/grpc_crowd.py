"""Many managed clusters of a hub that is reached over gRPC, in the test's own process: a registration and a work agent of each.

Agents are the product's own, each with its own identity, certificate, connections and directory. Their clusters are logical ones of
one embedded API server without a socket; what a work agent writes there is counted by content, so that a test can tell whether
anything was applied twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from muster.apiserver.client import DirectClient
from muster.apiserver.server import ApiServer, ServerConfig
from muster.embedded.in_process import InProcessClient
from muster.machinery.tasks import run_all
from muster.registration.agent.agent import Agent
from muster.registration.agent.install import install as install_registration
from muster.registration.agent.options import AgentOptions
from muster.registration.drivers import endpoints_named
from muster.registration.drivers.endpoints import ClientSettings
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.client.rest import JSON, Query
from muster.transport.client.client import TransportClient
from muster.transport.contract.rows import WORKS
from muster.work.agent.agent import WorkAgent
from muster.work.agent.install import install as install_work
from muster.work.agent.options import WorkAgentOptions
from muster.work.kinds import APPLIED_WORKS

ENTRY = "value"
"""Of the ConfigMaps that works bring: what tells one version from another."""


class ManagedCluster(InProcessClient):
    """A managed cluster, as its work agent reaches it."""

    def __init__(self, client: DirectClient, name: str) -> None:
        super().__init__(client, name)
        self.name = name
        self.applied: Counter[tuple[str, str]] = Counter()
        """How often a ConfigMap was written with a content, by its name and that."""
        self.hub: TransportClient | None = None
        """Of the work agent, once it runs."""

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        answer = await super().exchange(method, path, query, body, media, idempotent=idempotent)
        if method in ("POST", "PUT", "PATCH") and "/configmaps" in path:
            written = orjson.loads(answer)
            self.applied[written["metadata"]["name"], (written.get("data") or {}).get(ENTRY, "")] += 1
        return answer

    @property
    def is_current(self) -> bool:
        """Whether the work agent has a stream and knows all that the hub has."""
        return self.hub is not None and self.hub.subscription(WORKS).current

    async def contents(self) -> dict[str, str]:
        """Of the ConfigMaps that works have brought, by name."""
        found = (await self.list(CONFIG_MAPS, "default")).items
        return {one["metadata"]["name"]: one["data"][ENTRY] for one in found if ENTRY in (one.get("data") or {})}

    async def records(self) -> set[str]:
        """The works of which the cluster has a record."""
        return {one["spec"]["manifestWorkName"] for one in (await self.list(APPLIED_WORKS)).items}

    async def describe(self) -> list[str]:
        """What there is on the cluster and what its work agent knows of the hub, for whoever reads why a test has failed."""
        lines = [f"cluster: {await self.contents()}"]
        for record in (await self.list(APPLIED_WORKS)).items:
            metadata = record["metadata"]
            gone = metadata.get("deletionTimestamp")
            lines.append(f"record: {record['spec']['manifestWorkName']} finalizers={metadata.get('finalizers')} deleted={gone}")
        if self.hub is None:
            return [*lines, "agent: does not run"]
        followed, connection = self.hub.subscription(WORKS), self.hub.connection
        problems = f"problem={followed.problem} last publish={connection.publish_problem}"
        lines.append(f"agent: at {connection.address} live={followed.live} current={followed.current} {problems}")
        for entry in followed.mirror:
            finalizers = entry.document["metadata"].get("finalizers")
            known = f"uid={entry.uid} generation={entry.version} finalizers={finalizers} deleting={entry.deleting}"
            lines.append(f"agent knows: {entry.key.name} {known}")
        return lines


class GrpcCrowd:
    """Use as a context manager. Cluster number n is introduced by the bootstrap file number n, going round."""

    def __init__(self, names: Sequence[str], bootstraps: Sequence[Path], directory: Path, *, at_once: int = 100) -> None:
        self._names = names
        self._bootstraps = bootstraps
        self._directory = directory
        self._joining = asyncio.Semaphore(at_once)
        self._server = ApiServer(ServerConfig(clusters=(), store="memory", namespace_grace_period=0))
        self._task: asyncio.Task[None] | None = None
        self.clusters: dict[str, ManagedCluster] = {}

    async def __aenter__(self) -> GrpcCrowd:
        await self._server.start()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        ended = self._task.done()
        self._task.cancel()
        results = await asyncio.gather(self._task, return_exceptions=True)
        await self._server.stop(grace=0.1)
        assert not ended, results

    async def until(self, look: Callable[[], Any], what: str, timeout: float, poll: float = 0.05) -> Any:
        """What `look` gives, itself or its coroutine, once that is true in the sense of `if`."""
        assert self._task is not None
        found: Any = None
        try:
            async with asyncio.timeout(timeout):
                while True:
                    found = look()
                    if asyncio.iscoroutine(found):
                        found = await found
                    if found:
                        return found
                    if self._task.done():
                        self._task.result()
                    await asyncio.sleep(poll)
        except TimeoutError:
            raise AssertionError(f"waited {timeout:g} s for {what}; last seen: {found!r}") from None

    async def until_lost(self, timeout: float) -> None:
        """Until a work agent has lost its stream."""
        await self.until(lambda: not self._all_current(), "a stream to be lost", timeout, poll=0.002)

    async def until_current(self, timeout: float) -> float:
        """Until all work agents know what the hub has; gives the seconds that took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self.until(self._all_current, f"{len(self._names)} work agents to have their streams", timeout)
        return loop.time() - began

    def _all_current(self) -> bool:
        return len(self.clusters) == len(self._names) and all(one.is_current for one in self.clusters.values())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number, name in enumerate(self._names):
                await self._joining.acquire()
                bootstrap = self._bootstraps[number % len(self._bootstraps)]
                tasks.create_task(self._live(name, bootstrap), name=name)
                tasks.create_task(self._let_next_in(name))

    async def _let_next_in(self, name: str) -> None:
        """Once this one is there."""
        while not (name in self.clusters and self.clusters[name].is_current):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        self._joining.release()

    async def _live(self, name: str, bootstrap: Path) -> None:
        cluster = await self._server.add_cluster(name)
        managed = self.clusters[name] = ManagedCluster(self._server.client(cluster, agent="work-agent"), name)
        await install_registration(managed, AgentOptions())
        await install_work(managed)
        client = InProcessClient(self._server.client(cluster, agent="registration-agent"), name)
        directory = self._directory / name
        options = AgentOptions(
            cluster_name=name, driver="grpc", bootstrap_kubeconfigs=(bootstrap,), hub_kubeconfig_dir=directory, cluster_claims=False
        )
        agent = Agent(client, options)
        await run_all({"registration": agent.run, "works": partial(self._work, managed, agent, directory / "config.yaml")})

    async def _work(self, managed: ManagedCluster, agent: Agent, file: Path) -> None:
        while not agent.ready:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        endpoints = endpoints_named("grpc")
        assert endpoints is not None
        endpoint = endpoints.read(file, await asyncio.to_thread(file.read_bytes))
        client = endpoint.connect(ClientSettings("work-agent", cluster=managed.name, source=f"{managed.name}-work-agent"))
        assert isinstance(client, TransportClient)
        managed.hub = client
        options = WorkAgentOptions(cluster_name=managed.name, agent_id=managed.name, hub_url=endpoint.url)
        try:
            await WorkAgent(client, managed, options).run()
        finally:
            await client.close()
