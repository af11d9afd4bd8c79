"""The samples in `examples/policy`, as people would apply them: on a hub that manages itself, and on two managed clusters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from muster.addon.hub_addon import install
from muster.addon.install import install as install_addon_manager
from muster.addon.options import AddonOptions
from muster.addon.process import AddonManager
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.addons import AddonIdentity
from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1beta1 import Placement
from muster.api.cluster.v1beta2 import ManagedClusterSet
from muster.api.crds import HUB, definitions
from muster.api.policy.v1 import ConfigurationPolicy
from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.kube import yaml
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import GVR, Object
from muster.operator.hub_addons import HUB_ADDONS
from muster.placement.hub.manager import PlacementManager
from muster.placement.hub.options import PlacementOptions
from muster.policy.addons import POLICY_ADDONS
from muster.policy.addons.cluster_access import binding, role
from muster.policy.addons.manifests import KINDS
from muster.policy.configuration.controller import ConfigurationPolicyOptions
from muster.policy.manager import PolicyManager, PolicyOptions
from muster.policy.names import CONFIG_POLICY_ADDON, POLICIES_NAMESPACE, STANDALONE_ADDON
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import Forbidden, KubeClient, NotFound, RESTMapper, served
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CONFIG_MAPS, CRDS, SECRETS
from muster.runtime.controller import Manager
from muster.runtime.install import apply_all, await_definitions, ensure_namespace
from tests.support.fake_clock import FakeClock

SAMPLES = Path(__file__).parents[3] / "examples" / "policy"
CLUSTERS, POLICIES = served(ManagedCluster), served(ConfigurationPolicy)
INSTALLED, OFFERED, SETS = served(ManagedClusterAddOn), served(ClusterManagementAddOn), served(ManagedClusterSet)
PLACEMENTS = served(Placement)
MEMBERS = ("cluster1", "cluster2")
SET_LABEL = "cluster.open-cluster-management.io/clusterset"
ADMINISTRATOR = UserInfo("admin", groups=("system:masters", "system:authenticated"))


class Fleet:
    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.clock = FakeClock(datetime.now(UTC))
        for cluster in server.clusters.values():
            cluster.clock = self.clock.now

    def client(self, cluster: str, user: UserInfo = ADMINISTRATOR) -> KubeClient:
        return InProcessClient(self.server.client(self.server.clusters[cluster], user))

    @property
    def hub(self) -> KubeClient:
        return self.client("hub")

    def hub_user(self, cluster: str) -> KubeClient:
        identity = AddonIdentity(cluster, STANDALONE_ADDON, STANDALONE_ADDON)
        return self.client("hub", UserInfo(identity.user, groups=(*identity.groups, "system:authenticated")))

    async def prepare(self) -> None:
        """A hub, clusters that it knows, and what the addons have brought."""
        await self._define(self.hub, HUB)
        for name in ("hub", *MEMBERS):
            await self._define(self.client(name), KINDS)
            await ensure_namespace(self.client(name), POLICIES_NAMESPACE)
        for name in MEMBERS:
            await self.take_in(name)

    async def _define(self, client: KubeClient, kinds: Any) -> None:
        await apply_all(client, [(CRDS, document) for document in definitions(kinds)], "test")
        await await_definitions(client, [kind.name for kind in kinds], SYSTEM)

    async def take_in(self, name: str, **labels: str) -> None:
        await ensure_namespace(self.hub, name)
        metadata = {"name": name, "labels": {"environment": f"of-{name}", **labels}}
        await self.hub.create(
            CLUSTERS, {"apiVersion": CLUSTERS.api_version, "kind": CLUSTERS.kind, "metadata": metadata, "spec": {}}
        )
        addon = ManagedClusterAddOn.decode({"metadata": {"name": STANDALONE_ADDON, "namespace": name}, "spec": {}})
        rights = [(CLUSTER_ROLES, role(name).document()), (CLUSTER_ROLE_BINDINGS, binding(addon).document())]
        await apply_all(self.hub, rights, "test")

    async def put_into(self, cluster: str, name: str | None) -> None:
        await self.hub.patch(CLUSTERS, cluster, {"metadata": {"labels": {SET_LABEL: name}}})

    async def apply(self, client: KubeClient, sample: str) -> None:
        mapper = RESTMapper(client, clock=SYSTEM)
        for document in yaml.load_all((SAMPLES / sample).read_text()):
            found = await mapper.mapping(document["apiVersion"], document["kind"])
            await client.apply(found, document, manager="people")

    @asynccontextmanager
    async def running(self, *managers: Manager) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(one.run()) for one in managers]
        try:
            yield
            assert not any(task.done() for task in tasks), tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def controller(self, cluster: str, hub: KubeClient | None = None) -> PolicyManager:
        options = PolicyOptions(cluster, ConfigurationPolicyOptions((cluster, POLICIES_NAMESPACE)))
        return PolicyManager(self.client(cluster), options, hub=hub, clock=self.clock)

    async def until(self, probe: Any, what: str, moving: float = 0.1) -> Any:
        found: Any = None
        try:
            async with asyncio.timeout(20):
                while True:
                    await self.clock.advance(moving)
                    if found := await probe():
                        return found
                    await asyncio.sleep(0.002)
        except TimeoutError:
            said = [(one["metadata"]["name"], one.get("status")) for one in (await self.hub.list(POLICIES)).items]
            raise AssertionError(f"waited for {what}; last seen: {found!r}; policies of the hub: {said}") from None

    async def find(self, cluster: str, resource: GVR, name: str, namespace: str) -> Object:
        with suppress(NotFound):
            return await self.client(cluster).get(resource, name, namespace)
        return {}

    async def may_read(self, cluster: str) -> bool:
        try:
            await self.hub_user(cluster).list(CONFIG_MAPS, "shop")
        except Forbidden:
            return False
        return True

    async def readers(self) -> list[str]:
        return [one for one in ("cluster1", "cluster2", "cluster3") if await self.may_read(one)]


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub", *MEMBERS)))
    await server.start()
    found = Fleet(server)
    await found.prepare()
    yield found
    await server.stop(grace=0.1)


def test_every_sample_is_run_here() -> None:
    text = Path(__file__).read_text()
    assert all(f'"{one.name}"' in text for one in SAMPLES.glob("*.yaml"))


async def test_the_clusters_of_a_set_may_read_and_nobody_else(fleet: Fleet) -> None:
    await ensure_namespace(fleet.hub, "shop")
    await fleet.put_into("cluster1", "shops")
    async with fleet.running(fleet.controller("hub")):
        await fleet.apply(fleet.hub, "cluster-set-permissions.yaml")

        async def readers_are(*wanted: str) -> bool:
            return await fleet.readers() == list(wanted)

        await fleet.until(lambda: readers_are("cluster1"), "the set as it was")
        await fleet.take_in("cluster3", **{SET_LABEL: "shops"})
        await fleet.until(lambda: readers_are("cluster1", "cluster3"), "a cluster that came")
        await fleet.put_into("cluster2", "shops")
        await fleet.put_into("cluster1", None)
        await fleet.until(lambda: readers_are("cluster2", "cluster3"), "one that came and one that left")
        await fleet.put_into("cluster2", "others")
        await fleet.hub.delete(CLUSTERS, "cluster3")
        await fleet.until(lambda: readers_are(), "a set without clusters")
        await fleet.put_into("cluster1", "shops")
        await fleet.until(lambda: readers_are("cluster1"), "a set with one again")
        await fleet.hub.delete(POLICIES, "hub-templates-of-shops", POLICIES_NAMESPACE)
        await fleet.until(lambda: readers_are(), "nothing of the policy")


async def test_a_secret_of_the_hub_is_kept_the_same_on_a_cluster(fleet: Fleet) -> None:
    await fleet.apply(fleet.hub, "copy-secret.hub.yaml")
    await fleet.apply(fleet.client("cluster1"), "copy-secret.yaml")

    async def same() -> bool:
        there = await fleet.find("cluster1", SECRETS, "registry-credentials", "default")
        here = await fleet.find("hub", SECRETS, "registry-credentials", "shop")
        return bool(there) and there["data"] == here["data"]

    async with fleet.running(fleet.controller("cluster1", fleet.hub_user("cluster1"))):
        await fleet.until(same, "the copy")
        await fleet.hub.patch(SECRETS, "registry-credentials", {"stringData": {"password": "a\nnew: one"}}, "shop")
        assert not await same()
        await fleet.until(same, "the copy of the new one")
    found = await fleet.find("cluster1", POLICIES, "registry-credentials", POLICIES_NAMESPACE)
    assert found["status"]["compliant"] == "Compliant"
    assert "YQpuZXc6IG9uZQ" not in str(found["status"])


async def test_each_cluster_has_its_own_entry_of_one_config_map(fleet: Fleet) -> None:
    await fleet.apply(fleet.hub, "settings-by-cluster.hub.yaml")

    async def settings(cluster: str) -> Object:
        found: Object = (await fleet.find(cluster, CONFIG_MAPS, "shop-settings", "default")).get("data") or {}
        return found

    async def are(cluster: str, replicas: str, environment: str) -> bool:
        return await settings(cluster) == {"cluster": cluster, "replicas": replicas, "environment": environment}

    async with AsyncExitStack() as stack:
        for name in MEMBERS:
            await fleet.apply(fleet.client(name), "settings-by-cluster.yaml")
            await stack.enter_async_context(fleet.running(fleet.controller(name, fleet.hub_user(name))))
        await fleet.until(lambda: are("cluster1", "3", "of-cluster1"), "the first's")
        await fleet.until(lambda: are("cluster2", "5", "of-cluster2"), "the second's")
        await fleet.hub.patch(CONFIG_MAPS, "replicas", {"data": {"cluster1": "4"}}, "shop")
        await fleet.hub.patch(CLUSTERS, "cluster1", {"metadata": {"labels": {"environment": None}}})
        await fleet.until(lambda: are("cluster1", "4", "unknown"), "what changed on the hub")
        assert await are("cluster2", "5", "of-cluster2")


async def test_the_addons_come_to_every_cluster_and_stay_where_one_does_not_answer(fleet: Fleet) -> None:
    options = AddonOptions()
    await install_addon_manager(fleet.hub, options)
    await install(fleet.hub, list(HUB_ADDONS.values()), HUB_NAMESPACE)
    everybody = {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}}
    await fleet.hub.apply(SETS, {"metadata": {"name": "global"}, "spec": everybody}, manager="hub")
    taint = {"key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}

    async def enabled() -> list[tuple[str, str]]:
        found = [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in (await fleet.hub.list(INSTALLED)).items]
        return sorted(found)

    def on(*clusters: str) -> list[tuple[str, str]]:
        return sorted((cluster, addon) for cluster in clusters for addon in (CONFIG_POLICY_ADDON, STANDALONE_ADDON))

    async def are(*clusters: str) -> bool:
        return await enabled() == on(*clusters)

    managers = (
        AddonManager(fleet.hub, options, clock=fleet.clock),
        PlacementManager(fleet.hub, PlacementOptions(), clock=fleet.clock),
    )
    async with fleet.running(*managers):
        assert await enabled() == []
        await fleet.apply(fleet.hub, "enable-everywhere.yaml")
        await fleet.until(lambda: are(*MEMBERS), "all clusters")
        await fleet.hub.patch(CLUSTERS, "cluster1", {"spec": {"taints": [taint]}})
        await fleet.take_in("cluster3")
        await fleet.until(lambda: are(*MEMBERS, "cluster3"), "the one that came")
        # Those of a placement that chooses fewer go.
        by_name = {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"environment": "of-cluster1"}}}}]}
        await fleet.hub.patch(PLACEMENTS, "everywhere", {"spec": by_name}, "policy-addons")
        await fleet.until(lambda: are("cluster1"), "the one that is chosen")
        for row in POLICY_ADDONS:
            await fleet.hub.patch(OFFERED, row.name, {"spec": {"installStrategy": {"type": "Manual", "placements": None}}})
        await fleet.take_in("cluster4")
        await fleet.clock.advance(60)
        assert await are("cluster1")
        # What the hub says of them beside is as it was.
        for row in POLICY_ADDONS:
            found = await fleet.hub.get(OFFERED, row.name)
            assert found["spec"]["addOnMeta"]["displayName"] == row.display_name
