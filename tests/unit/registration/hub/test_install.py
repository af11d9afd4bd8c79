"""Installing is repeatable, hands out no more than it says, and switches webhooks on and off; webhooks are really called."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.metrics import Metrics
from muster.machinery.objects import GVR, Object
from muster.registration.hub.install import (
    ACCOUNT,
    BOOTSTRAP_GROUP,
    CONVERTED,
    HOOKS,
    WebhookEndpoint,
    conversion,
    install,
    install_namespaces,
)
from muster.registration.hub.options import HubOptions
from muster.registration.hub.webhook_server import Webhooks
from muster.registration.kinds import ADDONS, MANAGED_CLUSTERS
from muster.registration.names import BOOTSTRAP_ACCOUNT, BOOTSTRAP_NAMESPACE, BOOTSTRAP_ROLE, HUB_NAMESPACE
from muster.runtime.client.builtin import CLUSTER_ROLES, CONFIG_MAPS, CRDS, LEASES, NAMESPACES, SECRETS, SIGNING_REQUESTS
from muster.runtime.client.errors import BadRequest, Forbidden, NotFound
from muster.runtime.webhook.certificates import ServingPair, make_pair
from muster.runtime.webhook.serving import ServingOptions
from tests.support.fake_clock import FakeClock

V1BETA1_ADDONS = GVR("addon.open-cluster-management.io/v1beta1", "managedclusteraddons", "ManagedClusterAddOn")


@dataclass
class Site:
    server: ApiServer
    admin: InProcessClient

    def client(self, name: str, *groups: str) -> InProcessClient:
        user = UserInfo(name, groups=(*groups, "system:authenticated"))
        return InProcessClient(self.server.client(self.server.clusters["default"], user))


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("default",)))
    await server.start()
    yield Site(server, InProcessClient(server.client(server.clusters["default"])))
    await server.stop(grace=0.1)


def endpoint() -> WebhookEndpoint:
    return WebhookEndpoint(make_pair(["127.0.0.1"], SYSTEM.now(), timedelta(days=1)).ca, "https://127.0.0.1:9")


def cluster(name: str, **spec: Any) -> Object:
    return {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind, "metadata": {"name": name}, "spec": spec}


async def test_installing_again_changes_nothing(site: Site) -> None:
    async def versions() -> dict[str, str]:
        found = {}
        for resource in (CRDS, CLUSTER_ROLES, NAMESPACES, HOOKS[0].resource, HOOKS[1].resource):
            for obj in (await site.admin.list(resource)).items:
                found[f"{resource}/{obj['metadata']['name']}"] = obj["metadata"]["resourceVersion"]
        return found

    where = endpoint()
    await install(site.admin, webhooks=where)
    before = await versions()
    await install(site.admin, webhooks=where)
    assert await versions() == before


async def test_what_drifted_is_set_right_and_what_others_added_stays(site: Site) -> None:
    await install(site.admin)
    await site.admin.patch(CLUSTER_ROLES, BOOTSTRAP_ROLE, {"rules": [], "metadata": {"labels": {"theirs": "yes"}}})
    await install(site.admin)
    role = await site.admin.get(CLUSTER_ROLES, BOOTSTRAP_ROLE)
    assert len(role["rules"]) == 4
    assert role["metadata"]["labels"] == {"theirs": "yes"}


@pytest.mark.parametrize(
    ("user", "group"),
    [
        (f"system:serviceaccount:{BOOTSTRAP_NAMESPACE}:{BOOTSTRAP_ACCOUNT}", "system:serviceaccounts"),
        ("system:bootstrap:ocmhub", BOOTSTRAP_GROUP),
    ],
    ids=["service account", "bootstrap token"],
)
async def test_who_is_not_registered_yet_may_ask_to_be_and_no_more(site: Site, user: str, group: str) -> None:
    await install(site.admin)
    agent = site.client(user, group)
    await agent.create(MANAGED_CLUSTERS, cluster("c1", hubAcceptsClient=False))
    assert (await agent.list(SIGNING_REQUESTS)).items == []
    with pytest.raises(Forbidden):
        await agent.patch(MANAGED_CLUSTERS, "c1", {"spec": {"hubAcceptsClient": True}})
    with pytest.raises(Forbidden):
        await agent.delete(MANAGED_CLUSTERS, "c1")
    with pytest.raises(Forbidden):
        await agent.list(SECRETS, BOOTSTRAP_NAMESPACE)


async def test_the_hub_itself_reads_no_secrets_but_its_own_and_cannot_make_itself_more(site: Site) -> None:
    await install(site.admin)
    hub = site.client(f"system:serviceaccount:{HUB_NAMESPACE}:{ACCOUNT}", "system:serviceaccounts")
    for namespace in ("", HUB_NAMESPACE, "kube-system"):
        with pytest.raises(Forbidden):
            await hub.list(SECRETS, namespace)
    with pytest.raises(Forbidden):
        await hub.list(CONFIG_MAPS, "kube-system")
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    role = {"apiVersion": CLUSTER_ROLES.api_version, "kind": "ClusterRole", "metadata": {"name": "more"}, "rules": everything}
    with pytest.raises(Forbidden):
        await hub.create(CLUSTER_ROLES, role)
    assert (await hub.list(LEASES)).items == []


async def test_webhooks_can_be_switched_off_again(site: Site) -> None:
    await install(site.admin, webhooks=endpoint())
    for name in CONVERTED:
        assert (await site.admin.get(CRDS, name))["spec"]["conversion"]["strategy"] == "Webhook"
    await install(site.admin)
    for hook in HOOKS:
        with pytest.raises(NotFound):
            await site.admin.get(hook.resource, hook.name)
    for name in CONVERTED:
        assert (await site.admin.get(CRDS, name))["spec"]["conversion"] == {"strategy": "None"}


def test_in_a_cluster_webhooks_are_called_through_the_service() -> None:
    where = WebhookEndpoint(b"ca", namespace="hub-ns")
    assert where.client_config("/path")["service"] == {
        "name": "cluster-manager-registration-webhook",
        "namespace": "hub-ns",
        "path": "/path",
        "port": 9443,
    }
    client = conversion(where).document()["webhook"]["clientConfig"]
    assert client["service"]["name"] == "cluster-manager-registration-webhook"


@pytest.fixture
async def served(site: Site) -> AsyncIterator[Webhooks]:
    await install_namespaces(site.admin)
    webhooks = Webhooks(site.admin, HubOptions(), ServingOptions("127.0.0.1", 0))
    await webhooks.start()
    await install(site.admin, webhooks=webhooks.endpoint)
    yield webhooks
    await webhooks.stop()


async def test_the_api_server_asks_the_webhooks_over_tls_it_trusts(site: Site, served: Webhooks) -> None:
    taints = [{"key": "example.com/a", "effect": "NoSelect"}]
    made = await site.admin.create(MANAGED_CLUSTERS, cluster("c1", taints=taints))
    assert made["spec"]["taints"][0]["timeAdded"]
    assert made["metadata"]["labels"] == {"cluster.open-cluster-management.io/clusterset": "default"}
    with pytest.raises(BadRequest, match="https"):
        await site.admin.create(MANAGED_CLUSTERS, cluster("c2", managedClusterClientConfigs=[{"url": "http://plain"}]))


async def test_addons_are_converted_between_their_versions(site: Site, served: Webhooks) -> None:
    metadata = {"name": "search", "namespace": "default"}
    old = {
        "apiVersion": ADDONS.api_version,
        "kind": ADDONS.kind,
        "metadata": metadata,
        "spec": {"installNamespace": "there"},
    }
    await site.admin.create(ADDONS, old)
    new = await site.admin.get(V1BETA1_ADDONS, "search", "default")
    assert new["metadata"]["annotations"]["addon.open-cluster-management.io/v1alpha1-install-namespace"] == "there"
    assert "installNamespace" not in new.get("spec", {})


async def test_a_new_certificate_is_trusted_before_it_is_served(site: Site, served: Webhooks) -> None:
    before = served.endpoint
    fresh = make_pair(["127.0.0.1"], SYSTEM.now(), timedelta(days=1), before.ca)
    await served.change(fresh)
    assert served.endpoint.ca == fresh.ca != before.ca
    for hook in HOOKS:
        found = await site.admin.get(hook.resource, hook.name)
        assert found["webhooks"][0]["clientConfig"]["caBundle"] == served.endpoint.bundle
    made = await site.admin.create(MANAGED_CLUSTERS, cluster("c1"))
    assert made["metadata"]["labels"]


async def test_trust_that_nobody_installed_is_only_a_warning(site: Site) -> None:
    await install_namespaces(site.admin)
    webhooks = Webhooks(site.admin, HubOptions(), ServingOptions("127.0.0.1", 0))
    await webhooks.start()
    try:
        await webhooks.change(make_pair(["127.0.0.1"], SYSTEM.now(), timedelta(days=1)))
    finally:
        await webhooks.stop()


async def test_webhooks_serve_the_certificate_in_files_and_follow_it(site: Site, tmp_path: Path) -> None:
    def write(pair: ServingPair) -> None:
        (tmp_path / "tls.crt").write_bytes(pair.cert)
        (tmp_path / "tls.key").write_bytes(pair.key)

    clock = FakeClock()
    first, second = (make_pair(["127.0.0.1"], SYSTEM.now(), timedelta(days=days)) for days in (1, 2))
    write(first)
    webhooks = Webhooks(site.client("nobody"), HubOptions(), ServingOptions("127.0.0.1", 0, certificates=tmp_path), clock=clock)
    metrics = Metrics()
    webhooks.measure(metrics)

    def expires(pair: ServingPair) -> bytes:
        series = 'muster_certificate_expiration_timestamp_seconds{certificate="webhook"}'
        return f"{series} {pair.not_after.timestamp():.15g}\n".encode()

    await webhooks.start()
    following = asyncio.create_task(webhooks.run())
    try:
        assert await shown(webhooks.port) == first.cert
        assert expires(first) in metrics.render()
        write(second)
        async with asyncio.timeout(10):
            while await shown(webhooks.port) != second.cert or expires(second) not in metrics.render():
                await clock.advance(10)
    finally:
        following.cancel()
        await asyncio.wait({following})
        await webhooks.stop()


async def test_without_the_files_webhooks_do_not_start(site: Site, tmp_path: Path) -> None:
    webhooks = Webhooks(site.admin, HubOptions(), ServingOptions("127.0.0.1", 0, certificates=tmp_path))
    with pytest.raises(OSError, match=r"tls\.crt"):
        await webhooks.start()


async def shown(port: int) -> bytes:
    """The certificate that a server presents."""
    pem = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
    return pem.encode()
