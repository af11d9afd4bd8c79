"""Agents that die before or after any of their writes, on the way to their first certificate or to the next one: the next one of
their kind goes on, and in the end everything is as if nothing had happened.

The agents are in this process, so that a death can come between two lines; hub and gRPC server are the processes people run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.apiserver.server import ApiServer, ServerConfig
from muster.embedded.in_process import InProcessClient
from muster.machinery.clock import Clock
from muster.machinery.objects import Object
from muster.registration.agent.agent import Agent
from muster.registration.agent.install import install
from muster.registration.agent.options import AgentOptions
from muster.registration.drivers.endpoints import ClientSettings, HubEndpoint
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE, CLUSTER_LABEL
from muster.runtime.client import HttpClient, KubeClient, NotFound, load_kubeconfig
from muster.runtime.client.builtin import SECRETS, SIGNING_REQUESTS
from muster.runtime.client.delegating_client import DelegatingClient, Send, Write
from tests.e2e.transport.conftest import Site
from tests.support.administrator import AVAILABLE
from tests.support.eventually import eventually
from tests.support.registration import HUB_SECRET, PENDING_SECRET
from tests.support.shifted import HOUR, ONE_HOUR, ShiftedClock
from tests.support.sites import beside_kube
from tests.support.working import condition

pytestmark = beside_kube

JOINING_MOMENTS = int(os.environ.get("MUSTER_MOMENTS", "18"))
"""Two of each write: some more than joining has."""
RENEWAL_MOMENTS = int(os.environ.get("MUSTER_MOMENTS", "14"))
KEYS = {"cluster-name", "agent-name", "tls.crt", "tls.key", "config.yaml"}


class Fate:
    """Strikes at the nth moment: whoever gets there never returns. 0: never."""

    def __init__(self, moment: int = 0) -> None:
        self._left = moment
        self.struck = asyncio.Event()

    async def __call__(self) -> None:
        self._left -= 1
        if self._left == 0 or self.struck.is_set():
            self.struck.set()
            await asyncio.Event().wait()


class Mortal(DelegatingClient):
    """May die before the other side has heard of a write, and after it has acted."""

    def __init__(self, inner: KubeClient, fate: Fate) -> None:
        super().__init__(inner)
        self._fate = fate

    async def write(self, write: Write, send: Send, dry_run: bool) -> Object:
        await self._fate()
        answer = await send(dry_run)
        await self._fate()
        return answer


@dataclass
class Spokes:
    """Managed clusters in this process."""

    hub: KubeClient
    """An administrator's."""
    server: ApiServer
    bootstrap: Path
    directory: Path

    async def options(self, name: str, **driver_options: list[str]) -> AgentOptions:
        """Of a new cluster's agent."""
        cluster = await self.server.add_cluster(name)
        await install(InProcessClient(self.server.client(cluster), name), AgentOptions())
        return AgentOptions(
            cluster_name=name,
            driver="grpc",
            driver_options=driver_options,
            bootstrap_kubeconfigs=(self.bootstrap,),
            hub_kubeconfig_dir=self.directory / name,
        )

    def client(self, name: str) -> InProcessClient:
        return InProcessClient(self.server.client(self.server.clusters[name], agent="registration-agent"), name)

    @asynccontextmanager
    async def life(self, options: AgentOptions, fate: Fate, clock: Clock) -> AsyncIterator[Agent]:
        name = options.cluster_name

        def connect(endpoint: HubEndpoint) -> KubeClient:
            return Mortal(endpoint.connect(ClientSettings("agent", cluster=name, clock=clock)), fate)

        agent = Agent(Mortal(self.client(name), fate), options, clock=clock, connect=connect)
        task = asyncio.create_task(agent.run())
        try:
            yield agent
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def secret(self, name: str, secret: str = HUB_SECRET) -> dict[str, str]:
        try:
            return dict((await self.client(name).get(SECRETS, secret, AGENT_NAMESPACE)).get("data") or {})
        except NotFound:
            return {}

    async def begun(self, name: str) -> dict[str, str]:
        """What is neither nothing nor finished; the names are always there."""
        pending = await self.secret(name, PENDING_SECRET)
        return {key: value for key, value in pending.items() if key.partition(".")[2] not in ("cluster-name", "agent-name")}

    async def requests(self, name: str) -> list[Object]:
        return (await self.hub.list(SIGNING_REQUESTS, label_selector=f"{CLUSTER_LABEL}={name}")).items

    async def available(self, name: str) -> bool:
        try:
            cluster = await self.hub.get(MANAGED_CLUSTERS, name)
        except NotFound:
            return False
        return condition(cluster.get("status") or {}, AVAILABLE).get("status") == "True"


@pytest.fixture
async def spokes(site: Site, tmp_path: Path) -> AsyncIterator[Spokes]:
    server = ApiServer(ServerConfig(clusters=(), store="memory", namespace_grace_period=0))
    await server.start()
    bootstrap = tmp_path / "bootstrap.yaml"
    bootstrap.write_text(yaml.safe_dump(site.bootstrap(f"127.0.0.1:{site.servers[0].port}")))
    hub = HttpClient(load_kubeconfig(site.hub.cluster.kubeconfig))
    yield Spokes(hub, server, bootstrap, tmp_path)
    await hub.close()
    await server.stop(grace=0.1)


async def died_or(fate: Fate, look: Callable[[], Awaitable[Any]], what: str) -> None:
    async def either() -> bool:
        return fate.struck.is_set() or bool(await look())

    await eventually(either, what)


async def serving(agent: Agent) -> bool:
    return agent.ready


async def finished(spokes: Spokes, name: str) -> bool:
    return await spokes.available(name) and set(await spokes.secret(name)) == KEYS and not await spokes.begun(name)


@pytest.mark.timeout(180)
async def test_a_death_at_any_write_of_joining_costs_nothing(spokes: Spokes) -> None:
    clock, deaths = ShiftedClock(0), []

    async def scenario(moment: int) -> None:
        name, fate = f"dies-{moment}", Fate(moment)
        options = await spokes.options(name)
        async with spokes.life(options, fate, clock):
            await died_or(fate, lambda: finished(spokes, name), f"{name} to die or to join")
        deaths.append(fate.struck.is_set())
        before = await spokes.secret(name) or await spokes.secret(name, PENDING_SECRET)
        async with spokes.life(options, Fate(), clock) as agent:
            await eventually(lambda: serving(agent), f"{name} to serve")
            await eventually(lambda: finished(spokes, name), f"{name} to have joined")
        after = await spokes.secret(name)
        assert before.get("agent-name", after["agent-name"]) == after["agent-name"]
        assert len(await spokes.requests(name)) == 1, name

    async with asyncio.TaskGroup() as tasks:
        for moment in range(1, JOINING_MOMENTS + 1):
            tasks.create_task(scenario(moment))
    assert sum(deaths) >= 12, "each of the writes that joining takes has two moments"


@pytest.mark.timeout(180)
async def test_a_death_at_any_write_of_a_renewal_costs_nothing(spokes: Spokes) -> None:
    deaths = []

    async def scenario(moment: int) -> None:
        name, fate, late = f"renews-{moment}", Fate(moment), ShiftedClock(0.85 * HOUR)
        for_an_hour = await spokes.options(name, **ONE_HOUR)
        async with spokes.life(for_an_hour, Fate(), ShiftedClock(0)):
            await eventually(lambda: finished(spokes, name), f"{name} to have joined")
        first, options = await spokes.secret(name), replace(for_an_hour, driver_options={})

        async def renewed() -> bool:
            return (await spokes.secret(name))["tls.crt"] != first["tls.crt"] and await finished(spokes, name)

        async with spokes.life(options, fate, late):
            await died_or(fate, renewed, f"{name} to die or to renew")
        deaths.append(fate.struck.is_set())
        async with spokes.life(options, Fate(), late) as agent:
            await eventually(lambda: serving(agent), f"{name} to serve")
            await eventually(renewed, f"{name} to have renewed its certificate")
        after = await spokes.secret(name)
        assert after["tls.key"] != first["tls.key"]
        assert {key for key in after if after[key] != first[key]} == {"tls.crt", "tls.key"}
        assert len(await spokes.requests(name)) == 2, name

    async with asyncio.TaskGroup() as tasks:
        for moment in range(1, RENEWAL_MOMENTS + 1):
            tasks.create_task(scenario(moment))
    assert sum(deaths) >= 8, "each of the writes that a renewal takes has two moments"
