"""The hub is told how addons are by their leases: to the second, and at the price of watches alone."""

import pytest

from muster.runtime.client.builtin import LEASES
from tests.unit.registration.agent.addon_fleet import NAMESPACE, AddonFleet, custom, kube_client
from tests.unit.registration.agent.conftest import Fleet, until

UPDATED = "True/ManagedClusterAddOnLeaseUpdated"
STOPPED = "False/ManagedClusterAddOnLeaseUpdateStopped"
NOT_FOUND = "Unknown/ManagedClusterAddOnLeaseNotFound"


@pytest.fixture
async def addons(fleet: Fleet) -> AddonFleet:
    return AddonFleet(fleet)


async def available(addons: AddonFleet, verdict: str, addon: str = "work") -> None:
    async def is_said() -> bool:
        return await addons.verdict(addon, "Available") == verdict

    await until(is_said, f"{addon} being {verdict}")


async def test_an_addon_is_what_its_lease_says(addons: AddonFleet) -> None:
    async with addons.joined():
        await addons.enable("work")
        await available(addons, NOT_FOUND)
        assert (await addons.said("work", "Available"))["message"] == "The status of work add-on is unknown."
        await addons.renew("work")
        await available(addons, UPDATED)
        assert (await addons.said("work", "Available"))["message"] == "work add-on is available."
        await addons.fleet.advance(299)
        assert await addons.verdict("work", "Available") == UPDATED
        await addons.fleet.advance(2, step=1)
        await available(addons, STOPPED)
        assert (await addons.said("work", "Available"))["message"] == "work add-on is not available."
        await addons.renew("work")
        await available(addons, UPDATED)
        await addons.fleet.admin.delete(LEASES, "work", NAMESPACE)
        await available(addons, NOT_FOUND)


async def test_a_renewal_counts_from_its_own_time(addons: AddonFleet) -> None:
    async with addons.joined():
        await addons.enable("work")
        await addons.renew("work")
        await available(addons, UPDATED)
        await addons.fleet.advance(200)
        await addons.renew("work")
        await addons.fleet.advance(299)
        assert await addons.verdict("work", "Available") == UPDATED
        await addons.fleet.advance(2, step=1)
        await available(addons, STOPPED)


async def test_a_lease_without_a_time_harms_nobody(addons: AddonFleet) -> None:
    """Defect 29 of OCM's agent."""
    async with addons.joined():
        await addons.enable("work")
        await addons.enable("other")
        await addons.fleet.admin.create(LEASES, {"metadata": {"name": "work", "namespace": NAMESPACE}})
        await available(addons, STOPPED)
        await addons.renew("other")
        await available(addons, UPDATED, "other")


async def test_only_addons_that_are_judged_by_their_lease_are(addons: AddonFleet) -> None:
    async with addons.joined():
        await addons.enable("customized", healthCheck={"mode": "Customized"})
        await addons.enable("work")
        await addons.renew("work")
        await addons.renew("customized")
        await available(addons, UPDATED)
        assert await addons.verdict("customized", "Available") == ""


async def test_leases_of_a_namespace_without_the_label_are_not_looked_for(addons: AddonFleet) -> None:
    async with addons.joined():
        await addons.enable("work", namespace="late")
        await available(addons, NOT_FOUND)
        message = (await addons.said("work", "Available"))["message"]
        assert "kubectl label namespace late addon.open-cluster-management.io/namespace=true" in message
        await addons.add_namespace("late")
        await addons.renew("work", namespace="late")
        await available(addons, UPDATED)


async def test_while_the_hub_takes_the_cluster_for_lost_it_has_the_word(addons: AddonFleet) -> None:
    async with addons.joined():
        await addons.enable("work")
        await addons.renew("work")
        await available(addons, UPDATED)
        addons.hub.cut.set()
        condition = {"type": "Available", "status": "Unknown", "reason": "ManagedClusterLeaseUpdateStopped", "message": "m"}
        dated = {**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await addons.hub.set_condition("ManagedClusterConditionAvailable", "Unknown", "ManagedClusterLeaseUpdateStopped")
        await addons.set_status("work", conditions=[dated])
        addons.hub.cut.clear()

        async def both() -> bool:
            await addons.fleet.advance(5, step=1)
            return await addons.hub.available() and await addons.verdict("work", "Available") == UPDATED

        await until(both, "the cluster being available, and the addon")


async def test_two_hundred_leases_at_rest_cost_no_more_than_five_requests_a_minute(addons: AddonFleet) -> None:
    """Defect 30 of OCM's agent, which asks four hundred times."""
    number = 200
    async with addons.joined():
        for index in range(number):
            await addons.enable(f"addon{index}")
            await addons.renew(f"addon{index}")
        for index in range(number):
            await available(addons, UPDATED, f"addon{index}")
        addons.fleet.spoke.requests.clear()
        addons.hub.requests.clear()
        for _ in range(2):
            await addons.fleet.advance(150, step=50)
            for index in range(number):
                await addons.renew(f"addon{index}")
        asked = [one for one in (*addons.fleet.spoke.requests, *addons.hub.requests) if _of_addons(one[1])]
        assert len(asked) <= 25
        assert await addons.verdict("addon0", "Available") == UPDATED


def _of_addons(path: str) -> bool:
    own_lease = path.endswith("leases/managed-cluster-lease")
    return not own_lease and any(part in path for part in ("leases", "managedclusteraddons", "secrets", "namespaces"))


async def test_an_addon_that_is_well_is_written_few_times(addons: AddonFleet) -> None:
    async with addons.joined(), addons.managed():
        await addons.enable("work", kube_client("work"), custom())
        await addons.renew("work")
        await available(addons, UPDATED)
        await addons.certificate("work-hub-kubeconfig")
        await until(lambda: _rotated(addons), "the certificate in the status")
        assert addons.hub.count("PATCH", "managedclusteraddons/work/status") <= 5


async def _rotated(addons: AddonFleet) -> bool:
    return await addons.verdict("work", "ClusterCertificateRotated") == "True/ClientCertificateUpdated"
