"""Clients of OCM 1.3's wire (sdk-go v1.3.0's own) with our gRPC server: what an agent asks for is done and echoed on its streams,
or refused in Kubernetes' words.

The hub is upstream's controller, which signs; the agent is the program `transport-agent`, which does nothing by itself.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.interop.grpc_fleet import GRPC_SIGNER, MUSTER, WORK_API, GrpcHub
from tests.interop.ocm import work
from tests.support import peers
from tests.support.administrator import MANAGED_CLUSTERS, RBAC, managed_cluster
from tests.support.json_lines import JsonLines, Refused
from tests.support.planes import ControlPlane, chosen

CLUSTER = "cluster1"
LABEL = "open-cluster-management.io/cluster-name"
CLUSTERS = "cluster.open-cluster-management.io.v1.managedclusters"
REQUESTS = "certificates.k8s.io.v1.certificatesigningrequests"
LEASES = "coordination.k8s.io.v1.leases"
BUNDLES = "io.open-cluster-management.works.v1alpha1.manifestbundles"
WORKS = f"{WORK_API}/namespaces/{CLUSTER}/manifestworks"
PREFIX = "system:open-cluster-management:"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcHub]:
    ground: ControlPlane = chosen(tmp_path_factory.mktemp("grpc-sdk"))
    ground.start()
    hub = GrpcHub(ground.cluster, ground.directory / "hub", MUSTER)
    try:
        hub.start()
        yield hub
    finally:
        hub.stop()
        ground.stop(kill=True)


@contextmanager
def running(hub: GrpcHub, config: dict[str, Any], cluster: str = CLUSTER, *flags: str) -> Iterator[JsonLines]:
    path = hub.directory / "agent.yaml"
    path.write_text(yaml.safe_dump(config))
    command: list[str | Path] = [peers.need("transport-agent"), f"--config={path}", f"--cluster={cluster}", *flags]
    with JsonLines(command, hub.directory / "agent.log") as agent:
        yield agent


def registered(hub: GrpcHub, cluster: str = CLUSTER) -> dict[str, Any]:
    """The configuration of an agent that has its certificate."""
    groups = (PREFIX + cluster, PREFIX + "managed-clusters")
    pair = hub.signer.issue(f"{PREFIX}{cluster}:agent1", organizations=groups)
    authority = base64.b64encode(hub.signer.pair.cert.read_bytes()).decode()
    return {
        "url": f"127.0.0.1:{hub.port}",
        "caData": authority,
        "clientCertFile": str(pair.cert),
        "clientKeyFile": str(pair.key),
    }


def accepted(hub: GrpcHub, cluster: str = CLUSTER) -> None:
    """With the rights and the lease that the hub's controller gives."""
    reply = hub.admin.post(MANAGED_CLUSTERS, managed_cluster(cluster, accepted=True, leaseDurationSeconds=60))
    assert reply.status in (201, 409), reply.text
    if reply.status == 409:
        hub.administrator.accept(cluster)
    hub.administrator.wait(lambda: hub.administrator.lease(cluster), "the cluster's lease", 60)
    bindings = f"{RBAC}/namespaces/{cluster}/rolebindings"
    hub.administrator.wait(lambda: len(hub.admin.get(bindings).expect(200)["items"]) >= 2, "the agent's rights", 60)


def seen(agent: JsonLines, data_type: str, matches: Callable[[dict[str, Any]], object]) -> bool:
    events = [one["seen"] for one in list(agent.told) if "seen" in one]
    return any(event["dataType"] == data_type and matches(event) for event in events)


def request_for(cluster: str) -> tuple[str, dict[str, Any]]:
    key = ec.generate_private_key(ec.SECP256R1())
    organizations = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in (PREFIX + cluster, PREFIX + "managed-clusters")
    ]
    subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, f"{PREFIX}{cluster}:agent1")])
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    name = f"{cluster}-abcde"
    return name, {
        "metadata": {"name": name, "labels": {LABEL: cluster}},
        "spec": {
            "request": base64.b64encode(asked.public_bytes(serialization.Encoding.PEM)).decode(),
            "signerName": GRPC_SIGNER,
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    }


@pytest.mark.timeout(180)
def test_a_newcomer_is_created_and_gets_its_certificate_on_its_stream(hub: GrpcHub) -> None:
    name, request = request_for("newcomer")
    with running(hub, hub.bootstrap_config(f"127.0.0.1:{hub.port}"), "newcomer", "--bootstrap") as agent:
        wait = hub.administrator.wait
        wait(lambda: created(agent, managed_cluster("newcomer")), "the agent to be connected", 60)
        agent.ask(op="create", dataType=REQUESTS, object=request)
        wait(lambda: hub.administrator.requests("newcomer"), "the request on the hub")
        hub.administrator.accept("newcomer")
        for one in hub.administrator.requests("newcomer"):
            hub.administrator.decide(one)

        def issued(event: dict[str, Any]) -> object:
            return event["object"]["metadata"]["name"] == name and event["object"].get("status", {}).get("certificate")

        wait(lambda: seen(agent, REQUESTS, issued), "the certificate on the stream", 60)
        assert not seen(agent, REQUESTS, lambda event: event["object"]["metadata"]["labels"][LABEL] != "newcomer")


def created(agent: JsonLines, cluster: dict[str, Any]) -> bool:
    """Whether it is there now; a client that is not connected yet says so at once."""
    try:
        agent.ask(op="create", dataType=CLUSTERS, object=cluster)
    except Refused as refused:
        return bool(refused.error["reason"] == "AlreadyExists")
    return True


@pytest.mark.timeout(180)
def test_a_lease_is_renewed_with_the_version_that_the_echo_brought(hub: GrpcHub) -> None:
    accepted(hub)
    with running(hub, registered(hub)) as agent:
        wait = hub.administrator.wait

        def renewed() -> bool:
            before = hub.administrator.renewed(CLUSTER)
            try:
                agent.ask(op="renew", name="managed-cluster-lease")
            except Refused:
                return False
            return hub.administrator.renewed(CLUSTER) != before

        for _ in range(3):
            wait(renewed, "the lease to be renewed", 60)


@pytest.mark.timeout(180)
def test_a_work_comes_is_reported_on_and_goes(hub: GrpcHub) -> None:
    accepted(hub)
    wait = hub.administrator.wait
    with running(hub, registered(hub)) as agent:
        hub.admin.post(WORKS, work("hello")).expect(201)
        wait(lambda: seen(agent, BUNDLES, lambda event: event["object"]["metadata"]["name"] == "hello"), "the work", 60)

        finalizers = ["cluster.open-cluster-management.io/manifest-work-cleanup"]
        agent.ask(op="patch", dataType=BUNDLES, name="hello", patch={"metadata": {"finalizers": finalizers}})
        condition = {
            "type": "Applied",
            "status": "True",
            "reason": "Done",
            "message": "",
            "lastTransitionTime": "2026-11-16T00:00:00Z",
        }
        agent.ask(op="patch", dataType=BUNDLES, name="hello", patch={"status": {"conditions": [condition]}}, subresource="status")

        def reported() -> object:
            kept = hub.admin.get(f"{WORKS}/hello").expect(200)
            return kept["metadata"].get("finalizers") == finalizers and (kept.get("status") or {}).get("conditions")

        wait(reported, "status and finalizer on the hub", 30)
        hub.admin.delete(f"{WORKS}/hello").expect(200)
        wait(lambda: seen(agent, BUNDLES, lambda event: event["object"]["metadata"].get("deletionTimestamp")), "the deletion", 30)
        agent.ask(op="patch", dataType=BUNDLES, name="hello", patch={"metadata": {"finalizers": None}})
        wait(lambda: hub.admin.get(f"{WORKS}/hello").status == 404, "the work to be gone", 60)


@pytest.mark.timeout(180)
def test_what_the_hub_refuses_is_said_in_kubernetes_words(hub: GrpcHub) -> None:
    accepted(hub)
    _, request = request_for(CLUSTER)
    request["spec"]["signerName"] = "kubernetes.io/kube-apiserver-client"
    with running(hub, registered(hub)) as agent:

        def refused() -> str:
            with pytest.raises(Refused) as said:
                agent.ask(op="create", dataType=REQUESTS, object=request)
            return str(said.value.error["reason"])

        # While it is not connected, the client itself refuses, and for want of words says PublishError.
        hub.administrator.wait(lambda: refused() in ("Forbidden", "Invalid"), "an answer of the hub", 60)
        assert hub.administrator.requests(CLUSTER) == []


@pytest.mark.timeout(180)
def test_an_agent_creates_no_other_cluster(hub: GrpcHub) -> None:
    accepted(hub)
    with running(hub, registered(hub)) as agent:
        hub.administrator.wait(
            lambda: seen(agent, CLUSTERS, lambda event: event["object"]["metadata"]["name"] == CLUSTER), "its own", 60
        )
        with pytest.raises(Refused):
            agent.ask(op="create", dataType=CLUSTERS, object=managed_cluster("somebody-elses"))
        assert hub.administrator.find("somebody-elses") is None
