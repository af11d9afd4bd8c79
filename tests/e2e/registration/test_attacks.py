"""What somebody tries who may introduce clusters, or who is one: the name and the rights of another."""

from __future__ import annotations

import base64
import itertools
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.e2e.registration.conftest import Fleet
from tests.support.administrator import (
    ACCEPTED,
    CSRS,
    MANAGED_CLUSTERS,
    RBAC,
    TRUSTED,
    certificate_of,
    managed_cluster,
    service_account_token,
    verdicts,
)
from tests.support.client import Client
from tests.support.planes import USERS
from tests.support.registration import HUB_SECRET, Hub

PREFIX = "system:open-cluster-management:"
LABEL = "open-cluster-management.io/cluster-name"
_numbers = itertools.count(1)


def signing_request(
    label: str, common_name: str, organizations: tuple[str, ...], signer: str = "kubernetes.io/kube-apiserver-client"
) -> dict[str, Any]:
    """With a key of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    pem = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return {
        "metadata": {"name": f"attack-{next(_numbers)}", "labels": {LABEL: label}},
        "spec": {
            "request": base64.b64encode(pem.public_bytes(serialization.Encoding.PEM)).decode(),
            "signerName": signer,
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    }


def honest_request(cluster: str) -> dict[str, Any]:
    return signing_request(cluster, f"{PREFIX}{cluster}:agent", (f"{PREFIX}{cluster}", f"{PREFIX}managed-clusters"))


def send(client: Client, request: dict[str, Any]) -> str:
    return str(client.post(CSRS, request).expect(201)["metadata"]["name"])


def trusted_client(hub: Hub) -> Client:
    namespace, account = TRUSTED.split(":")[2:]
    return Client(hub.cluster.url, ca=hub.cluster.ca, token=service_account_token(hub.admin, namespace, account))


def read(hub: Hub, name: str) -> dict[str, Any]:
    return dict(hub.admin.get(f"{CSRS}/{name}").expect(200))


def introduce(hub: Hub, *names: str) -> None:
    for name in names:
        hub.admin.post(MANAGED_CLUSTERS, managed_cluster(name)).expect(201)


def test_requests_for_a_mix_of_names_stay_pending_while_an_honest_one_is_signed(fleet: Fleet) -> None:
    hub = fleet.hub
    thief = trusted_client(hub)
    everyone = f"{PREFIX}managed-clusters"
    attacks = [
        signing_request("prey", f"{PREFIX}preyxyz:agent", (f"{PREFIX}prey", everyone)),
        signing_request("prey", f"{PREFIX}prey:agent", (f"{PREFIX}preyxyz", everyone)),
        signing_request("preyxyz", f"{PREFIX}prey:agent", (f"{PREFIX}prey", everyone)),
        signing_request("prey", f"{PREFIX}prey:agent", (f"{PREFIX}prey", everyone, f"{PREFIX}other")),
        signing_request("prey", f"{PREFIX}prey:agent:more", (f"{PREFIX}prey", everyone)),
        signing_request("prey", f"{PREFIX}prey", (f"{PREFIX}prey", everyone)),
        signing_request("prey", "system:node:prey", (f"{PREFIX}prey", everyone)),
    ]
    introduce(hub, "prey", "preyxyz", "honest")
    sent = [send(thief, attack) for attack in attacks]

    honest = send(thief, honest_request("honest"))

    hub.wait(lambda: certificate_of(read(hub, honest)), "the honest request to be signed")
    assert [verdicts(read(hub, name)) for name in sent] == [set()] * len(sent)


def test_the_name_of_a_living_cluster_is_not_given_to_another_until_it_is_dead(fleet: Fleet) -> None:
    hub = fleet.hub
    victim = fleet.joined("victim", lease=2)
    thief = trusted_client(hub)

    introduce(hub, "bystander")
    stolen = send(thief, honest_request("victim"))
    later = send(thief, honest_request("bystander"))

    hub.wait(lambda: certificate_of(read(hub, later)), "a request sent later to be signed")
    assert verdicts(read(hub, stolen)) == set()
    hub.wait(lambda: name_in_use(hub, "victim"), "a warning that the name is in use")

    victim.kill()
    hub.patch("victim", {"spec": {"leaseDurationSeconds": 1}}).expect(200)

    hub.wait(lambda: certificate_of(read(hub, stolen)), "the request to be signed once the lease has expired")


def test_of_two_keys_that_ask_for_one_name_neither_is_approved(fleet: Fleet) -> None:
    """Somebody with the same identity copies a newcomer's subject; the hub, which would approve either, approves none."""
    hub = fleet.hub
    bootstrap = trusted_client(hub)
    honest = send(bootstrap, honest_request("coveted"))
    copied = bootstrap.get(f"{CSRS}/{honest}").expect(200)
    twin = send(bootstrap, signing_request("coveted", *subject_of(copied)))
    introduce(hub, "coveted")

    hub.wait(lambda: competing(hub, "coveted"), "a warning that there are two")
    introduce(hub, "beside")
    later = send(bootstrap, honest_request("beside"))
    hub.wait(lambda: certificate_of(read(hub, later)), "a request sent later to be signed")
    assert [verdicts(read(hub, name)) for name in (honest, twin)] == [set(), set()]
    assert not (hub.find("coveted") or {})["spec"].get("hubAcceptsClient")

    hub.decide(read(hub, twin), "Denied")
    hub.wait(lambda: certificate_of(read(hub, honest)), "the one that is left to be signed")
    hub.wait_condition("coveted", ACCEPTED)

    late = send(bootstrap, signing_request("coveted", *subject_of(copied)))
    hub.wait(lambda: [event for event in competing(hub, "coveted") if late in event["note"]], "a warning about the late one")
    assert verdicts(read(hub, late)) == set()


def subject_of(csr: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """What everybody who may ask can read in another's request."""
    subject = x509.load_pem_x509_csr(base64.b64decode(csr["spec"]["request"])).subject
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME), subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(names[0][0].value), tuple(str(one.value) for one in names[1])


def test_a_removed_clusters_certificate_opens_nothing_of_the_next_cluster_of_its_name(fleet: Fleet) -> None:
    hub = fleet.hub
    former = fleet.joined("phoenix")
    reused = former.client()
    reused.get(f"{MANAGED_CLUSTERS}/phoenix").expect(200)
    former.stop()
    fleet.agents.remove(former)
    hub.delete("phoenix")
    hub.wait_gone("phoenix")

    fleet.spoke.admin.delete(f"/api/v1/namespaces/{former.namespace}/secrets/{HUB_SECRET}").expect(200)
    latter = fleet.joined("phoenix")

    works = "/apis/work.open-cluster-management.io/v1/namespaces/phoenix/manifestworks"
    lease = "/apis/coordination.k8s.io/v1/namespaces/phoenix/leases/managed-cluster-lease"
    renewal = honest_request("phoenix")
    closed = [
        reused.get(f"{MANAGED_CLUSTERS}/phoenix"),
        reused.patch(f"{MANAGED_CLUSTERS}/phoenix/status", {"status": {"capacity": {"cpu": "1"}}}),
        reused.patch(f"{MANAGED_CLUSTERS}/phoenix", {"spec": {"hubAcceptsClient": False}}),
        reused.get(works),
        reused.get(lease),
        reused.post(CSRS, renewal),
    ]
    assert [reply.status for reply in closed] == [403] * len(closed)
    for path in (f"{MANAGED_CLUSTERS}/phoenix", works, lease):
        latter.client().get(path).expect(200)

    hub.restart()
    hub.patch("phoenix", {"spec": {"leaseDurationSeconds": 2}}).expect(200)
    hub.wait_renewed("phoenix", times=2)
    assert reused.get(f"{MANAGED_CLUSTERS}/phoenix").status == 403


def competing(hub: Hub, cluster: str) -> list[dict[str, Any]]:
    return events_about(hub, cluster, "CompetingRequests")


def name_in_use(hub: Hub, cluster: str) -> list[dict[str, Any]]:
    return events_about(hub, cluster, "NameInUse")


def events_about(hub: Hub, cluster: str, reason: str) -> list[dict[str, Any]]:
    found = hub.admin.get("/apis/events.k8s.io/v1/events").expect(200)["items"]
    return [event for event in found if event["reason"] == reason and cluster in str(event.get("regarding", "")) + event["note"]]


def test_a_cluster_certificate_opens_nothing_of_another_cluster(fleet: Fleet) -> None:
    fleet.joined("near")
    fleet.joined("nearby")
    near = fleet.agents[0].client()
    closed = [
        near.get(f"{MANAGED_CLUSTERS}/nearby"),
        near.get(MANAGED_CLUSTERS),
        near.get("/apis/coordination.k8s.io/v1/namespaces/nearby/leases/managed-cluster-lease"),
        near.get("/apis/work.open-cluster-management.io/v1/namespaces/nearby/manifestworks"),
        near.patch(f"{MANAGED_CLUSTERS}/nearby/status", {"status": {"capacity": {"cpu": "1"}}}),
        near.get("/api/v1/namespaces/near/secrets"),
        near.get(f"{RBAC}/clusterroles"),
    ]
    assert [reply.status for reply in closed] == [403] * len(closed)


def test_webhooks_refuse_what_rbac_alone_would_let_through(fleet: Fleet) -> None:
    """Alice may write ManagedClusters; whom the hub accepts, and who is in which set, is not hers to say."""
    hub = fleet.hub
    rules = [
        {
            "apiGroups": ["cluster.open-cluster-management.io"],
            "resources": ["managedclusters", "managedclustersetbindings"],
            "verbs": ["*"],
        },
        {
            "apiGroups": ["cluster.open-cluster-management.io"],
            "resources": ["managedclustersets/join"],
            "resourceNames": ["default"],
            "verbs": ["create"],
        },
    ]
    hub.admin.post(f"{RBAC}/clusterroles", {"metadata": {"name": "cluster-writer"}, "rules": rules}).expect(201)
    binding = {
        "metadata": {"name": "cluster-writer"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-writer"},
    }
    hub.admin.post(f"{RBAC}/clusterrolebindings", binding).expect(201)
    alice = Client(hub.cluster.url, ca=hub.cluster.ca, token=USERS["alice"].token)

    hub.wait_reply(lambda: alice.post(MANAGED_CLUSTERS, managed_cluster("guarded")), "alice to have her role", 201)
    refused = alice.patch(f"{MANAGED_CLUSTERS}/guarded", {"spec": {"hubAcceptsClient": True}})
    assert refused.status == 403
    assert 'user "alice" cannot update the HubAcceptsClient field' in refused.json["message"]
    assert alice.post(MANAGED_CLUSTERS, managed_cluster("guarded2", accepted=True)).status == 403

    hub.set_accepted("guarded", True)
    assert alice.patch(f"{MANAGED_CLUSTERS}/guarded", {"spec": {"hubAcceptsClient": False}}).status == 403

    plain = alice.post(MANAGED_CLUSTERS, managed_cluster("guarded3", managedClusterClientConfigs=[{"url": "http://example.com"}]))
    assert plain.status == 400
    assert "https" in plain.json["message"]
    assert alice.post(MANAGED_CLUSTERS, managed_cluster("dotted.name")).status == 400

    label = {"metadata": {"labels": {"cluster.open-cluster-management.io/clusterset": "others"}}}
    moved = alice.patch(f"{MANAGED_CLUSTERS}/guarded", label)
    assert moved.status == 403, moved.text

    taint = {"key": "a", "effect": "NoSelect", "timeAdded": "2020-01-01T00:00:00Z"}
    early = hub.patch("guarded", {"spec": {"taints": [taint]}})
    assert early.status == 400
    assert "TimeAdded" in early.json["message"]
