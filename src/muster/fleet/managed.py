"""Many managed clusters in one process: each a logical cluster on one embedded control plane, with a registration agent.

An agent is the real one, with the options of an installation and its own identity on the hub over TLS; it accesses only its own
cluster in process. Agents that end are restarted after a pause, as by a Deployment, and counted. With `works`, each cluster has a
work agent too, and its Deployments are reported as running.

At most `at_once` clusters are between start and Available at any moment: the caller calls `arrived(name)`, and the next one starts.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from muster.apiserver.server import ApiServer, ServerConfig
from muster.embedded.in_process import InProcessClient
from muster.fleet.simulated_agents import run_work_agent
from muster.fleet.simulated_pods import SimulatedPods
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM, Clock, Timer, sleep
from muster.machinery.logs import get_logger
from muster.registration.agent.install import ACCOUNT, install
from muster.registration.agent.options import AgentOptions
from muster.registration.drivers.flags import DEFAULT
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import NODES
from muster.work.agent.install import install as install_work_agent
from muster.work.names import DEFAULT_SERVICE_ACCOUNT

log = get_logger("muster.fleet.managed")

RunAgent = Callable[[KubeClient, AgentOptions], Awaitable[None]]
AT_ONCE: Final = 100
RESTART_PAUSE: Final = 5.0
JOIN_TIMEOUT: Final = 60.0
"""Seconds after which a cluster that is not Available no longer delays the next ones."""
COMPLAINTS: Final = 20
"""The number of different agent failures that are logged."""
_GROUPS: Final = ("system:serviceaccounts", f"system:serviceaccounts:{AGENT_NAMESPACE}", "system:authenticated")
_AGENT: Final = UserInfo(f"system:serviceaccount:{AGENT_NAMESPACE}:{ACCOUNT}", groups=_GROUPS)
_WORK_AGENT: Final = UserInfo(f"system:serviceaccount:{AGENT_NAMESPACE}:{DEFAULT_SERVICE_ACCOUNT}", groups=_GROUPS)


async def run_agent(client: KubeClient, options: AgentOptions) -> None:
    from muster.registration.agent.agent import Agent

    await Agent(client, options).run()


class ManagedClusters:
    """Call `start` for the control plane, then `run` until cancelled, then `stop`."""

    def __init__(
        self,
        names: Sequence[str],
        bootstrap: Path,
        directory: Path,
        *,
        driver: str = DEFAULT,
        at_once: int = AT_ONCE,
        works: bool = False,
        run_agent: RunAgent = run_agent,
        clock: Clock = SYSTEM,
    ) -> None:
        self._names = names
        self._bootstrap = bootstrap
        self._directory = directory
        self._driver = driver
        self._run_agent = run_agent
        self._clock = clock
        self._slots = asyncio.Semaphore(at_once)
        self._joining: dict[str, Timer] = {}
        self._clients: dict[str, KubeClient] = {}
        self._works = works
        self._server = ApiServer(ServerConfig(clusters=(), store="memory"))
        self._pods = SimulatedPods.controller_manager(self._server) if works else None
        self._reported: set[str] = set()
        self.started = 0
        self.restarts = 0

    async def start(self) -> None:
        await self._server.start()
        if self._pods is not None:
            self._pods.start()

    async def furnish(self) -> None:
        """Create all clusters now instead of when their agents start."""
        for first in range(0, len(self._names), AT_ONCE):
            await asyncio.gather(*map(self._furnish, self._names[first : first + AT_ONCE]))

    async def stop(self) -> None:
        if self._pods is not None:
            await self._pods.stop()
        await self._server.stop()

    def arrived(self, name: str) -> None:
        """The cluster has joined; another one may start."""
        waiting = self._joining.pop(name, None)
        if waiting is not None:
            waiting.cancel()
            self._slots.release()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as agents:
            for name in self._names:
                await self._slots.acquire()
                self._joining[name] = self._clock.call_later(JOIN_TIMEOUT, functools.partial(self.arrived, name))
                agents.create_task(self._keep(agents, name), name=f"agent of {name}")
                self.started += 1

    async def _furnish(self, name: str) -> KubeClient:
        """A cluster with a node, as an agent's installation leaves it; returns a client with only the agent's permissions."""
        cluster = await self._server.add_cluster(name)
        admin = InProcessClient(self._server.client(cluster), name)
        await install(admin, AgentOptions())
        resources = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        await admin.create(NODES, {"metadata": {"name": "node-0"}, "status": {"capacity": resources, "allocatable": resources}})
        if self._works:
            await install_work_agent(admin)
        client = self._clients[name] = InProcessClient(self._server.client(cluster, _AGENT, "klusterlet"), name)
        return client

    async def _keep(self, agents: asyncio.TaskGroup, name: str) -> None:
        client = self._clients.get(name) or await self._furnish(name)
        options = AgentOptions(
            cluster_name=name,
            driver=self._driver,
            bootstrap_kubeconfigs=(self._bootstrap,),
            hub_kubeconfig_dir=self._directory / name,
        )
        if self._works:
            own = InProcessClient(self._server.client(self._server.clusters[name], _WORK_AGENT, "klusterlet-work"), name)
            agents.create_task(self._ever(name, lambda: run_work_agent(own, options)), name=f"work agent of {name}")
        await self._ever(name, lambda: self._run_agent(client, options))

    async def _ever(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await run()
            except Exception as error:
                self._complain(name, f"{type(error).__name__}: {error}")
            self.restarts += 1
            await sleep(self._clock, RESTART_PAUSE)

    def _complain(self, name: str, problem: str) -> None:
        """Log a problem that many agents have only once."""
        if problem not in self._reported and len(self._reported) < COMPLAINTS:
            self._reported.add(problem)
            log.error("agent failed", cluster=name, error=problem)
