"""Clocks that are an hour or a minute off, the agents' or the server's: clusters join, stay and get their works all the same.

Certificates are checked by TLS with the machine's own clock, which nobody can set here; what our programs do with the time of day
is what is shown. Agents and the server with the wrong clock run in this process, the hub as people run it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import yaml

from muster.apiserver.server import ApiServer, ServerConfig
from muster.embedded.in_process import InProcessClient
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object
from muster.registration.agent.agent import Agent
from muster.registration.agent.install import install as install_registration
from muster.registration.agent.options import AgentOptions
from muster.registration.drivers import endpoints_named
from muster.registration.drivers.endpoints import ClientSettings
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import LEASE
from muster.runtime.client import HttpClient, KubeClient, NotFound, load_kubeconfig
from muster.runtime.client.builtin import LEASES
from muster.transport.server.config import GrpcServerConfig
from muster.transport.server.server import GrpcServer, GrpcServerOptions
from muster.work.agent.agent import WorkAgent
from muster.work.agent.install import install as install_work
from muster.work.agent.options import WorkAgentOptions
from muster.work.kinds import MANIFEST_WORKS
from tests.e2e.transport.conftest import Site
from tests.support.administrator import AVAILABLE
from tests.support.eventually import eventually
from tests.support.shifted import HOUR, ShiftedClock
from tests.support.sites import beside_kube
from tests.support.work_author import is_told
from tests.support.working import condition, config_map

pytestmark = beside_kube

OFF = {"ahead": HOUR, "behind": -HOUR, "a-little-ahead": 60.0}
RENEWALS = 6
"""One more than a lease may miss."""


@asynccontextmanager
async def running(*parts: Awaitable[None]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        yield
        assert not [task for task in tasks if task.done()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Cluster:
    """A managed cluster in this process, and what an administrator of the hub sees of it."""

    def __init__(self, name: str, hub: KubeClient, server: ApiServer, bootstrap: Path, directory: Path) -> None:
        self.name = name
        self._hub = hub
        self._server = server
        self._bootstrap = bootstrap
        self._directory = directory

    async def make(self) -> None:
        await self._server.add_cluster(self.name)
        await install_registration(self._client, AgentOptions())
        await install_work(self._client)

    @property
    def _client(self) -> InProcessClient:
        return InProcessClient(self._server.client(self._server.clusters[self.name]), self.name)

    def registration(self, clock: Clock) -> Agent:
        options = AgentOptions(
            cluster_name=self.name, driver="grpc", bootstrap_kubeconfigs=(self._bootstrap,), hub_kubeconfig_dir=self._directory
        )
        return Agent(self._client, options, clock=clock)

    @asynccontextmanager
    async def working(self, clock: Clock) -> AsyncIterator[None]:
        file = self._directory / "config.yaml"
        endpoints = endpoints_named("grpc")
        assert endpoints is not None
        hub = endpoints.read(file, file.read_bytes()).connect(ClientSettings("work-agent", cluster=self.name, clock=clock))
        try:
            async with running(WorkAgent(hub, self._client, WorkAgentOptions(cluster_name=self.name), clock=clock).run()):
                yield
        finally:
            await hub.close()

    async def available(self) -> bool:
        try:
            found = await self._hub.get(MANAGED_CLUSTERS, self.name)
        except NotFound:
            return False
        return condition(found.get("status") or {}, AVAILABLE).get("status") == "True"

    async def renewals(self, times: int) -> None:
        """Until the hub has seen so many of its lease."""
        seen: set[str] = set()

        async def look() -> bool:
            seen.add(str((await self._hub.get(LEASES, LEASE, self.name))["spec"].get("renewTime")))
            return len(seen) > times

        await eventually(look, f"{times} renewals of the lease")

    async def short_lease(self) -> None:
        await self._hub.patch(MANAGED_CLUSTERS, self.name, {"spec": {"leaseDurationSeconds": 1}})

    async def put(self, text: str) -> None:
        """The work, and wait until the hub was told that it is applied."""
        spec = {"workload": {"manifests": [config_map("text", "default", value=text)]}}
        kind = {"apiVersion": MANIFEST_WORKS.api_version, "kind": MANIFEST_WORKS.kind}
        work = {**kind, "metadata": {"name": "w", "namespace": self.name}, "spec": spec}
        try:
            await self._hub.patch(MANIFEST_WORKS, "w", {"spec": spec}, self.name)
        except NotFound:
            await self._hub.create(MANIFEST_WORKS, work, self.name)

        async def look() -> bool:
            found: Object = await self._hub.get(MANIFEST_WORKS, "w", self.name)
            return is_told(found)

        await eventually(look, f"the status of {text!r}")


@asynccontextmanager
async def wrong_server(site: Site, clock: Clock) -> AsyncIterator[int]:
    """A gRPC server of the hub with this clock; gives its port."""
    client = HttpClient(load_kubeconfig(site.server_kubeconfig))
    files = (str(site.serving.cert), str(site.serving.key), str(site.signer.pair.cert))
    server = GrpcServer(client, GrpcServerOptions(GrpcServerConfig(*files, server_bind_port=0), "127.0.0.1"), clock=clock)
    await server.start()
    try:
        async with running(server.run()):
            await server.synced()
            yield server.port
    finally:
        await server.stop(0.1)
        await client.close()


@asynccontextmanager
async def cluster_of(site: Site, name: str, port: int, directory: Path) -> AsyncIterator[Cluster]:
    bootstrap = directory / "bootstrap.yaml"
    bootstrap.write_text(yaml.safe_dump(site.bootstrap(f"127.0.0.1:{port}")))
    async with AsyncExitStack() as stack:
        server = ApiServer(ServerConfig(clusters=(), store="memory", namespace_grace_period=0))
        await server.start()
        stack.push_async_callback(server.stop, 0.1)
        hub = HttpClient(load_kubeconfig(site.hub.cluster.kubeconfig))
        stack.push_async_callback(hub.close)
        cluster = Cluster(name, hub, server, bootstrap, directory / name)
        await cluster.make()
        yield cluster


async def agent_is_off(site: Site, off: str, directory: Path) -> None:
    clock = ShiftedClock(OFF[off])
    async with cluster_of(site, f"agent-{off}", site.servers[0].port, directory) as cluster:
        async with running(cluster.registration(clock).run()):
            await eventually(cluster.available, "the cluster to be available")
            await cluster.short_lease()
            async with cluster.working(clock):
                await cluster.put("by a wrong clock")
                await cluster.put("by a wrong clock again")
                await cluster.renewals(RENEWALS)
                assert await cluster.available()
            # Its reports are numbered by time: set right, the clock gives numbers that are off from the last.
            async with cluster.working(SYSTEM):
                await cluster.put("by the right clock")
        assert len(site.hub.requests(cluster.name)) == 1


async def server_is_off(site: Site, off: str, directory: Path) -> None:
    clock = ShiftedClock(OFF[off])
    async with wrong_server(site, clock) as port, cluster_of(site, f"server-{off}", port, directory) as cluster:
        async with running(cluster.registration(SYSTEM).run()):
            await eventually(cluster.available, "the cluster to be available")
            await cluster.short_lease()
            async with cluster.working(SYSTEM):
                await cluster.put("over a wrong clock")
                await cluster.put("over a wrong clock again")
                await cluster.renewals(RENEWALS)
                assert await cluster.available()
        assert len(site.hub.requests(cluster.name)) == 1


async def test_with_a_clock_that_is_off_clusters_join_stay_and_get_their_works(site: Site, tmp_path: Path) -> None:
    """An agent's or a server's, each in a cluster of its own, all at once."""
    async with asyncio.TaskGroup() as tasks:
        for case in (agent_is_off, server_is_off):
            for off in OFF:
                directory = tmp_path / f"{case.__name__}-{off}"
                directory.mkdir()
                tasks.create_task(case(site, off, directory))
