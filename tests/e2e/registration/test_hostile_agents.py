"""What an agent can write on the hub, and that none of it keeps the hub from putting its cluster out."""

from __future__ import annotations

import os
import ssl
import subprocess
import urllib.error
import urllib.request
from typing import Any

import orjson
import pytest

from tests.e2e.registration.conftest import Fleet
from tests.e2e.registration.test_attacks import honest_request, read, send, trusted_client
from tests.support.administrator import MANAGED_CLUSTERS, RBAC, managed_cluster, verdicts, wait_for
from tests.support.client import MERGE_PATCH, Client, Reply
from tests.support.registration import MUSTER, Hub

CLUSTERADM = MUSTER.with_name("clusteradm")


def condition(kind: str, more: str = "", since: str = "2026-01-01T00:00:00Z") -> str:
    return '{"type":"' + kind + '","status":"True","reason":"R","message":"m","lastTransitionTime":"' + since + '"' + more + "}"


STATUSES = [
    '{"conditions":[' + condition("Evil", ',"observedGeneration":1e3') + "]}",
    '{"conditions":[' + condition("HubAcceptedManagedCluster", ',"observedGeneration":1000.0') + "]}",
    '{"conditions":[' + condition("Evil", ',"observedGeneration":9223372036854775807') + "]}",
    '{"conditions":[' + condition("Evil", ',"observedGeneration":1.5') + "]}",
    '{"conditions":[' + condition("ManagedClusterConditionAvailable", since="0001-01-01T00:00:00Z") + "]}",
    '{"conditions":null,"capacity":{"cpu":1e3,"evil":"9e9"},"allocatable":{"cpu":2.0}}',
    '{"capacity":{"cpu":1.5}}',
    '{"conditions":[' + condition("Evil").replace('"2026-01-01T00:00:00Z"', "[[]]") + "]}",
    '{"version":{"kubernetes":"\\u001b[31m\\u0000\\n' + "x" * 3000 + '"}}',
    '{"clusterClaims":[{"name":"a","value":"\\u001b]0;evil\\u0007"}]}',
    '{"clusterClaims":"x"}',
    '{"managedNamespaces":[{"name":"a","clusterSet":"b","conditions":[' + condition("NamespaceAvailable") + "]}]}",
    "[]",
    "1e3",
    '"x"',
]


def put(client: Client, cluster: str, **metadata: Any) -> Reply:
    """The ManagedCluster as it is, with this in its metadata, written by its agent."""

    def written() -> Reply | None:
        found = client.get(f"{MANAGED_CLUSTERS}/{cluster}").expect(200)
        found["metadata"] |= metadata
        reply = client.request("PUT", f"{MANAGED_CLUSTERS}/{cluster}", found)
        return None if reply.status == 409 else reply

    reply = wait_for(written, f"a write of {cluster} that nobody overtakes")
    assert reply is not None
    return reply


def commands_work(hub: Hub, cluster: str) -> None:
    for arguments in (
        ("get", "clusters"),
        ("get", "clusters", "-o", "table"),
        ("get", "clusters", cluster, "-o", "yaml"),
        ("get", "works", "--clusters", cluster),
        ("get", "hub-info"),
        ("accept", "--clusters", cluster, "--skip-approve-check", "--dry-run"),
        ("doctor", "--cluster-name", cluster),
    ):
        command = [CLUSTERADM, *arguments, "--kubeconfig", str(hub.cluster.kubeconfig)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert "Traceback" not in done.stderr, (arguments, done.stderr)
        assert done.returncode == 0 or arguments[0] == "doctor", (arguments, done.stdout, done.stderr)


def test_whatever_an_agent_writes_its_cluster_can_be_denied_and_deleted(fleet: Fleet) -> None:
    hub = fleet.hub
    agent = fleet.joined("hostile")
    client = agent.client()
    agent.kill()
    taken = []
    for status in STATUSES:
        body = '{"status":' + status + "}"
        reply = client.request("PATCH", f"{MANAGED_CLUSTERS}/hostile/status", body, content_type=MERGE_PATCH)
        assert reply.status in (200, 400, 422), reply.text
        if reply.status == 200:
            taken.append(status)
            assert hub.admin.patch(f"{MANAGED_CLUSTERS}/hostile?dryRun=All", {"spec": {"hubAcceptsClient": False}}).status == 200
    assert STATUSES[0] in taken
    whole = orjson.loads(client.get(f"{MANAGED_CLUSTERS}/hostile").body)
    assert b"1000.0" not in orjson.dumps(whole)
    client.request("PATCH", f"{MANAGED_CLUSTERS}/hostile/status", '{"status":' + STATUSES[0] + "}", content_type=MERGE_PATCH)
    commands_work(hub, "hostile")

    hub.deny("hostile")

    role = f"{RBAC}/clusterroles/open-cluster-management:managedcluster:hostile"
    hub.wait(lambda: len(hub.admin.get(role).expect(200)["rules"]) == 1, "its rights to shrink")
    hub.wait_reply(lambda: client.get("/apis/coordination.k8s.io/v1/namespaces/hostile/leases"), "it to be out", 403)
    assert client.post("/apis/certificates.k8s.io/v1/certificatesigningrequests", honest_request("hostile")).status == 403
    hub.delete("hostile")
    hub.wait_gone("hostile")


def test_an_agent_cannot_have_its_cluster_collected_as_garbage_or_kept_for_ever(fleet: Fleet) -> None:
    hub = fleet.hub
    agent = fleet.joined("undying")
    client = agent.client()
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "nowhere", "uid": "00000000-0000-4000-8000-000000000001"}
    wishes: tuple[dict[str, Any], ...] = (
        {"ownerReferences": [owner]},
        {"finalizers": ["evil.example/forever"]},
        {"finalizers": []},
    )
    for metadata in wishes:
        refused = put(client, "undying", **metadata)
        assert refused.status == 403, refused.text
        assert "agents of a cluster cannot change metadata." in refused.json["message"]
    assert put(client, "undying", annotations={"agent.open-cluster-management.io/note": "mine"}).status == 200
    newcomer = managed_cluster("stillborn")
    newcomer["metadata"]["finalizers"] = ["evil.example/forever"]
    assert trusted_client(hub).post(MANAGED_CLUSTERS, newcomer).status == 403
    hub.delete("undying")
    hub.wait_gone("undying")


@pytest.mark.parametrize("name", ["default", "kube-flannel", "open-cluster-management-agent"])
def test_no_cluster_takes_the_name_of_a_namespace_of_kubernetes_or_the_hub(fleet: Fleet, name: str) -> None:
    refused = trusted_client(fleet.hub).post(MANAGED_CLUSTERS, managed_cluster(name))
    assert refused.status == 400
    assert "cannot name a cluster" in refused.json["message"]
    join = [str(CLUSTERADM), "join", "--hub-token", "t", "--hub-apiserver", "https://127.0.0.1:1", "--cluster-name", name]
    done = subprocess.run([*join, "--kubeconfig", str(fleet.spoke.cluster.kubeconfig)], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "cannot name a cluster" in done.stderr


def test_a_newcomer_does_not_get_a_namespace_that_somebody_else_has(fleet: Fleet) -> None:
    hub = fleet.hub
    hub.admin.post("/api/v1/namespaces", {"metadata": {"name": "payments"}}).expect(201)
    thief = trusted_client(hub)
    thief.post(MANAGED_CLUSTERS, managed_cluster("payments")).expect(201)
    send(thief, honest_request("payments"))
    other = send(thief, honest_request("payments-neighbour"))
    thief.post(MANAGED_CLUSTERS, managed_cluster("payments-neighbour")).expect(201)
    hub.wait(lambda: "Approved" in verdicts(read(hub, other)), "another newcomer to be approved")
    hub.wait_condition("payments-neighbour", "HubAcceptedManagedCluster")

    refused = hub.patch("payments", {"spec": {"hubAcceptsClient": True}})

    assert refused.status == 403
    assert "kubectl label namespace payments" in refused.json["message"]
    assert not hub.find("payments")["spec"].get("hubAcceptsClient")  # type: ignore[index]
    label = {"metadata": {"labels": {"open-cluster-management.io/cluster-name": "payments"}}}
    hub.admin.patch("/api/v1/namespaces/payments", label).expect(200)
    hub.set_accepted("payments", True)
    hub.wait_condition("payments", "HubAcceptedManagedCluster")
    for name in ("payments", "payments-neighbour"):
        hub.delete(name)
        hub.wait_gone(name)


def test_with_the_gate_agents_and_newcomers_do_not_choose_their_labels_and_sets(fleet: Fleet, second_hub: Hub) -> None:
    agent = fleet.joined("modest", hub=second_hub)
    client = agent.client()
    labels = client.get(f"{MANAGED_CLUSTERS}/modest").expect(200)["metadata"]["labels"]
    refused = put(client, "modest", labels={**labels, "env": "prod"})
    assert refused.status == 403
    assert "metadata.labels[env]" in refused.json["message"]
    assert put(client, "modest", labels={**labels, "agent.open-cluster-management.io/site": "a"}).status == 200
    newcomer = managed_cluster("climber")
    newcomer["metadata"]["labels"] = {"cluster.open-cluster-management.io/clusterset": "secure"}
    refused = trusted_client(second_hub).post(MANAGED_CLUSTERS, newcomer)
    assert refused.status == 403, refused.text
    assert "introduces a cluster that it cannot accept" in refused.json["message"]
    # As upstream, where the gate is off.
    hub = fleet.hub
    newcomer["metadata"]["name"] = "climber-by-default"
    trusted_client(hub).post(MANAGED_CLUSTERS, newcomer).expect(201)
    hub.delete("climber-by-default")
    hub.wait_gone("climber-by-default")


def test_nobody_but_the_api_server_is_answered_by_webhooks_where_it_shows_itself(fleet: Fleet) -> None:
    """The real server of these tests has no certificate for webhooks, and announces none."""
    hub = fleet.hub
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "operation": "CREATE",
            "name": "guessed",
            "userInfo": {"username": "admin", "groups": ["system:masters"]},
            "object": managed_cluster("guessed", accepted=True),
        },
    }
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    url = f"https://127.0.0.1:{hub.webhook_port}/validate-cluster-open-cluster-management-io-v1-managedcluster"
    forged = urllib.request.Request(url, orjson.dumps(review), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(forged, context=context, timeout=20) as answer:
            status, body = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read()
    if os.environ.get("MUSTER_E2E") == "kube":
        assert status == 200
    else:
        assert (status, b"allowed" in body) == (401, False)
    created = hub.admin.post(MANAGED_CLUSTERS, managed_cluster("really", accepted=False))
    assert created.status == 201, created.text
    hub.delete("really")
    hub.wait_gone("really")
