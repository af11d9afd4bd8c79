"""Upstream's Go registration agent with our hub, and our agent with upstream's Go hub: each takes the other for one of its own.

Each program runs as its own service account with the rights that its own side's manifests give it. Both agents live on one cluster.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from muster.registration.agent.options import AgentOptions
from tests.interop.ocm import AGENT_NAMESPACE, Fleet, aged, work
from tests.support.administrator import ACCEPTED, AVAILABLE, MANAGED_CLUSTERS, RBAC, Administrator, managed_cluster, read_secret
from tests.support.planes import ControlPlane, chosen
from tests.support.registration import HUB_SECRET, PENDING_SECRET, Agent, Hub, Spoke
from tests.support.shifted import HOUR, lifetime, running

SECRET = f"/api/v1/namespaces/{AGENT_NAMESPACE}/secrets/hub-kubeconfig-secret"


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    ground = chosen(tmp_path_factory.mktemp("registration"), "go-hub", "spoke", "exchanged")
    ground.start()
    yield ground
    ground.stop(kill=True)


@pytest.fixture(scope="module")
def our_hub(ground: ControlPlane) -> Iterator[Hub]:
    hub = Hub(ground.cluster, ground.directory / "our-hub")
    hub.install()
    hub.start()
    yield hub
    hub.stop()


@pytest.fixture(scope="module")
def go_agent(ground: ControlPlane, our_hub: Hub) -> Iterator[Fleet]:
    """Upstream's agent of cluster `gopher`."""
    fleet = Fleet(ground.cluster, ground.extra("spoke"), ground.directory / "go-agent", "gopher")
    fleet.start_registration_agent()
    our_hub.servers += fleet.servers
    yield fleet
    fleet.stop()


@pytest.fixture(scope="module")
def go_hub(ground: ControlPlane) -> Iterator[Administrator]:
    """Upstream's hub, on a cluster of its own."""
    cluster = ground.extra("go-hub")
    fleet = Fleet(cluster, cluster, ground.directory / "go-hub")
    fleet.start_hub()
    administrator = Administrator(cluster)
    administrator.servers += fleet.servers
    yield administrator
    fleet.stop()


@pytest.fixture(scope="module")
def our_agent(ground: ControlPlane, go_hub: Administrator) -> Iterator[Agent]:
    """Our agent of cluster `python`."""
    spoke = Spoke(ground.extra("spoke"), ground.directory / "our-agent")
    agent = Agent(spoke, go_hub, "python", go_hub.trusted_kubeconfig(), [f"--client-cert-expiration-seconds={HOUR}"]).start()
    yield agent
    agent.stop()


@pytest.mark.timeout(180)
def test_upstreams_agent_registers_with_our_hub(our_hub: Hub, go_agent: Fleet) -> None:
    our_hub.approve("gopher")
    our_hub.accept("gopher", lease=2)
    our_hub.wait_available("gopher", timeout=90)
    our_hub.wait_renewed("gopher", times=2)
    assert len(our_hub.requests("gopher")) == 1


@pytest.mark.timeout(180)
def test_upstreams_agent_renews_its_certificate_with_our_hub(our_hub: Hub, go_agent: Fleet) -> None:
    """It is made to believe that its certificate ages by a copy with other dates; the hub is only ever shown the real one."""
    our_hub.wait_available("gopher", timeout=90)
    before = len(our_hub.requests("gopher"))
    stored = read_secret(go_agent.spoke_admin, AGENT_NAMESPACE, "hub-kubeconfig-secret")
    old = aged(stored["tls.crt"], stored["tls.key"])

    go_agent.spoke_admin.patch(SECRET, {"data": {"tls.crt": base64.b64encode(old).decode()}}).expect(200)

    our_hub.wait(lambda: len(our_hub.requests("gopher")) > before, "a request for the next certificate", 60)
    our_hub.wait(lambda: certificate(go_agent) not in (old, stored["tls.crt"]), "the new certificate to be stored", 60)
    our_hub.wait_condition("gopher", "ClusterCertificateRotated", timeout=60)
    assert our_hub.requests("gopher")[-1]["spec"]["username"].startswith("system:open-cluster-management:gopher:")
    our_hub.wait_renewed("gopher", times=2)


@pytest.mark.timeout(180)
def test_our_hub_denies_and_takes_back_upstreams_agent(our_hub: Hub, go_agent: Fleet) -> None:
    our_hub.wait_available("gopher", timeout=90)
    before = certificate(go_agent)

    our_hub.deny("gopher")
    our_hub.wait_condition("gopher", ACCEPTED, "False", "HubClusterAdminDenied")
    our_hub.wait_condition("gopher", AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped")
    our_hub.set_accepted("gopher", True)

    our_hub.wait_condition("gopher", ACCEPTED)
    our_hub.wait_condition("gopher", AVAILABLE, timeout=90)
    our_hub.wait_renewed("gopher", times=2)
    assert certificate(go_agent) == before


@pytest.mark.timeout(180)
def test_upstreams_work_agent_delivers_under_our_hub_and_a_deleted_cluster_waits_for_it(our_hub: Hub, go_agent: Fleet) -> None:
    our_hub.wait_available("gopher", timeout=90)
    go_agent.start_work_agent()
    our_hub.servers.append(go_agent.servers[-1])
    works = "/apis/work.open-cluster-management.io/v1/namespaces/gopher/manifestworks"
    our_hub.admin.post(works, work("hello", "from-our-hub")).expect(201)
    our_hub.wait(lambda: go_agent.delivered("from-our-hub") == "hello", "the ConfigMap on the managed cluster", 60)

    our_hub.delete("gopher")
    our_hub.wait_gone("gopher", timeout=60)

    assert our_hub.admin.get(f"{works}/hello").status == 404
    assert go_agent.delivered("from-our-hub") is None
    role = "open-cluster-management:managedcluster:gopher"
    assert our_hub.admin.get(f"{RBAC}/clusterroles/{role}").status == 404
    assert our_hub.admin.get(f"{RBAC}/namespaces/gopher/rolebindings/{role}:work").status == 404


@pytest.mark.timeout(180)
def test_our_agent_registers_with_upstreams_hub_is_denied_taken_back_and_deleted(go_hub: Administrator, our_agent: Agent) -> None:
    go_hub.approve("python")
    go_hub.accept("python", lease=2)
    go_hub.wait_available("python", timeout=60)
    go_hub.wait_renewed("python", times=2)
    before = our_agent.secret

    go_hub.deny("python")
    go_hub.wait_condition("python", ACCEPTED, "False", "HubClusterAdminDenied", timeout=60)
    go_hub.wait_condition("python", AVAILABLE, "Unknown", timeout=60)
    go_hub.set_accepted("python", True)
    go_hub.wait_condition("python", ACCEPTED, timeout=60)
    go_hub.wait_condition("python", AVAILABLE, timeout=60)
    go_hub.wait_renewed("python", times=2)
    assert our_agent.secret == before
    assert len(go_hub.requests("python")) == 1

    go_hub.delete("python")
    go_hub.wait_gone("python", timeout=60)
    role = "open-cluster-management:managedcluster:python"
    assert go_hub.admin.get(f"{RBAC}/clusterroles/{role}").status == 404
    assert our_agent.process.running

    go_hub.admin.post(MANAGED_CLUSTERS, managed_cluster("python", accepted=True, leaseDurationSeconds=2)).expect(201)
    go_hub.wait_available("python", timeout=60)


@pytest.mark.timeout(180)
async def test_our_agent_renews_its_certificate_with_upstreams_hub(go_hub: Administrator, our_agent: Agent) -> None:
    our_agent.kill()
    before = our_agent.secret
    assert lifetime(before["tls.crt"]) < timedelta(hours=2)

    def renewed() -> bool:
        return our_agent.secret["tls.crt"] != before["tls.crt"]

    options = AgentOptions(cluster_name="python", namespace=our_agent.namespace)
    async with running(options, our_agent.kubeconfig, shift=0.85 * HOUR):
        await asyncio.to_thread(go_hub.wait, renewed, "the new certificate", 60)

    assert len(go_hub.requests("python")) == 2
    our_agent.start()
    go_hub.wait_renewed("python", times=2)
    assert our_agent.secret["agent-name"] == before["agent-name"]


@pytest.mark.timeout(240)
async def test_agents_are_exchanged_at_every_step(ground: ControlPlane, our_hub: Hub) -> None:
    """Ours and upstream's in turn, with the same account and rights: each goes on with what it finds."""
    go = Fleet(ground.cluster, ground.extra("exchanged"), ground.directory / "exchanged", "exchanged")
    own, _ = await asyncio.to_thread(go.prepare_registration_agent)
    ours = AgentOptions(cluster_name="exchanged", namespace=AGENT_NAMESPACE)

    async def until(probe: Callable[[], object], what: str, timeout: float = 60) -> None:
        await asyncio.to_thread(our_hub.wait, probe, what, timeout)

    async def upstreams_serves() -> None:
        try:
            await asyncio.to_thread(go.start_registration_agent)
            our_hub.servers += go.servers
            await asyncio.to_thread(our_hub.wait_renewed, "exchanged", 2, 60)
        finally:
            await asyncio.to_thread(go.stop)

    # Ours has asked for a certificate, and is exchanged before anybody has answered.
    async with running(ours, own):
        await until(lambda: our_hub.requests("exchanged"), "our request")
    assert "tls.key" not in kept(go)
    assert len(kept(go, PENDING_SECRET)) == 4

    # Upstream's makes a request of its own, and is exchanged when it has registered.
    try:
        await asyncio.to_thread(go.start_registration_agent)
        our_hub.servers += go.servers
        await until(lambda: len(our_hub.requests("exchanged")) == 2, "upstream's request")
        await asyncio.to_thread(our_hub.approve, "exchanged")
        our_hub.accept("exchanged", lease=2)
        await asyncio.to_thread(our_hub.wait_available, "exchanged", 90)
    finally:
        await asyncio.to_thread(go.stop)
    theirs = kept(go)
    assert theirs["agent-name"] == b"agent1"

    # Ours serves with that certificate, and forgets what it had begun under another name.
    async with running(ours, own):
        await asyncio.to_thread(our_hub.wait_renewed, "exchanged", 2, 60)
        await until(lambda: not kept(go, PENDING_SECRET), "what was pending to be given up")
    assert kept(go) == theirs

    # Ours has asked for the next certificate on a hub that does not answer, and is exchanged.
    our_hub.stop()
    try:
        async with running(ours, own, shift=0.85 * lifetime(theirs["tls.crt"]).total_seconds()):
            await until(lambda: len(our_hub.requests("exchanged")) == 3, "a request for the next certificate")
        assert kept(go) == theirs
        await upstreams_serves()
        assert kept(go) == theirs
    finally:
        our_hub.start()

    # Ours takes the answer to what it had asked; upstream's serves with that.
    async with running(ours, own):
        await until(lambda: kept(go)["tls.crt"] != theirs["tls.crt"], "the next certificate")
        await until(lambda: not kept(go, PENDING_SECRET), "nothing to be pending")
    assert len(our_hub.requests("exchanged")) == 3
    renewed = kept(go)
    await upstreams_serves()
    assert kept(go) == renewed


def kept(fleet: Fleet, secret: str = HUB_SECRET) -> dict[str, bytes]:
    return read_secret(fleet.spoke_admin, AGENT_NAMESPACE, secret)


def certificate(fleet: Fleet) -> bytes:
    return read_secret(fleet.spoke_admin, AGENT_NAMESPACE, "hub-kubeconfig-secret")["tls.crt"]
