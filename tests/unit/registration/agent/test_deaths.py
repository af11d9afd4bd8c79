"""An agent may die at every request, before the server has heard it or after it has acted: the next one goes on where it was."""

import asyncio

import pytest

from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.builtin import SIGNING_REQUESTS
from tests.unit.registration.agent.conftest import Fleet, Hub, until

MOST = 50
"""More moments than joining has."""


class Death:
    """Strikes at the nth moment: whoever gets there never returns."""

    def __init__(self, moment: int) -> None:
        self._left = moment
        self.struck = asyncio.Event()

    async def __call__(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.struck.set()
            await asyncio.Event().wait()


async def administrate(hub: Hub) -> None:
    """Accept and approve whatever comes."""
    accepted: set[str] = set()
    while True:
        for cluster in (await hub.admin.list(MANAGED_CLUSTERS)).items:
            name = cluster["metadata"]["name"]
            if name not in accepted:
                await hub.accept(name)
                accepted.add(name)
            await hub.approve(name)
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("moment", range(1, MOST, 2))
async def test_a_death_at_any_moment_of_joining_costs_nothing(fleet: Fleet, moment: int) -> None:
    await fleet.give(fleet.hub.kubeconfig())
    administrator = asyncio.create_task(administrate(fleet.hub))
    death = Death(moment)
    fleet.hub.fate = fleet.spoke.fate = death
    try:
        async with fleet.running(cluster_name=""):
            await until(lambda: _struck_or_available(death, fleet), "death or success")
        fleet.hub.fate = fleet.spoke.fate = _peace
        before = {**await fleet.pending(), **await fleet.stored()}
        async with fleet.running(cluster_name="") as agent:
            await until(lambda: agent.state.phase == "serving", "serving")
            await until(lambda: _all_available(fleet), "the cluster being available")
    finally:
        administrator.cancel()
    after = await fleet.stored()
    clusters = (await fleet.hub.admin.list(MANAGED_CLUSTERS)).items
    requests = (await fleet.hub.admin.list(SIGNING_REQUESTS)).items
    assert len(clusters) == 1
    assert len(requests) == 1
    assert after["cluster-name"].decode() == clusters[0]["metadata"]["name"]
    assert before.get("agent-name", after["agent-name"]) == after["agent-name"]
    assert set(after) == {"cluster-name", "agent-name", "kubeconfig", "tls.crt", "tls.key"}
    assert await fleet.pending() == {}


async def _peace() -> None:
    return None


async def _all_available(fleet: Fleet) -> bool:
    clusters = (await fleet.hub.admin.list(MANAGED_CLUSTERS)).items
    return bool(clusters) and all([await fleet.hub.available(cluster["metadata"]["name"]) for cluster in clusters])


async def _struck_or_available(death: Death, fleet: Fleet) -> bool:
    return death.struck.is_set() or await _all_available(fleet)
