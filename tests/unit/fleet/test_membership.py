"""What becomes of the addresses that clusters of a fleet had before it moved."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.administration.progress import Silent
from muster.api.crds import HUB, OPERATOR, definitions
from muster.fleet.in_process import InProcessClient
from muster.fleet.local.membership import Site, forget_other_addresses
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import GVR, Object
from muster.operator.names import KLUSTERLETS
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.builtin import CRDS, DEPLOYMENTS, PODS
from muster.runtime.install import apply_all, await_definitions, ensure_namespace
from tests.support.in_process import serving

BEFORE, NOW = {"url": "https://127.0.0.1:1/clusters/c1"}, {"url": "https://localhost:2/clusters/c1"}
AGENT, LABELS = "klusterlet-registration-agent", {"app": "agent"}


@pytest.fixture
async def cluster() -> AsyncIterator[InProcessClient]:
    """Hub and managed cluster in one: an agent of before the move has not gone yet."""
    async with serving("c1") as server:
        client = InProcessClient(server.client(server.clusters["c1"]))
        kinds = (*HUB, *OPERATOR)
        await apply_all(client, [(CRDS, document) for document in definitions(kinds)], "test")
        await await_definitions(client, [kind.name for kind in kinds], SYSTEM)
        await ensure_namespace(client, "agents")
        template: Object = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "agent", "image": "muster"}]}}
        await client.create(DEPLOYMENTS, of(AGENT, {"selector": {"matchLabels": LABELS}, "template": template}))
        await client.create(PODS, of(f"{AGENT}-1", template["spec"], labels=LABELS, finalizers=["test/ending"]))
        await client.create(KLUSTERLETS, named(KLUSTERLETS, "klusterlet", {"clusterName": "c1"}))
        await client.create(MANAGED_CLUSTERS, named(MANAGED_CLUSTERS, "c1", {"managedClusterClientConfigs": [BEFORE]}))
        yield client


def of(name: str, spec: Object, **metadata: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "agents", **metadata}, "spec": spec}


def named(resource: GVR, name: str, spec: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}


class Reasons(Silent):
    """Why something is waited for, in turn."""

    def __init__(self) -> None:
        self.given: asyncio.Queue[str] = asyncio.Queue()

    def waiting(self, what: str, why: str) -> None:
        self.given.put_nowait(why)

    async def until(self, part: str) -> None:
        async with asyncio.timeout(10):
            while part not in await self.given.get():
                pass


async def addresses(client: InProcessClient) -> list[Object]:
    found = await client.get(MANAGED_CLUSTERS, "c1")
    return list(found["spec"].get("managedClusterClientConfigs") or ())


async def tell(client: InProcessClient, *configs: Object) -> None:
    """As agents do, who only add."""
    await client.patch(MANAGED_CLUSTERS, "c1", {"spec": {"managedClusterClientConfigs": configs}})


async def test_an_address_of_before_goes_when_no_agent_is_left_that_would_add_it_again(cluster: InProcessClient) -> None:
    site, reasons = Site("c1", cluster, NOW["url"], b""), Reasons()
    await cluster.patch(MANAGED_CLUSTERS, "c1", {"spec": {"hubAcceptsClient": True}})
    forgetting = asyncio.create_task(forget_other_addresses(cluster, site, reasons))
    await reasons.until("the operator has not seen the Klusterlet")
    generation = {
        "group": "apps",
        "version": "v1",
        "resource": "deployments",
        "name": AGENT,
        "namespace": "agents",
        "lastGeneration": 1,
    }
    status = {"status": {"observedGeneration": 1, "generations": [generation]}}
    await cluster.patch(KLUSTERLETS, "klusterlet", status, subresource="status")
    await reasons.until("is not rolled out yet")
    rolled = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    await cluster.delete(PODS, f"{AGENT}-1", "agents")
    await cluster.patch(DEPLOYMENTS, AGENT, {"status": rolled}, "agents", subresource="status")
    await reasons.until(f"pod {AGENT}-1 of before")
    await tell(cluster, BEFORE, NOW)
    assert await addresses(cluster) == [BEFORE, NOW]
    await cluster.patch(PODS, f"{AGENT}-1", {"metadata": {"finalizers": None}}, "agents")
    await forgetting
    assert await addresses(cluster) == [NOW]


async def test_a_cluster_that_has_not_moved_is_not_waited_for(cluster: InProcessClient) -> None:
    await tell(cluster, NOW)
    reasons = Reasons()
    await forget_other_addresses(cluster, Site("c1", cluster, NOW["url"], b""), reasons)
    await forget_other_addresses(cluster, Site("c2", cluster, NOW["url"], b""), reasons)
    assert reasons.given.empty()
    assert await addresses(cluster) == [NOW]
