"""An agent may die at every request that it makes for addons: the next one goes on where it was, and nothing is left over."""

import asyncio

import pytest

from tests.unit.registration.agent.addon_fleet import ADDONS, NAMESPACE, AddonFleet, custom, kube_client
from tests.unit.registration.agent.conftest import Fleet, until
from tests.unit.registration.agent.test_deaths import Death, _peace

SECRETS = ("work-hub-kubeconfig", "work-example.com-custom-client-cert")


@pytest.mark.parametrize("moment", range(1, 44, 2))
async def test_a_death_at_any_moment_costs_an_addon_nothing(fleet: Fleet, moment: int) -> None:
    addons = AddonFleet(fleet)
    async with addons.joined():
        pass
    await addons.enable("work", kube_client("work"), custom())
    async with addons.managed():
        death = Death(moment)
        fleet.hub.fate = fleet.spoke.fate = death
        async with fleet.running():
            await until(lambda: _struck_or_whole(death, addons), "death or success")
        fleet.hub.fate = fleet.spoke.fate = _peace
        async with fleet.running():
            await until(lambda: _whole(addons), "both credentials")
            await until(lambda: _rotated(addons), "the condition")
            await until(lambda: _none_pending(addons), "nothing being pending")
    assert len(await addons.requests()) == 2


async def test_fifty_kills_leave_one_request_per_registration_and_no_orphan(fleet: Fleet) -> None:
    addons, names = AddonFleet(fleet), [f"addon{index}" for index in range(20)]
    async with addons.joined():
        pass
    for name in names:
        await addons.enable(name, kube_client(name))
    for kill in range(50):
        async with fleet.running() as agent:
            await until(lambda: agent.state.phase == "serving", "serving")
            await asyncio.sleep(0.002 * kill)
    async with addons.managed(), fleet.running():
        for name in names:
            await addons.certificate(f"{name}-hub-kubeconfig")
        for name in names:
            assert len(await addons.requests(name)) == 1
        await until(lambda: _none_pending(addons), "nothing being pending")
        for name in names:
            await addons.hub.admin.delete(ADDONS, name, "c1")
        await until(lambda: _no_secrets(addons), "no orphaned Secret")


async def _struck_or_whole(death: Death, addons: AddonFleet) -> bool:
    return death.struck.is_set() or (await _whole(addons) and await _rotated(addons) and await _none_pending(addons))


async def _whole(addons: AddonFleet) -> bool:
    return all([await addons.secret(name) for name in SECRETS])


async def _rotated(addons: AddonFleet) -> bool:
    return await addons.verdict("work", "ClusterCertificateRotated") == "True/ClientCertificateUpdated"


async def _none_pending(addons: AddonFleet) -> bool:
    return not await addons.pending()


async def _no_secrets(addons: AddonFleet) -> bool:
    from muster.runtime.client.builtin import SECRETS as KIND

    return not (await addons.fleet.admin.list(KIND, NAMESPACE)).items
