"""Many clusters in one process: each furnished, each with an agent that is kept running, joining only so many at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from muster.fleet.managed import JOIN_TIMEOUT, RESTART_PAUSE, ManagedClusters, RunAgent
from muster.registration.agent.options import AgentOptions
from muster.registration.kinds import CLUSTER_CLAIMS
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import NAMESPACES, NODES
from tests.support.fake_clock import FakeClock, settle

NAMES = ("one", "two", "three")


@asynccontextmanager
async def running(run_agent: RunAgent, clock: FakeClock, *, at_once: int = 10) -> AsyncIterator[ManagedClusters]:
    fleet = ManagedClusters(NAMES, Path("bootstrap.kubeconfig"), Path("agents"), at_once=at_once, run_agent=run_agent, clock=clock)
    await fleet.start()
    task = asyncio.create_task(fleet.run())
    try:
        yield fleet
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await fleet.stop()


class Agents:
    """Agents that do nothing for ever, or fail at once."""

    def __init__(self) -> None:
        self.started: list[AgentOptions] = []
        self.clients: list[KubeClient] = []
        self.broken = False
        self._changed = asyncio.Condition()

    async def run(self, client: KubeClient, options: AgentOptions) -> None:
        async with self._changed:
            self.started.append(options)
            self.clients.append(client)
            self._changed.notify_all()
        if self.broken:
            raise RuntimeError("no hub")
        await asyncio.Event().wait()

    async def until_started(self, count: int) -> None:
        async with asyncio.timeout(20), self._changed:
            await self._changed.wait_for(lambda: len(self.started) >= count)


async def test_every_cluster_has_an_agent_of_its_name_with_a_directory_of_its_own() -> None:
    agents = Agents()
    async with running(agents.run, FakeClock()):
        await agents.until_started(3)
    assert [options.cluster_name for options in agents.started] == list(NAMES)
    assert len({options.hub_kubeconfig_dir for options in agents.started}) == 3


async def test_a_cluster_is_as_an_installation_leaves_it() -> None:
    agents = Agents()
    async with running(agents.run, FakeClock()):
        await agents.until_started(1)
        client = agents.clients[0]
        await client.get(NAMESPACES, AGENT_NAMESPACE)
        assert (await client.list(CLUSTER_CLAIMS)).items == []
        (node,) = (await client.list(NODES)).items
        assert node["status"]["capacity"]["cpu"] == "4"


async def test_only_so_many_join_at_a_time() -> None:
    agents = Agents()
    async with running(agents.run, FakeClock(), at_once=1) as fleet:
        await agents.until_started(1)
        assert fleet.started == 1
        fleet.arrived("one")
        await agents.until_started(2)
        assert fleet.started == 2


async def test_a_cluster_that_never_arrives_lets_the_next_one_pass_in_the_end() -> None:
    agents, clock = Agents(), FakeClock()
    async with running(agents.run, clock, at_once=1):
        await agents.until_started(1)
        await clock.advance(JOIN_TIMEOUT)
        await agents.until_started(2)


async def test_an_agent_that_fails_is_started_again_after_a_pause_and_counted() -> None:
    agents, clock = Agents(), FakeClock()
    agents.broken = True
    async with running(agents.run, clock) as fleet:
        await agents.until_started(3)
        await settle()
        assert fleet.restarts == 3
        await clock.advance(RESTART_PAUSE)
        await agents.until_started(6)
