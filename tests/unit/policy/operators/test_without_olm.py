"""A cluster without Operator Lifecycle Manager: templates and validation work, the rest is unknown until OLM comes."""

from __future__ import annotations

from tests.support.operator_site import OperatorSite, operator_policy, subscription
from tests.support.scripted_olm import remove_kinds

UNKNOWN = (
    "NonCompliant; the policy spec is valid, the status of the OperatorGroup could not be determined because Operator Lifecycle "
    "Manager is not installed on the cluster, the status of the Subscription could not be determined because Operator Lifecycle "
    "Manager is not installed on the cluster"
)


async def test_without_olm_that_is_said_and_nothing_is_asked_in_vain(bare_site: OperatorSite) -> None:
    site = bare_site
    site.olm_acts = False
    await site.create(operator_policy("quay"))
    async with site.controller() as life:
        await site.reported("quay", "NonCompliant", UNKNOWN)
        assert (await site.condition("quay", "SubscriptionCompliant"))["reason"] == "OLMNotInstalled"
        writes, asked = len(life.writes), len(life.asked)
        for _ in range(600):
            await site.clock.advance(1.0)
        assert life.writes[writes:] == []
        assert len(life.asked) - asked <= 30


async def test_a_policy_is_enforced_when_olm_comes(bare_site: OperatorSite) -> None:
    site = bare_site
    site.olm_acts = False
    await site.create(operator_policy("quay"))
    async with site.controller():
        await site.reported("quay", "NonCompliant", UNKNOWN)
        before = site.clock.monotonic()
        await site.install_olm()
        site.olm_acts = True
        await site.reported("quay", "Compliant", "CatalogSource was found")
        assert site.clock.monotonic() - before < 30


async def test_validation_needs_no_olm(bare_site: OperatorSite) -> None:
    site = bare_site
    site.olm_acts = False
    await site.create(operator_policy("quay", subscription=subscription(name='{{ "" }}')))
    async with site.controller():
        await site.reported("quay", "NonCompliant", "NonCompliant; name is required in spec.subscription")
    await site.create(operator_policy("elsewhere", remediationAction="inform", subscription=subscription(namespace="elsewhere")))
    async with site.controller():
        await site.reported("elsewhere", "NonCompliant", "NonCompliant; the operator namespace ('elsewhere') does not exist")


async def test_olm_that_goes_is_noticed(site: OperatorSite) -> None:
    await site.create(operator_policy("quay"))
    async with site.controller():
        await site.reported("quay", "Compliant", "CatalogSource was found")
        site.olm_acts = False
        await remove_kinds(site.spoke)
        await site.reported("quay", "NonCompliant", UNKNOWN, moving=0.5)
