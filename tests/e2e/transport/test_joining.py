"""How a cluster joins, stays and is shut out when all it knows of its hub is a gRPC server."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

import yaml
from cryptography import x509

from muster.api.agents import CSR_USER
from muster.transport.contract.rows import CLUSTERS, SIGNING_REQUEST_ROW
from tests.e2e.transport.conftest import Site, takes_long
from tests.e2e.transport.test_works import applied, make, streams
from tests.support.administrator import ACCEPTED, AVAILABLE, certificate_of
from tests.support.registration import Agent
from tests.support.sites import beside_kube

CLIENT_AUTH = x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH
ON_SQL = True
DRIVER = "agent.open-cluster-management.io/registration-driver"


def test_a_cluster_joins_and_has_nothing_that_leads_to_the_api_server(site: Site) -> None:
    agent = site.joined("remote")

    hub = site.hub
    cluster = hub.find("remote")
    assert cluster is not None
    assert cluster["metadata"]["annotations"][DRIVER] == "grpc"
    assert hub.condition("remote", ACCEPTED)["status"] == "True"
    (request,) = hub.requests("remote")
    assert request["spec"]["signerName"] == "open-cluster-management.io/grpc"
    assert request["spec"]["username"] == "system:serviceaccount:open-cluster-management-hub:grpc-server-sa"
    issued = x509.load_pem_x509_certificate(base64.b64decode(certificate_of(request)))
    assert list(issued.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [CLIENT_AUTH]

    assert set(agent.secret) == {"cluster-name", "agent-name", "tls.crt", "tls.key", "config.yaml"}
    assert yaml.safe_load(agent.secret["config.yaml"])["url"] == f"127.0.0.1:{agent.links[0].port}"
    port = hub.cluster.url.split("://")[1].split("/")[0].encode()
    assert not [key for key, value in agent.secret.items() if port in value]


def test_agents_of_both_drivers_live_on_one_hub(site: Site) -> None:
    beside = Agent(site.spoke, site.hub, "beside", site.hub.trusted_kubeconfig()).start()
    try:
        site.joined("by-grpc")
        site.hub.wait_available("beside", timeout=60)
    finally:
        beside.stop()
    assert DRIVER not in (site.hub.find("beside") or {})["metadata"].get("annotations", {})


def test_an_agent_that_starts_again_needs_no_second_certificate(site: Site) -> None:
    agent = site.joined("again")
    before = agent.secret
    (process,) = agent.processes
    process.stop(kill=True)
    site.hub.patch("again", {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    process.start()
    site.hub.wait_renewed("again", times=2)
    assert agent.secret == before
    assert len(site.hub.requests("again")) == 1


@beside_kube
def test_a_denied_cluster_is_shut_out_and_let_in_again(site: Site) -> None:
    site.joined("denied")
    hub = site.hub
    hub.patch("denied", {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    hub.wait_renewed("denied", times=2)
    hub.deny("denied")
    hub.wait_condition("denied", ACCEPTED, "False")
    hub.wait_condition("denied", "ManagedClusterConditionAvailable", "Unknown", timeout=60)
    hub.set_accepted("denied", True)
    hub.wait_available("denied", timeout=90)
    assert len(hub.requests("denied")) == 1


@beside_kube
def test_a_server_that_dies_takes_nothing_with_it(site: Site) -> None:
    server = site.server("mortal")
    site.joined("survivor", server)
    site.hub.patch("survivor", {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    site.hub.wait_renewed("survivor", times=2)
    server.kill()
    server.start()
    site.hub.wait_renewed("survivor", times=2)
    assert len(site.hub.requests("survivor")) == 1


def test_a_certificate_comes_as_soon_as_somebody_else_has_approved(site: Site) -> None:
    hub = site.hub
    agent = site.agent("waiting", token=yaml.safe_load(hub.token_kubeconfig())["users"][0]["user"]["token"])
    (request,) = hub.wait(lambda: hub.pending("waiting"), "the request of the agent")
    assert request["spec"]["signerName"] == "open-cluster-management.io/grpc"
    assert request["metadata"]["annotations"][CSR_USER].startswith("system:bootstrap:")
    assert request["spec"]["username"] == "system:serviceaccount:open-cluster-management-hub:grpc-server-sa"
    cluster = hub.find("waiting")
    assert cluster is not None
    assert not cluster["spec"]["hubAcceptsClient"]
    assert "tls.crt" not in agent.secret
    assert streams(site.servers[0], "waiting") <= {str(CLUSTERS), str(SIGNING_REQUEST_ROW)}, "a newcomer hears of nothing else"

    hub.approve("waiting")
    signed = hub.wait(lambda: [one for one in hub.requests("waiting") if certificate_of(one)], "the certificate")
    # A second is what an agent on a machine at rest needs; this one shares it with other tests.
    hub.wait(lambda: "tls.crt" in agent.secret or None, "the certificate at the agent", timeout=20)
    assert agent.secret["tls.crt"] == base64.b64decode(certificate_of(signed[0]))
    assert set(agent.secret) == {"cluster-name", "agent-name", "tls.crt", "tls.key", "config.yaml"}
    hub.accept("waiting")
    hub.wait_available("waiting", timeout=60)
    assert len(hub.requests("waiting")) == 1


@takes_long
def test_a_certificate_of_seconds_is_renewed_in_time_again_and_again(site: Site) -> None:
    hub = site.hub
    hub.process.command.append("--grpc-signing-duration=20s")
    hub.restart()
    try:
        agent = site.joined("shortlived")
        agent.start_work()
        hub.patch("shortlived", {"spec": {"leaseDurationSeconds": 1}}).expect(200)
        hub.wait(lambda: len(hub.requests("shortlived")) >= 3 or None, "two renewals", timeout=60)
        first, second, *_ = [validity(one) for one in hub.requests("shortlived") if certificate_of(one)]
        share = (first.not_valid_after_utc - issued_at(second)) / (first.not_valid_after_utc - issued_at(first))
        assert 0 < share < 0.5, "when a fifth or so of its life was left, and a busy machine took its time"
        make(agent, "meanwhile", "hello")
        hub.wait(lambda: applied(agent, "meanwhile") or None, "a work between renewals", timeout=30)
        hub.wait_renewed("shortlived", times=3)
        assert hub.status("shortlived", AVAILABLE) == "True"
    finally:
        hub.process.command.pop()
        hub.restart()


def validity(request: dict[str, Any]) -> x509.Certificate:
    return x509.load_pem_x509_certificate(base64.b64decode(certificate_of(request)))


def issued_at(certificate: x509.Certificate) -> datetime:
    """Certificates are backdated by a tenth of what was asked for."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begin + (end - begin) / 11


@beside_kube
def test_a_lease_that_others_wrote_or_took_away_is_renewed_again(site: Site) -> None:
    site.joined("renewing")
    hub = site.hub
    hub.patch("renewing", {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    hub.wait_renewed("renewing", times=2)
    place = "/apis/coordination.k8s.io/v1/namespaces/renewing/leases/managed-cluster-lease"
    hub.admin.patch(place, {"metadata": {"annotations": {"somebody": "else"}}}).expect(200)
    hub.wait_renewed("renewing", times=2)
    uid = (hub.lease("renewing") or {})["metadata"]["uid"]
    hub.admin.delete(place).expect(200)
    hub.wait(lambda: (hub.lease("renewing") or {}).get("metadata", {}).get("uid", uid) != uid or None, "the hub's new lease")
    hub.wait_renewed("renewing", times=2)
    hub.wait_available("renewing")
