"""Policies on a local fleet whose hub manages itself: the addons as an administrator enables them, the samples, and their end."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_fleet import eventually
from tests.support.policy_fleet import AGENTS, CONTROLLER, POLICIES, STANDALONE, PolicyFleet
from tests.support.processes import free_ports
from tests.support.sites import beside_kube

pytestmark = beside_kube

HUB_CLUSTER = "local-cluster"
PRUNED = """\
apiVersion: policy.open-cluster-management.io/v1
kind: ConfigurationPolicy
metadata: {name: pruned, namespace: open-cluster-management-policies}
spec:
  remediationAction: enforce
  pruneObjectBehavior: DeleteAll
  object-templates:
    - complianceType: musthave
      objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: pruned, namespace: default}, data: {a: b}}
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyFleet]:
    made = PolicyFleet(tmp_path_factory.mktemp("fleet") / "data")
    made("up", "--detach", "--port", str(free_ports(1)[0]), "--hub-cluster", HUB_CLUSTER)
    made.enable(CONTROLLER, f"cluster1,cluster2,{HUB_CLUSTER}")
    yield made
    made.end()


def test_policies_work_without_the_framework_and_hub_templates_are_off(fleet: PolicyFleet) -> None:
    assert fleet.names("crd", context="cluster1") >= {"configurationpolicies.policy.open-cluster-management.io"}
    assert "policies.policy.open-cluster-management.io" not in fleet.names("crd", context="cluster1")
    fleet.apply("settings-by-cluster.hub.yaml")
    fleet.apply("settings-by-cluster.yaml", "cluster1")
    eventually(lambda: fleet.said("shop-settings", "cluster1")[0] == "NonCompliant", "what nobody resolves")
    assert f"{STANDALONE} addon must be enabled to resolve hub templates" in fleet.said("shop-settings", "cluster1")[1]
    assert fleet.settings("cluster1") == {}
    assert fleet.of_hub_templates("cluster1") == set()
    assert STANDALONE in fleet.clusteradm("doctor", "cluster1", code=1)


def test_hub_templates_come_and_go_with_their_addon(fleet: PolicyFleet) -> None:
    fleet.apply("settings-by-cluster.hub.yaml")
    fleet.apply("settings-by-cluster.yaml", "cluster1")
    for _ in range(2):
        fleet.enable(STANDALONE, "cluster1")
        eventually(lambda: fleet.settings("cluster1").get("replicas") == "3", "the value of the hub")
        assert fleet.flags("cluster1")
        info = json.loads(fleet.kubectl("get", "secret", f"{STANDALONE}-info", "-n", AGENTS, "-o", "json", context="cluster1"))
        group = base64.b64decode(info["data"]["hub.group"]).decode()
        assert group == f"system:open-cluster-management:cluster:cluster1:addon:{STANDALONE}"
        fleet.disable(STANDALONE, "cluster1")
        eventually(lambda: fleet.flags("cluster1") == [], "no flag")
        eventually(lambda: fleet.said("shop-settings", "cluster1")[0] == "NonCompliant", "nobody to resolve them")
        eventually(lambda: fleet.of_hub_templates("cluster1") == set(), "nothing left of them")


def test_a_cluster_set_may_read_what_its_policy_on_the_hub_says(fleet: PolicyFleet) -> None:
    fleet.apply("settings-by-cluster.hub.yaml")
    fleet.kubectl("delete", "rolebinding", "-n", "shop", "replicas")
    fleet.apply("settings-by-cluster.yaml", "cluster2")
    fleet.enable(STANDALONE, "cluster2")
    eventually(lambda: "list and watch permissions" in fleet.said("shop-settings", "cluster2")[1], "a right that is missing")
    assert "may not read" in fleet.clusteradm("doctor", "cluster2", code=1)
    fleet.clusteradm("clusterset", "create", "shops")
    fleet.apply("cluster-set-permissions.yaml")
    fleet.clusteradm("clusterset", "set", "shops", "--clusters", "cluster2")
    eventually(lambda: fleet.settings("cluster2").get("replicas") == "5", "the right of the set")
    fleet.clusteradm("clusterset", "set", "shops", "--clusters", "cluster1")
    fleet.kubectl("label", "managedcluster", "cluster2", "cluster.open-cluster-management.io/clusterset-", "--overwrite")

    def readers() -> list[str]:
        (binding,) = [
            one for one in fleet.found("rolebindings", "-n", "shop") if one["metadata"]["name"] == "hub-templates-of-shops"
        ]
        return [one["name"].split(":")[3] for one in binding.get("subjects") or ()]

    eventually(lambda: readers() == ["cluster1"], "the set as it is now")
    said = fleet.clusteradm("get", "policies", "--clusters", f"cluster2,{HUB_CLUSTER}", "-o", "table")
    rows = {tuple(row.split()[:2]): row.split()[-1] for row in said.splitlines()[1:]}
    assert rows[("hub-templates-of-shops", HUB_CLUSTER)] == "Compliant"
    assert ("shop-settings", "cluster2") in rows


def test_a_controller_lets_go_of_policies_before_it_goes(fleet: PolicyFleet, tmp_path: Path) -> None:
    file = tmp_path / "pruned.yaml"
    file.write_text(PRUNED)
    fleet.kubectl("apply", "-f", str(file), context="cluster1")
    eventually(lambda: "pruned" in fleet.names("configmaps", "-n", "default", context="cluster1"), "its object")
    (policy,) = [
        one
        for one in fleet.found("configurationpolicies", "-n", POLICIES, context="cluster1")
        if one["metadata"]["name"] == "pruned"
    ]
    assert policy["metadata"]["finalizers"]
    fleet.disable(CONTROLLER, "cluster1")
    eventually(lambda: CONTROLLER not in fleet.names("deployments", "-A", context="cluster1"), "the controller to go")
    eventually(lambda: not any("policy." in one for one in fleet.names("crd", context="cluster1")), "its kinds to go")
    # Who removes the controller does not ask for what policies have made to be undone.
    assert "pruned" in fleet.names("configmaps", "-n", "default", context="cluster1")
    fleet.enable(CONTROLLER, "cluster1")


def test_a_hub_that_manages_itself_outlives_kill_and_leaving(fleet: PolicyFleet) -> None:
    fleet.kill()
    fleet("up", "--detach")
    assert HUB_CLUSTER in fleet.names("managedclusters")
    fleet("cluster", "remove", HUB_CLUSTER)
    assert fleet.names("managedclusters") == {"cluster1", "cluster2"}
    assert "open-cluster-management-agent" not in fleet.names("namespaces")
    eventually(lambda: fleet.status()["running"] and all(one["available"] for one in fleet.status()["clusters"]), "the others")
    fleet("down")
    fleet("up", "--detach", "--hub-cluster", "another-name")
    assert fleet.names("managedclusters") == {"cluster1", "cluster2", "another-name"}
