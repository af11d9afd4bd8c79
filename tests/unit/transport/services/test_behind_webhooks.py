"""Services on a hub with its webhooks, which see the server's account and not the agents."""

from collections.abc import AsyncIterator

import pytest

from muster.api.agents import CLUSTER_SET_LABEL, DRIVER_ANNOTATION
from muster.apiserver.server import ApiServer, ServerConfig
from muster.http import server_context
from muster.registration.hub.install import WebhookEndpoint
from muster.registration.hub.webhooks import register
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import NAMESPACES
from muster.runtime.client.errors import BadRequest, Forbidden
from muster.runtime.install import rule
from muster.runtime.webhook.certificates import ServingCertificate
from muster.runtime.webhook.server import WebhookServer
from muster.transport.contract.rows import ADDONS_ALPHA, ADDONS_BETA, CLUSTERS
from muster.transport.contract.types import Action, Subresource
from tests.unit.transport.services.conftest import Hub, agent, data_of, newcomer, publish, service_of
from tests.unit.transport.services.writes.verbs import changed, introduction, send, update


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("default",)))
    await server.start()
    hub = Hub(server)
    await hub.admin.create(NAMESPACES, {"metadata": {"name": HUB_NAMESPACE}})
    pair = await ServingCertificate(hub.admin, "serving", HUB_NAMESPACE, ("127.0.0.1",)).ensure()
    webhooks = WebhookServer(server_context(pair.cert, pair.key))
    await webhooks.start("127.0.0.1", 0)
    register(webhooks, hub.admin)
    await hub.prepare(WebhookEndpoint(pair.ca, f"https://127.0.0.1:{webhooks.port}"))
    yield hub
    await webhooks.stop(0.1)
    await server.stop(grace=0.1)


async def test_a_newcomer_in_a_set_that_it_may_join_is_let_through(hub: Hub) -> None:
    event = introduction(metadata={"labels": {CLUSTER_SET_LABEL: "prod"}}, taints=[{"key": "a", "effect": "NoSelect"}])
    async with hub.serving() as services:
        # The account may join every set: that the newcomer may not counts.
        with pytest.raises(Forbidden, match="ManagedClusterSet"):
            await send(services, CLUSTERS, event, newcomer("c1"))
        joining = rule("cluster.open-cluster-management.io", ["managedclustersets/join"], ["create"], ["prod"])
        await hub.allow("join", [joining], newcomer("c1").user.name)
        await send(services, CLUSTERS, event, newcomer("c1"))
    made = await hub.admin.get(CLUSTERS.resource, "c1")
    assert made["metadata"]["labels"] == {CLUSTER_SET_LABEL: "prod"}
    assert made["spec"]["taints"][0]["timeAdded"]


async def test_what_the_webhooks_find_wrong_with_an_object_reaches_the_agent(hub: Hub) -> None:
    async with hub.serving() as services:
        with pytest.raises(BadRequest, match="https"):
            await send(services, CLUSTERS, introduction(managedClusterClientConfigs=[{"url": "http://a"}]), newcomer("c1"))
        event = publish(CLUSTERS, {"metadata": {"name": "kube-system"}, "spec": {}}, Subresource.SPEC, Action.CREATE)
        with pytest.raises(BadRequest, match="cannot name a cluster"):
            await send(services, CLUSTERS, event, newcomer("kube-system"))


async def test_an_agent_writes_what_is_its_own(hub: Hub) -> None:
    await hub.create_cluster("c1")
    async with hub.serving() as services:
        after = await update(hub, services, spec={"managedClusterClientConfigs": [{"url": "https://a"}]})
    assert after["metadata"]["annotations"] == {DRIVER_ANNOTATION: "grpc"}
    assert after["metadata"]["labels"] == {CLUSTER_SET_LABEL: "default"}


async def test_the_server_itself_can_neither_let_clusters_in_nor_put_them_out(hub: Hub) -> None:
    """So an agent cannot leave by way of it either: whoever breaks into the server gets nobody in."""
    await hub.create_cluster("c1")
    async with hub.serving() as services:
        with pytest.raises(Forbidden, match="HubAcceptsClient"):
            await update(hub, services, spec={"hubAcceptsClient": False})


async def test_an_addon_is_told_of_and_reported_in_both_versions(hub: Hub) -> None:
    await hub.create_cluster("c1")
    await hub.create(ADDONS_ALPHA, {"name": "a", "namespace": "c1"}, spec={"installNamespace": "somewhere"})
    async with hub.serving() as services:
        for row in (ADDONS_ALPHA, ADDONS_BETA):
            (event,) = service_of(services, row).list("c1")
            addon = data_of(event)
            assert addon["apiVersion"] == row.resource.api_version
            live = await hub.admin.get(row.resource, "a", "c1")
            condition = {"type": "Available", "status": "True", "reason": "R", "message": row.resource.version}
            status = {"conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
            report = publish(row, changed(live, status=status), Subresource.STATUS, Action.UPDATE)
            await send(services, row, report, agent("c1"))
            after = await hub.admin.get(ADDONS_ALPHA.resource, "a", "c1")
            assert after["status"]["conditions"][0]["message"] == row.resource.version
            assert after["spec"]["installNamespace"] == "somewhere"
