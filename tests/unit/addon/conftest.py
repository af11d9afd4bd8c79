"""`site`: a hub with the addon manager as a whole on an API server in this process, with its own rights only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster.addon.install import ACCOUNT, install
from muster.addon.options import AddonOptions
from muster.addon.process import AddonManager
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.controller.leader_election import LeaderElection
from tests.support.eventually import eventually
from tests.support.followed_addon import FollowedAddon
from tests.unit.placement.hub.conftest import Life, Mortal

OPTIONS = AddonOptions()
WITHIN = 30.0


@dataclass
class ManagerSite:
    server: ApiServer
    admin: InProcessClient
    clusters: list[str] = field(default_factory=list)

    def own(self, life: Life) -> Mortal:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{HUB_NAMESPACE}", "system:authenticated")
        account = UserInfo(f"system:serviceaccount:{HUB_NAMESPACE}:{ACCOUNT}", groups=groups)
        client = Mortal(self.server.client(self.server.clusters["hub"], account))
        client.life = life
        return client

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
        self.clusters += names


async def until(addon: FollowedAddon, done: Callable[[], Any], what: str) -> None:
    async def look() -> Any:
        return done()

    await eventually(look, f"{what}: {addon}", timeout=WITHIN, poll=0.01)


@pytest.fixture
async def site() -> AsyncIterator[ManagerSite]:
    server = ApiServer(ServerConfig(store="memory", clusters=("hub",)))
    await server.start()
    user = UserInfo("admin", groups=("system:masters", "system:authenticated"))
    site = ManagerSite(server, InProcessClient(server.client(server.clusters["hub"], user)))
    await install(site.admin, OPTIONS)
    yield site
    await server.stop(grace=0.1)
