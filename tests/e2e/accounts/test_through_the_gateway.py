"""A cluster with both addons is reached through the gateway by the account that its agent keeps, as long as there is one."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from tests.e2e.accounts.conftest import GATEWAY, reported
from tests.e2e.addon.conftest import CLUSTERS, Site
from tests.e2e.gateway.conftest import GATEWAYS
from tests.support.administrator import Document, read_secret
from tests.support.client import Client, Reply
from tests.support.hub_components import GatewayHub
from tests.support.planes import USERS, ControlPlane
from tests.support.processes import Server, complaints

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Through:
    """The cluster, seen through the gateway."""

    def __init__(self, site: Site, gateway: GatewayHub) -> None:
        hub = gateway.cluster
        self.site, self.gateway = site, gateway
        self.client = Client(f"{hub.url}{GATEWAYS}/{site.cluster}/proxy", ca=hub.ca, token=USERS["admin"].token)

    def get(self) -> Reply:
        return self.client.get("/api/v1/namespaces/default")

    def told(self) -> Document:
        found = self.gateway.admin.get(f"{GATEWAYS}/{self.site.cluster}")
        return dict(found.expect(200)) if found.status != 404 else {}

    def wait_healthy(self, *, healthy: bool, reason: str = "") -> Document:
        def look() -> Document:
            found = self.told()
            status = found.get("status") or {}
            return found if status.get("healthy", False) is healthy and reason in status.get("healthyReason", "") else {}

        return self.gateway.wait(look, f"healthy={healthy} {reason}", 60)


@pytest.fixture(scope="module")
def through(site: Site, ground: ControlPlane, agent: Server) -> Iterator[Through]:
    """What `join` does is done here: the cluster says where it is."""
    gateway = GatewayHub(ground.cluster, ground.directory / "gateway")
    gateway.install()
    gateway.start()
    gateway.wait_reply(lambda: gateway.admin.get(GATEWAYS), "the aggregated API", 200, timeout=60)
    spoke = site.spoke.cluster
    way = {"url": spoke.url, "caBundle": base64.b64encode(spoke.ca.read_bytes()).decode()}
    place = f"{CLUSTERS}/v1/managedclusters/{site.cluster}"
    site.admin.patch(place, {"spec": {"managedClusterClientConfigs": [way]}}).expect(200)
    yield Through(site, gateway)
    gateway.stop()
    assert gateway.process is not None
    assert complaints(gateway.process.log) == []
    assert "eyJ" not in gateway.process.log.read_text()


def test_requests_go_by_the_account_and_end_with_it(through: Through) -> None:
    """A6 and D10."""
    site = through.site
    before = through.wait_healthy(healthy=False, reason="CredentialMissing")
    assert "clusteradm addon enable" in before["status"]["healthyReason"]
    site.enable(GATEWAY)
    site.wait(GATEWAY, "Available")
    found = through.wait_healthy(healthy=True)
    assert found["spec"]["access"]["credential"]["type"] == "ManagedServiceAccount"
    assert found["status"]["expirationTimestamp"]
    direct = site.spoke.admin.get("/api/v1/namespaces/default")
    assert through.get().body == direct.body

    first = reported(site, GATEWAY)
    name = site.name("renewed")
    events = iter(through.client.watch(CONFIG_MAPS, {"fieldSelector": f"metadata.name={name}"}, timeout=60))
    account = f"/apis/authentication.open-cluster-management.io/v1beta1/namespaces/{site.cluster}/managedserviceaccounts/{GATEWAY}"
    site.admin.patch(account, {"spec": {"rotation": {"validity": "1h0m0s"}}}).expect(200)
    seen: set[int] = set()

    def renewed() -> str:
        seen.add(through.get().status)
        token = read_secret(site.admin, site.cluster, GATEWAY).get("token", b"").decode()
        return token if token not in ("", first) else ""

    second = site.hub.wait(renewed, "another token", 60)
    through.wait_healthy(healthy=True)
    site.hub.wait(lambda: through.get().status == 200, "a request by it", 60)
    assert seen == {200}, "nobody notices"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    site.spoke.admin.post(CONFIG_MAPS, body).expect(201)
    assert next(events)["type"] == "ADDED", "the watch of before goes on"
    site.spoke.admin.delete(f"{CONFIG_MAPS}/{name}").expect(200)

    site.disable(GATEWAY)
    through.wait_healthy(healthy=False, reason="CredentialMissing")
    refused = through.get()
    assert refused.status == 503
    causes = refused.expect(503)["details"]["causes"]
    assert [one["reason"] for one in causes] == ["CredentialMissing"]
    for token in (first, second):
        assert token not in refused.text
        assert token not in str(found)
