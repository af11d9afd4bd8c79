"""Templates of the managed cluster in versions, subscription and operatorGroup."""

from __future__ import annotations

from typing import Any

from muster.policy.names import DISABLE_TEMPLATES_ANNOTATION
from muster.policy.operators.kinds import OPERATOR_GROUPS
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, SECRETS
from tests.support.operator_site import OPERATORS, QUAY, OperatorSite, operator_policy, subscription

FIRST, SECOND = QUAY.channels[QUAY.default_channel]


def _from_settings(key: str) -> str:
    return f'{{{{ fromConfigMap "{OPERATORS}" "settings" "{key}" }}}}'


async def _set(site: OperatorSite, **data: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": OPERATORS}, "data": data}
    await site.spoke.apply(CONFIG_MAPS, body, manager="test")


async def test_a_change_of_what_templates_read_is_followed(site: OperatorSite) -> None:
    await _set(site, first=FIRST, group="one", versions=FIRST)
    await site.create(
        operator_policy(
            "quay",
            subscription=subscription(startingCSV=_from_settings("first")),
            operatorGroup={"name": "own", "targetNamespaces": [_from_settings("group")]},
            versions=[_from_settings("versions")],
            upgradeApproval="Automatic",
        )
    )
    async with site.controller():
        await site.reported("quay", "Compliant", f"but approval for [{SECOND}] is required")
        await _set(site, first=FIRST, group="two", versions=f"{FIRST},{SECOND}")
        await site.reported("quay", "Compliant", f"({SECOND})")
        (group,) = await site.groups()
        assert group["spec"]["targetNamespaces"] == ["two"]


async def test_a_template_that_fails_is_resolved_once_it_can_be(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", subscription=subscription(channel=_from_settings("channel"))))
    async with site.controller() as life:
        problem = 'configmaps "settings" not found'
        await site.reported("quay", "NonCompliant", problem)
        await site.at_rest(life)
        await _set(site, channel=QUAY.default_channel)
        await site.reported("quay", "Compliant", "CatalogSource was found")


async def test_a_template_that_fails_later_drops_no_watch(site: OperatorSite) -> None:
    await _set(site, channel=QUAY.default_channel)
    await site.create(operator_policy("quay", subscription=subscription(channel=_from_settings("channel"))))
    async with site.controller() as life:
        await site.reported("quay", "Compliant", "CatalogSource was found")
        await site.at_rest(life)
        watches = site.selections.watches
        await site.spoke.delete(CONFIG_MAPS, "settings", OPERATORS)
        await site.reported("quay", "NonCompliant", "not found")
        await site.at_rest(life)
        assert site.selections.watches == watches
        assert await site.subscription() is not None


async def test_functions_of_the_denylist_are_refused(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", subscription=subscription(channel='{{ getHostByName "localhost" }}')))
    async with site.controller(denylist=frozenset(("getHostByName",))):
        await site.reported("quay", "NonCompliant", "use of denylisted template function: function 'getHostByName' is not allowed")


async def test_templates_that_are_disabled_are_text(site: OperatorSite) -> None:
    policy = operator_policy("quay", subscription=subscription(namespace="{{ nothing }}"))
    policy["metadata"]["annotations"] = {DISABLE_TEMPLATES_ANNOTATION: "true"}
    await site.create(policy)
    async with site.controller():
        expected = "the namespace '{{ nothing }}' used for the subscription is not a valid namespace identifier"
        await site.reported("quay", "NonCompliant", expected)


async def test_what_comes_from_a_secret_is_not_told(site: OperatorSite) -> None:
    secret: Any = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"ns": "Hunter2!"}}
    await site.spoke.create(SECRETS, secret, OPERATORS)
    template = f'{{{{ fromSecret "{OPERATORS}" "s" "ns" | base64dec }}}}'
    await site.create(operator_policy("quay", subscription=subscription(namespace=template)))
    async with site.controller():
        status = await site.reported("quay", "NonCompliant", "is not a valid namespace identifier")
    assert "Hunter2" not in str(status)


async def test_a_kind_that_a_template_needs_is_waited_for(site: OperatorSite) -> None:
    lookup = '{{ (lookup "example.com/v1" "Widget" "" "w").spec.channel }}'
    await site.create(operator_policy("quay", subscription=subscription(channel=lookup)))
    async with site.controller() as life:
        await site.reported("quay", "NonCompliant", "one or more API resources are not installed on the API server")
        await site.at_rest(life)
        await site.spoke.create(*_widgets())
        await site.reported("quay", "NonCompliant", "constraints not satisfiable", moving=0.2)
    assert await site.object(OPERATOR_GROUPS, "own") is None


def _widgets() -> tuple[Any, Any]:
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "names": names, "scope": "Cluster", "versions": [version]}
    metadata = {"name": "widgets.example.com"}
    return CRDS, {"apiVersion": CRDS.api_version, "kind": CRDS.kind, "metadata": metadata, "spec": spec}
