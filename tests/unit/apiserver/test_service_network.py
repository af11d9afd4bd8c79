"""Service `kubernetes`, cluster IPs and their IPAddresses, and the ranges they come from."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer
from muster.machinery.objects import Object
from tests.support.in_process import serving
from tests.unit.apiserver.conftest import eventually

SERVICES = object_path("v1", "services", "default")
ENDPOINTS = object_path("v1", "endpoints", "default")
SLICES = object_path("discovery.k8s.io/v1", "endpointslices", "default")
CIDRS = object_path("networking.k8s.io/v1", "servicecidrs")
ADDRESSES = object_path("networking.k8s.io/v1", "ipaddresses")
IP_ADDRESSES = "networking.k8s.io/ipaddresses"


@pytest.fixture
def cluster(server: ApiServer) -> Cluster:
    return server.clusters["default"]


def service(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def test_every_cluster_has_a_service_that_leads_to_its_server(server: ApiServer) -> None:
    for cluster in server.clusters.values():
        client = server.client(cluster)
        found = await client.get(f"{SERVICES}/kubernetes")
        assert found["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
        assert found["spec"]["ports"] == [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": server.port}]
        port = {"name": "https", "port": server.port, "protocol": "TCP"}
        assert (await client.get(f"{ENDPOINTS}/kubernetes"))["subsets"] == [{"addresses": [{"ip": "127.0.0.1"}], "ports": [port]}]
        piece = await client.get(f"{SLICES}/kubernetes")
        assert (piece["addressType"], piece["ports"]) == ("IPv4", [port])
        assert piece["endpoints"] == [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]
        (address,) = (await client.get(ADDRESSES))["items"]
        assert address["metadata"]["name"] == found["spec"]["clusterIP"]
        assert address["spec"]["parentRef"] == {"name": "kubernetes", "namespace": "default", "resource": "services"}


@pytest.mark.parametrize(
    ("host", "family", "told"),
    [("192.0.2.7", "IPv4", "192.0.2.7"), ("2001:db8::7", "IPv6", "2001:db8::7"), ("hub.example.com", "IPv4", "127.0.0.1")],
)
async def test_endpoints_are_where_clients_are_told_to_connect(host: str, family: str, told: str) -> None:
    async with serving("default", advertised_host=host) as server:
        piece = await server.client(server.clusters["default"]).get(f"{SLICES}/kubernetes")
        assert (piece["addressType"], piece["endpoints"][0]["addresses"]) == (family, [told])


@pytest.mark.parametrize(("path", "storage"), [(SERVICES, "/services"), (CIDRS, "networking.k8s.io/servicecidrs")])
async def test_what_is_deleted_of_it_comes_back(client: DirectClient, cluster: Cluster, path: str, storage: str) -> None:
    key = "kubernetes" if storage.endswith("cidrs") else "default/kubernetes"
    before = await client.get(f"{path}/kubernetes")
    await client.delete(f"{path}/kubernetes")
    if storage.endswith("cidrs"):  # its first address is taken, so it waits
        await eventually(lambda: (cluster.read(storage, key) or {})["status"]["conditions"][0]["status"] == "False", "not ready")
        return

    def made_again() -> bool:
        found = cluster.read(storage, key)
        return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]

    await eventually(made_again, "made again")
    assert (await client.get(f"{path}/kubernetes"))["spec"] == before["spec"]


async def test_a_cluster_ip_has_an_ip_address_as_long_as_its_service(client: DirectClient, cluster: Cluster) -> None:
    made = await client.create(SERVICES, service("web"))
    address = made["spec"]["clusterIP"]
    await eventually(lambda: cluster.entry(IP_ADDRESSES, address), "address")
    found = await client.get(f"{ADDRESSES}/{address}")
    assert found["spec"]["parentRef"] == {"name": "web", "namespace": "default", "resource": "services"}
    assert found["metadata"]["labels"]["ipaddress.kubernetes.io/managed-by"] == "ipallocator.k8s.io"
    await client.delete(f"{ADDRESSES}/{address}")
    await eventually(lambda: cluster.entry(IP_ADDRESSES, address), "repaired")
    await client.delete(f"{SERVICES}/web")
    await eventually(lambda: cluster.entry(IP_ADDRESSES, address) is None, "released")


async def test_an_address_that_somebody_else_holds_is_taken(client: DirectClient) -> None:
    held: Object = {
        "metadata": {"name": "10.96.9.9"},
        "spec": {"parentRef": {"resource": "gateways", "name": "g", "group": "a.io"}},
    }
    await client.create(ADDRESSES, held)
    with pytest.raises(ApiError) as refused:
        await client.create(SERVICES, service("web", clusterIP="10.96.9.9"))
    assert "failed to allocate IP 10.96.9.9: provided IP is already allocated" in refused.value.message


async def test_addresses_of_another_range_can_be_had_once_it_is_ready(client: DirectClient, cluster: Cluster) -> None:
    with pytest.raises(ApiError) as refused:
        await client.create(SERVICES, service("web", clusterIP="10.77.0.5"))
    assert "failed to allocate IP 10.77.0.5: the provided network does not match the current range" in refused.value.message
    await client.create(CIDRS, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.77.0.0/24"]}})

    def ready() -> bool:
        found = cluster.read("networking.k8s.io/servicecidrs", "more") or {}
        return any(c["status"] == "True" for c in (found.get("status") or {}).get("conditions") or ())

    await eventually(ready, "ready")
    assert (await client.create(SERVICES, service("web", clusterIP="10.77.0.5")))["spec"]["clusterIP"] == "10.77.0.5"
    await eventually(lambda: cluster.entry(IP_ADDRESSES, "10.77.0.5"), "address")
    await client.delete(f"{CIDRS}/more")

    def terminating() -> bool:
        found = cluster.read("networking.k8s.io/servicecidrs", "more") or {}
        return any(c["reason"] == "Terminating" for c in (found.get("status") or {}).get("conditions") or ())

    await eventually(terminating, "waits for its addresses")
    await client.delete(f"{SERVICES}/web")
    await eventually(lambda: cluster.entry("networking.k8s.io/servicecidrs", "more") is None, "gone")


async def test_a_full_range_is_full(client: DirectClient, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from muster.apiserver import service_addresses

    monkeypatch.setattr(service_addresses, "SERVICE_NETWORK", ipaddress.ip_network("10.96.0.0/29"))
    for number in range(5):  # of six, one is Service kubernetes'
        await client.create(SERVICES, service(f"web{number}"))
    with pytest.raises(ApiError) as refused:
        await client.create(SERVICES, service("one-more"))
    assert refused.value.code == 500
    assert "failed to allocate a serviceIP" in refused.value.message
    assert "range is full" in refused.value.message
