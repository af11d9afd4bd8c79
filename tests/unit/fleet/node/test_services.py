"""Services with a loopback address lead to the node's ready pods; others are left alone."""

import asyncio
import ipaddress
import random as chance
from typing import Any

import pytest

from muster.apiserver import service_addresses as server_addresses
from muster.fleet.node.services import routes
from tests.support.stage import PODS, SERVICES, Stage
from tests.support.traps import open_trap

remote_only = pytest.mark.parametrize("stage", [True], ids=["remote"], indirect=True)
"""Where the server is in this process it finds pods by their endpoints."""


def service(address: str, **port: Any) -> dict[str, Any]:
    spec = {"selector": {"app": "web"}, "clusterIP": address, "ports": [{"port": 443, **port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}


def pod(ip: str, ready: str = "True", **metadata: Any) -> dict[str, Any]:
    containers = [{"name": "c", "ports": [{"name": "hook", "containerPort": 9443}]}]
    status = {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": "p", **metadata}, "spec": {"containers": containers}, "status": status}


def test_a_service_leads_to_pods_that_are_ready() -> None:
    pods = [pod("127.64.0.1"), pod("127.64.0.2", "False"), pod("127.64.0.3", deletionTimestamp="2026-01-01T00:00:00Z")]
    assert routes(service("127.130.0.9", targetPort="hook"), pods) == {("127.130.0.9", 443): [("127.64.0.1", 9443)]}
    assert routes(service("127.130.0.9", targetPort=80), pods) == {("127.130.0.9", 443): [("127.64.0.1", 80)]}


@pytest.mark.parametrize(
    "other",
    [
        service("10.0.0.9"),
        service("None"),
        service(""),
        service("127.130.0.9", protocol="UDP"),
        service("127.130.0.9", targetPort="x"),
    ],
    ids=["elsewhere", "headless", "external", "udp", "no such port"],
)
def test_what_cannot_be_relayed_is_left_alone(other: dict[str, Any]) -> None:
    assert routes(other, [pod("127.64.0.1")]) == {}


async def answer(address: str, seconds: float = 10.0) -> str:
    """What a web server there says first, or that there is none."""
    try:
        reader, writer = await asyncio.open_connection(address, 443)
    except ConnectionError:
        return "refused"
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    try:
        # asyncio's servers forget a connection that they accept while they are being closed.
        async with asyncio.timeout(seconds):
            return (await reader.readline()).decode().strip()
    except TimeoutError:
        return "silence"
    finally:
        writer.close()


@remote_only
async def test_connections_come_through_while_a_pod_is_ready(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    network = ipaddress.ip_network(f"127.{chance.randrange(130, 250)}.{chance.randrange(256)}.0/24")
    monkeypatch.setattr(server_addresses, "SERVICE_NETWORK", network)
    address = str(network[9])
    await stage.client.create(SERVICES, service(address, targetPort=8080))
    assert await answer(address) == "refused"
    await stage.pod("web", "listen", "8080", container={"readinessProbe": {"tcpSocket": {"port": 8080}}})
    await until_answer(address, "HTTP/1.1 200 X")
    assert [await answer(address) for _ in range(3)] == ["HTTP/1.1 200 X"] * 3
    await stage.client.delete(PODS, "web", "default")
    await until_answer(address, "refused")
    await stage.pod("web", "listen", "8080")
    await until_answer(address, "HTTP/1.1 200 X")
    await stage.client.delete(SERVICES, "web", "default")
    await until_answer(address, "refused")


@remote_only
async def test_a_connection_lasts_until_one_side_ends_it_or_the_node_does(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    network = ipaddress.ip_network(f"127.{chance.randrange(130, 250)}.{chance.randrange(256)}.0/24")
    monkeypatch.setattr(server_addresses, "SERVICE_NETWORK", network)
    address = str(network[9])
    await stage.client.create(SERVICES, service(address, targetPort=8080))
    await stage.pod("web", "listen", "8080")
    await until_answer(address, "HTTP/1.1 200 X")
    reader, writer = await asyncio.open_connection(address, 443)
    await stage.stop()
    assert await reader.read() == b""
    writer.close()
    assert await answer(address) == "refused"


@remote_only
async def test_a_service_does_not_lead_to_what_the_machine_has_on_all_addresses(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = ipaddress.ip_network(f"127.{chance.randrange(130, 250)}.{chance.randrange(256)}.0/24")
    monkeypatch.setattr(server_addresses, "SERVICE_NETWORK", network)
    address = str(network[9])
    with open_trap("0.0.0.0") as trap:
        await stage.client.create(SERVICES, service(address, targetPort=trap.port))
        await stage.pod("web", "listen", "8080")
        await until_answer(address, "")
        assert trap.heard == []


async def until_answer(address: str, wanted: str) -> None:
    async with asyncio.timeout(30):
        while await answer(address, 1.0) != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
