"""What is put on a hub for works, that doing it again changes nothing, and what passes while nobody answers."""

from collections.abc import AsyncIterator

import pytest

from muster.api.crds import ACCOUNTS
from muster.apiserver.server import ApiServer, ServerConfig
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import CLUSTER_ROLES, CRDS, NAMESPACES, SECRETS, VALIDATING_WEBHOOKS
from muster.runtime.client.errors import NotFound, ServerFailure
from muster.runtime.webhook.serving import ServingOptions
from muster.work.hub.install import BINDING_VALIDATOR, REPLICA_SET_VALIDATOR, WORK_VALIDATOR, WorkEndpoint, install
from muster.work.hub.options import ExecutorAuthorization, WorkHubOptions
from muster.work.hub.webhook_server import Webhooks
from muster.work.kinds import MANIFEST_WORKS
from muster.work.names import WORK_FINALIZER
from tests.unit.work.hub.conftest import Hub, config_map, spec, work

NOWHERE = WorkEndpoint(b"", "https://127.0.0.1:1")
BOUND = WorkHubOptions(authorization=ExecutorAuthorization.EITHER)


@pytest.fixture
async def site() -> AsyncIterator[Hub]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub",)))
    await server.start()
    yield Hub(server)
    await server.stop(grace=0.1)


async def webhooks_of(site: Hub) -> set[str]:
    found = await site.admin.list(VALIDATING_WEBHOOKS)
    return {obj["metadata"]["name"] for obj in found.items}


async def test_installing_again_changes_nothing(site: Hub) -> None:
    async def versions() -> dict[str, str]:
        found = [await site.admin.list(resource) for resource in (CRDS, CLUSTER_ROLES, VALIDATING_WEBHOOKS)]
        return {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for page in found for obj in page.items}

    await install(site.admin, BOUND, NOWHERE)
    before = await versions()
    await install(site.admin, BOUND, NOWHERE)
    assert await versions() == before


async def test_bindings_come_and_go_with_the_option(site: Hub) -> None:
    await install(site.admin, BOUND, NOWHERE)
    assert await webhooks_of(site) == {WORK_VALIDATOR, REPLICA_SET_VALIDATOR, BINDING_VALIDATOR}
    for kind in ACCOUNTS:
        await site.admin.get(CRDS, kind.name)
    await install(site.admin, WorkHubOptions(), NOWHERE)
    assert await webhooks_of(site) == {WORK_VALIDATOR, REPLICA_SET_VALIDATOR}
    await install(site.admin, WorkHubOptions(), None)
    assert await webhooks_of(site) == set()


async def test_in_a_cluster_the_service_is_called(site: Hub) -> None:
    await install(site.admin, WorkHubOptions(), WorkEndpoint(b"ca"))
    (webhook,) = (await site.admin.get(VALIDATING_WEBHOOKS, WORK_VALIDATOR))["webhooks"]
    path = "/validate-work-open-cluster-management-io-v1-manifestwork"
    service = {"name": "cluster-manager-work-webhook", "namespace": HUB_NAMESPACE, "path": path, "port": 9443}
    assert webhook["clientConfig"]["service"] == service
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["sideEffects"]) == ("Fail", 10, "None")
    (rule,) = webhook["rules"]
    assert (rule["resources"], rule["operations"]) == (["manifestworks"], ["CREATE", "UPDATE"])


async def test_while_nobody_answers_works_can_be_let_go_and_nothing_else(site: Hub) -> None:
    await install(site.admin, WorkHubOptions(), None)
    await site.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cluster1"}})
    await site.admin.create(MANIFEST_WORKS, work(finalizers=[WORK_FINALIZER]))
    await site.admin.create(MANIFEST_WORKS, {**work("without-spec"), "spec": None})
    await install(site.admin, WorkHubOptions(), NOWHERE)
    with pytest.raises(ServerFailure, match="failed calling webhook"):
        await site.admin.create(MANIFEST_WORKS, work("new"))
    with pytest.raises(ServerFailure, match="failed calling webhook"):
        await site.admin.patch(MANIFEST_WORKS, "w", {"spec": spec(config_map("other"))}, "cluster1")
    with pytest.raises(ServerFailure, match="failed calling webhook"):
        await site.admin.patch(MANIFEST_WORKS, "without-spec", {"spec": spec()}, "cluster1")
    await site.admin.patch(MANIFEST_WORKS, "without-spec", {"metadata": {"labels": {"a": "b"}}}, "cluster1")
    await site.admin.patch(MANIFEST_WORKS, "w", {"status": {"conditions": []}}, "cluster1", subresource="status")
    await site.admin.delete(MANIFEST_WORKS, "w", "cluster1")
    await site.admin.patch(MANIFEST_WORKS, "w", {"metadata": {"finalizers": None}}, "cluster1")
    with pytest.raises(NotFound):
        await site.admin.get(MANIFEST_WORKS, "w", "cluster1")


async def test_its_own_account_may_keep_the_certificate_and_the_trust_in_it(site: Hub) -> None:
    await install(site.admin, WorkHubOptions(), NOWHERE)
    webhooks = Webhooks(site.own, WorkHubOptions(), ServingOptions("127.0.0.1", 0))
    await webhooks.start()
    try:
        await webhooks.trust(webhooks.ca)
        (webhook,) = (await site.admin.get(VALIDATING_WEBHOOKS, WORK_VALIDATOR))["webhooks"]
        assert webhook["clientConfig"]["caBundle"] == webhooks.endpoint.bundle
        await site.own.get(SECRETS, "work-webhook-serving-cert", HUB_NAMESPACE)
    finally:
        await webhooks.stop()
