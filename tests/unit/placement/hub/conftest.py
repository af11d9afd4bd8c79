"""`site`: the placement controller on an API server in this process, with its own rights only and a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from muster.apiserver.server import ApiServer
from muster.placement.hub.install import ACCOUNT, install
from muster.placement.hub.manager import PlacementManager
from muster.placement.hub.options import PlacementOptions
from tests.support.choosing import NS, Chooser
from tests.support.mortal_hub import Life, MortalHub, hub_server, running

OPTIONS = PlacementOptions()


class Site(MortalHub, Chooser):
    account = ACCOUNT

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.manager: PlacementManager | None = None

    @asynccontextmanager
    async def controller(self, life: Life | None = None) -> AsyncIterator[Life]:
        self.life = life or Life()
        self.manager = PlacementManager(self.own(self.life), OPTIONS, clock=self.clock, random=lambda: 0.0, metrics=self.metrics)
        async with running(self.manager, synced=life is None):
            yield self.life

    async def settled(self) -> None:
        """Until the controller has nothing to do now."""
        assert self.manager is not None
        queue = self.manager.placements._controller.queue

        async def idle() -> bool:
            return not len(queue) and not queue.processing

        for _ in range(3):
            await self.until(idle, "the controller to be idle", moving=0.0)
            await asyncio.sleep(0.01)

    @property
    def passes(self) -> int:
        """How often the controller has chosen so far."""
        return self.manager.placements.measurements.choices if self.manager is not None else 0


@asynccontextmanager
async def hub() -> AsyncIterator[Site]:
    async with hub_server() as server:
        site = Site(server)
        await install(site.admin, OPTIONS)
        await site.namespace(NS)
        await site.cluster_set("all")
        await site.bind("all")
        yield site


@pytest.fixture
async def bare() -> AsyncIterator[Site]:
    """Without a controller."""
    async with hub() as site:
        yield site


@pytest.fixture
async def site(bare: Site) -> AsyncIterator[Site]:
    async with bare.controller():
        yield bare
