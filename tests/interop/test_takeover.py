"""Upstream's operators give a hub and a managed cluster to ours, and get them back: no cluster leaves, nothing is delivered anew.

Operators and what they deploy run as pods on kube-apiservers, with the rights of their own manifests. The steps between are those
of docs/migration.md.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.administration.content.works import DECISIONS, PLACEMENTS
from muster.administration.hub.tokens import account_token, ensure_bootstrap
from muster.administration.members.accept import AcceptOptions, accept
from muster.machinery.objects import GVR, Object
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR
from muster.operator.names import (
    CLUSTER_MANAGER_LABEL,
    CLUSTER_MANAGERS,
    KLUSTERLET_LABEL,
    KLUSTERLETS,
    OPERATOR_NAMESPACE,
    UPSTREAM_CLUSTER_MANAGER_LABEL,
    UPSTREAM_IMAGES,
    UPSTREAM_KLUSTERLET_LABEL,
)
from muster.operator.pod_namespaces import RUN, allow, on_this_machine
from muster.registration.kinds import CLUSTER_SET_BINDINGS, MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE, BOOTSTRAP_SECRET, HUB_NAMESPACE
from muster.runtime.client import AuthInfo, ClientConfig, ServerFailure, dump_kubeconfig
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SIGNING_REQUESTS,
)
from muster.work.kinds import APPLIED_WORKS, MANIFEST_WORKS
from tests.interop.upstream_installation import install_operator, open_clusters, remove_operator
from tests.support.operating import Observed
from tests.support.sites import Site
from tests.support.stage import PODS, condition

pytestmark = pytest.mark.timeout(600)
K, CM, C = "klusterlet", "cluster-manager", "cluster1"
SECONDS = 90.0
IMAGES = {f"{name}ImagePullSpec": f"{UPSTREAM_IMAGES}{name}:v1.2.1" for name in ("registration", "work")}
HUB_IMAGES = {**IMAGES, "placementImagePullSpec": f"{UPSTREAM_IMAGES}placement:v1.2.1"}
HUB_IMAGES["addOnManagerImagePullSpec"] = f"{UPSTREAM_IMAGES}addon-manager:v1.2.1"
RIGHTS = (CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS)


class Fleet:
    """A hub and a managed cluster."""

    def __init__(self, hub: Site, managed: Site) -> None:
        self.hub_config = hub.config
        self.hub = Observed(hub.admin)
        self.managed = Observed(managed.admin)

    async def join(self) -> None:
        """As an administrator does it by hand."""
        way = self.hub_config
        bootstrap = ClientConfig(way.server, way.ca, identity=AuthInfo(token=await account_token(self.hub.admin)))
        await self.managed.admin.create(NAMESPACES, {"metadata": {"name": AGENT_NAMESPACE, "labels": dict(RUN)}})
        await allow(self.managed.admin, AGENT_NAMESPACE, on_this_machine([way.server]))
        data = {"kubeconfig": base64.b64encode(dump_kubeconfig(bootstrap).encode()).decode()}
        secret = {"metadata": {"name": BOOTSTRAP_SECRET, "namespace": AGENT_NAMESPACE}, "data": data}
        await self.managed.admin.create(SECRETS, secret)
        spec = {"clusterName": C, "namespace": AGENT_NAMESPACE, "deployOption": {"mode": "Default"}, **IMAGES}
        document = {"apiVersion": KLUSTERLETS.api_version, "kind": KLUSTERLETS.kind, "metadata": {"name": K}, "spec": spec}
        await self.managed.admin.create(KLUSTERLETS, document)
        await self.hub.until_found(MANAGED_CLUSTERS, C, seconds=SECONDS)
        await accept(self.hub.admin, C, AcceptOptions(wait=True, timeout=SECONDS))

    async def written(self, resource: GVR, document: Object) -> Object:
        """Applied, once the webhooks' certificate and what the API server believes are of one side."""

        async def so() -> Object | None:
            try:
                return await self.hub.admin.apply(resource, document, manager="test")
            except ServerFailure as error:
                if "failed to verify certificate" not in str(error):
                    raise
                return None

        written: Object = await self.hub.until(so, f"{resource} is written", SECONDS)
        return written

    async def deliver(self, greeting: str) -> None:
        """Have a work say something else, and be reported."""
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello", "namespace": "default"}}
        spec = {"workload": {"manifests": [{**manifest, "data": {"greeting": greeting}}]}}
        work = await self.written(MANIFEST_WORKS, {"metadata": {"name": "hello", "namespace": C}, "spec": spec})

        async def delivered() -> bool:
            found = await self.managed.find(CONFIG_MAPS, "hello", "default")
            said = await self.hub.admin.get(MANIFEST_WORKS, "hello", C)
            conditions = (said.get("status") or {}).get("conditions") or ()
            reported = [(one["status"], one.get("observedGeneration")) for one in conditions if one["type"] == "Applied"]
            return reported == [("True", work["metadata"]["generation"])] and (found or {}).get("data") == {"greeting": greeting}

        await self.managed.until(delivered, f"the work says {greeting}", SECONDS)

    async def identities(self) -> dict[str, str]:
        """By the uids of these a change of programs could be told from a change of the fleet."""
        found = {"cluster": await self.hub.admin.get(MANAGED_CLUSTERS, C)}
        found["work"] = await self.hub.admin.get(MANIFEST_WORKS, "hello", C)
        found["applied"] = await self.managed.admin.get(CONFIG_MAPS, "hello", "default")
        (found["record"],) = (await self.managed.admin.list(APPLIED_WORKS)).items
        found |= {f"request {n}": one for n, one in enumerate((await self.hub.admin.list(SIGNING_REQUESTS)).items)}
        return {what: one["metadata"]["uid"] for what, one in found.items()}

    async def place(self) -> None:
        """Have a placement select the cluster."""
        binding = {"metadata": {"name": "global", "namespace": "default"}, "spec": {"clusterSet": "global"}}
        await self.hub.admin.apply(CLUSTER_SET_BINDINGS, binding, manager="test")
        everywhere = {
            "metadata": {"name": "everywhere", "namespace": "default"},
            "spec": {"clusterSets": ["global"], "tolerations": [{"operator": "Exists"}]},
        }
        await self.hub.admin.apply(PLACEMENTS, everywhere, manager="test")
        await self.selected(C)

    async def selected(self, *names: str) -> None:
        async def so() -> bool:
            found = (await self.hub.admin.list(DECISIONS, "default")).items
            return {one["clusterName"] for each in found for one in (each.get("status") or {}).get("decisions") or ()} == {*names}

        await self.hub.until(so, f"the placement selects {names}", SECONDS)

    async def admits(self, name: str) -> None:
        """Another cluster: the hub's webhooks are asked, its controllers look after it, and so does the placement."""
        await self.written(MANAGED_CLUSTERS, {"metadata": {"name": name}, "spec": {"hubAcceptsClient": True}})
        await self.hub.until_condition(MANAGED_CLUSTERS, name, "HubAcceptedManagedCluster", "True", "", SECONDS)
        names = [one["metadata"]["name"] for one in (await self.hub.admin.list(MANAGED_CLUSTERS)).items]
        await self.selected(*names)

    async def available(self) -> None:
        """The hub hears of the cluster: its Lease is renewed twice from now on."""
        await self.hub.until_condition(MANAGED_CLUSTERS, C, "ManagedClusterConditionAvailable", "True", "", SECONDS)


def cluster_manager(spec: Object) -> Object:
    return {"apiVersion": CLUSTER_MANAGERS.api_version, "kind": CLUSTER_MANAGERS.kind, "metadata": {"name": CM}, "spec": spec}


async def runs(cluster: Observed, namespace: str, *, upstreams: bool) -> None:
    """Until all pods there are one side's, ready, and as many as the Deployments ask for."""

    async def so() -> bool:
        pods = (await cluster.admin.list(PODS, namespace)).items
        images = [[one["image"] for one in pod["spec"]["containers"]] for pod in pods]
        asked = sum(one["spec"]["replicas"] for one in (await cluster.admin.list(DEPLOYMENTS, namespace)).items)
        of_one_side = all(len(image) == 1 and image[0].startswith(UPSTREAM_IMAGES) == upstreams for image in images)
        return of_one_side and len(pods) == asked > 0 and all(condition(pod, "Ready") == "True" for pod in pods)

    await cluster.until(so, f"what runs in {namespace} is {'upstream' if upstreams else 'Muster'}'s", SECONDS)


async def admit_upstreams_pods(cluster: Observed, namespace: str) -> None:
    """They do not meet the restricted pod security standard, which ours ask for."""
    await cluster.admin.patch(NAMESPACES, namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}})


async def left_over(cluster: Observed, selector: str) -> set[str]:
    """Roles and accounts with these labels."""
    found = [(kind, one) for kind in RIGHTS for one in (await cluster.admin.list(kind, label_selector=selector)).items]
    return {f"{kind.kind} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}" for kind, one in found}


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with open_clusters(tmp_path, "hub", "managed") as (hub, managed):
        yield Fleet(hub, managed)


async def test_a_klusterlet_goes_from_upstreams_operator_to_ours_and_back(fleet: Fleet) -> None:
    hub, managed = fleet.hub, fleet.managed
    await hub.surround(CLUSTER_MANAGER_OPERATOR)
    await ensure_bootstrap(hub.admin)
    await hub.admin.create(CLUSTER_MANAGERS, cluster_manager({}))
    await hub.until_condition(CLUSTER_MANAGERS, CM, "HubRegistrationDegraded", "False", "", SECONDS)
    await install_operator(managed.admin, K)
    await fleet.join()
    await fleet.deliver("by upstream's")
    await runs(managed, AGENT_NAMESPACE, upstreams=True)
    before = await fleet.identities()

    await remove_operator(managed, K)
    await managed.surround(KLUSTERLET_OPERATOR)

    await runs(managed, AGENT_NAMESPACE, upstreams=False)
    await managed.until_condition(KLUSTERLETS, K, "Applied", "True", "KlusterletApplied", SECONDS)
    await fleet.deliver("by ours")
    await fleet.available()
    assert await fleet.identities() == before
    assert await left_over(managed, f"{UPSTREAM_KLUSTERLET_LABEL},!{KLUSTERLET_LABEL}") == set()

    await remove_operator(managed, K)
    await admit_upstreams_pods(managed, OPERATOR_NAMESPACE)
    await install_operator(managed.admin, K)

    await runs(managed, AGENT_NAMESPACE, upstreams=True)
    await fleet.deliver("by upstream's again")
    await fleet.available()
    assert await fleet.identities() == before
    selector = f"{KLUSTERLET_LABEL},!{UPSTREAM_KLUSTERLET_LABEL}"
    namespace = "open-cluster-management-agent-addon"
    right = f"open-cluster-management:{K}-registration:addon-management"
    assert await left_over(managed, selector) == {f"RoleBinding {namespace}/{right}"}
    await managed.admin.delete(ROLE_BINDINGS, right, namespace)

    await managed.admin.delete(KLUSTERLETS, K)
    await managed.until_gone(KLUSTERLETS, K, seconds=SECONDS)
    await managed.until_gone(NAMESPACES, AGENT_NAMESPACE, seconds=SECONDS)


async def test_a_cluster_manager_goes_from_upstreams_operator_to_ours_and_back(fleet: Fleet) -> None:
    hub, managed = fleet.hub, fleet.managed
    await install_operator(hub.admin, CM)
    await hub.admin.create(NAMESPACES, {"metadata": {"name": HUB_NAMESPACE, "labels": dict(RUN)}})
    await ensure_bootstrap(hub.admin)
    await hub.admin.create(CLUSTER_MANAGERS, cluster_manager(HUB_IMAGES))
    await runs(hub, HUB_NAMESPACE, upstreams=True)
    await managed.surround(KLUSTERLET_OPERATOR)
    await fleet.join()
    await fleet.deliver("from upstream's hub")
    await fleet.place()
    before = await fleet.identities()

    await remove_operator(hub, CM)
    await hub.surround(CLUSTER_MANAGER_OPERATOR)

    await runs(hub, HUB_NAMESPACE, upstreams=False)
    await hub.until_condition(CLUSTER_MANAGERS, CM, "Applied", "True", "ClusterManagerApplied", SECONDS)
    await fleet.deliver("from our hub")
    await fleet.available()
    await fleet.admits("second")
    assert await fleet.identities() == before
    assert await left_over(hub, f"{UPSTREAM_CLUSTER_MANAGER_LABEL},!{CLUSTER_MANAGER_LABEL}") == set()

    await remove_operator(hub, CM)
    for namespace in (OPERATOR_NAMESPACE, HUB_NAMESPACE):
        await admit_upstreams_pods(hub, namespace)
    await install_operator(hub.admin, CM)

    await runs(hub, HUB_NAMESPACE, upstreams=True)
    await fleet.deliver("from upstream's hub again")
    await fleet.available()
    await fleet.admits("third")
    assert await fleet.identities() == before
    selector, binding = (
        f"{CLUSTER_MANAGER_LABEL},!{UPSTREAM_CLUSTER_MANAGER_LABEL}",
        f"open-cluster-management:{CM}-addon-manager:aggregated",
    )
    assert await left_over(hub, selector) == {f"ClusterRoleBinding /{binding}"}
    await hub.admin.delete(CLUSTER_ROLE_BINDINGS, binding)
    for name in ("second", "third"):
        await hub.admin.delete(MANAGED_CLUSTERS, name)
        await hub.until_gone(MANAGED_CLUSTERS, name, seconds=SECONDS)
