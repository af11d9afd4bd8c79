"""`clusteradm doctor` where agents come over gRPC: every failure that it can see has a line of its own, and a remedy."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any

import orjson
import pytest
import yaml

from muster.administration.hub.authority import AUTHORITY_MAP
from muster.kube.certificates import SERVER_AUTH, CertificateAuthority
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.registration.drivers.endpoints import HubAddress
from muster.registration.drivers.grpc.endpoints import hub_config
from muster.registration.names import AGENT_NAMESPACE, HUB_NAMESPACE, AgentIdentity
from muster.runtime.client.builtin import DEPLOYMENTS, SECRETS
from tests.support.processes import free_ports
from tests.unit.cli.clusteradm.conftest import AVAILABLE, PLAIN, Fleet
from tests.unit.cli.clusteradm.grpc_hub import Hub, hub, pretender
from tests.unit.cli.clusteradm.test_accept import MARKED
from tests.unit.cli.clusteradm.test_grpc import balance, expose

__all__ = ["hub"]

BOOTSTRAP, OWN = "bootstrap-hub-kubeconfig", "hub-kubeconfig-secret"


async def doctor(hub: Hub) -> dict[str, str]:
    found = json.loads((await hub.fleet.run("doctor", "cluster1", "-o", "json")).stdout)["cluster1"]
    (one,) = (one for one in found if one["subject"] == "gRPC server")
    return dict(one)


async def deploy(hub: Hub, ready: int = 1) -> None:
    container = {"name": "server", "image": "muster"}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    metadata = {"name": "cluster-manager-grpc-server", "namespace": HUB_NAMESPACE}
    made = await hub.fleet.admin().apply(DEPLOYMENTS, {"metadata": metadata, "spec": spec}, manager="test")
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), ready)
    status = {"observedGeneration": made["metadata"]["generation"], **counts}
    await hub.fleet.admin().patch(DEPLOYMENTS, metadata["name"], {"status": status}, metadata["namespace"], subresource="status")


# The hub's end


async def test_the_doctor_looks_for_the_server_that_agents_come_through(hub: Hub) -> None:
    assert "it is not there yet" in (await doctor(hub))["text"]
    await deploy(hub)
    assert AUTHORITY_MAP in (await doctor(hub))["text"], "nobody could tell who vouches for it"
    await hub.publish()
    found = await doctor(hub)
    assert found["verdict"] == "problem"
    assert "its certificate ends at" in found["text"], "in an hour, and nobody has renewed it"


async def test_the_doctor_tells_a_server_that_is_down(hub: Hub) -> None:
    await deploy(hub, ready=0)
    found = await doctor(hub)
    assert found["verdict"] == "problem"
    assert "it does not run: Deployment" in found["text"]
    assert "describe deployment cluster-manager-grpc-server" in found["remedy"]


async def test_the_doctor_tells_a_server_that_nobody_can_trust_or_reach(hub: Hub) -> None:
    await deploy(hub)
    other = CertificateAuthority.create("another", SYSTEM.now())
    hub.authority = other
    await hub.publish()
    assert "clients cannot verify" in (await doctor(hub))["text"]
    (port,) = free_ports(1)
    await hub.fleet.ok("init", "--force", "--registration-drivers=csr,grpc", f"--grpc-server=127.0.0.1:{port}")
    assert "it cannot be reached from here" in (await doctor(hub))["text"]


async def test_the_doctor_says_nothing_of_a_server_that_nobody_wants(fleet: Fleet) -> None:
    await fleet.ok("init", "--force")
    found = json.loads((await fleet.run("doctor", "cluster1", "-o", "json")).stdout)["cluster1"]
    assert [one for one in found if one["subject"] == "gRPC server"] == []
    await fleet.cluster("cluster1", metadata=MARKED)
    found = json.loads((await fleet.run("doctor", "cluster1", "-o", "json")).stdout)["cluster1"]
    (one,) = (one for one in found if one["subject"] == "gRPC server")
    assert "the ClusterManager has no such driver" in one["text"]


@pytest.mark.parametrize(
    ("begins", "hosts", "text", "remedy"),
    [
        (-2.0, ("127.0.0.1",), "has expired", "its issuer has to renew it"),
        (+2.0, ("127.0.0.1",), "is not valid yet by the clock here", "set the clocks of hub and cluster right"),
        (0.0, ("elsewhere.example", "192.0.2.1"), "is not for 127.0.0.1:", "init --grpc-server with the address that agents dial"),
    ],
)
async def test_certificates_that_nobody_believes_are_told_apart(
    hub: Hub, begins: float, hosts: tuple[str, ...], text: str, remedy: str
) -> None:
    await deploy(hub)
    await hub.publish()
    when = SYSTEM.now() + timedelta(hours=begins)
    pair = hub.authority.issue("server", when, timedelta(hours=1), usages=(SERVER_AUTH,), hosts=hosts)
    with pretender(hub, pair) as (address, _):
        await hub.fleet.ok("init", "--force", "--registration-drivers=csr,grpc", f"--grpc-server={address}")
        found = await doctor(hub)
    assert found["verdict"] == "problem"
    assert text in found["text"]
    assert remedy in found["remedy"]


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("hostname", "does it lead to port 8090 of Service open-cluster-management-hub/cluster-manager-grpc-server"),
        ("route", "does a Route of this host pass TLS through to port 8090 of Service"),
        ("loadBalancer", "does the load balancer of Service"),
    ],
)
async def test_what_is_before_a_server_that_is_not_reached_is_asked_for(hub: Hub, kind: str, remedy: str) -> None:
    await deploy(hub)
    await hub.publish()
    (port,) = free_ports(1)
    await expose(hub, kind, f"127.0.0.1:{port}")
    found = await doctor(hub)
    assert (found["verdict"], "connection refused" in found["text"]) == ("problem", True)
    assert remedy in found["remedy"]
    await hub.fleet.cluster("cluster1", metadata=MARKED, spec={"hubAcceptsClient": True}, status={"conditions": AVAILABLE})
    assert (await doctor(hub))["verdict"] == "note", "its agent gets through"


async def test_a_load_balancer_without_an_address_is_a_problem(hub: Hub) -> None:
    await deploy(hub)
    await expose(hub, "loadBalancer")
    await balance(hub)
    found = await doctor(hub)
    assert found["verdict"] == "problem"
    assert "has got no address from a load balancer yet" in found["remedy"]


# The agents' end


async def looked_at(hub: Hub, subject: str = "way to the gRPC server") -> list[Object]:
    done = await hub.fleet.run("doctor", "cluster1", "-o", "json", "--managed-cluster-context", PLAIN)
    return [one for one in json.loads(done.stdout)["cluster1"] if one["subject"] == subject]


async def worst(hub: Hub, subject: str = "way to the gRPC server") -> Object:
    """The last problem: a certificate that is good for an hour only is one, too."""
    return [one for one in await looked_at(hub, subject) if one["verdict"] == "problem"][-1]


async def rewrite(hub: Hub, config: dict[str, Any]) -> None:
    """What the agents were given is another now."""
    data = {"config.yaml": base64.b64encode(yaml.safe_dump(config).encode()).decode()}
    await hub.fleet.admin(PLAIN).patch(SECRETS, BOOTSTRAP, {"data": data}, AGENT_NAMESPACE)


async def join(hub: Hub, *flags: str) -> None:
    await hub.fleet.ok(*hub.proved((await hub.token(*flags))["hub-token"]), context=PLAIN)


async def register(hub: Hub, begins: float = 0.0, authority: CertificateAuthority | None = None) -> None:
    """The agents have got a certificate."""
    agent = AgentIdentity("cluster1", "agent1")
    when = SYSTEM.now() + timedelta(hours=begins)
    signer = authority or hub.authority
    pair = signer.issue(agent.common_name, when, timedelta(hours=1), organizations=agent.organizations)
    content = {
        "cluster-name": b"cluster1",
        "agent-name": b"agent1",
        "config.yaml": hub_config(HubAddress("", hub.address, hub.authority.pem), None),
        "tls.crt": pair.certificate,
        "tls.key": pair.key,
    }
    data = {key: base64.b64encode(value).decode() for key, value in content.items()}
    await hub.fleet.admin(PLAIN).create(SECRETS, {"metadata": {"name": OWN, "namespace": AGENT_NAMESPACE}, "data": data})


async def test_a_way_that_leads_to_the_hub_is_well(hub: Hub) -> None:
    await join(hub)
    last = (await looked_at(hub))[-1]
    assert (last["verdict"], last["text"]) == ("ok", f"the hub accepts Secret {AGENT_NAMESPACE}/{BOOTSTRAP}")


def token_until(seconds: float) -> str:
    claims = base64.urlsafe_b64encode(orjson.dumps({"exp": SYSTEM.now().timestamp() + seconds})).decode().rstrip("=")
    return f"header.{claims}.signature"


async def test_each_failure_on_the_agents_way_has_its_line_and_remedy(hub: Hub) -> None:
    await join(hub)
    (port,) = free_ports(1)
    other = CertificateAuthority.create("another", SYSTEM.now())
    foreign = (await hub.token("--cluster-name", "cluster2"))["hub-token"]
    good = await hub.config()
    for change, text, remedy in (
        ({"url": f"127.0.0.1:{port}"}, "connection refused", "is the port open"),
        ({"proxyURL": f"http://127.0.0.1:{port}"}, f"the proxy 127.0.0.1:{port}: connection refused", "is the port open"),
        ({"caData": base64.b64encode(other.pem).decode()}, "clients cannot verify", "--grpc-ca-hash from get token"),
        ({"token": token_until(-60)}, "its token has expired at", "run get token on the hub, and join again"),
        ({"token": token_until(60)}, "the hub does not accept its bootstrap token", "run get token on the hub, and join again"),
        ({"token": foreign}, "the hub refuses", "get token --cluster-name cluster1"),
        ({"url": ""}, f"Secret {AGENT_NAMESPACE}/{BOOTSTRAP}: url: not set", "run join again"),
    ):
        await rewrite(hub, {**good, **change})
        found = await worst(hub)
        assert text in found["text"], change
        assert remedy in found["remedy"], change


async def test_a_cluster_that_is_not_accepted_any_more_is_told_from_its_end_too(hub: Hub) -> None:
    await join(hub)
    await register(hub)
    await hub.fleet.cluster("cluster1", metadata=MARKED)
    found = await worst(hub)
    assert f"the hub refuses Secret {AGENT_NAMESPACE}/{OWN}" in found["text"]
    assert "run accept --clusters cluster1" in found["remedy"]


@pytest.mark.parametrize(
    ("begins", "text", "remedy"),
    [(-2.0, "its certificate expired at", "join again"), (+2.0, "is good only from", "set the clocks of hub and cluster right")],
)
async def test_an_agents_certificate_out_of_its_time_is_told(hub: Hub, begins: float, text: str, remedy: str) -> None:
    await join(hub)
    await register(hub, begins)
    found = await worst(hub, "agent's credential")
    assert text in found["text"]
    assert remedy in found["remedy"]
    assert "does not accept the agent's certificate" in (await worst(hub))["text"]


async def test_an_agents_certificate_of_another_hub_is_told(hub: Hub) -> None:
    await join(hub)
    await register(hub, authority=CertificateAuthority.create("another", SYSTEM.now()))
    found = await worst(hub)
    assert "the server does not answer who comes with this" in found["text"]
    assert "of an authority that the hub no longer has" in found["remedy"]
