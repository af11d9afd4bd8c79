"""The whole hub, on an API server in this process, with the rights that its installation gives it and no others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest

from muster.api.cluster.v1 import AVAILABLE
from muster.machinery.authentication import UserInfo
from muster.machinery.tasks import RunnableEnded
from muster.registration import drivers
from muster.registration.drivers import UnknownDriver
from muster.registration.drivers.interfaces import HubContext
from muster.registration.hub import manager
from muster.registration.hub.context import HubControllerContext
from muster.registration.hub.install import ACCOUNT, install
from muster.registration.hub.manager import Hub
from muster.registration.hub.options import HubOptions
from muster.registration.kinds import CLUSTER_SETS, MANAGED_CLUSTERS
from muster.registration.names import HUB_NAMESPACE, LEASE
from muster.runtime.client.builtin import LEASES, NAMESPACES
from muster.runtime.client.errors import Forbidden
from muster.runtime.client.rest import JSON, Query
from tests.unit.registration.hub.conftest import CountingClient, Play, ScriptedDriver
from tests.unit.registration.hub.watched import Watched


class Restricted(CountingClient):
    """Notes what was refused for want of rights."""

    refused: list[str]

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        try:
            return await super().exchange(method, path, query, body, media, idempotent=idempotent)
        except Forbidden as error:
            self.refused.append(f"{method} {path}: {error}")
            raise


def own_client(play: Play) -> Restricted:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{HUB_NAMESPACE}", "system:authenticated")
    user = UserInfo(f"system:serviceaccount:{HUB_NAMESPACE}:{ACCOUNT}", groups=groups)
    client = Restricted(play.server.client(play.server.clusters["default"], user))
    client.refused = []
    return client


@asynccontextmanager
async def running(hub: Hub) -> AsyncIterator[None]:
    task = asyncio.create_task(hub.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_cluster_lives_its_life_under_a_hub_with_its_own_rights_only(play: Play) -> None:
    await install(play.admin)
    client = own_client(play)
    play.hub_client = client
    options = HubOptions(remove_denied_after=30.0)
    async with running(Hub(client, options, clock=play.clock, random=lambda: 0.0, metrics=play.metrics)):
        await play.until(lambda: play.get(CLUSTER_SETS, "default"))
        await play.create_cluster("c1", accepts=True)
        await play.until_condition("c1", "True", "HubClusterAdminAccepted")
        cluster = Watched(play)
        await play.until(cluster.lease)
        await cluster.renew()
        await play.clock.advance(301)
        await play.until_condition("c1", "Unknown", "ManagedClusterLeaseUpdateStopped", AVAILABLE)
        await play.create_work("c1", "w1")
        await play.deny("c1")
        await play.until_condition("c1", "False", "HubClusterAdminDenied")
        await play.clock.advance(31)
        await play.until_gone(MANAGED_CLUSTERS, "c1")
        assert await play.get(NAMESPACES, "c1")
    assert client.refused == []


async def test_a_joining_cluster_costs_the_hub_few_requests_and_one_at_rest_none(play: Play) -> None:
    await install(play.admin)
    async with running(Hub(play.hub_client, HubOptions(), clock=play.clock, random=lambda: 0.0, metrics=play.metrics)):
        await play.until(lambda: play.get(CLUSTER_SETS, "global"))
        await play.create_cluster("c0", accepts=True)
        await play.until_condition("c0", "True", "HubClusterAdminAccepted")
        await play.at_rest()
        play.hub_client.writes()
        names = [f"c{number}" for number in range(1, 11)]
        for name in names:
            await play.create_cluster(name, accepts=True)
        for name in names:
            await play.until_condition(name, "True", "HubClusterAdminAccepted")
            await play.until(partial(play.get, LEASES, LEASE, name))
        await play.clock.advance(2)
        await play.at_rest()
        writes = play.hub_client.writes()
        assert len(writes) / len(names) <= 8.5, writes
        await play.clock.advance(200)
        await play.at_rest()
        assert play.hub_client.writes() == []


async def test_the_hub_is_ready_when_its_caches_are_complete(play: Play) -> None:
    hub = Hub(play.hub_client, HubOptions(drivers=()), clock=play.clock)
    assert not hub.ready
    async with running(hub):
        await hub.synced()
        assert hub.ready


async def test_a_part_that_ends_by_itself_ends_the_hub_with_its_name(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, world: HubControllerContext) -> None: ...

        async def run(self) -> None:
            raise RuntimeError("no more")

    class Finished(Broken):
        async def run(self) -> None: ...

    others = manager.CONTROLLERS
    for name, part, text in (
        ("broken", Broken, "controller broken ended: RuntimeError: no more"),
        ("finished", Finished, "controller finished ended by itself"),
    ):
        monkeypatch.setattr(manager, "CONTROLLERS", {**others, name: part})
        with pytest.raises(RunnableEnded, match=text):
            await Hub(play.hub_client, HubOptions(drivers=()), clock=play.clock).run()


async def test_cancelling_the_hub_leaves_no_task_behind(play: Play) -> None:
    before = asyncio.all_tasks()
    hub = Hub(play.hub_client, HubOptions(), clock=play.clock)
    async with running(hub):
        await hub.synced()
    assert asyncio.all_tasks() <= before


async def test_a_driver_is_told_what_was_said_to_it_under_any_of_its_names(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts: list[HubContext] = []

    class Pigeon:
        name = "pigeon"
        aliases = ("carrier-pigeon",)

        def hub(self, context: HubContext) -> ScriptedDriver:
            contexts.append(context)
            return play.driver

    monkeypatch.setattr(drivers, "find", lambda name: Pigeon())
    said: dict[str, dict[str, tuple[str, ...]]] = {
        "pigeon": {"loft": ("north",)},
        "carrier-pigeon": {"ring": ("7", "8")},
        "csr": {"loft": ("none",)},
    }
    Hub(play.hub_client, HubOptions(drivers=("carrier-pigeon",), driver_options=said))
    assert contexts[0].options == {"loft": ("north",), "ring": ("7", "8")}


async def test_a_driver_that_does_not_exist_is_named(play: Play) -> None:
    with pytest.raises(UnknownDriver, match="carrier-pigeon"):
        Hub(play.hub_client, replace(HubOptions(), drivers=("carrier-pigeon",)))
