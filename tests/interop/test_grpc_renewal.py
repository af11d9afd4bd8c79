"""Our agents' certificates on upstream's gRPC server: asked for, approved and signed while they are short of time, and moved to
without a gap.

The hub signs certificates that live for a minute and a half, so everything happens as it would in a month, and nobody's clock is
wrong. Whether the renewal is approved by upstream's hub, by ours or by a person makes no difference to the agents.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from cryptography import x509

from tests.interop.grpc_fleet import AGENT, GO, GRPC_SIGNER, GrpcHub, MusterAgents
from tests.interop.ocm import AGENT_NAMESPACE
from tests.support.administrator import AVAILABLE, read_secret
from tests.support.planes import ControlPlane, chosen
from tests.support.registration import PENDING_SECRET

CLUSTER = "cluster1"
LIFETIME = "90s"
HUBS = {"gohub": False, "ourhub": True}
LEASE = 5


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    ground = chosen(tmp_path_factory.mktemp("renewal"), *(f"{role}-{kind}" for kind in HUBS for role in ("hub", "spoke")))
    ground.start()
    yield ground
    ground.stop(kill=True)


@pytest.fixture(params=HUBS)
def agents(ground: ControlPlane, request: pytest.FixtureRequest) -> Iterator[MusterAgents]:
    """Joined, with a work agent, on upstream's server."""
    kind = request.param
    hub = GrpcHub(ground.extra(f"hub-{kind}"), ground.directory / f"hub-{kind}", GO, HUBS[kind], LIFETIME)
    agents: MusterAgents | None = None
    try:
        hub.start()
        agents = MusterAgents(hub, ground.extra(f"spoke-{kind}"), ground.directory / f"spoke-{kind}", CLUSTER)
        agents.join(lease=LEASE)
        agents.start_work()
        yield agents
    finally:
        if agents is not None:
            agents.stop()
        hub.stop()


@pytest.mark.timeout(300)
def test_agents_move_to_their_next_certificate_without_a_gap(agents: MusterAgents) -> None:
    hub, administrator = agents.hub, agents.hub.administrator
    hub.put_work(CLUSTER, "kept", "first")
    agents.wait_delivered("kept", "first")
    hub.wait_reported(CLUSTER, "kept")
    first = agents.credential()
    assert len(administrator.requests(CLUSTER)) == 1
    available = administrator.condition(CLUSTER, AVAILABLE)["lastTransitionTime"]
    administrator.wait(lambda: agents.link.open == 2, "one connection of each agent")
    agents.link.count_fewest()
    connections = agents.link.connections

    administrator.wait(lambda: len(administrator.requests(CLUSTER)) == 2, "a request for the next certificate", 120)
    asked = administrator.requests(CLUSTER)[-1]
    assert asked["spec"]["signerName"] == GRPC_SIGNER
    user = asked["metadata"]["annotations"]["open-cluster-management.io/csr-user"]
    assert user == f"system:open-cluster-management:{CLUSTER}:{AGENT}"
    if not hub.approves_renewals:
        # While nobody decides, the certificate that there is serves.
        hub.put_work(CLUSTER, "kept", "while asking")
        agents.wait_delivered("kept", "while asking", 10)
        assert agents.credential() == first
        administrator.decide(asked)

    administrator.wait(lambda: agents.credential()["tls.crt"] != first["tls.crt"], "the next certificate", 15)
    assert agents.credential()["tls.key"] != first["tls.key"]
    administrator.wait(
        lambda: agents.link.connections >= connections + 2 and agents.link.open == 2, "both agents to have moved", 30
    )
    assert agents.link.fewest == 2
    administrator.wait(lambda: not read_secret(agents.admin, AGENT_NAMESPACE, PENDING_SECRET), "nothing to be pending")

    end = x509.load_pem_x509_certificate(first["tls.crt"]).not_valid_after_utc.timestamp()
    administrator.wait(lambda: time.time() > end, "the first certificate to be over", 60)
    hub.put_work(CLUSTER, "kept", "with the next certificate")
    agents.wait_delivered("kept", "with the next certificate", 20)
    hub.wait_reported(CLUSTER, "kept", 20)
    administrator.wait_renewed(CLUSTER, timeout=20)
    assert administrator.condition(CLUSTER, AVAILABLE)["lastTransitionTime"] == available
    assert len(administrator.requests(CLUSTER)) == 2
