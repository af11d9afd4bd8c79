"""Policies that cannot be right: the first problem is all that is said, and nothing is done."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.operator_site import CLUSTER, OPERATORS, POLICIES, OperatorSite, operator_policy, subscription

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
INVALID: list[tuple[dict[str, Any], str]] = [
    ({"subscription": subscription(name=None)}, "name is required in spec.subscription"),
    ({"subscription": subscription(name="")}, "name is required in spec.subscription"),
    ({"subscription": subscription(name="wrong$s")}, f"the name 'wrong$s' used for the subscription is invalid: {LABEL}"),
    (
        {"subscription": subscription(namespace="Not-This")},
        "the namespace 'Not-This' used for the subscription is not a valid namespace identifier",
    ),
    (
        {"subscription": subscription(installPlanApproval="Automatic")},
        "installPlanApproval is prohibited in spec.subscription",
    ),
    (
        {"subscription": subscription(actually="incorrect")},
        'the policy spec.subscription is invalid: json: unknown field "actually"',
    ),
    (
        {"subscription": subscription(channel=4)},
        "the policy spec.subscription is invalid: json: cannot unmarshal number into Go struct field SubscriptionSpec.channel of "
        "type string",
    ),
    (
        {"subscription": subscription(config={"nodeSelector": {"a": 1}})},
        "the policy spec.subscription is invalid: json: cannot unmarshal number into Go struct field "
        "SubscriptionConfig.config.nodeSelector of type string",
    ),
    ({"operatorGroup": {"targetNamespaces": ["a"]}}, "name is required in spec.operatorGroup"),
    (
        {"operatorGroup": {"name": "own", "namespace": "other"}},
        "the namespace specified in spec.operatorGroup ('other') must match the namespace used for the subscription "
        f"('{OPERATORS}')",
    ),
    (
        {"operatorGroup": {"name": "own", "foo": "bar"}},
        'the policy spec.operatorGroup is invalid: json: unknown field "foo"',
    ),
    (
        {"versions": ["{{ nothing }}"]},
        "unable to create template resolver: could not resolve the version template: failed to parse",
    ),
    ({"subscription": subscription(channel="{{ nothing }}")}, "could not build subscription: failed to parse the template"),
    ({"operatorGroup": {"name": "{{ nothing }}"}}, "could not build operator group: failed to parse the template"),
]


@pytest.mark.parametrize(("spec", "problem"), INVALID)
async def test_an_invalid_policy_says_why_and_does_nothing(site: OperatorSite, spec: dict[str, Any], problem: str) -> None:
    await site.create(operator_policy("quay", **spec))
    async with site.controller() as life:
        await site.reported("quay", "NonCompliant", f"NonCompliant; {problem}")
        await site.at_rest(life)
    assert (await site.condition("quay", "ValidPolicySpec"))["reason"] == "InvalidPolicySpec"
    assert {path.rpartition("/")[2] for _, path in life.writes} == {"status"}


async def test_of_what_is_not_valid_nothing_is_known(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", subscription=subscription(name="")))
    async with site.controller():
        await site.reported("quay", "NonCompliant", "name is required")
    expected = {
        "OperatorGroupCompliant": "the status of the OperatorGroup could not be determined because the policy is invalid",
        "SubscriptionCompliant": "the status of the Subscription could not be determined because the policy is invalid",
        "InstallPlanCompliant": "the status of the InstallPlan could not be determined because the policy is invalid",
        "ClusterServiceVersionCompliant": "a relevant installed ClusterServiceVersion could not be found",
        "CustomResourceDefinitionCompliant": "no CRDs were found for the operator",
        "DeploymentCompliant": "there are no relevant deployments because the ClusterServiceVersion is missing",
        "CatalogSourcesUnhealthy": "the status of the CatalogSource could not be determined because the policy is invalid",
    }
    said = {one["type"]: one["message"] for one in (await site.status("quay"))["conditions"]}
    assert {kind: said[kind] for kind in expected} == expected


async def test_a_policy_that_becomes_valid_is_enforced(site: OperatorSite) -> None:
    await site.create(operator_policy("quay", subscription=subscription(actually="incorrect")))
    async with site.controller():
        await site.reported("quay", "NonCompliant", "unknown field")
        await site.spoke.patch(POLICIES, "quay", {"spec": {"subscription": {"actually": None}}}, CLUSTER)
        await site.reported("quay", "Compliant", "the policy spec is valid")
