"""Agents and hubs that meet over gRPC: a cluster joins, its works come and go, certificates are renewed, connections break.

A scenario is written once; `HUBS` and `AGENTS` say with which programs it runs. Agents reach nothing of the hub but the gRPC port.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
import yaml
from cryptography import x509

from tests.interop.grpc_fleet import BOOTSTRAP_USER, GRPC_SIGNER, WORK_API, GrpcAgents, GrpcHub
from tests.interop.ocm import AGENT_NAMESPACE, work
from tests.support.administrator import read_secret
from tests.support.planes import ControlPlane, chosen

CLUSTER = "cluster1"
WORKS = f"{WORK_API}/namespaces/{CLUSTER}/manifestworks"
RENEWING = "renewing"
SHORT = 60
"""Seconds that certificates live on the hub that renews: upstream's agents ask anew when a fourth of that is left."""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    ground = chosen(tmp_path_factory.mktemp("grpc"), "spoke", "short-lived", "short-lived-spoke")
    ground.start()
    yield ground
    ground.stop(kill=True)


@pytest.fixture(scope="module")
def hub(ground: ControlPlane) -> Iterator[GrpcHub]:
    hub = GrpcHub(ground.cluster, ground.directory / "hub")
    hub.start()
    yield hub
    hub.stop()


@pytest.fixture(scope="module")
def agents(ground: ControlPlane, hub: GrpcHub) -> Iterator[GrpcAgents]:
    """Joined, and with a work agent."""
    agents = GrpcAgents(hub, ground.extra("spoke"), ground.directory / CLUSTER, CLUSTER)
    try:
        join(hub, agents)
        agents.start_work()
        yield agents
    finally:
        agents.stop()


def join(hub: GrpcHub, agents: GrpcAgents, lease: int = 60) -> None:
    administrator = hub.administrator
    agents.start_registration()
    administrator.wait(lambda: administrator.requests(agents.name), "the agent's certificate request", 60)
    administrator.accept(agents.name, lease=lease)
    for request in administrator.requests(agents.name):
        administrator.decide(request)
    administrator.wait_available(agents.name, timeout=120)


def conditions(hub: GrpcHub, name: str) -> set[str]:
    status = hub.admin.get(f"{WORKS}/{name}").expect(200).get("status", {})
    return {one["type"] for one in status.get("conditions", ()) if one["status"] == "True"}


def named_work(name: str, value: str) -> dict[str, object]:
    return {**work(value, name), "metadata": {"name": name}}


def delivered(hub: GrpcHub, agents: GrpcAgents, name: str, value: str) -> None:
    hub.administrator.wait(lambda: agents.delivered(name) == value, f"{name} to say {value!r} on the managed cluster", 90)


@pytest.mark.timeout(300)
def test_a_cluster_joins(hub: GrpcHub, agents: GrpcAgents) -> None:
    [request] = hub.administrator.requests(CLUSTER)
    assert request["spec"]["signerName"] == GRPC_SIGNER
    assert request["metadata"]["annotations"] == {"open-cluster-management.io/csr-user": BOOTSTRAP_USER}

    kept = read_secret(agents.admin, AGENT_NAMESPACE, agents.secret)
    assert {"cluster-name", "agent-name", "tls.crt", "tls.key", "config.yaml"} <= kept.keys()
    assert yaml.safe_load(kept["config.yaml"])["url"] == f"127.0.0.1:{agents.link.port}"
    [issued] = x509.load_pem_x509_certificates(kept["tls.crt"])
    assert base64.b64decode(request["status"]["certificate"]) == kept["tls.crt"]
    assert issued.issuer == x509.load_pem_x509_certificate(hub.signer.pair.cert.read_bytes()).subject


@pytest.mark.timeout(300)
def test_a_work_is_applied_changed_and_removed(hub: GrpcHub, agents: GrpcAgents) -> None:
    hub.admin.post(WORKS, named_work("hello", "first")).expect(201)
    delivered(hub, agents, "hello", "first")
    hub.administrator.wait(lambda: conditions(hub, "hello") >= {"Applied", "Available"}, "the work's status", 60)

    hub.admin.patch(f"{WORKS}/hello", {"spec": named_work("hello", "second")["spec"]}).expect(200)
    delivered(hub, agents, "hello", "second")

    hub.admin.delete(f"{WORKS}/hello").expect(200)
    hub.administrator.wait(lambda: hub.admin.get(f"{WORKS}/hello").status == 404, "the work to be gone", 60)
    assert agents.delivered("hello") is None


@pytest.mark.timeout(300)
def test_what_changed_while_the_server_was_away_reaches_the_agent_later(hub: GrpcHub, agents: GrpcAgents) -> None:
    """The server was killed, and its successor finds everything anew. One outage only: upstream's agents wait longer for each."""
    for name in ("changed", "deleted"):
        hub.admin.post(WORKS, named_work(name, "before")).expect(201)
        delivered(hub, agents, name, "before")
        # Only what an agent has taken over is kept until it lets go.
        hub.administrator.wait(lambda name=name: "Applied" in conditions(hub, name), "the work's status", 60)  # type: ignore[misc]

    agents.link.cut()
    hub.restart_server(kill=True)
    hub.admin.patch(f"{WORKS}/changed", {"spec": named_work("changed", "after")["spec"]}).expect(200)
    hub.admin.delete(f"{WORKS}/deleted").expect(200)
    hub.admin.post(WORKS, named_work("created", "meanwhile")).expect(201)
    agents.link.mend()

    delivered(hub, agents, "changed", "after")
    delivered(hub, agents, "created", "meanwhile")
    hub.administrator.wait(lambda: hub.admin.get(f"{WORKS}/deleted").status == 404, "the deleted work to be gone", 60)
    assert agents.delivered("deleted") is None


@pytest.mark.timeout(420)
def test_a_certificate_is_renewed_before_it_ends(ground: ControlPlane) -> None:
    flags = [f"--grpc-signing-duration={SHORT}s"]
    hub = GrpcHub(ground.extra("short-lived"), ground.directory / "short-lived", flags)
    agents = GrpcAgents(hub, ground.extra("short-lived-spoke"), ground.directory / RENEWING, RENEWING)
    try:
        hub.start()
        join(hub, agents, lease=5)
        before = read_secret(agents.admin, AGENT_NAMESPACE, agents.secret)["tls.crt"]

        def renewed() -> bool:
            return read_secret(agents.admin, AGENT_NAMESPACE, agents.secret)["tls.crt"] != before

        hub.administrator.wait(renewed, "the next certificate", 2 * SHORT)
        second = hub.administrator.requests(RENEWING)[-1]
        user = second["metadata"]["annotations"]["open-cluster-management.io/csr-user"]
        assert user == f"system:open-cluster-management:{RENEWING}:agent1"
        hub.administrator.wait_renewed(RENEWING, times=2, timeout=120)
    finally:
        agents.stop()
        hub.stop()
