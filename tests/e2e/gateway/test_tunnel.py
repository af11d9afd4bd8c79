"""A cluster that the gateway cannot reach: its agent opens a tunnel from inside, as a process of its own, `muster gateway-agent`.

The tunnel goes through the hub's API server with an account that may attach one name only. That nothing goes around the tunnel is
certain because the hub knows no address of these clusters.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from tests.e2e.gateway.conftest import GATEWAYS, GROUP, SECRETS, GatewaySite, base64_of, rule
from tests.e2e.gateway.test_through import CONFIG_MAPS, config_map
from tests.support.administrator import RBAC, service_account_token, wait_for
from tests.support.pki import Authority
from tests.support.planes import USERS, Cluster, write_kubeconfig
from tests.support.processes import Server, complaints, free_ports
from tests.support.registration import MUSTER, http_status

ENDPOINT_TYPE = f"{GROUP}/cluster-endpoint-type"


@dataclass
class Tunnelled:
    """A cluster behind an agent, which may run somewhere else (`within`: a command that is given it)."""

    site: GatewaySite
    name: str
    spoke: Cluster
    directory: Path
    token: str = ""
    """Of the gateway's account there; foo's, unless given."""
    within: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.health_port,) = free_ports(1)
        self.agent = Server(f"gateway-agent of {self.name}", self.command(self.name), self.directory / "agent.log")

    def command(self, cluster: str, *flags: str) -> list[str | Path]:
        own: list[str | Path] = [*self.within, MUSTER, "gateway-agent", "--cluster-name", cluster]
        own += ["--hub-kubeconfig", self.kubeconfig]
        return [*own, "--spoke-kubeconfig", self.spoke.kubeconfig, f"--health-port={self.health_port}", *flags]

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "hub.kubeconfig"

    def prepare(self, **credential: str) -> None:
        """What an administrator does, by hand here: a credential without an address, and an account that may attach."""
        site = self.site
        site.accept(self.name)
        data: dict[str, str | bytes] = {"ca.crt": self.spoke.ca.read_bytes(), "token": self.token or site.tokens["foo"]}
        data |= {key.replace("_", "-"): value for key, value in credential.items()}
        site.credential(self.name, "ServiceAccountToken", data, **{ENDPOINT_TYPE: "Tunnel"})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": self.name}}
        site.admin.post("/api/v1/namespaces/default/serviceaccounts", account).expect(201)
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": f"attach-{self.name}"}}
        rules = [rule(["clustergateways/attach"], ["get"], [self.name], GROUP)]
        site.admin.post(f"{RBAC}/clusterroles", {**role, "rules": rules}).expect(201)
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"attach-{self.name}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"attach-{self.name}"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": self.name}],
        }
        site.admin.post(f"{RBAC}/clusterrolebindings", binding).expect(201)
        token = service_account_token(site.admin, "default", self.name)
        write_kubeconfig(self.kubeconfig, site.hub.url, site.hub.ca, {"token": token})

    def start(self) -> None:
        self.agent.start()
        self.agent.wait_until(lambda: http_status(self.health_port, "/readyz") == 200, 30)

    def answers(self) -> bool:
        return self.site.proxy(self.name, "/readyz").status == 200


@pytest.fixture(scope="module")
def behind(site: GatewaySite) -> Iterator[Tunnelled]:
    made = Tunnelled(site, site.name("hidden"), site.spokes["foo"], site.ground.directory / "hidden")
    made.prepare()
    status = site.wait_status(made.name, healthy=False, reason="TunnelMissing")
    assert "muster gateway-agent" in status["healthyReason"]
    assert site.proxy(made.name, "/readyz").status == 503
    made.start()
    site.wait_status(made.name, healthy=True)
    yield made
    made.agent.stop()
    site.forget(made.name)
    assert complaints(made.agent.log) == []


def test_requests_go_through_the_tunnel(behind: Tunnelled) -> None:
    path = "/api/v1/namespaces/default"
    assert behind.site.through(behind.name).get(path).body == behind.spoke.client().get(path).body
    assert "default" in behind.site.kubectl(behind.name, "get", "ns").expect().out
    assert (behind.site.seen(behind.name) or {})["spec"]["access"]["endpoint"].startswith("https://kubernetes.default.svc:443")


def test_a_watch_goes_through_the_tunnel(behind: Tunnelled) -> None:
    name, direct = behind.site.name("watched"), behind.spoke.client()
    events = behind.site.through(behind.name).watch(CONFIG_MAPS, {"fieldSelector": f"metadata.name={name}"}, timeout=20)
    direct.post(CONFIG_MAPS, orjson.loads(config_map(name))).expect(201)
    assert next(iter(events))["type"] == "ADDED"
    direct.delete(f"{CONFIG_MAPS}/{name}").expect(200)
    assert next(iter(events))["type"] == "DELETED"


def test_large_bodies_go_both_ways_through_the_tunnel(behind: Tunnelled) -> None:
    text = "x" * 900_000
    through, names = behind.site.through(behind.name), [behind.site.name("large") for _ in range(8)]
    for name in names:
        through.post(CONFIG_MAPS, orjson.loads(config_map(name, text=text))).expect(201)
    assert through.get(f"{CONFIG_MAPS}/{names[0]}").expect(200)["data"]["text"] == text
    listed = {one["metadata"]["name"]: one for one in through.get(CONFIG_MAPS).expect(200)["items"]}
    assert all(listed[name]["data"]["text"] == text for name in names)
    for name in names:
        through.delete(f"{CONFIG_MAPS}/{name}").expect(200)


def test_who_reads_late_gets_all_and_others_need_not_wait(behind: Tunnelled) -> None:
    text = "x" * 900_000
    through, names = behind.site.through(behind.name), [behind.site.name("stalled") for _ in range(6)]
    for name in names:
        through.post(CONFIG_MAPS, orjson.loads(config_map(name, text=text))).expect(201)
    stalled = [behind.site.through(behind.name).connect() for _ in range(8)]
    target = f"{GATEWAYS}/{behind.name}/proxy{CONFIG_MAPS}"
    prefix = behind.site.hub.url.partition("://")[2].partition("/")[2]
    for connection in stalled:
        connection.request(
            "GET", (f"/{prefix}" if prefix else "") + target, headers={"Authorization": f"Bearer {USERS['admin'].token}"}
        )
    for _ in range(20):
        through.get("/api/v1/namespaces/default").expect(200)
    for connection in stalled:
        answer = connection.getresponse()
        assert answer.status == 200
        assert len(answer.read()) > 6 * 900_000
        connection.close()
    for name in names:
        through.delete(f"{CONFIG_MAPS}/{name}").expect(200)


def test_an_agent_that_is_killed_comes_back(behind: Tunnelled) -> None:
    behind.agent.stop(kill=True)
    status = behind.site.wait_status(behind.name, healthy=False, reason="TunnelMissing")
    assert "opened no tunnel" in status["healthyReason"]
    reply = behind.site.proxy(behind.name, "/readyz")
    assert (reply.status, reply.json["details"]["causes"][0]["reason"]) == (503, "TunnelMissing")
    behind.start()
    wait_for(behind.answers, "the cluster through a new tunnel")


def test_an_agent_that_stops_says_so(behind: Tunnelled) -> None:
    assert behind.answers()
    began = time.monotonic()
    behind.agent.stop()
    assert time.monotonic() - began < 5, "connections that are only kept hold nobody up"
    behind.site.wait_status(behind.name, healthy=False, reason="TunnelMissing")
    behind.start()
    wait_for(behind.answers, "the cluster through a new tunnel")


def test_tunnels_come_back_to_a_gateway_that_was_restarted(behind: Tunnelled) -> None:
    began = time.monotonic()
    behind.site.gateway.stop()
    assert time.monotonic() - began < 8, "tunnels hold nobody up"
    behind.site.gateway.start()
    wait_for(behind.answers, "the cluster through a tunnel to the new process", timeout=60)
    behind.site.wait_status("foo", healthy=True)


def test_a_tunnel_may_lead_straight_to_the_gateway(behind: Tunnelled) -> None:
    behind.agent.stop()
    service = behind.site.admin.get(f"/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.{GROUP}").expect(200)
    authority = behind.directory / "gateway-ca.crt"
    authority.write_bytes(base64.b64decode(service["spec"]["caBundle"]))
    where = service["spec"]["service"]
    flags = (
        f"--tunnel-url=https://127.0.0.1:{behind.site.gateway.port}",
        f"--tunnel-ca-file={authority}",
        f"--tunnel-server-name={where['name']}.{where['namespace']}.svc",
    )
    straight = Server("straight agent", behind.command(behind.name, *flags), behind.directory / "straight.log")
    straight.start()
    wait_for(behind.answers, "the cluster through a tunnel past the hub", servers=[straight])
    straight.stop()
    behind.start()
    wait_for(behind.answers, "the cluster through the hub again")


def test_an_agent_opens_the_tunnel_of_no_other_cluster(behind: Tunnelled) -> None:
    (port,) = free_ports(1)
    command = [*behind.command("bar"), f"--health-port={port}"]
    foreign = Server("foreign agent", command, behind.directory / "foreign.log")
    foreign.start()
    wait_for(lambda: "tunnel not opened" in foreign.log.read_text(), "the refusal", servers=[foreign])
    foreign.stop()
    assert "clustergateways/attach" in foreign.log.read_text() or "forbidden" in foreign.log.read_text()


def test_what_is_at_the_end_of_a_tunnel_proves_itself(behind: Tunnelled) -> None:
    """An agent that leads elsewhere gets neither the credential nor the request."""
    site = behind.site
    other = Authority(site.ground.directory, "another")
    right = site.admin.get(f"{SECRETS}/{behind.name}").expect(200)["data"]["ca.crt"]
    site.admin.patch(f"{SECRETS}/{behind.name}", {"data": base64_of({"ca.crt": other.pair.cert.read_bytes()})}).expect(200)
    wait_for(lambda: site.proxy(behind.name, "/readyz").status == 502, "a refusal of what is at the end")
    site.wait_status(behind.name, healthy=False, reason="CertificateMismatch")
    site.admin.patch(f"{SECRETS}/{behind.name}", {"data": {"ca.crt": right}}).expect(200)
    site.wait_status(behind.name, healthy=True)


def test_attach_is_a_websocket(behind: Tunnelled) -> None:
    reply = behind.site.admin.get(f"{GATEWAYS}/{behind.name}/attach")
    assert (reply.status, "gateway-agent" in reply.json["message"]) == (400, True)
