"""What the hub remembers of clusters goes with them, and a cluster that only renews its lease leaves nothing behind."""

import asyncio
from collections import Counter

from muster.apiserver.client import DirectClient
from muster.registration.hub.manager import Hub
from muster.registration.hub.options import HubOptions
from muster.registration.kinds import CLUSTER_SETS, MANAGED_CLUSTERS
from muster.runtime.client.builtin import NAMESPACES
from tests.support.holdings import grown, holdings
from tests.unit.registration.hub.conftest import Play
from tests.unit.registration.hub.test_hub import running
from tests.unit.registration.hub.watched import Watched

MANY = 15
BOUNDED = ("EventRecorder.", "_Series.")
"""Events remember the last thousands of what they told, to count what comes again."""


async def rested(play: Play, hub: Hub) -> Counter[str]:
    """What the hub holds when nothing is left to be done or to be waited for."""
    for _ in range(3):
        await play.at_rest()
        await play.clock.advance(600)
    await play.at_rest()
    play.hub_client.writes()
    return holdings(hub, apart=(DirectClient,))


async def live_and_leave(play: Play, first: int) -> None:
    names = [f"c{number}" for number in range(first, first + MANY)]
    for name in names:
        await play.create_cluster(name, accepts=True)
    for name in names:
        cluster = Watched(play, name)
        await play.until(cluster.lease)
        await cluster.renew()
        await play.create_work(name, "w1")
    for name in names:
        await play.admin.delete(MANAGED_CLUSTERS, name)
    for name in names:
        await play.until_gone(MANAGED_CLUSTERS, name)
        await play.admin.delete(NAMESPACES, name)
        await play.until_gone(NAMESPACES, name)


async def test_nothing_is_kept_of_clusters_that_are_gone(play: Play) -> None:
    hub = Hub(play.hub_client, HubOptions(), clock=play.clock, random=lambda: 0.0, metrics=play.metrics)
    async with running(hub):
        await play.until(lambda: play.get(CLUSTER_SETS, "global"))
        await live_and_leave(play, 0)
        before = await rested(play, hub)
        await live_and_leave(play, MANY)
        after = await rested(play, hub)
    assert {
        location: sizes for location, sizes in grown(before, after, MANY // 2).items() if not location.startswith(BOUNDED)
    } == {}


async def test_renewals_leave_nothing(play: Play) -> None:
    hub = Hub(play.hub_client, HubOptions(), clock=play.clock, random=lambda: 0.0, metrics=play.metrics)
    async with running(hub):
        await play.create_cluster("c1", accepts=True)
        cluster = Watched(play)
        await play.until(cluster.lease)
        await cluster.renew()
        before = await rested(play, hub)
        for _ in range(300):
            await play.clock.advance(60)
            await cluster.renew()
            await asyncio.sleep(0)
        after = await rested(play, hub)
    assert grown(before, after, 5) == {}
