"""Two replicas of the gateway behind one Service, and a cluster whose agent holds a tunnel to each: one can be killed, or told to
go, at any time (D14)."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import orjson
import pytest

from tests.e2e.gateway.conftest import GATEWAYS, GROUP, GatewaySite
from tests.e2e.gateway.replica import Replica, gauge, straight
from tests.e2e.gateway.test_attacks import ADMIN, Trap, receive
from tests.e2e.gateway.test_through import CONFIG_MAPS, config_map
from tests.e2e.gateway.test_tunnel import Tunnelled
from tests.support.administrator import HUB_NAMESPACE, wait_for
from tests.support.client import Watch
from tests.support.hub_components import GatewayHub
from tests.support.link import Link
from tests.support.processes import Server, complaints
from tests.support.recording_cluster import RecordingCluster, Talk, answer
from tests.support.registration import http_status
from tests.support.sites import beside_kube

API_SERVICE = f"/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.{GROUP}"
SERVICE = f"/api/v1/namespaces/{HUB_NAMESPACE}/services/cluster-gateway"
STREAMS = "ocm_proxy_open_streams"
MOST_WATCHES = 16


@dataclass
class Replicated:
    site: GatewaySite
    replicas: tuple[GatewayHub, GatewayHub]
    behind: Tunnelled

    def apply_api_services(self, port: int) -> None:
        """Where the hub's API server goes for the gateway."""
        admin = self.site.admin
        ports = [{"name": "https", "port": port, "protocol": "TCP", "targetPort": port}]
        admin.patch(SERVICE, {"spec": {"ports": ports}}).expect(200)
        admin.patch(API_SERVICE, {"spec": {"service": {"port": port}}}).expect(200)

    def tunnels(self) -> int:
        return gauge(self.behind.health_port, "gateway_agent_tunnels")

    def streams(self, replica: GatewayHub) -> int:
        return gauge(replica.health_port, STREAMS, cluster=self.behind.name)

    def available(self) -> str:
        conditions = self.site.admin.get(API_SERVICE).expect(200)["status"]["conditions"]
        return next(str(one["status"]) for one in conditions if one["type"] == "Available")

    def kill(self) -> None:
        assert self.site.gateway.process is not None
        self.site.gateway.process.stop(kill=True)

    def restart(self) -> None:
        self.site.gateway.start()
        wait_for(lambda: self.tunnels() == 2, "a tunnel to each replica", timeout=90, servers=self.servers)

    @property
    def servers(self) -> list[Server]:
        return [self.behind.agent, *(server for replica in self.replicas for server in replica.servers)]


@pytest.fixture(scope="module")
def replicated(site: GatewaySite) -> Iterator[Replicated]:
    second = Replica(site.gateway, site.ground.directory / "second-gateway")
    second.start()
    link = Link(*(f"https://127.0.0.1:{one.port}" for one in (site.gateway, second)))
    behind = Tunnelled(site, site.name("twice"), site.spokes["foo"], site.ground.directory / "twice")
    found = Replicated(site, (site.gateway, second), behind)
    found.apply_api_services(link.port)
    wait_for(lambda: site.admin.get(GATEWAYS).status == 200 and link.connections >= 1, "the way through the balancer")
    behind.prepare()
    behind.start()
    wait_for(lambda: found.tunnels() == 2, "a tunnel to each replica", timeout=90, servers=found.servers)
    yield found
    behind.agent.stop()
    found.apply_api_services(site.gateway.port)
    wait_for(lambda: site.admin.get(GATEWAYS).status == 200, "the way without the balancer")
    link.close()
    second.stop()
    site.forget(behind.name)
    assert second.process is not None
    for server in (behind.agent, second.process):
        assert complaints(server.log) == []


@contextlib.contextmanager
def under_watch(replicated: Replicated) -> Iterator[tuple[set[str], list[int]]]:
    """Requests through the hub all the while: what was said of the APIService, and the answers, in the order they came."""
    said, answers, over = set[str](), list[int](), threading.Event()

    def ask() -> None:
        client = replicated.site.through(replicated.behind.name)
        while not over.is_set():
            said.add(replicated.available())
            answers.append(client.get("/api/v1/namespaces/default").status)
        client.close()

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield said, answers
    finally:
        over.set()
        asking.join(30)


def watched(replicated: Replicated) -> dict[str, Watch]:
    """Watches through the hub and the tunnels, of a ConfigMap each, until both replicas have two at least."""
    found: dict[str, Watch] = {}
    for _ in range(MOST_WATCHES):
        name = replicated.site.name("twice")
        selected = {"fieldSelector": f"metadata.name={name}"}
        found[name] = replicated.site.through(replicated.behind.name).watch(CONFIG_MAPS, selected, timeout=60)
        if all(replicated.streams(one) >= 2 for one in replicated.replicas):
            return found
    raise AssertionError(f"{len(found)} watches, and one replica has none or one")


def test_of_two_replicas_one_is_killed_during_watches(replicated: Replicated) -> None:
    first, second = replicated.replicas
    direct = replicated.behind.spoke.client()
    watches = watched(replicated)
    for name, events in watches.items():
        direct.post(CONFIG_MAPS, orjson.loads(config_map(name))).expect(201)
        assert next(iter(events))["type"] == "ADDED"
    of_first, of_second = replicated.streams(first), replicated.streams(second)
    assert of_first + of_second == len(watches)

    with under_watch(replicated) as (said, answers):
        wait_for(lambda: len(answers) >= 5, "requests to go through")
        replicated.kill()
        lasting: list[str] = []
        for name, events in watches.items():
            direct.patch(f"{CONFIG_MAPS}/{name}", {"data": {"after": "the kill"}}).expect(200)
            if seen := events.take(1):
                assert seen[0]["type"] == "MODIFIED"
                lasting.append(name)
            else:
                assert events.ended_by_server, "a watch of the killed replica is not left open"
        assert (len(lasting), len(watches) - len(lasting)) == (of_second, of_first)

        for name in watches.keys() - set(lasting):
            watches[name].close()
            selected = {"fieldSelector": f"metadata.name={name}"}
            again = watches[name] = replicated.site.through(replicated.behind.name).watch(CONFIG_MAPS, selected, timeout=60)
            assert again.take(1)[0]["object"]["data"] == {"after": "the kill"}
        for name, events in watches.items():
            direct.delete(f"{CONFIG_MAPS}/{name}").expect(200)
            assert events.take(1)[0]["type"] == "DELETED"
            events.close()
        served = len(answers)
        wait_for(lambda: len(answers) >= served + 20, "requests to go through the one that is left")
    assert set(answers[served:]) == {200}
    assert said == {"True"}, "the APIService stays available"
    replicated.restart()


@beside_kube
def test_of_two_replicas_one_is_told_to_go(replicated: Replicated) -> None:
    """Requests under way end well, streams are cut after a grace, and through the hub nobody notices."""
    gateway = replicated.site.gateway
    assert gateway.process is not None
    finish = threading.Event()

    def hold(talk: Talk, head: bytes) -> None:
        finish.wait(30)
        talk.say(answer())

    with RecordingCluster() as cluster:
        trap = Trap(replicated.site, cluster)
        trap.begin()
        cluster.behaviour = hold
        events = straight(gateway).watch(f"{GATEWAYS}/{replicated.behind.name}/proxy{CONFIG_MAPS}", timeout=60)
        with trap.connect(direct=True) as held, under_watch(replicated) as (said, answers):
            held.settimeout(30)
            held.sendall(trap.head("GET", "/api/v1/pods", ADMIN, direct=True))
            wait_for(lambda: trap.talks and len(answers) >= 5, "requests to go through")
            os.kill(gateway.process.pid, signal.SIGTERM)
            wait_for(lambda: http_status(gateway.health_port, "/readyz") != 200, "it to be no longer ready")
            assert gateway.process.running, "it lets end what is under way"
            finish.set()
            assert receive(held).status == 200
            for _ in events:
                pass
            assert events.ended_by_server
            wait_for(lambda: not gateway.process or not gateway.process.running, "its end")
            served = len(answers)
            wait_for(lambda: len(answers) >= served + 20, "requests to go through the one that is left")
        assert set(answers) == {200}, "none of them failed"
        assert said == {"True"}
        replicated.site.forget(trap.name)
    replicated.restart()
