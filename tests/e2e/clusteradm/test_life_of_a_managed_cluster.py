"""The life of a managed cluster by `clusteradm`, in the order in which people go: each test goes on where the last one ended."""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.clusteradm.claims import shows
from tests.e2e.clusteradm.conftest import HUB, MANAGED, World, open_world
from tests.support.administrator import ACCEPTED, AGENT_NAMESPACE, BOOTSTRAP_NAMESPACE, read_secret
from tests.support.processes import Server

OPERATOR_GROUP = "/apis/operator.open-cluster-management.io/v1"
KLUSTERLET = f"{OPERATOR_GROUP}/klusterlets/klusterlet"
AGENTS = f"/apis/apps/v1/namespaces/{AGENT_NAMESPACE}/deployments"
OPERATOR = f"/apis/apps/v1/namespaces/{BOOTSTRAP_NAMESPACE}/deployments/klusterlet"
WORKS = "/apis/work.open-cluster-management.io/v1"
OURS = ("open-cluster-management", "klusterlet")
ADDON = "/apis/addon.open-cluster-management.io/v1alpha1"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A hub that works, and a cluster with nothing on it."""
    with open_world(tmp_path_factory.mktemp("managed")) as world:
        world.ok("init")
        world.hub.install()
        world.hub.start()
        yield world


@pytest.fixture(scope="module")
def pods(fleet: World) -> Iterator[list[Server]]:
    """Processes in the stead of pods."""
    started: list[Server] = []
    yield started
    for one in started:
        one.stop(kill=True)


def join_words(fleet: World, name: str = "cluster1") -> list[str]:
    """What the hub prints, for a cluster of this name."""
    line = next(line for line in fleet.ok("get", "token").splitlines() if " join " in line)
    return shlex.split(line.replace("<cluster_name>", name))[1:]


def ours(fleet: World, context: str) -> dict[str, str]:
    """What clusteradm and the operator make, by version."""
    return {path: version for path, version in fleet.objects(context).items() if any(word in path for word in OURS)}


@shows("join", "--hub-ca-hash")
def test_a_hub_that_is_not_proved_gets_no_token(fleet: World) -> None:
    before = ours(fleet, MANAGED)
    words = join_words(fleet)
    digest = words.index("--hub-ca-hash")
    complaint = fleet.fails(*words[:digest], *words[digest + 2 :], context=MANAGED)
    assert "nothing proves that" in complaint
    wrong = [*words[:digest], "--hub-ca-hash", "sha256:" + "0" * 64, *words[digest + 2 :]]
    assert "another hub, or a proxy that intercepts TLS" in fleet.fails(*wrong, context=MANAGED)
    assert ours(fleet, MANAGED) == before == {}


def test_a_token_that_was_made_up_is_explained(fleet: World) -> None:
    words = join_words(fleet)
    words[words.index("--hub-token") + 1] = "abcdef.0123456789abcdef"
    assert "--hub-token: the hub does not accept this token" in fleet.fails(*words, context=MANAGED)
    assert ours(fleet, MANAGED) == {}


def test_a_dry_run_writes_nothing(fleet: World) -> None:
    before = fleet.objects(HUB)
    assert "would apply klusterlets.operator.open-cluster-management.io klusterlet" in fleet.ok(
        *join_words(fleet), "--dry-run", context=MANAGED
    )
    assert ours(fleet, MANAGED) == {}
    assert fleet.objects(HUB) == before


def test_a_cluster_joins_and_again_changes_its_token_alone(fleet: World) -> None:
    said = fleet.ok(*join_words(fleet), context=MANAGED)
    assert "clusteradm accept --clusters cluster1" in said
    before = ours(fleet, MANAGED)
    fleet.ok(*join_words(fleet), context=MANAGED)
    now = ours(fleet, MANAGED)
    changed = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
    # On a real control plane the Deployment's controller is at work too.
    assert {path for path in changed if "/apps/" not in path} <= {
        f"/api/v1/secrets/{AGENT_NAMESPACE}/bootstrap-hub-kubeconfig",
        *(path for path in changed if "/pods/" in path),
    }


def test_waiting_tells_why(fleet: World) -> None:
    complaint = fleet.fails(*join_words(fleet), "--wait", "--timeout", "2", context=MANAGED)
    assert "Klusterlet klusterlet: not so after 2 s: Deployment open-cluster-management/klusterlet" in complaint


@shows("accept", "--clusters", "--wait", "--fingerprint")
def test_its_operator_and_agent_run_and_it_is_accepted_by_the_key_that_its_agent_tells(fleet: World, pods: list[Server]) -> None:
    managed = fleet.managed.client()
    pods.append(fleet.operator("klusterlet", MANAGED))
    pods.append(fleet.registration_agent())
    key = fleet.hub.wait(lambda: told_key(fleet), "the agent has a key")
    fleet.hub.wait(lambda: f"key={key}" in pods[-1].log.read_text(), "the agent logs its key")
    assert f"accept --clusters cluster1 --fingerprint {key}" in joined_again(fleet)
    accept = ["accept", "--clusters", "cluster1", "--wait", "--fingerprint", key]
    assert "has joined the Hub successfully" in fleet.ok(*accept)
    fleet.hub.wait(lambda: read_secret(managed, AGENT_NAMESPACE, "hub-kubeconfig-secret").get("tls.crt"), "the credential is kept")


def told_key(fleet: World) -> str:
    """What the managed cluster's administrator sees."""
    return str(json.loads(fleet.ok("get", "klusterlet-info", "-o", "json", context=MANAGED))["key"])


@shows("join", "--wait")
def test_joining_again_waits_for_what_is_there_already(fleet: World) -> None:
    said = joined_again(fleet)
    assert "Cluster cluster1 is known to the hub" in said
    assert "--fingerprint" not in said, "nothing is pending"


def joined_again(fleet: World) -> str:
    """What is said when it was waited for."""
    managed = fleet.managed.client()
    fleet.play_pods(OPERATOR, MANAGED)
    for agent in ("klusterlet-registration-agent", "klusterlet-work-agent"):
        fleet.hub.wait_reply(functools.partial(managed.get, f"{AGENTS}/{agent}"), f"the operator has made {agent}", 200)
        fleet.play_pods(f"{AGENTS}/{agent}", MANAGED)
    return fleet.ok(*join_words(fleet), "--wait", "--timeout", "60", context=MANAGED)


def test_its_name_is_not_given_to_another(fleet: World) -> None:
    before = ours(fleet, HUB).keys()
    assert "cluster1 has joined the hub and is alive" in fleet.fails(*join_words(fleet), context=HUB)
    assert ours(fleet, HUB).keys() == before
    complaint = fleet.fails(*join_words(fleet, "cluster2"), context=MANAGED)
    assert "managed already, as cluster1, by Klusterlet klusterlet" in complaint


def test_works_and_addons_are_brought_to_it(fleet: World, tmp_path: Path) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "greeting", "namespace": "default"}}
    file = tmp_path / "work.yaml"
    file.write_text(yaml.safe_dump(manifest))
    create = ["create", "work", "web", "-f", str(file), "--clusters", "cluster1"]
    assert fleet.ok(*create) == "create work web in cluster cluster1\n"
    assert "already exists" in fleet.fails(*create)
    file.write_text(yaml.safe_dump({**manifest, "data": {"word": "hello"}}))
    assert fleet.ok(*create, "--overwrite") == "update work web in cluster cluster1\n"
    made = fleet.hub.admin.get(f"{WORKS}/namespaces/cluster1/manifestworks/web").expect(200)
    assert made["spec"]["workload"]["manifests"][0]["data"] == {"word": "hello"}
    assert "<cluster1/web>" in fleet.ok("get", "works")
    fleet.ok("delete", "work", "web", "--clusters", "cluster1", "--wait")
    addon = {"apiVersion": ADDON.removeprefix("/apis/"), "kind": "ClusterManagementAddOn", "metadata": {"name": "metrics"}}
    fleet.hub.admin.post(f"{ADDON}/clustermanagementaddons", {**addon, "spec": {}}).expect(201)
    fleet.ok("addon", "enable", "--names", "metrics", "--clusters", "cluster1")
    listed = json.loads(fleet.ok("addon", "list", "-o", "json"))
    assert [one["metadata"]["name"] for one in listed["items"]] == ["metrics"]
    fleet.ok("addon", "disable", "--names", "metrics", "--all-clusters")
    assert fleet.hub.read(f"{ADDON}/namespaces/cluster1/managedclusteraddons/metrics") is None


def test_with_something_of_the_hubs_on_it_the_cluster_does_not_leave(fleet: World) -> None:
    managed = fleet.managed.client()
    uid = managed.get(KLUSTERLET).expect(200)["metadata"]["uid"]
    kind = {"apiVersion": WORKS.removeprefix("/apis/"), "kind": "AppliedManifestWork", "metadata": {"name": "0123-web"}}
    body = {**kind, "spec": {"hubHash": "0123", "agentID": uid, "manifestWorkName": "web"}}
    managed.post(f"{WORKS}/appliedmanifestworks", body).expect(201)
    assert "AppliedManifestWorks 0123-web" in fleet.fails("unjoin", "--cluster-name", "cluster1", context=MANAGED)
    assert managed.get(KLUSTERLET).expect(200)["metadata"].get("deletionTimestamp") is None
    managed.delete(f"{WORKS}/appliedmanifestworks/0123-web").expect(200)


def test_leaving_for_a_try_changes_nothing(fleet: World) -> None:
    keys = ours(fleet, MANAGED).keys()
    said = fleet.ok("unjoin", "--cluster-name", "cluster1", "--dry-run", context=MANAGED)
    assert "would update managedclusters.cluster.open-cluster-management.io cluster1" in said
    assert "would delete klusterlets.operator.open-cluster-management.io klusterlet" in said
    assert ours(fleet, MANAGED).keys() == keys
    cluster = fleet.hub.admin.get("/apis/cluster.open-cluster-management.io/v1/managedclusters/cluster1").expect(200)
    assert cluster["spec"]["hubAcceptsClient"] is True


def test_it_leaves_whole_and_the_hub_knows(fleet: World, pods: list[Server]) -> None:
    said = fleet.ok("unjoin", "--cluster-name", "cluster1", "--timeout", "120", context=MANAGED)
    assert "The hub was told that cluster1 leaves" in said
    assert "left: ManagedCluster cluster1 stays on the hub, denied" in said
    for one in pods:
        one.stop(kill=True)
    assert ours(fleet, MANAGED) == {}
    assert "nothing was changed" in fleet.ok("unjoin", "--cluster-name", "cluster1", context=MANAGED)

    def denied() -> bool:
        found = fleet.hub.read("/apis/cluster.open-cluster-management.io/v1/managedclusters/cluster1") or {}
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(one["type"] == ACCEPTED and one["reason"] == "HubClusterAdminDenied" for one in conditions)

    fleet.hub.wait(denied, "the hub has denied it")
