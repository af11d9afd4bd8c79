"""How a cluster comes, is turned away, comes back and goes."""

from __future__ import annotations

from typing import Any

from tests.e2e.registration.conftest import Fleet
from tests.support.administrator import ACCEPTED, AVAILABLE, JOINED, MANAGED_CLUSTERS, RBAC, managed_cluster
from tests.support.kubectl import kubectl
from tests.support.planes import Cluster
from tests.support.sites import beside_kube

ADDONS = "/apis/addon.open-cluster-management.io/v1beta1/namespaces/{}/managedclusteraddons"
WORKS = "/apis/work.open-cluster-management.io/v1/namespaces/{}/manifestworks"
WORK = {"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "spec": {"workload": {"manifests": []}}}
HOLD = "tests.open-cluster-management.io/hold"


def permissions(fleet: Fleet, name: str) -> dict[str, bool]:
    """Which of the objects that an accepted cluster needs are there."""
    role = f"open-cluster-management:managedcluster:{name}"
    places = {
        "namespace": f"/api/v1/namespaces/{name}",
        "role": f"{RBAC}/clusterroles/{role}",
        "binding": f"{RBAC}/clusterrolebindings/{role}",
        "registration": f"{RBAC}/namespaces/{name}/rolebindings/{role}:registration",
        "work": f"{RBAC}/namespaces/{name}/rolebindings/{role}:work",
    }
    return {what: fleet.hub.admin.get(path).status == 200 for what, path in places.items()}


def test_a_cluster_joins_when_an_administrator_approves_and_accepts_it(fleet: Fleet) -> None:
    hub = fleet.hub
    agent = fleet.agent("newcomer", hub.token_kubeconfig())

    (request,) = hub.wait(lambda: hub.requests("newcomer"), "the agent's certificate request")
    hub.wait(lambda: hub.find("newcomer"), "the ManagedCluster")
    announced = hub.find("newcomer")
    assert announced is not None
    assert announced["spec"]["hubAcceptsClient"] is False
    assert hub.status("newcomer", ACCEPTED) != "True"
    hub.decide(request)
    hub.accept("newcomer")
    hub.wait_available("newcomer")

    assert hub.condition("newcomer", ACCEPTED)["reason"] == "HubClusterAdminAccepted"
    assert hub.condition("newcomer", JOINED)["reason"] == "ManagedClusterJoined"
    assert hub.condition("newcomer", AVAILABLE)["reason"] == "ManagedClusterAvailable"
    assert all(permissions(fleet, "newcomer").values()), permissions(fleet, "newcomer")
    cluster = hub.wait(lambda: untainted(hub.find("newcomer")), "the taint of an unreachable cluster to go")
    assert cluster["status"]["version"]["kubernetes"].startswith("v1.")
    assert cluster["metadata"]["labels"]["cluster.open-cluster-management.io/clusterset"] == "default"
    assert {"kubeconfig", "cluster-name", "agent-name", "tls.crt", "tls.key"} <= set(agent.secret)
    assert agent.pending == {}
    assert len(hub.requests("newcomer")) == 1
    # Whoever shares the agent's directory is on the hub what the agent is.
    shared = Cluster("newcomer", hub.cluster.url, hub.cluster.ca, agent.files / "kubeconfig")
    assert (
        "managedcluster.cluster.open-cluster-management.io/newcomer" in kubectl(shared, "get", "mcl", "newcomer", "-o", "name").out
    )
    assert "Forbidden" in kubectl(shared, "get", "mcl").expect(1).err


def untainted(cluster: dict[str, Any] | None) -> dict[str, Any]:
    return cluster if cluster and not cluster["spec"].get("taints") else {}


def test_a_trusted_introduction_needs_no_administrator_and_a_bare_managed_cluster_does(fleet: Fleet) -> None:
    fleet.hub.admin.post(MANAGED_CLUSTERS, managed_cluster("unproven")).expect(201)

    fleet.joined("trusted")

    cluster = fleet.hub.find("trusted")
    assert cluster is not None
    assert "open-cluster-management.io/automatically-accepted-on" in cluster["metadata"]["annotations"]
    unproven = fleet.hub.find("unproven")
    assert unproven is not None
    assert unproven["spec"]["hubAcceptsClient"] is False


def test_a_denied_cluster_loses_its_rights_and_recovers_without_joining_anew(fleet: Fleet) -> None:
    hub = fleet.hub
    agent = fleet.joined("outcast", lease=1)
    before = agent.secret
    own = agent.client()
    lease = f"/apis/coordination.k8s.io/v1/namespaces/outcast/leases/{'managed-cluster-lease'}"
    own.get(lease).expect(200)

    hub.deny("outcast")

    hub.wait_condition("outcast", ACCEPTED, "False", "HubClusterAdminDenied")
    hub.wait(lambda: own.get(lease).status == 403, "the agent to be refused its lease")
    own.get(f"{MANAGED_CLUSTERS}/outcast").expect(200)
    own.patch(f"{MANAGED_CLUSTERS}/outcast/status", {"status": {"capacity": {"cpu": "1"}}}).expect(403)
    assert not permissions(fleet, "outcast")["registration"]
    hub.wait_condition("outcast", AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped")
    cluster = hub.find("outcast")
    assert cluster is not None
    assert cluster["spec"]["hubAcceptsClient"] is False, "accepted unasked a second time"

    hub.set_accepted("outcast", True)

    hub.wait_condition("outcast", ACCEPTED)
    hub.wait_condition("outcast", AVAILABLE)
    hub.wait_renewed("outcast")
    assert agent.secret == before
    assert len(hub.requests("outcast")) == 1


def test_denial_does_not_wait_for_works_and_lets_the_agent_finish_them(fleet: Fleet) -> None:
    hub = fleet.hub
    own = fleet.joined("worker").client()
    works = WORKS.format("worker")
    hub.admin.post(works, {**WORK, "metadata": {"name": "job", "finalizers": [HOLD]}}).expect(201)

    hub.deny("worker")

    denied = hub.wait_condition("worker", ACCEPTED, "False", "HubClusterAdminDenied")
    assert "1" in denied["message"]
    hub.wait(lambda: not permissions(fleet, "worker")["registration"], "the right to renew the lease to be taken")
    hub.wait(lambda: is_leaving(binding(fleet, "worker")), "the right to works to be taken, once they are done")
    hub.admin.delete(f"{works}/job").expect(200)
    own.patch(f"{works}/job", {"metadata": {"finalizers": None}}).expect(200)
    hub.wait(lambda: not permissions(fleet, "worker")["work"], "the right to works to be gone")
    hub.wait(lambda: own.get(works).status == 403, "the agent to be refused its works")


def binding(fleet: Fleet, name: str) -> dict[str, Any]:
    path = f"{RBAC}/namespaces/{name}/rolebindings/open-cluster-management:managedcluster:{name}:work"
    return fleet.hub.read(path) or {}


def test_a_deleted_cluster_goes_in_order_and_leaves_only_its_namespace(fleet: Fleet) -> None:
    hub = fleet.hub
    agent = fleet.joined("leaver")
    own = agent.client()
    addons, works = ADDONS.format("leaver"), WORKS.format("leaver")
    addon = {"apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ManagedClusterAddOn", "spec": {}}
    hub.admin.post(addons, {**addon, "metadata": {"name": "helper", "finalizers": [HOLD]}}).expect(201)
    hub.admin.post(works, {**WORK, "metadata": {"name": "job", "finalizers": [HOLD]}}).expect(201)

    hub.delete("leaver")

    hub.wait(lambda: is_leaving(hub.admin.get(f"{addons}/helper").json), "the addon to be deleted")
    hub.wait_condition("leaver", "Deleting", "False", "ResourceRemaining")
    assert not is_leaving(hub.admin.get(f"{works}/job").expect(200))
    hub.admin.patch(f"{addons}/helper", {"metadata": {"finalizers": None}}).expect(200)
    hub.wait(lambda: is_leaving(hub.admin.get(f"{works}/job").json), "the work to be deleted")
    # Only the agent knows when the work is undone: it must still be able to say so.
    own.patch(f"{works}/job", {"metadata": {"finalizers": None}}).expect(200)
    hub.wait_gone("leaver")

    left = permissions(fleet, "leaver")
    assert left.pop("namespace")
    assert not any(left.values()), left
    assert own.get(f"{MANAGED_CLUSTERS}/leaver").status == 403


def is_leaving(document: dict[str, Any]) -> bool:
    return bool(document.get("metadata", {}).get("deletionTimestamp"))


@beside_kube
def test_a_cluster_deleted_and_made_again_is_found_by_its_running_agent_which_asks_anew(fleet: Fleet) -> None:
    hub = fleet.hub
    agent = fleet.joined("lazarus")
    before = agent.secret
    hub.delete("lazarus")
    hub.wait_gone("lazarus")

    hub.admin.post(MANAGED_CLUSTERS, managed_cluster("lazarus", accepted=True)).expect(201)

    # It asks within a minute; what comes after that takes as long as joining does.
    hub.wait_available("lazarus", timeout=90)
    assert agent.secret["tls.crt"] != before["tls.crt"]
    assert agent.secret["agent-name"] == before["agent-name"]
    assert len(hub.requests("lazarus")) == 2


def test_a_cluster_leaves_from_its_own_side_and_cannot_let_itself_back_in(fleet: Fleet) -> None:
    hub = fleet.hub
    other = fleet.joined("neighbour")
    agent = fleet.joined("unjoiner")
    own = agent.client()
    path = f"{MANAGED_CLUSTERS}/unjoiner"

    def put(accepted: bool) -> int:
        while True:
            cluster = own.get(path).expect(200)
            reply = own.put(path, {**cluster, "spec": {**cluster["spec"], "hubAcceptsClient": accepted}})
            if reply.status != 409:
                return reply.status

    assert put(False) == 200
    assert put(True) == 403
    hub.wait_condition("unjoiner", ACCEPTED, "False", "HubClusterAdminDenied")
    assert put(True) == 403
    own.get(f"{MANAGED_CLUSTERS}/neighbour").expect(403)
    assert other.client().get(path).status == 403
    body = hub.find("neighbour")
    assert body is not None
    own.put(f"{MANAGED_CLUSTERS}/neighbour", {**body, "spec": {**body["spec"], "hubAcceptsClient": False}}).expect(403)
