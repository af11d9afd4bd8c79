"""A hub in this process, with our kinds, and both sides of a driver on it: `csr` unless a test says otherwise."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster.api.cluster.v1 import ManagedCluster
from muster.api.crds import definitions
from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.metrics import Metrics
from muster.registration.drivers import find
from muster.registration.drivers.interfaces import HubContext, HubDriver, SpokeContext, SpokeDriver, StepResult
from muster.registration.drivers.ownership import claimed_by_others
from muster.registration.names import AgentIdentity
from muster.runtime.cache.informer import Informers
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CRDS
from muster.runtime.controller.events import EventRecorder
from tests.support.in_process import serving

BOOTSTRAP = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
MASTERS = ("system:masters", "system:authenticated")


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with serving("hub") as running:
        yield running


def client_of(server: ApiServer, name: str = "admin", groups: tuple[str, ...] = MASTERS) -> InProcessClient:
    return InProcessClient(server.client(server.clusters["hub"], UserInfo(name, groups=groups)))


@pytest.fixture
async def admin(server: ApiServer) -> InProcessClient:
    """An administrator of a hub that knows ManagedClusters."""
    client = client_of(server)
    for definition in definitions():
        if definition["spec"]["names"]["kind"] == "ManagedCluster":
            await client.create(CRDS, definition)
            await until(lambda: client.raw("GET", ManagedCluster.resource.path()))
    return client


async def until(probe: Callable[[], Any], seconds: float = 30.0) -> Any:
    """The first true answer of `probe`, which may be a coroutine; its errors count as "not yet"."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                found = await probe()
            except Exception:
                found = None
            if found:
                return found
            await asyncio.sleep(0.005)


@dataclass
class RunningHub:
    driver: HubDriver
    reconsidered: list[str] = field(default_factory=list)


@asynccontextmanager
async def hub_driver(
    client: KubeClient,
    options: Mapping[str, tuple[str, ...]] | None = None,
    *,
    auto_approval: bool = True,
    clock: Clock = SYSTEM,
    driver: str = "csr",
) -> AsyncIterator[RunningHub]:
    informers = Informers(client, clock=clock)
    events = EventRecorder(client, "registration-controller", "test", clock=clock)
    reconsidered: list[str] = []
    context = HubContext(
        client,
        informers,
        events,
        Metrics(),
        clock,
        random.random,
        reconsider=reconsidered.append,
        auto_approval=auto_approval,
        options=options or {},
        claimed=claimed_by_others(driver),
    )
    side = find(driver).hub(context)
    tasks = [asyncio.create_task(part()) for part in (informers.run, events.run, side.run)]
    try:
        await informers.synced()
        yield RunningHub(side, reconsidered)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Agent:
    """Runs a spoke driver as an agent does: what a step says is stored before the next one."""

    def __init__(
        self,
        identity: AgentIdentity,
        clock: Clock = SYSTEM,
        options: Mapping[str, tuple[str, ...]] | None = None,
        *,
        driver: str = "csr",
    ) -> None:
        self.identity = identity
        self.name = driver
        self.clock = clock
        self.options = options or {}
        self.stored: dict[str, bytes] = {}
        self.pending: dict[str, bytes] = {}
        self.restart()

    def restart(self) -> None:
        context = SpokeContext(self.identity, self.clock, random.random, Metrics(), self.options)
        self.driver: SpokeDriver = find(self.name).spoke(context)

    async def step(self, hub: KubeClient) -> StepResult:
        progress = await self.driver.advance(hub, self.stored, self.pending)
        self.store(progress)
        return progress

    def store(self, progress: StepResult, *, forget: bool = True) -> None:
        """Without `forget`: somebody dies before what is done is no longer pending."""
        if progress.credential is not None:
            self.stored = dict(progress.credential)
            self.pending = {} if forget else self.pending
            return
        for name, value in progress.pending.items():
            if value is None:
                self.pending.pop(name, None)
            else:
                self.pending[name] = value

    async def settle(self, hub: KubeClient) -> StepResult:
        """Steps until one says to wait."""
        while True:
            progress = await self.step(hub)
            if progress.again != 0:
                return progress
