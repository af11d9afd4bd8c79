"""Options of what is done to clusters that are members: accepting them, sets, works and addons. Seen in what the hub then has."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from muster.registration.drivers.certificates.agents import agent_profile
from muster.registration.drivers.certificates.requests import key_fingerprint, new_key, request_object
from muster.registration.names import AgentIdentity
from tests.e2e.clusteradm.claims import shows
from tests.e2e.clusteradm.conftest import World, open_world
from tests.support.administrator import CSRS, MANAGED_CLUSTERS, Administrator, managed_cluster, verdicts
from tests.support.client import Client

CLUSTER = "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/default"
SETS = "/apis/cluster.open-cluster-management.io/v1beta2"
WORKS = "/apis/work.open-cluster-management.io/v1"
ADDON = "/apis/addon.open-cluster-management.io/v1alpha1"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A hub with clusters whose agents are nowhere."""
    with open_world(tmp_path_factory.mktemp("content")) as world:
        world.ok("init")
        world.hub.install()
        world.hub.start()
        for name in ("c1", "c2"):
            world.cluster(name)
        yield world


class Asked(NamedTuple):
    agent: str
    """Its common name."""
    user: str
    """Whose token it asked with."""
    fingerprint: str


class Newcomer:
    """A cluster that asks to be let in, with some agents, each with a bootstrap token of its own."""

    def __init__(self, hub: Administrator) -> None:
        self.hub = hub
        self.name = f"newcomer{next(_numbers)}"
        hub.wait_reply(lambda: hub.admin.post(MANAGED_CLUSTERS, managed_cluster(self.name)), f"ManagedCluster {self.name}", 201)

    def ask(self, agent: str, request: str = "") -> Asked:
        identity, key = AgentIdentity(self.name, agent), new_key()
        token = yaml.safe_load(self.hub.token_kubeconfig())["users"][0]["user"]["token"]
        client = Client(self.hub.cluster.url, ca=self.hub.cluster.ca, token=token)
        client.post(CSRS, request_object(f"{self.name}-{request or agent}", agent_profile(identity), key)).expect(201)
        return Asked(identity.common_name, f"system:bootstrap:{token.partition('.')[0]}", key_fingerprint(key))

    @property
    def approved(self) -> set[str]:
        return {
            one["metadata"]["name"].removeprefix(f"{self.name}-")
            for one in self.hub.requests(self.name)
            if "Approved" in verdicts(one)
        }

    @property
    def accepted(self) -> bool:
        return bool((self.hub.find(self.name) or {})["spec"]["hubAcceptsClient"])


@shows("accept", "--clusters", "--requesters")
@pytest.mark.parametrize("by", ["the agent's name", "the user who asked"])
def test_the_requester_that_is_named_is_approved_and_the_other_is_not(fleet: World, by: str) -> None:
    newcomer = Newcomer(fleet.hub)
    known, _ = newcomer.ask("known"), newcomer.ask("unknown")
    requester = known.agent if by == "the agent's name" else known.user
    accept = ["accept", "--clusters", newcomer.name]
    assert "CSRs of different requesters" in fleet.fails(*accept)
    assert "is not in the approve list" in fleet.fails(*accept, "--requesters", "system:open-cluster-management:else:where")
    assert (newcomer.approved, newcomer.accepted) == (set(), False)
    fleet.ok(*accept, "--requesters", requester)
    assert (newcomer.approved, newcomer.accepted) == ({"known"}, True)


@shows("accept", "--skip-approve-check")
def test_checks_of_requests_can_be_skipped(fleet: World) -> None:
    silent, crowded = Newcomer(fleet.hub), Newcomer(fleet.hub)
    assert "no csr is approved yet" in fleet.fails("accept", "--clusters", silent.name)
    assert not silent.accepted
    stranger = fleet.hub.account("stranger", [ASKING])
    token = yaml.safe_load(stranger)["users"][0]["user"]["token"]
    request = request_object(f"{crowded.name}-one", agent_profile(AgentIdentity(crowded.name, "one")), new_key())
    Client(fleet.hub.cluster.url, ca=fleet.hub.cluster.ca, token=token).post(CSRS, request).expect(201)
    assert "is no bootstrap identity" in fleet.fails("accept", "--clusters", crowded.name)
    fleet.ok("accept", "--clusters", f"{silent.name},{crowded.name}", "--skip-approve-check")
    assert (silent.accepted, crowded.accepted) == (True, True)
    assert crowded.approved == {"one"}


ASKING = {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}


@shows("accept", "--fingerprint", "--requesters", "--skip-approve-check")
def test_of_two_requests_that_differ_in_their_key_alone_the_chosen_one_is_approved(fleet: World) -> None:
    """Somebody else with a bootstrap token has copied the subject of a newcomer's request."""
    newcomer = Newcomer(fleet.hub)
    honest, twin = newcomer.ask("agent", "honest"), newcomer.ask("agent", "twin")
    accept = ["accept", "--clusters", newcomer.name]
    for flags in ([], ["--requesters", honest.agent], ["--skip-approve-check"], ["--dry-run"], ["--wait"]):
        complaint = fleet.fails(*accept, *flags)
        assert "CSRs with different keys" in complaint
        for asked in (honest, twin):
            assert f"key {asked.fingerprint}, agent {honest.agent}, requested by {asked.user}" in complaint
    assert "no CSR for cluster" in fleet.fails(*accept, "--fingerprint", "sha256:" + "0" * 64)
    assert (newcomer.approved, newcomer.accepted) == (set(), False)

    said = fleet.ok(*accept, "--fingerprint", honest.fingerprint)
    assert f"approved: key {honest.fingerprint}" in said
    assert (newcomer.approved, newcomer.accepted) == ({"honest"}, True)
    assert "CSRs with different keys" in fleet.fails(*accept)
    assert newcomer.approved == {"honest"}


def test_one_cluster_that_is_not_there_keeps_no_other_out(fleet: World) -> None:
    newcomer = Newcomer(fleet.hub)
    newcomer.ask("agent")
    assert "nobody-knows" in fleet.fails("accept", "--clusters", f"nobody-knows,{newcomer.name}")
    assert (newcomer.approved, newcomer.accepted) == ({"agent"}, True)


@pytest.mark.parametrize(
    ("bind", "unbind", "namespace"),
    [
        pytest.param("clusterset bind bound", "clusterset unbind bound", "default", id="where nothing is said"),
        pytest.param(
            "clusterset bind bound --namespace kube-public",
            "clusterset unbind bound --namespace kube-public",
            "kube-public",
            marks=[shows("clusterset bind", "--namespace"), shows("clusterset unbind", "--namespace")],
            id="where it is said",
        ),
    ],
)
def test_sets_are_bound_and_unbound(fleet: World, bind: str, unbind: str, namespace: str) -> None:
    fleet.ok("clusterset", "create", "bound")
    fleet.ok(*bind.split())
    place = f"{SETS}/managedclustersetbindings"
    assert [one["metadata"]["namespace"] for one in (fleet.hub.read(place) or {})["items"]] == [namespace]
    fleet.ok(*unbind.split())
    assert (fleet.hub.read(place) or {})["items"] == []


@shows("clusterset set", "--clusters", "--namespaces")
def test_sets_have_clusters_and_give_them_namespaces(fleet: World) -> None:
    fleet.ok("clusterset", "create", "roomy")
    # At once, while the hub's controllers write to the set.
    fleet.ok("clusterset", "set", "roomy", "--namespaces", "tenant,guest", "--clusters", "c1,c2")
    found = fleet.hub.read(f"{SETS}/managedclustersets/roomy") or {}
    assert found["spec"]["managedNamespaces"] == [{"name": "tenant"}, {"name": "guest"}]
    for name in ("c1", "c2"):
        labels = (fleet.hub.find(name) or {})["metadata"]["labels"]
        assert labels["cluster.open-cluster-management.io/clusterset"] == "roomy"
    fleet.ok("clusterset", "set", "default", "--clusters", "c1,c2")
    fleet.ok("clusterset", "delete", "roomy")
    assert fleet.hub.read(f"{SETS}/managedclustersets/roomy") is None


@shows("create work", "--filename", "--recursive", "--clusters", "--placement", "--overwrite", "--replicaset", "--wait")
@shows("delete work", "--clusters", "--replicaset", "--force", "--wait")
def test_options_of_works(fleet: World, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "greeting", "namespace": "default"}}
    (tmp_path / "below" / "one.json").write_text(json.dumps(manifest))
    create = ["create", "work", "web", "--filename", str(tmp_path)]
    assert "there is no manifest" in fleet.fails(*create, "--clusters", "c1")
    placement = {"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "metadata": {"name": "near"}}
    fleet.hub.admin.post(f"{CLUSTER}/placements", {**placement, "spec": {}}).expect(201)
    label = {"cluster.open-cluster-management.io/placement": "near"}
    decision = {**placement, "kind": "PlacementDecision", "metadata": {"name": "near-1", "labels": label}}
    fleet.hub.admin.post(f"{CLUSTER}/placementdecisions", decision).expect(201)
    for chosen, said in ((["c1", "c2"], "create work web in cluster c2"), (["c1"], "delete work web in cluster c2")):
        status = {"status": {"decisions": [{"clusterName": name, "reason": ""} for name in chosen]}}
        fleet.hub.admin.patch(f"{CLUSTER}/placementdecisions/near-1/status", status).expect(200)
        assert said in fleet.ok(*create, "--recursive", "--placement", "default/near", "--overwrite")
    complaint = fleet.fails(*create, "--recursive", "--clusters", "c1", "--overwrite", "--wait", "--timeout", "1")
    assert "the cluster's agent has not dealt with it yet" in complaint
    fleet.ok(*create, "--recursive", "--placement", "default/near", "--replicaset")
    made = fleet.hub.admin.get("/apis/work.open-cluster-management.io/v1alpha1/namespaces/default/manifestworkreplicasets/web")
    assert made.expect(200)["spec"]["placementRefs"][0]["name"] == "near"
    fleet.ok("delete", "work", "web", "--replicaset", "default")
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    fleet.hub.admin.patch(f"{WORKS}/namespaces/c1/manifestworks/web", held).expect(200)
    assert "is still there in c1" in fleet.fails("delete", "work", "web", "--clusters", "c1", "--wait", "--timeout", "1")
    fleet.ok("delete", "work", "web", "--clusters", "c1", "--force")
    assert fleet.hub.read(f"{WORKS}/namespaces/c1/manifestworks/web") is None


@shows("addon enable", "--names", "--clusters", "--namespace", "--annotate", "--labels", "--config-file", "--output-file")
@shows("addon disable", "--names", "--all-clusters")
def test_options_of_addons(fleet: World, tmp_path: Path) -> None:
    kind = {"apiVersion": ADDON.removeprefix("/apis/")}
    addon = {**kind, "kind": "ClusterManagementAddOn", "metadata": {"name": "metrics"}, "spec": {}}
    fleet.hub.admin.post(f"{ADDON}/clustermanagementaddons", addon).expect(201)
    config = {**kind, "kind": "AddOnDeploymentConfig", "metadata": {"name": "small", "namespace": "default"}, "spec": {}}
    file, output = tmp_path / "config.json", tmp_path / "applied.yaml"
    file.write_text(json.dumps(config))
    words = ["--namespace", "metrics-system", "--annotate", "a=1", "--labels", "team=x", "--config-file", str(file)]
    fleet.ok("addon", "enable", "--names", "metrics", "--clusters", "c1,c2", *words, "--output-file", str(output))
    found = fleet.hub.admin.get(f"{ADDON}/namespaces/c1/managedclusteraddons/metrics").expect(200)
    assert found["spec"]["installNamespace"] == "metrics-system"
    assert found["spec"]["configs"][0]["name"] == "small"
    assert found["metadata"]["annotations"]["a"] == "1"
    assert found["metadata"]["labels"] == {"team": "x"}
    assert len(list(yaml.safe_load_all(output.read_text()))) == 3
    fleet.ok("addon", "disable", "--names", "metrics", "--all-clusters", "true")
    assert fleet.hub.read(f"{ADDON}/namespaces/c2/managedclusteraddons/metrics") is None


@shows("addon disable", "--names", "--clusters")
def test_an_addon_is_disabled_where_it_is_asked_for(fleet: World) -> None:
    addon = {
        "apiVersion": ADDON.removeprefix("/apis/"),
        "kind": "ClusterManagementAddOn",
        "metadata": {"name": "gauge"},
        "spec": {},
    }
    fleet.hub.admin.post(f"{ADDON}/clustermanagementaddons", addon).expect(201)
    fleet.ok("addon", "enable", "--names", "gauge", "--clusters", "c1,c2")
    fleet.ok("addon", "disable", "--names", "gauge", "--clusters", "c1")
    there = [fleet.hub.read(f"{ADDON}/namespaces/{name}/managedclusteraddons/gauge") is not None for name in ("c1", "c2")]
    assert there == [False, True]


@shows("addon create", "--filename", "--recursive", "--version", "--hub-registration", "--cluster-role-bind", "--labels")
@shows("addon create", "--placement-ref", "--overwrite", "--output")
@shows("addon enable", "--placement", "--wait")
@shows("addon disable", "--placement", "--wait")
def test_an_addon_is_made_and_installed_by_placements(fleet: World, tmp_path: Path) -> None:
    admin = fleet.hub.admin
    (tmp_path / "below").mkdir()
    hello = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello", "namespace": "default"}}
    (tmp_path / "below/hello.json").write_text(json.dumps(hello))
    create = ["addon", "create", "hello", "--filename", str(tmp_path), "--recursive", "--labels", "team=x"]
    granted = ["--hub-registration", "--cluster-role-bind", "view"]
    shown = json.loads(fleet.ok(*create, *granted, "--placement-ref", "default/hello", "--version", "1", "--output", "json"))
    assert [one["metadata"]["name"] for one in shown["items"]] == ["hello-1", "hello"]
    template = admin.get(f"{ADDON}/addontemplates/hello-1").expect(200)
    assert template["metadata"]["labels"] == {"team": "x"}
    assert template["spec"]["agentSpec"]["workload"]["manifests"] == [hello]
    (permission,) = template["spec"]["registration"][0]["kubeClient"]["hubPermissions"]
    assert permission["currentCluster"] == {"clusterRoleName": "view"}
    fleet.ok("create", "placement", "other")
    fleet.ok("addon", "enable", "--names", "hello", "--placement", "default/other")
    fleet.ok("addon", "disable", "--names", "hello", "--placement", "default/hello")
    fleet.ok(*create, "--version", "2", "--overwrite")
    found = admin.get(f"{ADDON}/clustermanagementaddons/hello").expect(200)["spec"]
    assert [one["name"] for one in found["installStrategy"]["placements"]] == ["other"]
    assert found["supportedConfigs"][0]["defaultConfig"] == {"name": "hello-2"}
    fleet.ok("addon", "disable", "--names", "hello", "--placement", "default/other")
    told = fleet.fails("addon", "enable", "--names", "hello", "--clusters", "c1", "--wait", "--timeout", "300ms")
    assert "hello on c1: owner" in told
    fleet.ok("addon", "disable", "--names", "hello", "--clusters", "c1", "--wait", "--timeout", "30s")
    assert fleet.hub.read(f"{ADDON}/namespaces/c1/managedclusteraddons/hello") is None


@shows("create placement", "--namespace", "--clustersets", "--label-selectors", "--count", "--prioritizers", "--overwrite")
@shows("delete placement", "--namespace")
def test_a_placement_is_made_as_the_flags_say_and_taken_away(fleet: World) -> None:
    place = "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/placing/placements/web"
    admin = fleet.hub.admin
    admin.post("/api/v1/namespaces", {"metadata": {"name": "placing"}}).expect(201, 409)
    create = ["create", "placement", "web", "--namespace", "placing", "--clustersets", "placed"]
    assert "clusterset bind placed --namespace placing" in fleet.fails(*create)
    fleet.ok("clusterset", "create", "placed")
    fleet.ok("clusterset", "bind", "placed", "--namespace", "placing")
    selectors = ["--label-selectors", "region in (east,west),!old", "--label-selectors", "tier=gold", "--count", "2"]
    ranked = ["--prioritizers", "BuiltIn:Steady:3,AddOn:usage:cpu:-1"]
    assert "is created" in fleet.ok(*create, *selectors, *ranked)
    expressions = [{"key": "old", "operator": "DoesNotExist"}, {"key": "region", "operator": "In", "values": ["east", "west"]}]
    assert admin.get(place).expect(200)["spec"] == {
        "clusterSets": ["placed"],
        "numberOfClusters": 2,
        "predicates": [
            {"requiredClusterSelector": {"labelSelector": {"matchExpressions": expressions}}},
            {
                "requiredClusterSelector": {
                    "labelSelector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}]}
                }
            },
        ],
        "prioritizerPolicy": {
            "mode": "Additive",
            "configurations": [
                {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": 3},
                {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "usage", "scoreName": "cpu"}}, "weight": -1},
            ],
        },
        "sortBy": "ClusterName",
        "scoreRateLimit": "1m",
    }
    assert "--overwrite" in fleet.fails(*create)
    assert "is updated" in fleet.ok(*create, "--overwrite")
    assert "predicates" not in admin.get(place).expect(200)["spec"]
    for wrong in (["--prioritizers", "Steady:3"], ["--prioritizers", "BuiltIn:Steady:11"], ["--label-selectors", "a in"]):
        assert wrong[0] in fleet.fails("create", "placement", "wrong", "-n", "placing", *wrong)
    assert "is deleted" in fleet.ok("delete", "placement", "web", "--namespace", "placing")
    assert admin.get(place).status == 404
    assert "already deleted" in fleet.ok("delete", "placement", "web", "-n", "placing")


@shows("get placements", "--explain", "--filename", "--namespace")
def test_defect_8_a_choice_is_explained_cluster_by_cluster_whether_made_or_thought_of(fleet: World, tmp_path: Path) -> None:
    fleet.hub.admin.post("/api/v1/namespaces", {"metadata": {"name": "explained"}}).expect(201, 409)
    fleet.ok("clusterset", "create", "explained")
    fleet.ok("clusterset", "bind", "explained", "--namespace", "explained")
    fleet.ok("clusterset", "set", "explained", "--clusters", "c1")
    fleet.ok("create", "placement", "near", "-n", "explained")

    def told(*words: str) -> dict[str, str]:
        lines = fleet.ok("get", "placements", "--explain", *words).splitlines()
        return {line.split()[0]: " ".join(line.split()) for line in lines}

    rows = told("near", "--namespace", "explained")
    assert rows["PlacementSatisfied:"].startswith("PlacementSatisfied: False NoManagedClusterMatched")
    assert rows["c1"].startswith("c1 filtered TaintToleration: "), "its agent is nowhere"
    assert rows["c2"].startswith("c2 not visible no set that it is in")
    file = tmp_path / "placement.yaml"
    kind = {"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement"}
    everything: dict[str, object] = {"tolerations": [{"operator": "Exists"}]}
    thought = {**kind, "metadata": {"name": "far", "namespace": "explained"}, "spec": everything}
    file.write_text(yaml.safe_dump(thought))
    rows = told("-f", str(file))
    assert rows["PlacementSatisfied:"].startswith("PlacementSatisfied: True AllDecisionsScheduled")
    assert rows["c1"].startswith("c1 chosen "), "by what score depends on what other placements have chosen"
    assert "Balance:" in rows["c1"]
    assert rows["c1"].endswith("Steady:0x1")
    everything["predicates"] = [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"region": "east"}}}}]
    file.write_text(yaml.safe_dump(thought))
    assert told("--filename", str(file))["c1"].startswith("c1 filtered Predicate: ")
    found = json.loads(fleet.ok("get", "placements", "--explain", "-f", str(file), "-o", "json"))
    assert [one["name"] for one in found["filteredPipelineResults"]] == ["Predicate", "Predicate,TaintToleration"]
    assert "there is no Placement" in fleet.fails("get", "placements", "nobody", "-n", "explained", "--explain")
    assert "--explain" in fleet.fails("get", "placements", "--explain", code=2)
