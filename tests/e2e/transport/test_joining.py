"""How a cluster joins, stays and is shut out when all it knows of its hub is a gRPC server."""

from __future__ import annotations

import base64

import yaml
from cryptography import x509

from tests.e2e.transport.conftest import Site
from tests.support.administrator import ACCEPTED, certificate_of
from tests.support.registration import Agent

CLIENT_AUTH = x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH
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


def test_a_server_that_dies_takes_nothing_with_it(site: Site) -> None:
    server = site.server("mortal")
    site.joined("survivor", server)
    site.hub.patch("survivor", {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    site.hub.wait_renewed("survivor", times=2)
    server.kill()
    server.start()
    site.hub.wait_renewed("survivor", times=2, timeout=20)
    assert len(site.hub.requests("survivor")) == 1
