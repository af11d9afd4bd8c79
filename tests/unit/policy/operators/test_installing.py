"""Operators that must be there: installed, kept and reported on."""

from __future__ import annotations

from typing import Any

from muster.policy.operators.kinds import CSVS, MANAGED_KEY, OPERATOR_GROUPS, SUBSCRIPTIONS
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from tests.support.operator_site import CLUSTER, OPERATORS, POLICIES, QUAY, OperatorSite, operator_policy, subscription

INSTALLED = (
    "Compliant; the policy spec is valid, the OperatorGroup matches what is required by the policy, the Subscription matches what "
    "is required by the policy, no InstallPlans requiring approval were found, ClusterServiceVersion (quay-operator.v3.10.1) - "
    "install strategy completed with no errors, there are CRDs present for the operator, all operator Deployments have their "
    "minimum availability, CatalogSource was found"
)


async def test_an_enforced_policy_installs_its_operator(site: OperatorSite) -> None:
    await site.create(operator_policy("quay"))
    async with site.controller():
        status = await site.reported("quay", "Compliant", INSTALLED)
    assert status["observedGeneration"] == 1
    assert status["resolvedSubscriptionLabel"] == f"{QUAY.name}.{OPERATORS}"
    found = await site.subscription()
    assert found is not None
    assert found["spec"]["installPlanApproval"] == "Manual"
    assert found["metadata"]["labels"] == {MANAGED_KEY: ""}
    assert found["metadata"]["annotations"] == {MANAGED_KEY: f"{CLUSTER}.quay"}
    (group,) = await site.groups()
    assert group["metadata"]["name"].startswith(f"{OPERATORS}-")
    assert await site.object(CSVS, QUAY.channels[QUAY.default_channel][-1]) is not None


async def test_related_objects_say_what_the_policy_created(site: OperatorSite) -> None:
    await site.create(operator_policy("quay"))
    async with site.controller():
        status = await site.reported("quay", "Compliant", INSTALLED)
    related = {one["object"]["kind"]: one for one in status["relatedObjects"]}
    assert [one["object"]["kind"] for one in status["relatedObjects"]] == sorted(related)
    assert {kind: one["compliant"] for kind, one in related.items()} == dict.fromkeys(related, "Compliant")
    assert related["Subscription"]["properties"]["createdByPolicy"] is True
    assert related["OperatorGroup"]["properties"]["createdByPolicy"] is True
    assert related["InstallPlan"]["reason"] == "The InstallPlan is Complete"
    assert related["ClusterServiceVersion"]["reason"] == "InstallSucceeded"
    assert related["Deployment"]["reason"] == "Deployment Available"
    assert "createdByPolicy" not in related["ClusterServiceVersion"]["properties"]


async def test_the_owner_and_the_history_are_told_what_was_so_before_something_was_created(site: OperatorSite) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "parent", "namespace": CLUSTER}}
    parent = await site.spoke.create(CONFIG_MAPS, owner, CLUSTER)
    policy = operator_policy("quay")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": parent["metadata"]["uid"]}
    policy["metadata"]["ownerReferences"] = [reference]
    await site.create(policy)
    async with site.controller():
        status = await site.reported("quay", "Compliant", INSTALLED)
    messages = await site.messages("parent")
    assert messages[0] == "NonCompliant; the policy spec is valid, the OperatorGroup required by the policy was not found"
    assert messages[1] == (
        "NonCompliant; the policy spec is valid, the OperatorGroup required by the policy was created, the Subscription required "
        "by the policy was not found"
    )
    assert messages[-1] == INSTALLED
    assert [one["message"] for one in status["history"]] == messages[::-1][:10]


async def test_a_policy_that_informs_changes_nothing(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", remediationAction="inform"))
    async with site.controller() as life:
        await site.reported("quay", "NonCompliant", "the Subscription required by the policy was not found")
        await site.at_rest(life)
    assert await site.groups() == []
    assert await site.subscription() is None
    assert {path.rpartition("/")[2] for _, path in life.writes} == {"status"}


async def test_at_rest_nothing_is_asked(site: OperatorSite) -> None:
    await site.create(operator_policy("quay"))
    async with site.controller() as life:
        await site.reported("quay", "Compliant", INSTALLED)
        await site.at_rest(life, 60.0)
        before = len(life.asked)
        for _ in range(600):
            await site.clock.advance(1.0)
        assert life.asked[before:] == []


async def test_a_change_that_matters_to_nobody_writes_nothing(site: OperatorSite) -> None:
    await site.create(operator_policy("quay"))
    async with site.controller() as life:
        await site.reported("quay", "Compliant", INSTALLED)
        await site.at_rest(life)
        before, asked = len(life.writes), len(life.asked)
        await site.spoke.patch(SUBSCRIPTIONS, QUAY.name, {"metadata": {"labels": {"mine": "too"}}}, OPERATORS)

        async def looked() -> bool:
            return len(life.asked) > asked

        await site.until(looked, "another evaluation")
        await site.at_rest(life)
        assert life.writes[before:] == []


async def test_drift_of_a_subscription_is_set_right(site: OperatorSite) -> None:
    wanted = subscription(config={"env": [{"name": "A", "value": "1"}]})
    await site.create(operator_policy("quay", subscription=wanted))
    async with site.controller():
        await site.reported("quay", "Compliant", INSTALLED)
        applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
        changes = {"metadata": {"annotations": applied}, "spec": {"config": {"env": [{"name": "B", "value": "2"}]}}}
        await site.spoke.patch(SUBSCRIPTIONS, QUAY.name, changes, OPERATORS)

        async def restored() -> Any:
            found = await site.subscription()
            return found if found and found["spec"]["config"] == wanted["config"] else None

        found = await site.until(restored, "the configuration to be back")
        assert found["metadata"]["annotations"].items() >= applied.items()
        status = await site.reported("quay", "Compliant", INSTALLED)
    said = [one["message"] for one in status["history"]]
    assert any("the Subscription found on the cluster does not match the policy" in message for message in said)
    assert any("the Subscription was updated to match the policy" in message for message in said)


async def test_informing_does_not_mind_who_approves_upgrades(site: OperatorSite) -> None:
    spec = {**subscription(namespace=None), "installPlanApproval": "Automatic"}
    body = {"apiVersion": SUBSCRIPTIONS.api_version, "kind": "Subscription", "metadata": {"name": QUAY.name}, "spec": spec}
    await site.spoke.create(SUBSCRIPTIONS, body, OPERATORS)
    await site.create(operator_policy("quay", remediationAction="inform"))
    async with site.controller():
        await site.reported("quay", "NonCompliant", "the Subscription matches what is required by the policy")


def _group(name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": OPERATORS}
    return {"apiVersion": OPERATOR_GROUPS.api_version, "kind": "OperatorGroup", "metadata": metadata, "spec": spec}


async def test_the_operator_group_of_the_policy_is_created_and_kept_exactly(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", operatorGroup={"name": "own", "targetNamespaces": ["a", "b"]}))
    async with site.controller():
        await site.reported("quay", "Compliant", INSTALLED)
        await site.spoke.patch(OPERATOR_GROUPS, "own", {"spec": {"targetNamespaces": ["b", "c", "a"]}}, OPERATORS)

        async def restored() -> Any:
            (group,) = await site.groups()
            return sorted(group["spec"]["targetNamespaces"]) == ["a", "b"]

        await site.until(restored, "the target namespaces to be as the policy has them")
        await site.reported("quay", "Compliant", INSTALLED)


async def test_an_operator_group_of_another_name_is_never_replaced(site: OperatorSite) -> None:
    await site.spoke.create(OPERATOR_GROUPS, _group("theirs"), OPERATORS)
    await site.create(operator_policy("quay", operatorGroup={"name": "own"}))
    async with site.controller() as life:
        await site.reported("quay", "NonCompliant", "the OperatorGroup found on the cluster does not match the policy")
        await site.at_rest(life)
    assert [group["metadata"]["name"] for group in await site.groups()] == ["theirs"]
    assert await site.subscription() is None
    assert [one["reason"] for one in await site.related("quay", "OperatorGroup")] == [
        "Resource not found but should exist",
        "Resource found but does not match",
    ]


async def test_whichever_operator_group_exists_is_good_for_a_policy_that_names_none(site: OperatorSite) -> None:
    await site.spoke.create(OPERATOR_GROUPS, _group("theirs", targetNamespaces=["a"]), OPERATORS)
    await site.create(operator_policy("quay"))
    async with site.controller():
        await site.reported("quay", "Compliant", "assuming that OperatorGroup is correct")
    assert len(await site.groups()) == 1


async def test_two_operator_groups_are_one_too_many(site: OperatorSite) -> None:
    for name in ("one", "two"):
        await site.spoke.create(OPERATOR_GROUPS, _group(name), OPERATORS)
    await site.create(operator_policy("quay"))
    async with site.controller():
        await site.reported("quay", "NonCompliant", "there is more than one OperatorGroup in the namespace")
        assert await site.subscription() is None
        await site.spoke.delete(OPERATOR_GROUPS, "two", OPERATORS)
        await site.reported("quay", "Compliant", "assuming that OperatorGroup is correct")


async def test_a_missing_namespace_is_told_and_made_by_a_policy_that_enforces(site: OperatorSite) -> None:
    elsewhere = subscription(namespace="elsewhere")
    await site.create(operator_policy("quay", remediationAction="inform", subscription=elsewhere))
    async with site.controller():
        expected = "NonCompliant; the operator namespace ('elsewhere') does not exist, the OperatorGroup required by the policy"
        await site.reported("quay", "NonCompliant", expected)
        await site.change("quay", remediationAction="enforce")
        await site.reported("quay", "Compliant", "the policy spec is valid")
    assert await site.object(NAMESPACES, "elsewhere", "") is not None


async def test_a_status_that_was_reset_is_written_again(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", remediationAction="inform"))
    async with site.controller() as life:
        await site.reported("quay", "NonCompliant")
        await site.at_rest(life)
        await site.spoke.patch(POLICIES, "quay", {"status": {"compliant": None}}, CLUSTER, subresource="status")
        await site.reported("quay", "NonCompliant")


async def test_a_policy_that_is_gone_is_forgotten(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", remediationAction="inform", severity="high"))
    async with site.controller():
        await site.reported("quay", "NonCompliant")
        assert site.selections.watches > 0
        assert b'policy="quay"' in site.metrics.render()
        await site.spoke.delete(POLICIES, "quay", CLUSTER)

        async def forgotten() -> bool:
            return site.selections.watches == 0

        await site.until(forgotten, "no watch to be left", moving=1.0)
        assert b'policy="quay"' not in site.metrics.render()
