"""Several enforced policies for one Subscription: all say so, and none does anything."""

from __future__ import annotations

from muster.policy.operators.kinds import SUBSCRIPTIONS
from tests.support.operator_site import CLUSTER, OPERATORS, POLICIES, QUAY, OperatorSite, operator_policy

OVERLAP = "the specified operator is managed by multiple enforced policies (first.cluster1, second.cluster1)"


async def test_policies_for_one_subscription_name_each_other_until_one_goes(site: OperatorSite) -> None:
    await site.create(operator_policy("first"))
    async with site.controller():
        await site.reported("first", "Compliant", "CatalogSource was found")
        await site.create(operator_policy("second"))
        for name in ("first", "second"):
            status = await site.reported(name, "NonCompliant", OVERLAP)
            assert status["overlappingPolicies"] == ["first.cluster1", "second.cluster1"]
        await site.spoke.delete(POLICIES, "second", CLUSTER)
        status = await site.reported("first", "Compliant", "CatalogSource was found")
        assert "overlappingPolicies" not in status


async def test_a_policy_that_informs_is_in_nobodys_way(site: OperatorSite) -> None:
    await site.create(operator_policy("first"))
    await site.create(operator_policy("second", remediationAction="inform"))
    async with site.controller():
        await site.reported("first", "Compliant", "CatalogSource was found")
        await site.reported("second", "Compliant", "CatalogSource was found")
        await site.change("second", remediationAction="enforce")
        await site.reported("first", "NonCompliant", OVERLAP)
        await site.reported("second", "NonCompliant", OVERLAP)
        await site.change("second", remediationAction="inform")
        await site.reported("first", "Compliant", "CatalogSource was found")
        await site.reported("second", "Compliant", "CatalogSource was found")


async def test_overlapping_policies_leave_what_they_share_alone(site: OperatorSite) -> None:
    await site.create(operator_policy("first", upgradeApproval="Automatic"))
    await site.create(operator_policy("second"))
    async with site.controller() as life:
        for name in ("first", "second"):
            await site.reported(name, "NonCompliant", OVERLAP)
        await site.at_rest(life)
        before = len(life.writes)
        if await site.subscription() is not None:
            await site.spoke.patch(SUBSCRIPTIONS, QUAY.name, {"spec": {"channel": "changed"}}, OPERATORS)
        await site.at_rest(life)
        assert life.writes[before:] == []
