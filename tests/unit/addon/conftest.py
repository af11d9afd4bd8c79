"""`site`: a hub with the addon manager as a whole on an API server in this process, with its own rights only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.addon.install import ACCOUNT, install
from muster.addon.options import AddonOptions
from muster.addon.process import AddonManager
from muster.runtime.controller.leader_election import LeaderElection
from tests.support.eventually import eventually
from tests.support.followed_addon import FollowedAddon
from tests.support.mortal_hub import Life, Mortal, MortalHub, hub_server

OPTIONS = AddonOptions()
WITHIN = 75.0


class ManagerSite(MortalHub):
    """Time goes on here as everywhere."""

    account = ACCOUNT

    @asynccontextmanager
    async def managed(
        self, life: Life | None = None, elect: Callable[[Mortal], LeaderElection] | None = None
    ) -> AsyncIterator[Life]:
        """While a manager lives, or until its life is over."""
        living = life or Life()
        client = self.own(living)
        manager = AddonManager(client, OPTIONS)
        task = asyncio.create_task(manager.run(elect(client) if elect else None))
        try:
            yield living
            assert living.over.is_set() or not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def followed(self, addon: str) -> AsyncIterator[FollowedAddon]:
        """An addon whose works are reported as soon as they are there."""
        found = FollowedAddon(admin=self.admin, addon=addon)
        async with found.followed(), found.reported():
            yield found

    async def with_clusters(self, *names: str) -> None:
        made = FollowedAddon(admin=self.admin, addon="none")
        for name in names:
            await made.make_cluster(name)


async def until(addon: FollowedAddon, done: Callable[[], Any], what: str) -> None:
    async def look() -> Any:
        return done()

    await eventually(look, f"{what}: {addon}", timeout=WITHIN, poll=0.01)


@pytest.fixture
async def site() -> AsyncIterator[ManagerSite]:
    async with hub_server() as server:
        site = ManagerSite(server)
        await install(site.admin, OPTIONS)
        yield site
