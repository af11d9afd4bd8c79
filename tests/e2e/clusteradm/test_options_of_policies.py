"""The options of `clusteradm get policies`. What comes through a real gateway is shown in `tests/e2e/test_policy_fleet.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from muster.api.crds import definitions
from muster.policy.addons.manifests import KINDS
from tests.e2e.clusteradm.claims import shows
from tests.e2e.clusteradm.conftest import MANAGED, World
from tests.e2e.clusteradm.test_options_of_gateway import DEFINITIONS, gateways

__all__ = ["gateways"]

POLICIES = "/apis/policy.open-cluster-management.io/v1"


def policy(name: str) -> dict[str, Any]:
    template = {"complianceType": "musthave", "objectDefinition": {"apiVersion": "v1", "kind": "Namespace"}}
    return {
        "apiVersion": POLICIES.removeprefix("/apis/"),
        "kind": "ConfigurationPolicy",
        "metadata": {"name": name},
        "spec": {"remediationAction": "inform", "object-templates": [template]},
    }


@pytest.fixture
def governed(world: World) -> Iterator[World]:
    """The managed cluster has policies `met` and `unmet` in two namespaces."""
    admin, names = world.admin(MANAGED), [kind.name for kind in KINDS]
    for document in definitions(KINDS):
        admin.post(DEFINITIONS, document).expect(201)
    served = [f"/apis/policy.open-cluster-management.io/{one}" for one in ("v1/configurationpolicies", "v1beta1/operatorpolicies")]
    world.hub.wait(lambda: all(admin.get(one).status == 200 for one in served), "policies are served")
    for namespace, name, compliant in (("default", "met", "Compliant"), ("kube-public", "unmet", "NonCompliant")):
        place = f"{POLICIES}/namespaces/{namespace}/configurationpolicies"
        made = admin.post(place, policy(name)).expect(201)
        admin.put(f"{place}/{name}/status", {**made, "status": {"compliant": compliant}}).expect(200)
    yield world
    for name in names:
        admin.delete(f"{DEFINITIONS}/{name}").expect(200)
    world.hub.wait(lambda: all(admin.get(f"{DEFINITIONS}/{name}").status == 404 for name in names), "policies are gone")


def shown(world: World, *words: str) -> list[str]:
    found = json.loads(world.ok("get", "policies", *words, "-o", "json", context=MANAGED))
    return [one["metadata"]["name"] for one in found["items"]]


@shows("get policies", "--namespace", "--noncompliant", "--output", "--show-managed-fields")
def test_those_of_a_cluster_are_narrowed(governed: World) -> None:
    assert shown(governed) == ["met", "unmet"]
    assert shown(governed, "--namespace", "default") == ["met"]
    assert shown(governed, "--noncompliant") == ["unmet"]
    assert governed.ok("get", "policies", "-o", "table", context=MANAGED).split()[0] == "NAME"
    assert "managedFields" not in governed.ok("get", "policies", "-o", "yaml", context=MANAGED)
    assert "managedFields" in governed.ok("get", "policies", "-o", "yaml", "--show-managed-fields", context=MANAGED)


@shows("get policies", "--clusters", "--selector")
def test_clusters_are_chosen_by_name_or_label(gateways: World, world: World) -> None:
    chosen = {("--clusters", "bad-1,good-1"): {"bad-1", "good-1"}, ("--selector", "env=prod"): {"good-1"}}
    for words, names in chosen.items():
        done = world.run("get", "policies", *words)
        assert done.exit_code == 0, done.output
        assert {name for name in ("bad-1", "good-1") if f"{name} serves no policies" in done.stderr} == names
