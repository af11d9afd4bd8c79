"""Our controller of replica sets beside upstream's: from the same set and the same decisions both make the same works."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.ocm import HUB_NAMESPACE, Fleet, install, service_account_kubeconfig
from tests.support.administrator import Administrator
from tests.support.planes import Cluster, ControlPlane, chosen
from tests.support.work_hub import WORK_GROUP, WorkHub

Document = dict[str, Any]
GATE = "--feature-gates=ManifestWorkReplicaSet=true"
SETS = f"/apis/{WORK_GROUP}/v1alpha1/namespaces/apps/manifestworkreplicasets"
PLACING = "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/apps"
CLUSTERS = ("a", "b", "c")


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    ground = chosen(tmp_path_factory.mktemp("replica-sets"), "go-hub")
    ground.start()
    yield ground
    ground.stop(kill=True)


@pytest.fixture(scope="module")
def ours(ground: ControlPlane) -> Iterator[Administrator]:
    hub = WorkHub(ground.cluster, ground.directory / "ours")
    hub.install(GATE)
    hub.start(GATE)
    prepare(hub)
    yield hub
    hub.stop()


@pytest.fixture(scope="module")
def upstream(ground: ControlPlane) -> Iterator[Administrator]:
    cluster: Cluster = ground.extra("go-hub")
    fleet = Fleet(cluster, cluster, ground.directory / "upstream")
    install(fleet.hub_admin, "hub", HUB_NAMESPACE)
    own = service_account_kubeconfig(
        cluster, fleet.hub_admin, HUB_NAMESPACE, "work-controller-sa", fleet.directory / "work.kubeconfig"
    )
    fleet._run("work-manager", "manager", f"--kubeconfig={own}", GATE, f"--namespace={HUB_NAMESPACE}")
    hub = Administrator(cluster)
    hub.servers += fleet.servers
    prepare(hub)
    yield hub
    fleet.stop()


def prepare(hub: Administrator) -> None:
    for name in (*CLUSTERS, "apps"):
        hub.admin.post("/api/v1/namespaces", {"metadata": {"name": name}}).expect(201)
    placement = {"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "metadata": {"name": "p"}}
    hub.admin.post(f"{PLACING}/placements", {**placement, "spec": {}}).expect(201)
    labels = {
        "cluster.open-cluster-management.io/placement": "p",
        "cluster.open-cluster-management.io/decision-group-index": "0",
        "cluster.open-cluster-management.io/decision-group-name": "",
    }
    decision = {**placement, "kind": "PlacementDecision", "metadata": {"name": "p-1", "labels": labels}}
    hub.admin.post(f"{PLACING}/placementdecisions", decision).expect(201)
    decide(hub, *CLUSTERS)


def decide(hub: Administrator, *clusters: str) -> None:
    chosen = {"status": {"decisions": [{"clusterName": cluster, "reason": ""} for cluster in clusters]}}
    hub.admin.patch(f"{PLACING}/placementdecisions/p-1/status", chosen).expect(200)
    count = {"status": {"numberOfSelectedClusters": len(clusters), "decisionGroups": [], "conditions": []}}
    hub.admin.patch(f"{PLACING}/placements/p/status", count).expect(200)


def replica_set(name: str, strategy: Document | None = None) -> Document:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"v": "1"}}
    reference: Document = {"name": "p", **({"rolloutStrategy": strategy} if strategy else {})}
    spec = {"manifestWorkTemplate": {"workload": {"manifests": [manifest]}}, "placementRefs": [reference]}
    kind = {"apiVersion": f"{WORK_GROUP}/v1alpha1", "kind": "ManifestWorkReplicaSet"}
    return {**kind, "metadata": {"name": name, "labels": {"team": "blue"}}, "spec": spec}


def made(hub: Administrator, name: str) -> dict[str, Document]:
    """By cluster, what a set's works are."""
    listed = hub.admin.get(f"/apis/{WORK_GROUP}/v1/manifestworks").expect(200)["items"]
    ours = [one for one in listed if one["metadata"]["name"] == name]
    return {one["metadata"]["namespace"]: {"labels": one["metadata"]["labels"], "spec": one["spec"]} for one in ours}


def both_make(hubs: tuple[Administrator, Administrator], name: str, *clusters: str) -> None:
    for hub in hubs:
        hub.wait(lambda hub=hub: set(made(hub, name)) == set(clusters), f"{name} on {clusters}", 60)  # type: ignore[misc]
    assert made(hubs[0], name) == made(hubs[1], name)


@pytest.mark.timeout(180)
def test_both_make_change_and_remove_the_same_works(ours: Administrator, upstream: Administrator) -> None:
    hubs = (ours, upstream)
    for hub in hubs:
        hub.admin.post(SETS, replica_set("everywhere")).expect(201)
    both_make(hubs, "everywhere", *CLUSTERS)
    finalizers = [hub.admin.get(f"{SETS}/everywhere").expect(200)["metadata"]["finalizers"] for hub in hubs]
    assert finalizers[0] == finalizers[1]

    for hub in hubs:
        decide(hub, "b")
    both_make(hubs, "everywhere", "b")

    for hub in hubs:
        hub.admin.delete(f"{SETS}/everywhere").expect(200)
    both_make(hubs, "everywhere")
    for hub in hubs:
        hub.wait(lambda hub=hub: hub.admin.get(f"{SETS}/everywhere").status == 404, "the set to go", 60)  # type: ignore[misc]
        decide(hub, *CLUSTERS)


@pytest.mark.timeout(180)
def test_both_begin_a_progressive_rollout_with_the_same_clusters(ours: Administrator, upstream: Administrator) -> None:
    for hub in (ours, upstream):
        strategy = {"type": "Progressive", "progressive": {"maxConcurrency": 2}}
        hub.admin.post(SETS, replica_set("slowly", strategy)).expect(201)
    both_make((ours, upstream), "slowly", "a", "b")


@pytest.mark.timeout(180)
def test_both_say_the_same_of_placements_that_are_not_there(ours: Administrator, upstream: Administrator) -> None:
    for hub in (ours, upstream):
        body = replica_set("lost")
        body["spec"]["placementRefs"] = [{"name": "nowhere"}]
        hub.admin.post(SETS, body).expect(201)

        def said(hub: Administrator = hub) -> bool:
            conditions = (hub.admin.get(f"{SETS}/lost").expect(200).get("status") or {}).get("conditions") or []
            found = [(one["status"], one["reason"]) for one in conditions if one["type"] == "PlacementVerified"]
            return found == [("False", "PlacementDecisionNotFound")]

        hub.wait(said, "PlacementVerified", 60)
