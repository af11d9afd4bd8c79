"""InstallPlans: which of them a policy approves, and what it says of those that it does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.operator_site import OPERATORS, QUAY, OperatorSite, operator_policy, subscription
from tests.support.scripted_olm import Package

FIRST, SECOND = "quay-operator.v3.10.0", "quay-operator.v3.10.1"
REDIS = Package("redis-operator", {"stable": ["redis-operator.v1", "redis-operator.v2"]})
AVAILABLE = f"an InstallPlan to update to [{SECOND}] is available for approval"


async def _installed(site: OperatorSite, name: str = QUAY.name) -> str:
    found = await site.subscription(name)
    return str(((found or {}).get("status") or {}).get("installedCSV") or "")


async def test_the_first_installation_is_approved_but_an_upgrade_is_not(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", subscription=subscription(startingCSV=FIRST)))
    async with site.controller() as life:
        await site.reported("quay", "Compliant", AVAILABLE)
        await site.at_rest(life)
        assert await _installed(site) == FIRST
        (related,) = await site.related("quay", "InstallPlan")
        assert (related["compliant"], related["reason"]) == ("Compliant", "The InstallPlan is RequiresApproval")


async def test_an_upgrade_that_waits_makes_policies_noncompliant_that_say_so(site: OperatorSite) -> None:
    judged = {"upgradesAvailable": "NonCompliant"}
    await site.create(operator_policy("quay", subscription=subscription(startingCSV=FIRST), complianceConfig=judged))
    async with site.controller():
        await site.reported("quay", "NonCompliant", AVAILABLE)
        plans = await site.olm.plans(OPERATORS)
        await site.olm.approve(plans[-1])
        await site.reported("quay", "Compliant", f"({SECOND})")


async def test_upgrades_are_left_to_olm_by_a_policy_that_takes_any(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", subscription=subscription(startingCSV=FIRST), upgradeApproval="Automatic"))
    async with site.controller():
        await site.reported("quay", "Compliant", f"({SECOND})")
    found = await site.subscription()
    assert found is not None
    assert found["spec"]["installPlanApproval"] == "Automatic"


async def test_upgrades_are_approved_up_to_the_versions_of_the_policy(site: OperatorSite) -> None:
    versions = [f" {FIRST} , ", ""]
    await site.create(
        operator_policy("quay", subscription=subscription(startingCSV=FIRST), upgradeApproval="Automatic", versions=versions)
    )
    async with site.controller() as life:
        await site.reported("quay", "Compliant", f"{AVAILABLE} but approval for [{SECOND}] is required")
        await site.at_rest(life)
        assert await _installed(site) == FIRST
        await site.change("quay", versions=[f"{FIRST},{SECOND}"])
        await site.reported("quay", "Compliant", f"({SECOND}) - install strategy completed")
    found = await site.subscription()
    assert found is not None
    assert found["spec"]["installPlanApproval"] == "Manual"


async def test_a_first_installation_of_another_version_is_not_approved(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", versions=[FIRST]))
    async with site.controller() as life:
        await site.reported("quay", "NonCompliant", f"but approval for [{SECOND}] is required")
        await site.at_rest(life)
    assert await _installed(site) == ""


async def test_the_starting_version_counts_among_the_versions(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", subscription=subscription(startingCSV=FIRST), versions=["another"]))
    async with site.controller():
        await site.reported("quay", "Compliant", f"({FIRST}) - install strategy completed")


async def test_an_installed_version_that_is_not_among_the_versions_is_noncompliant(site: OperatorSite) -> None:
    await site.create(operator_policy("quay"))
    async with site.controller():
        await site.reported("quay", "Compliant", f"({SECOND})")
        await site.change("quay", versions=[FIRST])
        await site.reported("quay", "NonCompliant", f"ClusterServiceVersion ({SECOND}) is not an approved version")


async def test_what_a_version_requires_is_approved_with_it(site: OperatorSite) -> None:
    await site.olm.offer(REDIS)
    await site.olm.offer(Package(QUAY.name, QUAY.channels, requires={SECOND: [REDIS.name]}))
    await site.create(operator_policy("quay", versions=[SECOND]))
    async with site.controller():
        await site.reported("quay", "Compliant", f"({SECOND})")
    (plan,) = await site.olm.plans(OPERATORS)
    assert plan["spec"]["clusterServiceVersionNames"] == [SECOND, "redis-operator.v2"]


async def _two_operators(site: OperatorSite, **redis: Any) -> None:
    """Both Subscriptions are there before OLM makes a plan, which is for both of them then."""
    site.olm_acts = False
    await site.olm.offer(REDIS)
    await site.create(operator_policy("quay", versions=[SECOND]))
    wanted = subscription(name=REDIS.name, channel="stable")
    await site.create(operator_policy("redis", subscription=wanted, **redis))

    async def subscribed() -> Any:
        return await site.subscription() and await site.subscription(REDIS.name)

    await site.until(subscribed, "two subscriptions")
    site.olm_acts = True


@pytest.mark.parametrize("versions", [["redis-operator.v2"], [], ['{{ "redis-operator.v2" }}']])
async def test_policies_of_a_namespace_approve_a_plan_together(site: OperatorSite, versions: list[str]) -> None:
    async with site.controller():
        await _two_operators(site, versions=versions)
        await site.reported("quay", "Compliant", f"({SECOND})")
        await site.reported("redis", "Compliant", "(redis-operator.v2)")
    (plan,) = await site.olm.plans(OPERATORS)
    assert plan["spec"]["clusterServiceVersionNames"] == [SECOND, "redis-operator.v2"]


async def test_a_plan_waits_for_all_policies_that_have_something_in_it(site: OperatorSite) -> None:
    async with site.controller() as life:
        await _two_operators(site, versions=["redis-operator.v1"])
        waiting = (
            f"update to [{SECOND}, redis-operator.v2] is available for approval but approval for [redis-operator.v2] is required"
        )
        await site.reported("quay", "NonCompliant", waiting)
        await site.at_rest(life)
        assert await _installed(site) == ""
        await site.change("redis", versions=["redis-operator.v2"])
        await site.reported("quay", "Compliant", f"({SECOND})")


async def test_a_plan_that_is_installing_is_noncompliant_until_it_is_complete(site: OperatorSite) -> None:
    site.olm.stalled = True
    await site.create(operator_policy("quay"))
    async with site.controller():
        await site.reported("quay", "NonCompliant", "a relevant InstallPlan is actively installing")
        site.olm.stalled = False
        await site.reported("quay", "Compliant", "no InstallPlans requiring approval were found")


async def test_an_informing_policy_approves_nothing(site: OperatorSite) -> None:
    async with site.controller() as life:
        await site.create(operator_policy("quay", subscription=subscription(startingCSV=FIRST)))
        await site.reported("quay", "Compliant", AVAILABLE)
        await site.change("quay", remediationAction="inform", upgradeApproval="Automatic")

        async def informed() -> bool:
            return bool((await site.status("quay")).get("observedGeneration") == 2)

        await site.until(informed, "the policy to inform")
        await site.at_rest(life)
        assert await _installed(site) == FIRST
        assert (await site.condition("quay", "InstallPlanCompliant"))["message"] == AVAILABLE
