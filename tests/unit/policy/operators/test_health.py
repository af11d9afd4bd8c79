"""Operators that are installed and not well, and catalogs that are not: what a policy says, and whether it counts."""

from __future__ import annotations

from typing import Any

import pytest

from muster.policy.operators.kinds import CATALOG_SOURCES, SUBSCRIPTIONS
from tests.support.operator_site import OPERATORS, POLICIES, QUAY, OperatorSite, operator_policy, subscription
from tests.support.scripted_olm import CATALOG, CATALOG_NAMESPACE, Package

CHANNEL = QUAY.default_channel
VERSION = QUAY.channels[CHANNEL][-1]


async def test_a_version_that_fails_is_noncompliant_until_it_succeeds(site: OperatorSite) -> None:
    site.olm.failing.add(VERSION)
    await site.create(operator_policy("quay"))
    async with site.controller():
        await site.reported("quay", "NonCompliant", f"ClusterServiceVersion ({VERSION}) - installing: deployment changed old hash")
        assert (await site.condition("quay", "ClusterServiceVersionCompliant"))["reason"] == "ComponentUnhealthy"
        site.olm.failing.clear()
        await site.reported("quay", "Compliant", f"ClusterServiceVersion ({VERSION}) - install strategy completed with no errors")


@pytest.mark.parametrize("counts", ["NonCompliant", "Compliant"])
async def test_deployments_that_are_unavailable_count_as_the_policy_says(site: OperatorSite, counts: str) -> None:
    site.olm.unavailable.add("quay-operator-controller")
    await site.create(operator_policy("quay", complianceConfig={"deploymentsUnavailable": counts}))
    async with site.controller():
        await site.reported("quay", counts, "the deployments quay-operator-controller do not have their minimum availability")
        (related,) = await site.related("quay", "Deployment")
        assert related["compliant"] == counts
        assert related["reason"].startswith("Deployment Unavailable")
        site.olm.unavailable.clear()
        await site.reported("quay", "Compliant", "all operator Deployments have their minimum availability")


@pytest.mark.parametrize("counts", ["NonCompliant", "Compliant"])
async def test_a_catalog_that_is_unhealthy_counts_as_the_policy_says(site: OperatorSite, counts: str) -> None:
    await site.create(operator_policy("quay", complianceConfig={"catalogSourceUnhealthy": counts}))
    async with site.controller():
        await site.reported("quay", "Compliant", "CatalogSource was found")
        site.olm_acts = False
        await site.olm.set_catalog_state("TRANSIENT_FAILURE")
        await site.reported("quay", counts, "CatalogSource was found but is unhealthy")
        assert [one["reason"] for one in await site.related("quay", "CatalogSource")] == [
            "Resource found as expected but is unhealthy"
        ]


async def test_a_catalog_that_is_missing_leaves_the_subscription_unresolved(site: OperatorSite) -> None:
    await site.spoke.delete(CATALOG_SOURCES, CATALOG, CATALOG_NAMESPACE)
    await site.create(operator_policy("quay"))
    async with site.controller():
        await site.reported(
            "quay",
            "NonCompliant",
            "constraints not satisfiable: refer to the Subscription for more details, there are no relevant InstallPlans in the "
            "namespace, the ClusterServiceVersion required by the policy was not found, no CRDs were found for the operator, there "
            "are no relevant deployments because the ClusterServiceVersion is missing, CatalogSource 'catalog' was not found",
        )
        assert (await site.related("quay", "Subscription"))[0]["reason"] == "ConstraintsNotSatisfiable"
        await site.olm.prepare()
        await site.reported("quay", "Compliant", "CatalogSource was found")


async def test_a_catalog_whose_state_is_unknown_is_told_apart(site: OperatorSite) -> None:
    await site.create(operator_policy("quay"))
    async with site.controller():
        await site.reported("quay", "Compliant", "CatalogSource was found")
        site.olm_acts = False
        await site.olm.set_catalog_state("")
        await site.reported("quay", "NonCompliant", "minimum availability")
        assert (await site.condition("quay", "CatalogSourcesUnknownState"))["status"] == "True"
        assert await site.condition("quay", "CatalogSourcesUnhealthy") == {}
        await site.olm.set_catalog_state("READY")
        await site.reported("quay", "Compliant", "CatalogSource was found")
        assert await site.condition("quay", "CatalogSourcesUnknownState") == {}


@pytest.mark.parametrize(
    ("deprecations", "message"),
    [
        ({"deprecated": "Use another."}, "the requested quay-operator Package was deprecated. Use another."),
        ({"deprecated_channels": {CHANNEL: "Old."}}, "the requested stable-3.10 Channel was deprecated. Old."),
        ({"deprecated_versions": {VERSION: "Bad."}}, f"the requested {VERSION} Bundle was deprecated. Bad."),
    ],
)
@pytest.mark.parametrize("counts", ["NonCompliant", "Compliant"])
async def test_deprecations_count_as_the_policy_says(
    site: OperatorSite, deprecations: dict[str, Any], message: str, counts: str
) -> None:
    await site.olm.offer(Package(QUAY.name, QUAY.channels, **deprecations))
    await site.create(operator_policy("quay", complianceConfig={"deprecationsPresent": counts}))
    async with site.controller():
        await site.reported("quay", counts, f"({VERSION}) - install strategy completed with no errors")

        async def told() -> bool:
            return (await site.condition("quay", "NoDeprecations")).get("message") == message

        await site.until(told, "the deprecation to be told")
        summary = (await site.condition("quay", "Compliant"))["message"]
        assert (message in summary) == (counts == "NonCompliant")


@pytest.mark.parametrize("counts", ["NonCompliant", "Compliant"])
async def test_channels_of_a_later_minor_version_count_as_the_policy_says(site: OperatorSite, counts: str) -> None:
    channels = {CHANNEL: QUAY.channels[CHANNEL], "stable-3.9": ["old"], "stable-3.11": ["new"], "fast-3.12": ["fast"]}
    await site.olm.offer(Package(QUAY.name, channels))
    await site.create(
        operator_policy("quay", upgradeApproval="Automatic", complianceConfig={"minorChannelUpgradeAvailable": counts})
    )
    async with site.controller():
        message = "a newer version of the operator is available in channel(s): stable-3.11"
        await site.reported("quay", counts, f"({VERSION})")
        assert (await site.condition("quay", "MinorChannelUpgradeAvailable"))["message"] == message
        summary = (await site.condition("quay", "Compliant"))["message"]
        assert (message in summary) == (counts == "NonCompliant")


async def test_what_another_subscription_fails_with_is_not_told_of_this_one(site: OperatorSite) -> None:
    await site.create(operator_policy("quay"))
    async with site.controller() as life:
        await site.reported("quay", "Compliant", f"({VERSION})")
        body = {"apiVersion": SUBSCRIPTIONS.api_version, "kind": "Subscription", "metadata": {"name": "quay-operator-pro"}}
        await site.spoke.create(SUBSCRIPTIONS, {**body, "spec": subscription(name="unknown", namespace=None)}, OPERATORS)

        async def failed() -> bool:
            found = await site.subscription()
            return bool(found and found["status"].get("conditions"))

        await site.until(failed, "all subscriptions to fail")
        await site.at_rest(life)
        assert (await site.status("quay"))["compliant"] == "Compliant"


async def test_a_subscription_that_lost_its_version_is_pointed_to_it_after_a_while(site: OperatorSite) -> None:
    await site.create(operator_policy("quay"))
    async with site.controller() as life:
        await site.reported("quay", "Compliant", f"({VERSION})")
        site.olm_acts = False
        message = f"constraints not satisfiable: clusterserviceversion {VERSION} exists and is not referenced by a subscription, "
        message += f"subscription {QUAY.name} requires one"
        failure = {"type": "ResolutionFailed", "status": "True", "reason": "ConstraintsNotSatisfiable", "message": message}
        lost = {"status": {"currentCSV": None, "installedCSV": None, "conditions": [failure]}}
        await site.spoke.patch(SUBSCRIPTIONS, QUAY.name, lost, OPERATORS, subresource="status")
        status = await site.reported("quay", "NonCompliant", "constraints not satisfiable")
        assert status["subscriptionInterventionTime"]
        await site.clock.advance(25.0)
        assert "currentCSV" not in (await site.subscription() or {})["status"]

        async def pointed() -> bool:
            return bool((await site.subscription() or {})["status"].get("currentCSV") == VERSION)

        await site.until(pointed, "the subscription to be pointed to its version", moving=0.5)
        healed = {"status": {"installedCSV": VERSION, "conditions": []}}
        await site.spoke.patch(SUBSCRIPTIONS, QUAY.name, healed, OPERATORS, subresource="status")
        await site.reported("quay", "Compliant", f"({VERSION})")
        await site.at_rest(life)
        await site.change("quay", severity="low")

        async def over() -> bool:
            found = (await site.spoke.get(POLICIES, "quay", "cluster1"))["status"]
            return "subscriptionInterventionTime" not in found and found["observedGeneration"] == 2

        await site.until(over, "the intervention to be forgotten")
