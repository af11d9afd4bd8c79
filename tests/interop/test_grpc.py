"""Agents and hubs that meet over gRPC: a cluster joins, its works come and go, certificates are renewed, connections break.

Hub, gRPC server and agents are each either upstream's (OCM v1.2.1) or ours; agents reach nothing of the hub but the gRPC port.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml
from cryptography import x509

from tests.interop.grpc_fleet import (
    BOOTSTRAP_USER,
    GO,
    GRPC_SIGNER,
    MUSTER,
    WORK_API,
    GoAgents,
    GrpcAgents,
    GrpcHub,
    MusterAgents,
    ServerProgram,
)
from tests.interop.ocm import AGENT_NAMESPACE, aged, work
from tests.support.administrator import read_secret
from tests.support.planes import ControlPlane, chosen


@dataclass(frozen=True)
class Combination:
    server: ServerProgram
    agents: type[GrpcAgents]
    our_hub: bool = False

    def __str__(self) -> str:
        return f"{'our' if self.our_hub else 'go'}hub-{self.server.name}-{self.agents.__name__.lower()}"


COMBINATIONS = (
    Combination(GO, GoAgents),
    Combination(MUSTER, GoAgents),
    Combination(GO, MusterAgents),
    Combination(MUSTER, GoAgents, our_hub=True),
)
CLUSTER = "cluster1"
WORKS = f"{WORK_API}/namespaces/{CLUSTER}/manifestworks"


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    names = [f"{role}-{one}" for one in COMBINATIONS for role in ("hub", "spoke")]
    ground = chosen(tmp_path_factory.mktemp("grpc"), *names)
    ground.start()
    yield ground
    ground.stop(kill=True)


@pytest.fixture(scope="module", params=COMBINATIONS, ids=str)
def combination(request: pytest.FixtureRequest) -> Combination:
    combination: Combination = request.param
    return combination


@pytest.fixture(scope="module")
def hub(ground: ControlPlane, combination: Combination) -> Iterator[GrpcHub]:
    hub = GrpcHub(
        ground.extra(f"hub-{combination}"), ground.directory / f"hub-{combination}", combination.server, combination.our_hub
    )
    hub.start()
    yield hub
    hub.stop()


@pytest.fixture(scope="module")
def agents(ground: ControlPlane, combination: Combination, hub: GrpcHub) -> Iterator[GrpcAgents]:
    """Joined, and with a work agent."""
    agents = combination.agents(hub, ground.extra(f"spoke-{combination}"), ground.directory / f"spoke-{combination}", CLUSTER)
    try:
        join(hub, agents)
        agents.start_work()
        yield agents
    finally:
        agents.stop()


def join(hub: GrpcHub, agents: GrpcAgents, lease: int = 5) -> None:
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


@pytest.mark.timeout(420)
@pytest.mark.parametrize("combination", [one for one in COMBINATIONS if one.agents is GoAgents], ids=str, indirect=True)
def test_a_certificate_is_renewed_over_the_connection_that_it_opened(hub: GrpcHub, agents: GrpcAgents) -> None:
    """The agent is made to believe that its certificate ages by a copy with other dates; the server is only ever shown real ones.

    Upstream's hub of 1.2 asks for the rights of the server's account before it approves a renewal, and so approves none.
    """
    administrator = hub.administrator
    stored = read_secret(agents.admin, AGENT_NAMESPACE, agents.secret)
    connections = agents.link.connections
    old = base64.b64encode(aged(stored["tls.crt"], stored["tls.key"])).decode()
    agents.admin.patch(f"/api/v1/namespaces/{AGENT_NAMESPACE}/secrets/{agents.secret}", {"data": {"tls.crt": old}}).expect(200)

    administrator.wait(lambda: len(administrator.requests(CLUSTER)) == 2, "a request for the next certificate", 60)
    request = administrator.requests(CLUSTER)[-1]
    user = request["metadata"]["annotations"]["open-cluster-management.io/csr-user"]
    assert user == f"system:open-cluster-management:{CLUSTER}:agent1"
    if not hub.ours:
        administrator.decide(request)

    def renewed() -> bool:
        found = x509.load_pem_x509_certificate(read_secret(agents.admin, AGENT_NAMESPACE, agents.secret)["tls.crt"])
        first = x509.load_pem_x509_certificate(stored["tls.crt"])
        return found.issuer == first.issuer and found.serial_number != first.serial_number

    administrator.wait(renewed, "the next certificate", 60)
    administrator.wait(lambda: agents.link.connections > connections, "a connection with the next certificate", 90)
    administrator.wait_renewed(CLUSTER, times=2, timeout=200)


@pytest.mark.timeout(300)
def test_what_changed_while_the_server_was_away_reaches_the_agent_later(hub: GrpcHub, agents: GrpcAgents) -> None:
    """The server was killed, and its successor finds everything anew. One outage only: upstream's agents wait longer for each."""
    for name in ("changed", "deleted", "forced"):
        hub.admin.post(WORKS, named_work(name, "before")).expect(201)
        delivered(hub, agents, name, "before")
        # Only what an agent has taken over is kept until it lets go.
        hub.administrator.wait(lambda name=name: "Applied" in conditions(hub, name), "the work's status", 60)  # type: ignore[misc]

    agents.link.cut()
    hub.restart_server(kill=True)
    hub.admin.patch(f"{WORKS}/changed", {"spec": named_work("changed", "after")["spec"]}).expect(200)
    hub.admin.delete(f"{WORKS}/deleted").expect(200)
    hub.admin.post(WORKS, named_work("created", "meanwhile")).expect(201)
    hub.admin.patch(f"{WORKS}/forced", {"metadata": {"finalizers": None}}).expect(200)
    hub.admin.delete(f"{WORKS}/forced").expect(200)
    agents.link.mend()

    delivered(hub, agents, "changed", "after")
    delivered(hub, agents, "created", "meanwhile")
    hub.administrator.wait(lambda: hub.admin.get(f"{WORKS}/deleted").status == 404, "the deleted work to be gone", 60)
    assert agents.delivered("deleted") is None
    if hub.program is MUSTER:
        # Upstream's server has no name for it, and what the work had delivered stays.
        hub.administrator.wait(lambda: agents.delivered("forced") is None, "what a removed work had delivered to be gone", 60)
