"""The life of a hub by `clusteradm`, in the order in which an administrator goes: each test goes on where the last one ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clusteradm.conftest import HUB, World, open_world
from tests.support.administrator import kubeconfig_text
from tests.support.client import Client
from tests.support.registration import Agent, Spoke

CM = "/apis/operator.open-cluster-management.io/v1/clustermanagers/cluster-manager"
CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
SETS = "/apis/cluster.open-cluster-management.io/v1beta2/managedclustersets"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
OPERATOR = "/apis/apps/v1/namespaces/open-cluster-management/deployments/cluster-manager"
OURS = ("bootstrap", "open-cluster-management", "clustermanager", "cluster-manager", "cluster-info")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Nothing is on it at first; at the end nothing is again."""
    with open_world(tmp_path_factory.mktemp("life")) as world:
        yield world


@pytest.fixture(scope="module")
def agents(hub: World) -> Iterator[list[Agent]]:
    started: list[Agent] = []
    yield started
    for agent in started:
        agent.kill()


def agent(hub: World, agents: list[Agent], name: str, token: str) -> None:
    """Started with what `get token` gives."""
    bootstrap = kubeconfig_text(hub.hub.cluster.url, hub.hub.cluster.ca, {"token": token})
    started = Agent(Spoke(hub.managed, hub.directory / "agents"), hub.hub, name, bootstrap)
    agents.append(started.start())


def versions(hub: World) -> dict[str, str]:
    """Of what people make; controllers add to nodes and accounts when they please."""
    return {path: version for path, version in hub.objects(HUB).items() if any(word in path for word in OURS)}


def test_at_first_it_is_no_hub(hub: World) -> None:
    assert "clustermanager is not installed" in hub.fails("upgrade", "clustermanager")
    assert "hub has not been initialized" in hub.run("clean").stderr


def test_init_makes_a_hub_and_again_changes_nothing(hub: World) -> None:
    done = hub.run("init", "--use-bootstrap-token")
    assert done.exit_code == 0, done.output
    assert "CSR support check Passed with 0 warnings" in done.stderr
    assert re.search(r"clusteradm join --hub-token ocmhub\.\w{16} --hub-apiserver \S+ --hub-ca-hash sha256:\S+ ", done.stdout)
    assert [one for one in hub.hub.admin.get(REQUESTS).expect(200)["items"] if "probe" in one["metadata"]["name"]] == []
    before = versions(hub)
    assert hub.ok("init", "--use-bootstrap-token") == done.stdout
    assert versions(hub) == before


def test_init_with_other_options_changes_the_cluster_manager_alone(hub: World) -> None:
    before = versions(hub)
    hub.ok("init", "--registration-drivers=csr", "--feature-gates=DefaultClusterSet=true")
    now = versions(hub)
    changed = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
    assert changed == {"/apis/operator.open-cluster-management.io/v1/clustermanagers//cluster-manager"}
    configured = hub.hub.admin.get(CM).expect(200)["spec"]["registrationConfiguration"]
    assert configured["registrationDrivers"] == [{"authType": "csr"}]
    hub.ok("init", "--use-bootstrap-token")
    assert "registrationDrivers" not in hub.hub.admin.get(CM).expect(200)["spec"]["registrationConfiguration"]


def test_waiting_for_a_hub_that_nobody_runs_says_why(hub: World) -> None:
    complaint = hub.fails("init", "--wait", "--timeout", "2", "--force")
    assert "hub: not so after 2 s: Deployment open-cluster-management/cluster-manager" in complaint
    assert json.loads(hub.ok("get", "hub-info", "-o", "json"))["operator"][0]["name"] == "cluster-manager"


def test_upgrade_changes_the_operators_image(hub: World) -> None:
    assert "to muster:v9" in hub.ok("upgrade", "clustermanager", "--bundle-version=v9")
    pod = hub.hub.admin.get(OPERATOR).expect(200)["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "muster:v9"


def test_a_cluster_joins_with_the_token_and_is_accepted(hub: World, agents: list[Agent]) -> None:
    """From here on the hub's controllers run."""
    hub.hub.install()
    hub.hub.start()
    access = json.loads(hub.ok("get", "token", "-o", "json"))
    assert access["hub-apiserver"] == hub.hub.cluster.url
    agent(hub, agents, "cluster1", access["hub-token"])
    hub.hub.wait(lambda: hub.hub.requests("cluster1"), "cluster1 has asked")
    assert "waits for approval" in hub.fails("doctor", "cluster1")
    assert "has joined the Hub successfully" in hub.ok("accept", "--clusters", "cluster1", "--wait")
    (row,) = hub.ok("get", "clusters", "-o", "table").splitlines()[1:]
    assert row.split()[:3] == ["cluster1", "true", "True"]
    # Nobody runs the operator's pod here, and that is all there is to say.
    said = hub.fails("doctor", "cluster1")
    assert "1 problem(s)\n  ✗ hub: the operator does not run" in said
    assert "✓ availability: the cluster is available" in said


def test_accepting_again_changes_nothing(hub: World) -> None:
    before = hub.hub.admin.get(f"{CLUSTERS}/cluster1").expect(200)["metadata"]["generation"]
    assert "hubAcceptsClient already set" in hub.ok("accept", "--clusters", "cluster1")
    assert hub.hub.admin.get(f"{CLUSTERS}/cluster1").expect(200)["metadata"]["generation"] == before


def test_a_cluster_that_joins_with_the_bootstrap_token_is_waited_for(hub: World, agents: list[Agent]) -> None:
    token = json.loads(hub.ok("get", "token", "--use-bootstrap-token", "-o", "json"))["hub-token"]
    agent(hub, agents, "cluster2", token)
    assert "CSR cluster2-" in hub.ok("accept", "--clusters", "cluster2", "--wait")
    assert "there is no ManagedCluster of this name" in hub.fails("accept", "-c", "ghost", "--wait", "--timeout", "1")


def test_clusters_are_put_into_sets(hub: World) -> None:
    assert hub.ok("clusterset", "create", "prod") == "Clusterset prod is created\n"
    said = hub.ok("clusterset", "set", "prod", "--clusters", "cluster1,cluster2")
    assert "Cluster cluster1 is set, from ClusterSet default to Clusterset prod" in said
    hub.ok("clusterset", "bind", "prod")
    assert "<Clusters> cluster1,cluster2" in hub.ok("get", "clustersets", "prod")
    assert "still bind" in hub.fails("clusterset", "delete", "prod")
    hub.ok("clusterset", "unbind", "prod")
    hub.ok("clusterset", "set", "default", "--clusters", "cluster1,cluster2")
    hub.ok("delete", "clusterset", "prod")
    assert hub.hub.admin.get(f"{SETS}/prod").status == 404


def test_a_hub_in_use_is_not_cleaned_up(hub: World) -> None:
    before = versions(hub).keys()
    complaint = hub.fails("clean")
    assert "Please detach all managed clusters from the hub control plane: cluster1, cluster2" in complaint
    assert versions(hub).keys() >= before


def test_deleted_tokens_let_nobody_in(hub: World) -> None:
    old = json.loads(hub.ok("get", "token", "-o", "json"))["hub-token"]
    hub.ok("delete", "token")
    assert "token doesn't exist" in hub.ok("delete", "token")
    assert "token doesn't exist" in hub.fails("get", "token")
    assert Client(hub.hub.cluster.url, ca=hub.hub.cluster.ca, token=old).get(CLUSTERS).status in (401, 403)


def test_what_is_left_is_cleaned_up_whole(hub: World, agents: list[Agent], tmp_path: Path) -> None:
    for one in agents:
        one.kill()
    for name in ("cluster1", "cluster2"):
        hub.hub.delete(name)
        hub.hub.wait_gone(name)
    hub.ok("init")
    removed = tmp_path / "removed"
    said = hub.ok("clean", "--output-file", str(removed))
    assert "has been clean up successfully" in said
    assert "left: Namespace cluster1: it may hold objects of users" in said
    gone = set(removed.read_text().splitlines())
    assert {"ClusterManager cluster-manager", "Namespace open-cluster-management", "ConfigMap kube-public/cluster-info"} <= gone
    assert hub.hub.admin.get(CM).status == 404
    left = [path for path in versions(hub) if "/open-cluster-management/" in path or "bootstrap:" in path or "cluster-info" in path]
    assert [path for path in left if "system:" not in path] == []
    assert "nothing to clean up" in hub.run("clean").stderr
