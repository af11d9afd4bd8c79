"""A hub's gateway as its operator keeps it: led to, trusted through renewals, several at a time, beside others, and gone in order.

Everything runs as pods of a node, and the cluster that the gateway leads to is the hub itself. On both kinds of control planes.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.api.proxy.v1alpha1 import GROUP, VERSION
from muster.gateway.apiservice import (
    API_VERSION_ANNOTATION,
    LOOPBACK_ANNOTATION,
    PORT,
    SERVICE,
    SERVING_SECRET,
    api_service_name,
    serving_hosts,
)
from muster.gateway.names import CREDENTIAL_TYPE, CREDENTIALS_NAMESPACE
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import GVR, Object
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR
from muster.operator.deployments import CONTROL_PLANE_LABEL
from muster.operator.names import CLUSTER_MANAGERS
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import HttpClient, KubeError, NotFound
from muster.runtime.client.builtin import (
    API_SERVICES,
    CLUSTER_ROLE_BINDINGS,
    CRDS,
    DEPLOYMENTS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from muster.runtime.install import binding
from muster.runtime.webhook.certificates import make_pair
from tests.e2e.operator.test_whole_hub import SECONDS, WholeHub, cluster_document
from tests.support.operating import running
from tests.support.sites import KUBE, Site, beside_kube, open_site
from tests.support.stage import PODS, SLICES, condition

pytestmark = pytest.mark.timeout(300)

CM = "cluster-manager"
NAME = f"{CM}-cluster-gateway"
NODES = GVR("v1", "nodes", "Node", namespaced=False)
DEGRADED = "ClusterGatewayDegraded"
CLUSTER = "self"
CONFIGURATIONS = GVR(f"{GROUP}/{VERSION}", "managedproxyconfigurations", "ManagedProxyConfiguration", namespaced=False)


def gates(mode: str) -> Object:
    return {"addOnManagerConfiguration": {"featureGates": [{"feature": "ClusterGateway", "mode": mode}]}}


@dataclass
class GatewayHub(WholeHub):
    site: Site
    people: HttpClient
    """The administrator, by the API server's port."""

    async def begin(self, **annotations: str) -> None:
        document = {
            "metadata": {"name": CM, "annotations": {LOOPBACK_ANNOTATION: "true", **annotations}},
            "spec": gates("Enable"),
        }
        await self.made(CLUSTER_MANAGERS, document)
        if KUBE:
            await self._endpoints()

    async def _endpoints(self) -> None:
        """A real API server calls an APIService available only if its Service has endpoints, and takes no loopback address for one.
        It goes by the Service's own address, though, where the node relays to its pods: any other address will do."""
        service = await self.until_found(SERVICES, SERVICE, HUB_NAMESPACE, SECONDS)
        slice_ = {
            "metadata": {"name": SERVICE, "namespace": HUB_NAMESPACE, "labels": {"kubernetes.io/service-name": SERVICE}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}],
            "ports": [{"name": service["spec"]["ports"][0].get("name", ""), "port": PORT, "protocol": "TCP"}],
        }
        await self.made(SLICES, slice_)

    async def annotate(self, key: str, value: str) -> None:
        await self.admin.patch(CLUSTER_MANAGERS, CM, {"metadata": {"annotations": {key: value}}})

    async def serves(self) -> None:
        await self.says(DEGRADED, "False", "ClusterGatewayFunctional")

    async def register(self) -> None:
        """The hub as a cluster, with a token of an account that may do everything."""
        await self.made(SERVICE_ACCOUNTS, {"metadata": {"name": "gateway", "namespace": "default"}})
        account = {"kind": "ServiceAccount", "name": "gateway", "namespace": "default"}
        await self.made(CLUSTER_ROLE_BINDINGS, binding("gateway", "ClusterRole", "cluster-admin", account))
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        answer = await self.admin.create(SERVICE_ACCOUNTS, review, "default", name="gateway", subresource="token")
        config = self.site.config
        assert config.ca is not None
        authority = config.ca.read_bytes() if isinstance(config.ca, Path) else config.ca
        data = {"endpoint": config.server.encode(), "ca.crt": authority, "token": answer["status"]["token"].encode()}
        labels = {CREDENTIAL_TYPE: "ServiceAccountToken"}
        secret = {
            "metadata": {"name": CLUSTER, "namespace": CREDENTIALS_NAMESPACE, "labels": labels},
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }
        await self.made(SECRETS, secret)
        await self.admin.create(MANAGED_CLUSTERS, cluster_document(CLUSTER))

    async def through(self, version: str = VERSION) -> bytes:
        return await self.people.raw("GET", f"/apis/{GROUP}/{version}/clustergateways/{CLUSTER}/proxy/api/v1/namespaces/default")

    async def leads(self, version: str = VERSION) -> None:
        """A request through it is answered by the cluster."""

        async def answered() -> bool:
            try:
                return b"Namespace" in await self.through(version)
            except KubeError:
                return False

        await self.until(answered, "a request is led to the cluster", SECONDS)

    @asynccontextmanager
    async def under_load(self) -> AsyncIterator[list[int]]:
        """Requests one after the other, none of which may fail; counted in what is given."""
        count = [0]

        async def ask() -> None:
            while True:
                await self.through()
                count[0] += 1

        async with running(ask()), running(ask()):
            yield count

    async def pods(self) -> list[Object]:
        """Gateways that are ready."""
        found = (await self.admin.list(PODS, HUB_NAMESPACE)).items
        return [one for one in found if one["metadata"]["name"].startswith(NAME) and condition(one, "Ready") == "True"]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[GatewayHub]:
    async with open_site(tmp_path) as site:
        people = HttpClient(site.config)
        hub = GatewayHub(site.admin, site, people)
        await hub.surround(CLUSTER_MANAGER_OPERATOR)
        yield hub
        await people.close()


async def test_with_the_gate_it_leads_to_clusters_and_without_it_goes_in_order(hub: GatewayHub) -> None:
    await hub.begin()
    await hub.serves()
    found = await hub.until_found(API_SERVICES, api_service_name(VERSION))
    assert condition(found, "Available") == "True"
    secret = await hub.until_found(SECRETS, SERVING_SECRET, HUB_NAMESPACE)
    assert found["spec"]["caBundle"] == secret["data"]["ca.crt"]
    await hub.until_found(SERVICES, SERVICE, HUB_NAMESPACE)
    await hub.at_rest()
    await hub.register()
    await hub.leads()

    await hub.admin.patch(CLUSTER_MANAGERS, CM, {"spec": gates("Disable")})

    async def gone() -> bool:
        if await hub.find(DEPLOYMENTS, NAME, HUB_NAMESPACE) is not None:
            return False
        assert await hub.find(API_SERVICES, api_service_name(VERSION)) is None, "it went first: one that leads nowhere disturbs all"
        return True

    await hub.until(gone, "it is gone", SECONDS)
    await hub.says(DEGRADED, "False", "ClusterGatewayNotWanted")
    with pytest.raises(NotFound):
        await hub.through()
    await hub.until_gone(SECRETS, SERVING_SECRET, HUB_NAMESPACE, SECONDS)
    assert await hub.find(SECRETS, CLUSTER, CREDENTIALS_NAMESPACE), "whose credentials these are is not the operator's to say"


async def test_beside_custom_resources_of_the_same_version_it_takes_another(hub: GatewayHub) -> None:
    """D17."""
    await hub.made(CRDS, _definition())
    await hub.begin()
    said = await hub.says(DEGRADED, "True", "GroupVersionTaken")
    assert f"managedproxyconfigurations.{GROUP}" in said["message"]
    assert "--api-version v1beta1" in said["message"]
    await hub.made(CONFIGURATIONS, {"metadata": {"name": "theirs"}})
    await hub.annotate(API_VERSION_ANNOTATION, "v1beta1")
    await hub.serves()
    await hub.at_rest()
    await hub.register()
    await hub.leads("v1beta1")
    assert (await hub.admin.get(CONFIGURATIONS, "theirs"))["metadata"]["name"] == "theirs"


@beside_kube
async def test_its_certificate_is_renewed_and_no_request_fails(hub: GatewayHub) -> None:
    await hub.begin()
    await hub.serves()
    await hub.at_rest()
    await hub.register()
    await hub.leads()
    (pod,) = await hub.pods()
    address = pod["status"]["podIP"]
    before = await _certificate(address)
    async with hub.under_load() as count:
        secret = await hub.until_found(SECRETS, SERVING_SECRET, HUB_NAMESPACE)
        older = base64.b64decode(secret["data"]["ca.crt"])
        # What is there has lived for more than two thirds of its life, as far as the operator can see.
        lifetime = timedelta(days=90)
        aged = make_pair(serving_hosts(HUB_NAMESPACE), SYSTEM.now() - lifetime * 0.9, lifetime, older)
        content = {"tls.crt": aged.cert, "tls.key": aged.key, "ca.crt": aged.ca}
        data = {key: base64.b64encode(value).decode() for key, value in content.items()}
        await hub.admin.patch(SECRETS, SERVING_SECRET, {"data": data}, HUB_NAMESPACE)

        async def renewed() -> bool:
            found = await hub.until_found(SECRETS, SERVING_SECRET, HUB_NAMESPACE)
            fresh = base64.b64decode(found["data"]["tls.crt"])
            return fresh not in (aged.cert, before) and await _certificate(address) == fresh

        await hub.until(renewed, "it serves with a new certificate", SECONDS)
        served = count[0]
        await hub.until(lambda: _counts(count, served + 20), "requests are led to the cluster", SECONDS)


async def test_of_several_one_can_go_at_any_time(hub: GatewayHub) -> None:
    """D14."""
    for number in (1, 2):
        labels = {CONTROL_PLANE_LABEL: "", "kubernetes.io/hostname": f"plane{number}"}
        await hub.made(NODES, {"metadata": {"name": f"plane{number}", "labels": labels}, "spec": {"unschedulable": True}})
    await hub.begin()
    await hub.serves()
    await hub.at_rest()
    await hub.register()
    await hub.leads()

    async def three() -> bool:
        return len(await hub.pods()) == 3

    await hub.until(three, "three gateways serve", SECONDS)
    async with hub.under_load() as count:
        first = (await hub.pods())[0]["metadata"]["name"]
        await hub.admin.delete(PODS, first, HUB_NAMESPACE)
        await hub.until_gone(PODS, first, HUB_NAMESPACE, SECONDS)
        await hub.until(three, "another one is in its place", SECONDS)
        served = count[0]
        await hub.until(lambda: _counts(count, served + 20), "requests are led to the cluster", SECONDS)


async def _counts(count: list[int], least: int) -> bool:
    return count[0] >= least


async def _certificate(address: str) -> bytes:
    """What is served there now."""
    return (await asyncio.to_thread(ssl.get_server_certificate, (address, PORT))).encode()


def _definition() -> dict[str, Any]:
    """As cluster-proxy has one."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    names = {"plural": CONFIGURATIONS.plural, "singular": "managedproxyconfiguration", "kind": CONFIGURATIONS.kind}
    names |= {"listKind": f"{CONFIGURATIONS.kind}List"}
    return {
        "metadata": {
            "name": f"{CONFIGURATIONS.plural}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": names,
            "versions": [{"name": VERSION, "served": True, "storage": True, "schema": schema}],
        },
    }
