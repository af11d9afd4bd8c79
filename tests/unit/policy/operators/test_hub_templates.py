"""Templates of the hub in operator policies: resolved first, followed, and never written as text."""

from __future__ import annotations

import pytest

from muster.policy.names import DISABLE_TEMPLATES_ANNOTATION
from muster.policy.operators.kinds import SUBSCRIPTIONS
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES, SECRETS
from tests.support.mortal_hub import Life
from tests.support.operator_site import CLUSTER, OPERATORS, POLICIES, QUAY, OperatorSite, operator_policy, subscription

FIRST, SECOND = QUAY.channels[QUAY.default_channel]
DISABLED = "governance-standalone-hub-templating addon must be enabled to resolve hub templates"


def _from_hub(key: str) -> str:
    return f'{{{{hub fromConfigMap "shop" "settings" "{key}" hub}}}}'


async def _set(site: OperatorSite, **data: str) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    await site.hub.apply(NAMESPACES, namespace, manager="test")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"}, "data": data}
    await site.hub.apply(CONFIG_MAPS, body, manager="test")


async def test_hub_values_are_followed_without_the_policy_being_touched(site: OperatorSite) -> None:
    """A2."""
    wanted = subscription(namespace=_from_hub("namespace"))
    created = await site.create(operator_policy("quay", remediationAction="inform", subscription=wanted))
    async with site.controller(hub=site.hub):
        await site.reported("quay", "NonCompliant", "NonCompliant; failed to resolve the template")
        await _set(site, namespace="hello")
        await site.reported("quay", "NonCompliant", "NonCompliant; the operator namespace ('hello') does not exist", moving=0.5)
        await _set(site, namespace="changed")
        await site.reported("quay", "NonCompliant", "NonCompliant; the operator namespace ('changed') does not exist", moving=0.5)
    found = await site.spoke.get(POLICIES, "quay", CLUSTER)
    assert found["spec"] == created["spec"]
    assert found["metadata"]["generation"] == 1


async def test_an_operator_is_upgraded_when_the_hub_approves_its_next_version(site: OperatorSite) -> None:
    await _set(site, versions=FIRST, cluster=CLUSTER)
    where = {"name": "WHERE", "value": "{{hub .ManagedClusterName hub}}"}
    await site.create(
        operator_policy(
            "quay",
            subscription=subscription(startingCSV=FIRST, config={"env": [where]}),
            versions=[_from_hub("versions")],
            upgradeApproval="Automatic",
        )
    )
    async with site.controller(hub=site.hub):
        await site.reported("quay", "Compliant", f"but approval for [{SECOND}] is required", moving=0.2)
        found = await site.subscription()
        assert found is not None
        assert found["spec"]["config"]["env"] == [{"name": "WHERE", "value": CLUSTER}]
        await _set(site, versions=f"{FIRST},{SECOND}")
        await site.reported("quay", "Compliant", f"({SECOND})", moving=0.2)


async def test_managed_templates_see_what_the_hub_resolved(site: OperatorSite) -> None:
    await _set(site, key="channel")
    local = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "local"}, "data": {"channel": QUAY.default_channel}}
    await site.spoke.create(CONFIG_MAPS, local, OPERATORS)
    nested = f'{{{{ fromConfigMap "{OPERATORS}" "local" "{_from_hub("key")}" }}}}'.replace('\\"', '"')
    await site.create(operator_policy("quay", subscription=subscription(channel=nested)))
    async with site.controller(hub=site.hub):
        await site.reported("quay", "Compliant", "CatalogSource was found", moving=0.2)


async def test_while_the_addon_is_disabled_nothing_is_enforced(site: OperatorSite) -> None:
    """A12."""
    await _set(site, versions=SECOND)
    await site.create(operator_policy("quay", versions=[_from_hub("versions")]))
    async with site.controller() as life:
        await site.reported("quay", "NonCompliant", DISABLED)
        await site.at_rest(life)
        assert (await site.condition("quay", "ValidPolicySpec"))["status"] == "False"
        assert await site.subscription() is None
        assert await site.groups() == []
    async with site.controller(hub=site.hub):
        await site.reported("quay", "Compliant", f"({SECOND})", moving=0.2)


async def test_templates_that_are_disabled_are_text(site: OperatorSite) -> None:
    """A24."""
    policy = operator_policy("quay", subscription=subscription(namespace=_from_hub("namespace")))
    policy["metadata"]["annotations"] = {DISABLE_TEMPLATES_ANNOTATION: "true"}
    await site.create(policy)
    async with site.controller(hub=site.hub):
        expected = (
            'the namespace \'{{hub fromConfigMap "shop" "settings" "namespace" hub}}\' used for the subscription is not a valid'
        )
        await site.reported("quay", "NonCompliant", expected)


async def test_what_comes_from_a_secret_of_the_hub_is_not_told(site: OperatorSite) -> None:
    await _set(site)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"ns": "Hunter2!"}}
    await site.hub.create(SECRETS, secret, "shop")
    wanted = subscription(namespace='{{hub fromSecret "shop" "s" "ns" | base64dec hub}}')
    await site.create(operator_policy("quay", subscription=wanted))
    async with site.controller(hub=site.hub):
        status = await site.reported("quay", "NonCompliant", "is not a valid namespace identifier", moving=0.2)
    assert "Hunter2" not in str(status)


@pytest.mark.parametrize("text", ['{{ fail "KEY" }}', '{{ fromConfigMap "app" "KEY" "x" }}', '{{ KEY "x" }}'], ids=str)
async def test_what_the_hub_read_of_secrets_is_in_no_error_of_managed_templates(site: OperatorSite, text: str) -> None:
    await _set(site)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "hunter2"}}
    await site.hub.create(SECRETS, secret, "shop")
    wanted = subscription(channel=text.replace("KEY", '{{hub fromSecret "shop" "s" "key" | base64dec hub}}'))
    await site.create(operator_policy("quay", subscription=wanted))
    async with site.controller(hub=site.hub):
        status = await site.reported("quay", "NonCompliant", "the reason is not shown", moving=0.2)
    assert "hunter2" not in str(status)


async def test_while_the_hub_is_away_drift_is_set_right_with_what_it_said(site: OperatorSite) -> None:
    await _set(site, channel=QUAY.default_channel)
    await site.create(operator_policy("quay", subscription=subscription(channel=_from_hub("channel"))))
    life = Life()
    async with site.controller(hub=site.distant_hub(life)):
        await site.reported("quay", "Compliant", "CatalogSource was found", moving=0.2)
        life.over.set()
        await site.spoke.delete(SUBSCRIPTIONS, QUAY.name, OPERATORS)

        async def back() -> bool:
            return await site.subscription() is not None

        await site.until(back, "the subscription to be back")
    async with site.controller(hub=site.distant_hub(life)):
        await site.spoke.delete(SUBSCRIPTIONS, QUAY.name, OPERATORS)
        await site.until(back, "the subscription to be back after a restart", moving=0.5)
