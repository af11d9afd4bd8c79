"""What policies leave out of a Subscription comes from its package."""

from __future__ import annotations

from muster.policy.operators.kinds import PACKAGE_MANIFESTS
from tests.support.operator_site import OPERATORS, QUAY, OperatorSite, operator_policy, subscription
from tests.support.scripted_olm import CATALOG, CATALOG_NAMESPACE, Package

NAME_ONLY = {"name": QUAY.name}


async def test_channel_catalog_and_namespace_come_from_the_package(site: OperatorSite) -> None:
    await site.olm.offer(Package(QUAY.name, QUAY.channels, suggested_namespace=OPERATORS))
    await site.create(operator_policy("quay", subscription=NAME_ONLY))
    async with site.controller():
        await site.reported("quay", "Compliant", "CatalogSource was found")
    found = await site.subscription()
    assert found is not None
    spec = {"name": QUAY.name, "channel": QUAY.default_channel, "source": CATALOG, "sourceNamespace": CATALOG_NAMESPACE}
    assert found["spec"].items() >= spec.items()


async def test_without_a_suggestion_the_namespace_is_the_one_of_the_controller(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", subscription=NAME_ONLY))
    async with site.controller():
        await site.reported("quay", "NonCompliant", "namespace is required in spec.subscription")
    async with site.controller(default_namespace=OPERATORS):
        await site.reported("quay", "Compliant", "CatalogSource was found")


async def test_a_package_that_is_missing_is_waited_for(site: OperatorSite) -> None:
    await site.create(operator_policy("redis", subscription={"name": "redis", "namespace": OPERATORS}))
    async with site.controller():
        problem = "the subscription defaults could not be determined because the PackageManifest was not found"
        await site.reported("redis", "NonCompliant", f"NonCompliant; {problem}")
        await site.olm.offer(Package("redis", {"stable": ["redis.v1"]}))
        await site.reported("redis", "Compliant", "(redis.v1)", moving=1.0)


async def test_another_catalog_than_the_packages_is_a_problem(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", subscription=subscription(channel=None, source="another")))
    async with site.controller():
        await site.reported("quay", "NonCompliant", "the catalog specified in the policy does not match what was found")


async def test_without_its_package_the_subscription_that_exists_tells(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", subscription=subscription(channel=None)))
    async with site.controller():
        await site.reported("quay", "Compliant", "CatalogSource was found")
        await site.spoke.delete(PACKAGE_MANIFESTS, QUAY.name, "default")
        await site.change("quay", severity="low")

        async def evaluated() -> bool:
            return (await site.status("quay")).get("observedGeneration") == 2

        await site.until(evaluated, "another evaluation")
        await site.reported("quay", "Compliant", "the policy spec is valid")
