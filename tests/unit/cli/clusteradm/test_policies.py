"""`clusteradm get policies`, of one cluster and of many through the gateway, and what `doctor` says of policies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.administration.content.policies import KINDS, PolicyView
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.crds import POLICY, definitions
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.policy.names import CONFIG_POLICY_ADDON, PERMISSIONS_NEEDED, STANDALONE_ADDON
from muster.runtime.client import served
from muster.runtime.client.builtin import CRDS
from muster.runtime.install import await_definitions, ensure_namespace
from tests.support.https_server import Answer
from tests.unit.cli.clusteradm.conftest import PLAIN, Fleet
from tests.unit.cli.clusteradm.gateway_hub import GatewayHub, status
from tests.unit.cli.clusteradm.test_doctor import NAME, findings, healthy

NAMESPACE = "open-cluster-management-policies"
CONFIGURATION, OPERATOR = KINDS
ADDONS = served(ManagedClusterAddOn)
HUB_TEMPLATE = '{{hub fromConfigMap "shop" "settings" "colour" hub}}'
GROUP = f"system:open-cluster-management:cluster:{NAME}:addon:{STANDALONE_ADDON}"


ODD = [
    {"compliant": "NonCompliant", **odd}
    for odd in (
        {"compliancyDetails": 3},
        {"compliancyDetails": [3]},
        {"compliancyDetails": [{"conditions": 3}]},
        {"conditions": [3]},
    )
]
"""What somebody else may have written."""


def policy(name: str, compliant: str = "", message: str = "", value: str = "x", **annotations: str) -> Object:
    definition = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}, "data": {"a": value}}
    spec = {"remediationAction": "enforce", "object-templates": [{"complianceType": "musthave", "objectDefinition": definition}]}
    history = [{"message": f"{compliant}; {message}", "lastTimestamp": "2026-01-01T00:00:00.000000Z"}] if message else []
    return {
        "apiVersion": CONFIGURATION.api_version,
        "kind": CONFIGURATION.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": spec,
        "status": {"compliant": compliant, "history": history} if compliant else {},
    }


async def define(fleet: Fleet) -> None:
    """On the plain cluster, as the addon does."""
    admin, kinds = fleet.admin(PLAIN), [kind for kind in POLICY if not kind.name.startswith("policies.")]
    for document in definitions(kinds):
        await admin.apply(CRDS, document, manager="test")
    await await_definitions(admin, [kind.name for kind in kinds], SYSTEM)
    await ensure_namespace(admin, NAMESPACE)


async def put(fleet: Fleet, document: Object) -> None:
    admin, name = fleet.admin(PLAIN), document["metadata"]["name"]
    await admin.create(CONFIGURATION, document, NAMESPACE)
    if document["status"]:
        await admin.patch(CONFIGURATION, name, {"status": document["status"]}, NAMESPACE, subresource="status")


async def enable(fleet: Fleet, *names: str) -> None:
    for name in names:
        await fleet.admin().apply(ADDONS, {"metadata": {"name": name, "namespace": NAME}, "spec": {}}, manager="test")


async def test_those_of_the_contexts_cluster(fleet: Fleet) -> None:
    assert "enable config-policy-controller" in await fleet.fails("get", "policies", context=PLAIN)
    await define(fleet)
    assert (await fleet.ok("get", "policies", "-o", "table", context=PLAIN)).split() == [
        "NAME",
        "NAMESPACE",
        "KIND",
        "ACTION",
        "COMPLIANT",
    ]
    await put(fleet, policy("good", "Compliant", "notification - as it should be"))
    await put(fleet, policy("bad", "NonCompliant", "violation - not found"))
    await put(fleet, policy("new"))
    spec = {
        "remediationAction": "inform",
        "complianceType": "musthave",
        "upgradeApproval": "None",
        "subscription": {"name": "quay"},
    }
    operator = {"apiVersion": OPERATOR.api_version, "kind": OPERATOR.kind, "metadata": {"name": "good", "namespace": NAMESPACE}}
    await fleet.admin(PLAIN).create(OPERATOR, {**operator, "spec": spec}, NAMESPACE)
    rows = [row.split() for row in (await fleet.ok("get", "policies", "-o", "table", context=PLAIN)).splitlines()[1:]]
    assert rows == [
        ["bad", NAMESPACE, "ConfigurationPolicy", "enforce", "NonCompliant"],
        ["good", NAMESPACE, "ConfigurationPolicy", "enforce", "Compliant"],
        ["good", NAMESPACE, "OperatorPolicy", "inform"],
        ["new", NAMESPACE, "ConfigurationPolicy", "enforce"],
    ]
    wide = await fleet.ok("get", "policies", "bad", "-o", "wide", context=PLAIN)
    assert "violation - not found" in wide
    assert "good" not in wide
    found = json.loads(await fleet.ok("get", "policies", "--noncompliant", "-o", "json", context=PLAIN))
    assert [(one["kind"], one["metadata"]["name"]) for one in found["items"]] == [
        ("ConfigurationPolicy", "bad"),
        ("OperatorPolicy", "good"),
        ("ConfigurationPolicy", "new"),
    ]
    assert "there is no policy nope" in await fleet.fails("get", "policies", "nope", context=PLAIN)
    assert "Compliant" not in await fleet.ok("get", "policies", "-n", "default", context=PLAIN)


def listed(*policies: Object) -> Answer:
    return Answer({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": list(policies)})


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GatewayHub]:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with GatewayHub(tmp_path, {"east": {"tier": "prod"}, "west": {"tier": "prod"}, "test": {"tier": "dev"}}) as running:
        for cluster, answer in (("east", listed(policy("shop", "Compliant"))), ("west", listed(policy("shop", "NonCompliant")))):
            running.behind[cluster, f"/apis/{CONFIGURATION.api_version}/configurationpolicies"] = answer
            running.behind[cluster, f"/apis/{OPERATOR.api_version}/operatorpolicies"] = status(404)
        for resource in KINDS:
            running.behind["test", f"/apis/{resource.api_version}/{resource.plural}"] = status(404)
        yield running


def rows(text: str) -> list[list[str]]:
    return [row.split() for row in text.splitlines()[1:]]


def test_those_of_many_clusters_through_the_gateway(hub: GatewayHub) -> None:
    east, west = (["shop", name, NAMESPACE, "ConfigurationPolicy", "enforce"] for name in ("east", "west"))
    said = hub.ok("get", "policies", "--clusters", "west,east", "-o", "table")
    assert rows(said) == [[*west, "NonCompliant"], [*east, "Compliant"]]
    assert rows(hub.ok("get", "policies", "--selector", "tier=prod", "--noncompliant", "-o", "table")) == [[*west, "NonCompliant"]]
    result = hub.run("get", "policies", "--clusters", "test", "-o", "table")
    assert (result.exit_code, rows(result.stdout)) == (0, [])
    assert "config-policy-controller is not enabled there" in result.stderr


def test_a_cluster_that_does_not_answer_hides_no_other(hub: GatewayHub) -> None:
    hub.answers["west"] = status(403)
    result = hub.run("get", "policies", "--clusters", "west,east", "-o", "table")
    assert result.exit_code == 1
    assert rows(result.stdout) == [["shop", "east", NAMESPACE, "ConfigurationPolicy", "enforce", "Compliant"]]
    assert "west" in result.stderr
    assert "no cluster" in hub.fails("get", "policies", "--clusters", "north")
    assert "--selector" in hub.fails("get", "policies", "--clusters", "east", "--selector", "a=b", code=2)


async def test_hub_templates_while_the_addon_is_off(fleet: Fleet) -> None:
    await healthy(fleet)
    await define(fleet)
    await put(fleet, policy("shop", "NonCompliant", "violation - off", HUB_TEMPLATE))
    await put(
        fleet, policy("literal", "Compliant", "", HUB_TEMPLATE, **{"policy.open-cluster-management.io/disable-templates": "true"})
    )
    await enable(fleet, CONFIG_POLICY_ADDON)
    flags = ("--managed-cluster-context", PLAIN)
    text, remedy = (await findings(fleet, *flags))["hub templates"]
    assert f"{STANDALONE_ADDON} is not enabled" in text
    assert text.endswith(f": {NAMESPACE}/shop")
    assert remedy == f"run addon enable --names {STANDALONE_ADDON} --clusters {NAME}"
    notes = await findings(fleet, *flags, verdict="note")
    assert notes["hub templates"][1] == "remove these policies before a downgrade to one"
    assert notes["policies"][0] == f"1 of 2 not compliant: {NAMESPACE}/shop"
    await enable(fleet, STANDALONE_ADDON)
    assert "hub templates" not in await findings(fleet, *flags)


async def test_rights_that_hub_templates_lack(fleet: Fleet) -> None:
    await healthy(fleet)
    await define(fleet)
    await enable(fleet, CONFIG_POLICY_ADDON, STANDALONE_ADDON)
    why = f'configmaps "settings" is forbidden: {PERMISSIONS_NEEDED}: Kind=ConfigMap, Namespace=shop, Name=settings'
    await put(fleet, policy("shop", "NonCompliant", f"violation - {why}", HUB_TEMPLATE))
    text, remedy = (await findings(fleet, "--managed-cluster-context", PLAIN))["hub templates"]
    assert f"{NAMESPACE}/shop" in text
    assert "Namespace=shop" in text
    assert f"give Group {GROUP} list and watch" in remedy


async def test_rights_are_missed_whatever_the_policy_says_in_its_own_words(fleet: Fleet) -> None:
    await healthy(fleet)
    await define(fleet)
    await enable(fleet, CONFIG_POLICY_ADDON, STANDALONE_ADDON)
    why = f'configmaps "settings" is forbidden: {PERMISSIONS_NEEDED}: Kind=ConfigMap, Namespace=shop, Name=settings'
    document = policy("shop", "NonCompliant", "ask the shop's people", HUB_TEMPLATE)
    said = {"type": "violation", "status": "True", "reason": "Hub template resolution failure", "message": why}
    document["status"]["compliancyDetails"] = [{"Compliant": "NonCompliant", "conditions": [said]}]
    await put(fleet, document)
    text, _ = (await findings(fleet, "--managed-cluster-context", PLAIN))["hub templates"]
    assert "Namespace=shop" in text


async def test_rights_are_for_the_user_where_the_credential_is_a_token(fleet: Fleet) -> None:
    await healthy(fleet)
    await define(fleet)
    await enable(fleet, CONFIG_POLICY_ADDON, STANDALONE_ADDON)
    await fleet.admin().patch(ADDONS, STANDALONE_ADDON, {"status": {"kubeClientDriver": "token"}}, NAME, subresource="status")
    await put(fleet, policy("shop", "NonCompliant", f"violation - forbidden: {PERMISSIONS_NEEDED}", HUB_TEMPLATE))
    _, remedy = (await findings(fleet, "--managed-cluster-context", PLAIN))["hub templates"]
    assert f"give User system:serviceaccount:{NAME}:{STANDALONE_ADDON}-agent list and watch" in remedy


async def test_policies_that_are_well_and_a_cluster_without_any(fleet: Fleet) -> None:
    await healthy(fleet)
    flags = ("--managed-cluster-context", PLAIN)
    assert "policies" not in await findings(fleet, *flags, verdict="ok")
    await define(fleet)
    await enable(fleet, CONFIG_POLICY_ADDON)
    assert "policies" not in await findings(fleet, *flags, verdict="ok")
    await put(fleet, policy("good", "Compliant"))
    assert (await findings(fleet, *flags, verdict="ok"))["policies"][0] == "1 compliant"
    # Without a way to the cluster it says how to get one.
    assert "--managed-cluster-kubeconfig" in (await findings(fleet, verdict="note"))["policies"][1]


@pytest.mark.parametrize("status", [None, [], {"history": 3}, {"history": [3]}, {"compliant": 7, "history": {}}, *ODD])
def test_a_status_of_any_shape_is_shown(status: Any) -> None:
    view = PolicyView({**policy("x"), "status": status})
    assert isinstance(view.compliant, str)
    assert view.message == ""
    assert view.refusal == ""
