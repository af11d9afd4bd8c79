"""Agents and hubs that meet over gRPC: a cluster joins, its works come and go, certificates are renewed, connections break.

Hub, gRPC server and agents are each either upstream's (those that are pinned, or those that MUSTER_GO_OCM names) or ours; agents
reach nothing of the hub but the gRPC port.
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
    GoAgents,
    GrpcAgents,
    GrpcHub,
    MusterAgents,
    ServerProgram,
)
from tests.interop.ocm import AGENT_NAMESPACE, aged
from tests.support.planes import ControlPlane, chosen
from tests.support.registration import HUB_SECRET


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
        agents.join()
        agents.start_work()
        yield agents
    finally:
        agents.stop()


@pytest.mark.timeout(300)
def test_a_cluster_joins(hub: GrpcHub, agents: GrpcAgents) -> None:
    [request] = hub.administrator.requests(CLUSTER)
    assert request["spec"]["signerName"] == GRPC_SIGNER
    assert request["metadata"]["annotations"] == {"open-cluster-management.io/csr-user": BOOTSTRAP_USER}

    kept = agents.credential()
    assert {"cluster-name", "agent-name", "tls.crt", "tls.key", "config.yaml"} <= kept.keys()
    assert yaml.safe_load(kept["config.yaml"])["url"] == f"127.0.0.1:{agents.link.port}"
    [issued] = x509.load_pem_x509_certificates(kept["tls.crt"])
    assert base64.b64decode(request["status"]["certificate"]) == kept["tls.crt"]
    assert issued.issuer == x509.load_pem_x509_certificate(hub.signer.pair.cert.read_bytes()).subject


@pytest.mark.timeout(300)
def test_a_work_is_applied_changed_and_removed(hub: GrpcHub, agents: GrpcAgents) -> None:
    hub.put_work(CLUSTER, "hello", "first")
    agents.wait_delivered("hello", "first")
    hub.wait_reported(CLUSTER, "hello")

    hub.put_work(CLUSTER, "hello", "second")
    agents.wait_delivered("hello", "second")
    hub.wait_reported(CLUSTER, "hello")

    hub.delete_work(CLUSTER, "hello")
    hub.wait_gone(CLUSTER, "hello")
    assert agents.delivered("hello") is None


@pytest.mark.timeout(420)
@pytest.mark.parametrize("combination", [one for one in COMBINATIONS if one.agents is GoAgents], ids=str, indirect=True)
def test_a_certificate_is_renewed_over_the_connection_that_it_opened(hub: GrpcHub, agents: GrpcAgents) -> None:
    """It is made to believe that its certificate ages by a copy with other dates; the server is only ever shown real ones."""
    administrator = hub.administrator
    stored = agents.credential()
    connections = agents.link.connections
    old = base64.b64encode(aged(stored["tls.crt"], stored["tls.key"])).decode()
    agents.admin.patch(f"/api/v1/namespaces/{AGENT_NAMESPACE}/secrets/{HUB_SECRET}", {"data": {"tls.crt": old}}).expect(200)

    administrator.wait(lambda: len(administrator.requests(CLUSTER)) == 2, "a request for the next certificate", 60)
    request = administrator.requests(CLUSTER)[-1]
    user = request["metadata"]["annotations"]["open-cluster-management.io/csr-user"]
    assert user == f"system:open-cluster-management:{CLUSTER}:agent1"
    if not hub.approves_renewals:
        administrator.decide(request)

    def renewed() -> bool:
        found = x509.load_pem_x509_certificate(agents.credential()["tls.crt"])
        first = x509.load_pem_x509_certificate(stored["tls.crt"])
        return found.issuer == first.issuer and found.serial_number != first.serial_number

    administrator.wait(renewed, "the next certificate", 60)
    administrator.wait(lambda: agents.link.connections > connections, "a connection with the next certificate", 90)
    administrator.wait_renewed(CLUSTER, times=2, timeout=200)


@pytest.mark.timeout(300)
def test_agents_that_were_killed_go_on_where_they_were(hub: GrpcHub, agents: GrpcAgents) -> None:
    for name in ("altered", "dropped", "removed"):
        hub.put_work(CLUSTER, name, "before")
        agents.wait_delivered(name, "before")
        hub.wait_reported(CLUSTER, name)
    before = hub.administrator.requests(CLUSTER)

    agents.stop(kill=True)
    hub.put_work(CLUSTER, "altered", "after")
    hub.delete_work(CLUSTER, "dropped")
    hub.delete_work(CLUSTER, "removed", force=True)
    agents.start()

    agents.wait_delivered("altered", "after")
    hub.wait_reported(CLUSTER, "altered")
    hub.wait_gone(CLUSTER, "dropped")
    assert agents.delivered("dropped") is None
    # Of this one no server tells an agent that does not know it: its record is left over.
    hub.administrator.wait(lambda: agents.delivered("removed") is None, "what a removed work had delivered to be evicted", 90)
    hub.administrator.wait_renewed(CLUSTER, times=2, timeout=90)
    assert hub.administrator.requests(CLUSTER) == before


@pytest.mark.timeout(300)
def test_what_changed_while_the_server_was_away_reaches_the_agent_later(hub: GrpcHub, agents: GrpcAgents) -> None:
    """The server was killed, and its successor finds everything anew. One outage only: upstream's agents wait longer for each."""
    for name in ("changed", "deleted", "forced"):
        hub.put_work(CLUSTER, name, "before")
        agents.wait_delivered(name, "before")
        # Only what an agent has taken over is kept until it lets go.
        hub.wait_reported(CLUSTER, name)

    agents.link.cut()
    hub.restart_server(kill=True)
    hub.put_work(CLUSTER, "changed", "after")
    hub.delete_work(CLUSTER, "deleted")
    hub.put_work(CLUSTER, "created", "meanwhile")
    hub.delete_work(CLUSTER, "forced", force=True)
    agents.link.mend()

    agents.wait_delivered("changed", "after")
    agents.wait_delivered("created", "meanwhile")
    hub.wait_gone(CLUSTER, "deleted")
    assert agents.delivered("deleted") is None
    if hub.program is MUSTER or isinstance(agents, MusterAgents):
        # Upstream's server has no name for it, and what the work had delivered stays with upstream's agent.
        hub.administrator.wait(lambda: agents.delivered("forced") is None, "what a removed work had delivered to be gone", 60)
