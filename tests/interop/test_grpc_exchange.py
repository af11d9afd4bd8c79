"""Agents that are exchanged in place over gRPC: upstream's for ours and ours for upstream's, on a cluster that has joined.

The next agents find what the last ones left on the cluster (the Secret with the certificate, the records of applied works) and on
the hub, and go on with that: nothing is delivered anew, no certificate is asked for, and what happened while nobody was there is
made up for by whoever comes. Servers and hubs are upstream's or ours.

Outside of a pod upstream's registration agent wants a kubeconfig of the hub in that Secret, which it puts there itself and of which
it uses nothing. Ours leaves it alone, and puts none there: so upstream's agents that follow ours on a cluster that ours have
introduced introduce themselves once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.interop.grpc_fleet import GO, MUSTER, GoAgents, GrpcAgents, GrpcHub, MusterAgents, ServerProgram, works_of
from tests.interop.ocm import MAPS
from tests.support.planes import ControlPlane, chosen

CLUSTER = "cluster1"
RECORDS = "/apis/work.open-cluster-management.io/v1/appliedmanifestworks"
HUBS: dict[str, tuple[ServerProgram, bool]] = {
    "gohub-go": (GO, False),
    "gohub-muster": (MUSTER, False),
    "ourhub-muster": (MUSTER, True),
}
LEASE = 10
EXCHANGES: tuple[tuple[Callable[..., GrpcAgents], str], ...] = (
    (MusterAgents, "deleted-for-ours"),
    (GoAgents, "deleted-for-upstreams"),
    (MusterAgents, ""),
)
"""Who comes next, and which work is deleted before."""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    names = [f"{role}-{one}" for one in HUBS for role in ("hub", "first-go", "first-ours")]
    ground = chosen(tmp_path_factory.mktemp("exchange"), *names)
    ground.start()
    yield ground
    ground.stop(kill=True)


@pytest.fixture(scope="module", params=HUBS)
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture(scope="module")
def hub(ground: ControlPlane, kind: str) -> Iterator[GrpcHub]:
    program, ours = HUBS[kind]
    hub = GrpcHub(ground.extra(f"hub-{kind}"), ground.directory / f"hub-{kind}", program, ours)
    hub.start()
    yield hub
    hub.stop()


def identities(hub: GrpcHub, agents: GrpcAgents) -> dict[str, str]:
    """What must stay the very same: the cluster and the work on the hub, and on the cluster the record and the object."""
    [record] = [one for one in agents.admin.get(RECORDS).expect(200)["items"] if one["metadata"]["name"].endswith("-kept")]
    found = {
        "cluster": hub.administrator.find(agents.name),
        "work": hub.admin.get(f"{works_of(agents.name)}/kept").expect(200),
        "record": record,
        "object": agents.admin.get(f"{MAPS}/kept").expect(200),
    }
    return {what: one["metadata"]["uid"] for what, one in found.items() if one is not None}


def serves(hub: GrpcHub, agents: GrpcAgents, value: str) -> None:
    """The lease is renewed, a change is delivered, and what became of it is told."""
    hub.administrator.wait_renewed(agents.name, times=2, timeout=90)
    hub.put_work(agents.name, "kept", value)
    agents.wait_delivered("kept", value)
    hub.wait_reported(agents.name, "kept")
    hub.administrator.wait_available(agents.name, timeout=60)


@pytest.mark.timeout(420)
def test_agents_are_exchanged_and_nothing_is_delivered_anew(ground: ControlPlane, kind: str, hub: GrpcHub) -> None:
    agents: GrpcAgents = GoAgents(hub, ground.extra(f"first-go-{kind}"), ground.directory / f"first-go-{kind}", CLUSTER)
    try:
        agents.join(lease=LEASE)
        agents.start_work()
        for name in ("kept", "changed", "deleted-for-ours", "deleted-for-upstreams"):
            hub.put_work(CLUSTER, name, "before")
            agents.wait_delivered(name, "before")
            hub.wait_reported(CLUSTER, name)
        first, credential = identities(hub, agents), agents.credential()

        for number, (program, deleted) in enumerate(EXCHANGES):
            agents = agents.exchanged_for(program)
            if deleted:
                hub.delete_work(CLUSTER, deleted)
            hub.put_work(CLUSTER, "changed", f"while nobody was there, {number}")

            agents.start()

            agents.wait_delivered("changed", f"while nobody was there, {number}")
            hub.wait_reported(CLUSTER, "changed")
            if deleted:
                hub.wait_gone(CLUSTER, deleted)
                assert agents.delivered(deleted) is None
            serves(hub, agents, f"by agents {number}")
            assert identities(hub, agents) == first
            assert agents.credential()["tls.crt"] == credential["tls.crt"]
            assert len(hub.administrator.requests(CLUSTER)) == 1
    finally:
        agents.stop()


@pytest.mark.timeout(300)
def test_upstreams_agents_follow_ours_on_a_cluster_that_ours_introduced(ground: ControlPlane, kind: str, hub: GrpcHub) -> None:
    agents: GrpcAgents = MusterAgents(hub, ground.extra(f"first-ours-{kind}"), ground.directory / f"first-ours-{kind}", "cluster2")
    try:
        agents.join(lease=LEASE)
        agents.start_work()
        hub.put_work(agents.name, "kept", "before")
        agents.wait_delivered("kept", "before")
        hub.wait_reported(agents.name, "kept")
        first, credential = identities(hub, agents), agents.credential()
        assert "kubeconfig" not in credential

        agents = agents.exchanged_for(GoAgents)
        agents.start_registration()
        hub.administrator.approve(agents.name, timeout=60)
        hub.administrator.wait(lambda: agents.credential()["tls.crt"] != credential["tls.crt"], "a certificate of its own", 60)
        agents.start_work()
        serves(hub, agents, "by upstream's")
        assert identities(hub, agents) == first

        renewed = agents.credential()
        agents = agents.exchanged_for(MusterAgents)
        agents.start()
        serves(hub, agents, "by ours again")
        assert identities(hub, agents) == first
        assert agents.credential()["tls.crt"] == renewed["tls.crt"]
    finally:
        agents.stop()
