"""Operators that must not be there: what is removed, what is kept, and what is said meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from muster.machinery.objects import GVR
from muster.policy.operators.kinds import CSVS, OPERATOR_GROUPS, SUBSCRIPTIONS
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS
from tests.support.operator_site import OPERATORS, QUAY, OperatorSite, operator_policy, subscription
from tests.support.scripted_olm import widgets

VERSION = QUAY.channels[QUAY.default_channel][-1]
ALL = {
    "operatorGroups": "DeleteIfUnused",
    "subscriptions": "Delete",
    "clusterServiceVersions": "Delete",
    "customResourceDefinitions": "Delete",
}
KEPT = dict.fromkeys(ALL, "Keep")


async def _install(site: OperatorSite) -> None:
    await site.create(operator_policy("quay"))
    await site.reported("quay", "Compliant", f"({VERSION})")


async def _remove(site: OperatorSite, **spec: Any) -> None:
    site.olm_acts = False
    await site.change("quay", complianceType="mustnothave", **spec)


async def _left(site: OperatorSite) -> set[str]:
    looked_for: dict[str, tuple[GVR, str, str]] = {
        "subscriptions": (SUBSCRIPTIONS, QUAY.name, OPERATORS),
        "clusterServiceVersions": (CSVS, VERSION, OPERATORS),
        "customResourceDefinitions": (CRDS, str(widgets(QUAY.name)), ""),
    }
    found = {field for field, (resource, name, namespace) in looked_for.items() if await site.object(resource, name, namespace)}
    return found | ({"operatorGroups"} if await site.groups() else set())


async def test_an_operator_is_removed_but_for_its_kinds(site: OperatorSite) -> None:
    async with site.controller() as life:
        await _install(site)
        await _remove(site)
        status = await site.reported(
            "quay",
            "Compliant",
            "Compliant; the policy spec is valid, the OperatorGroup is not present, the Subscription is not present, there are no "
            "relevant InstallPlans in the namespace, the ClusterServiceVersion is not present, the policy specifies to keep the "
            "CustomResourceDefinition, MustNotHave policies ignore kind Deployment, MustNotHave policies ignore kind CatalogSource",
        )
        await site.at_rest(life)
    assert await _left(site) == {"customResourceDefinitions"}
    said = [one["message"] for one in status["history"]]
    assert any("the Subscription was deleted" in message for message in said)
    assert any(f"the ClusterServiceVersion ({VERSION}) was deleted" in message for message in said)
    assert any(f"the ClusterServiceVersion ({VERSION}) is present" in message for message in said)


@pytest.mark.parametrize("behavior", list(ALL))
async def test_each_kind_is_kept_by_a_policy_that_says_so(site: OperatorSite, behavior: str) -> None:
    async with site.controller() as life:
        await _install(site)
        await _remove(site, removalBehavior={**ALL, behavior: "Keep"})
        await site.reported("quay", "Compliant", "MustNotHave policies ignore kind CatalogSource")
        await site.at_rest(life)
    kept = {behavior}
    # A Subscription that stays keeps nothing else: its own group goes all the same.
    assert await _left(site) == kept


@pytest.mark.parametrize("behavior", list(ALL))
async def test_each_kind_is_removed_by_a_policy_that_says_so(site: OperatorSite, behavior: str) -> None:
    async with site.controller() as life:
        await _install(site)
        await _remove(site, removalBehavior={**KEPT, behavior: ALL[behavior]})
        await site.reported("quay", "Compliant", "MustNotHave policies ignore kind CatalogSource")
        await site.at_rest(life)
    assert await _left(site) == set(ALL) - {behavior}


async def test_what_is_kept_is_said_to_be_left_over(site: OperatorSite) -> None:
    async with site.controller():
        await _install(site)
        await _remove(site, removalBehavior=KEPT)
        await site.reported("quay", "Compliant", "the policy specifies to keep the Subscription")
    (related,) = await site.related("quay", "Subscription")
    assert related["reason"] == "The Subscription is attached to a mustnothave policy, but does not need to be removed"
    assert not related.get("compliant")


async def test_a_policy_that_informs_says_what_would_be_removed(site: OperatorSite) -> None:
    async with site.controller() as life:
        await _install(site)
        await _remove(site, remediationAction="inform", removalBehavior=ALL)
        await site.reported(
            "quay",
            "NonCompliant",
            "the OperatorGroup is present, the Subscription is present, MustNotHave policies ignore kind InstallPlan, the "
            f"ClusterServiceVersion ({VERSION}) is present, the CustomResourceDefinition is present",
        )
        await site.at_rest(life)
    assert await _left(site) == set(ALL)
    assert {related["reason"] for related in await site.related("quay", "Deployment")} == {
        "Resource found but will not be handled in mustnothave mode"
    }


async def test_an_operator_group_stays_while_another_subscription_uses_it(site: OperatorSite) -> None:
    async with site.controller() as life:
        await _install(site)
        other = {"apiVersion": SUBSCRIPTIONS.api_version, "kind": "Subscription", "metadata": {"name": "other"}}
        await site.spoke.create(SUBSCRIPTIONS, {**other, "spec": subscription(name="other", namespace=None)}, OPERATORS)
        await _remove(site)
        await site.reported("quay", "Compliant", "the policy specifies to keep the OperatorGroup")
        await site.at_rest(life)
        assert "operatorGroups" in await _left(site)
        await site.spoke.delete(SUBSCRIPTIONS, "other", OPERATORS)
        await site.reported("quay", "Compliant", "the OperatorGroup is not present")


async def test_an_operator_group_that_somebody_owns_stays(site: OperatorSite) -> None:
    async with site.controller() as life:
        await _install(site)
        (group,) = await site.groups()
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
        uid = (await site.spoke.create(CONFIG_MAPS, body, OPERATORS))["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        changes = {"metadata": {"ownerReferences": [owner]}}
        await site.spoke.patch(OPERATOR_GROUPS, group["metadata"]["name"], changes, OPERATORS)
        await _remove(site)
        await site.reported("quay", "Compliant", "the policy specifies to keep the OperatorGroup")
        await site.at_rest(life)
    assert "operatorGroups" in await _left(site)


@pytest.mark.parametrize(
    ("resource", "name", "words"),
    [
        (SUBSCRIPTIONS, QUAY.name, "the Subscription has a deletion timestamp"),
        (CSVS, VERSION, f"the ClusterServiceVersion ({VERSION}) has a deletion timestamp"),
    ],
)
async def test_what_does_not_go_yet_is_waited_for(site: OperatorSite, resource: GVR, name: str, words: str) -> None:
    async with site.controller() as life:
        await _install(site)
        await site.spoke.patch(resource, name, {"metadata": {"finalizers": ["example.com/hold"]}}, OPERATORS)
        await _remove(site)
        status = await site.reported("quay", "NonCompliant", words)
        await site.at_rest(life)
        assert (await site.status("quay"))["history"] == status["history"]
        await site.spoke.patch(resource, name, {"metadata": {"finalizers": None}}, OPERATORS)
        await site.reported("quay", "Compliant", "is not present")


async def test_what_was_never_there_is_compliant(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", complianceType="mustnothave"))
    async with site.controller() as life:
        await site.reported("quay", "Compliant", "the Subscription is not present")
        await site.at_rest(life)
    assert {path.rpartition("/")[2] for _, path in life.writes} == {"status"}
