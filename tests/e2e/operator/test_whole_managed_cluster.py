"""From nothing to a managed cluster whose pods a node runs: operators, hub and agents as themselves, in every mode of a Klusterlet.

The hub and the cluster with the agents have a node each; the hosted modes have a third cluster to manage.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.administration.hub.tokens import account_token, ensure_bootstrap
from muster.administration.members.accept import AcceptOptions, accept
from muster.machinery.objects import Object
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR
from muster.operator.names import CLUSTER_MANAGERS, EXTERNAL_MANAGED_SECRET, KLUSTERLETS, OPERATOR_NAMESPACE
from muster.operator.pod_namespaces import allow, on_this_machine
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE, BOOTSTRAP_SECRET, HUB_SECRET
from muster.runtime.client import AuthInfo, ClientConfig, dump_kubeconfig
from muster.runtime.client.builtin import CONFIG_MAPS, DEPLOYMENTS, LEASES, NAMESPACES, NODES, SECRETS, SIGNING_REQUESTS
from muster.runtime.client.rest import RestClient
from muster.runtime.install import ensure_namespace
from muster.work.kinds import APPLIED_WORKS, MANIFEST_WORKS
from tests.support.operating import Observed
from tests.support.sites import Site, embedded_only, open_site, open_sites
from tests.support.stage import PODS, condition

pytestmark = pytest.mark.timeout(300)
K = "klusterlet"
SECONDS = 60.0


class Managed(Observed):
    """The cluster that agents run on, its hub, and what is managed."""

    def __init__(self, site: Site, hub: Site) -> None:
        super().__init__(site.admin)
        self.hub = Observed(hub.admin)
        self._hub = hub

    async def secret(self, name: str, namespace: str, content: str) -> None:
        await ensure_namespace(self.admin, namespace)
        data = {"kubeconfig": base64.b64encode(content.encode()).decode()}
        await self.admin.apply(SECRETS, {"metadata": {"name": name, "namespace": namespace}, "data": data}, manager="test")

    async def join(self, namespace: str, *others: str, **spec: Any) -> None:
        """As administrators do by hand; agents dial the hub, and where they are hosted `others`."""
        token = await account_token(self.hub.admin)
        way = self._hub.config
        bootstrap = ClientConfig(way.server, way.ca, identity=AuthInfo(token=token))
        await self.secret(BOOTSTRAP_SECRET, namespace, dump_kubeconfig(bootstrap))
        for one in (OPERATOR_NAMESPACE, namespace):
            await allow(self.admin, one, on_this_machine([way.server, *others]))
        document = {"apiVersion": KLUSTERLETS.api_version, "kind": "Klusterlet", "metadata": {"name": K}, "spec": spec}
        await self.admin.create(KLUSTERLETS, document)

    async def says(self, kind: str, status: str, reason: str = "") -> Object:
        return await self.until_condition(KLUSTERLETS, K, kind, status, reason, SECONDS)

    async def accepted(self) -> str:
        """The one cluster that has introduced itself, accepted."""

        async def introduced() -> str:
            found = (await self.hub.admin.list(MANAGED_CLUSTERS)).items
            return str(found[0]["metadata"]["name"]) if found else ""

        name: str = await self.hub.until(introduced, "a cluster has introduced itself", SECONDS)
        await self.says("RegistrationDesiredDegraded", "False", "DeploymentsFunctional")
        await accept(self.hub.admin, name, AcceptOptions(wait=True, timeout=SECONDS))
        return name

    async def works(self, name: str) -> None:
        await self.hub.until_condition(MANAGED_CLUSTERS, name, "ManagedClusterConditionAvailable", "True", "", SECONDS)
        await self.says("HubConnectionDegraded", "False", "HubConnectionFunctional")
        await self.says("Available", "True", "KlusterletAvailable")

    async def work(self, cluster: str, there: RestClient | None = None) -> Observed:
        """Have a work of the hub applied to the managed cluster, and reported on; gives where it is."""
        where = Observed(there or self.admin)
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello", "namespace": "default"}}
        document = {
            "apiVersion": MANIFEST_WORKS.api_version,
            "kind": MANIFEST_WORKS.kind,
            "metadata": {"name": "hello", "namespace": cluster},
            "spec": {"workload": {"manifests": [manifest]}},
        }
        await self.hub.admin.create(MANIFEST_WORKS, document)
        await where.until_found(CONFIG_MAPS, "hello", "default", seconds=SECONDS)

        async def reported() -> bool:
            found = await self.hub.admin.get(MANIFEST_WORKS, "hello", cluster)
            return condition(found, "Applied") == condition(found, "Available") == "True"

        await self.hub.until(reported, "the work is reported as applied and available", SECONDS)
        return where

    async def applies_works(self, cluster: str, there: RestClient | None = None) -> None:
        """They come, are reported on, and go again."""
        where = await self.work(cluster, there)
        await self.hub.admin.delete(MANIFEST_WORKS, "hello", cluster)
        await self.hub.until_gone(MANIFEST_WORKS, "hello", cluster, seconds=SECONDS)
        await nothing_left(where)

    async def agents(self) -> list[Object]:
        """The pods that register the cluster."""
        pods = (await self.admin.list(PODS, AGENT_NAMESPACE)).items
        return [pod for pod in pods if pod["metadata"]["name"].startswith(f"{K}-registration-agent-")]


async def nothing_left(where: Observed) -> None:
    assert await where.find(CONFIG_MAPS, "hello", "default") is None
    assert not (await where.admin.list(APPLIED_WORKS)).items


@pytest.fixture
async def managed(tmp_path: Path) -> AsyncIterator[Managed]:
    async with open_sites(tmp_path, "hub", "spoke") as (hub, spoke):
        made = Managed(spoke, hub)
        await made.hub.surround(CLUSTER_MANAGER_OPERATOR)
        await made.surround(KLUSTERLET_OPERATOR)
        await ensure_bootstrap(made.hub.admin)
        document = {"apiVersion": CLUSTER_MANAGERS.api_version, "kind": "ClusterManager", "metadata": {"name": "cluster-manager"}}
        await made.hub.admin.create(CLUSTER_MANAGERS, {**document, "spec": {}})
        await made.hub.until_condition(CLUSTER_MANAGERS, "cluster-manager", "HubRegistrationDegraded", "False", "", SECONDS)
        yield made


async def test_a_cluster_joins_under_a_name_of_its_own_and_keeps_it(managed: Managed) -> None:
    await managed.join(AGENT_NAMESPACE)
    await managed.says("HubConnectionDegraded", "True")
    name = await managed.accepted()
    await managed.works(name)
    await managed.applies_works(name)
    before = {pod["metadata"]["uid"] for pod in await managed.agents()}
    for pod in (await managed.admin.list(PODS, AGENT_NAMESPACE)).items:
        await managed.admin.delete(PODS, pod["metadata"]["name"], AGENT_NAMESPACE)

    async def replaced() -> bool:
        now = {pod["metadata"]["uid"] for pod in await managed.agents()}
        return bool(now) and not now & before

    await managed.until(replaced, "another pod runs the agent", SECONDS)
    await managed.works(name)
    assert [one["metadata"]["name"] for one in (await managed.hub.admin.list(MANAGED_CLUSTERS)).items] == [name]


@embedded_only
async def test_an_agent_that_goes_leaves_nothing_but_its_cluster_on_the_hub(managed: Managed) -> None:
    await managed.join(AGENT_NAMESPACE, clusterName="c1")
    await managed.works(await managed.accepted())
    await managed.admin.delete(KLUSTERLETS, K)
    await managed.until_gone(KLUSTERLETS, K, seconds=SECONDS)
    assert await managed.find(NAMESPACES, AGENT_NAMESPACE) is None
    assert {one["metadata"]["namespace"] for one in (await managed.admin.list(PODS)).items} == {OPERATOR_NAMESPACE}
    assert await managed.hub.find(MANAGED_CLUSTERS, "c1") is not None


@embedded_only
async def test_with_the_hub_go_its_works_from_clusters_whose_agents_are_there(managed: Managed) -> None:
    await managed.join(AGENT_NAMESPACE, clusterName="c1")
    await managed.works(await managed.accepted())
    where = await managed.work("c1")
    await managed.hub.admin.delete(CLUSTER_MANAGERS, "cluster-manager")
    await managed.hub.until_gone(CLUSTER_MANAGERS, "cluster-manager", seconds=SECONDS)
    await nothing_left(where)


@embedded_only
async def test_one_agent_does_all_in_the_singleton_mode(managed: Managed) -> None:
    await managed.join(AGENT_NAMESPACE, clusterName="c1", deployOption={"mode": "Singleton"})
    await managed.works(await managed.accepted())
    await managed.applies_works("c1")
    uid = (await managed.admin.get(KLUSTERLETS, K))["metadata"]["uid"]
    secret = await managed.admin.get(SECRETS, HUB_SECRET, AGENT_NAMESPACE)
    assert base64.b64decode(secret["data"]["agent-name"]).decode() == uid


@pytest.mark.parametrize("mode", ["Hosted", pytest.param("SingletonHosted", marks=embedded_only)])
async def test_agents_manage_a_cluster_elsewhere(managed: Managed, tmp_path: Path, mode: str) -> None:
    async with open_site(tmp_path / "far") as far:
        await managed.secret(EXTERNAL_MANAGED_SECRET, K, dump_kubeconfig(far.config))
        await managed.join(K, far.config.server, clusterName="c1", deployOption={"mode": mode})
        await managed.works(await managed.accepted())
        assert await Observed(far.admin).find(NAMESPACES, AGENT_NAMESPACE) is not None
        nodes = (await managed.hub.admin.get(MANAGED_CLUSTERS, "c1"))["status"]["capacity"]
        assert nodes, "the managed cluster's, which has a node"
        await managed.applies_works("c1", far.admin)
        await managed.admin.delete(KLUSTERLETS, K)
        await managed.until_gone(KLUSTERLETS, K, seconds=SECONDS)
        assert await Observed(far.admin).find(NAMESPACES, AGENT_NAMESPACE) is None
        assert await managed.find(NAMESPACES, K) is None


@embedded_only
async def test_of_several_agents_one_works_and_another_takes_over(managed: Managed) -> None:
    for number in range(2):
        metadata = {"name": f"n{number}", "labels": {"node-role.kubernetes.io/control-plane": ""}}
        await managed.admin.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    await managed.join(AGENT_NAMESPACE, clusterName="c1")
    await managed.works(await managed.accepted())
    assert len(await managed.agents()) == 3
    requests = (await managed.hub.admin.list(SIGNING_REQUESTS)).items
    assert len(requests) == 1

    async def leader() -> str:
        lease = await managed.admin.get(LEASES, "registration-agent-lock", AGENT_NAMESPACE)
        return str(lease["spec"].get("holderIdentity") or "")

    first = await leader()
    await managed.admin.delete(PODS, first, AGENT_NAMESPACE)

    async def another() -> bool:
        return await leader() not in ("", first)

    await managed.until(another, "another agent leads", SECONDS)
    await managed.works("c1")


@embedded_only
async def test_another_image_rolls_out_and_the_cluster_stays_available(managed: Managed) -> None:
    await managed.join(AGENT_NAMESPACE, clusterName="c1")
    await managed.works(await managed.accepted())
    image = "registry.example/other/muster:next"
    await managed.admin.patch(KLUSTERLETS, K, {"spec": {"registrationImagePullSpec": image}})

    async def rolled() -> bool:
        found = await managed.agents()
        return bool(found) and all(pod["spec"]["containers"][0]["image"] == image for pod in found)

    await managed.until(rolled, "only pods of the new image are left", SECONDS)
    await managed.works("c1")
    deployment = await managed.admin.get(DEPLOYMENTS, f"{K}-registration-agent", AGENT_NAMESPACE)
    status = (await managed.admin.get(KLUSTERLETS, K))["status"]
    noted = next(one for one in status["generations"] if one["name"] == deployment["metadata"]["name"])
    assert noted["lastGeneration"] == deployment["metadata"]["generation"]
