"""From nothing to a working hub on a cluster whose node runs the pods: operator, controllers and webhooks as themselves.

Here the operator, too, is a pod; nothing is played, and the API server finds the webhooks by their Service.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.api.authentication.v1beta1 import ManagedServiceAccount
from muster.machinery.objects import GVR, Object
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, whole
from muster.operator.cluster_manager.components import HOOKS
from muster.operator.names import CLUSTER_MANAGERS, OPERATOR_NAMESPACE
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import CLUSTER_SET_LABEL, HUB_NAMESPACE, RESOURCE_CLEANUP
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, DEPLOYMENTS, NAMESPACES
from muster.runtime.client.errors import BadRequest, Forbidden
from muster.runtime.client.typed import served
from muster.runtime.install import binding
from muster.work.hub.bindings.accounts import BINDINGS
from muster.work.hub.install import BINDING_HOOK
from muster.work.hub.options import ADDON_NAMESPACE
from muster.work.kinds import MANIFEST_WORKS, REPLICA_SETS
from tests.support.operating import Observed
from tests.support.sites import embedded_only, open_site
from tests.support.stage import PODS, condition

ACCOUNTS = served(ManagedServiceAccount)

CM = "cluster-manager"
SECONDS = 60.0
IMAGE = "registry.example/other/muster:next"


class WholeHub(Observed):
    async def says(self, kind: str, status: str, reason: str = "") -> Object:
        return await self.until_condition(CLUSTER_MANAGERS, CM, kind, status, reason, SECONDS)

    async def up(self, **spec: Any) -> None:
        document = {"apiVersion": CLUSTER_MANAGERS.api_version, "kind": "ClusterManager", "metadata": {"name": CM}, "spec": spec}
        await self.admin.create(CLUSTER_MANAGERS, document)
        await self.at_rest()

    async def made(self, resource: GVR, document: Object) -> None:
        await self.admin.create(resource, whole((resource, document)))

    async def at_rest(self) -> None:
        await self.says("Progressing", "False", "ClusterManagerUpToDate")
        await self.says("HubRegistrationDegraded", "False", "RegistrationFunctional")
        for hook in HOOKS:
            await self.until_found(hook.resource, hook.name, seconds=SECONDS)

    async def cluster(self, name: str) -> Object:
        """Accepted, and looked after by the controllers."""
        await self.admin.create(MANAGED_CLUSTERS, cluster_document(name))

        async def held() -> Object | None:
            found = await self.find(MANAGED_CLUSTERS, name)
            return found if found and RESOURCE_CLEANUP in (found["metadata"].get("finalizers") or ()) else None

        found: Object = await self.until(held, f"the controllers look after {name}", SECONDS)
        return found

    async def kill_pods(self, namespace: str) -> None:
        """And see others in their places."""
        pods = (await self.admin.list(PODS, namespace)).items
        killed = {pod["metadata"]["uid"] for pod in pods}
        for pod in pods:
            await self.admin.delete(PODS, pod["metadata"]["name"], namespace)

        async def replaced() -> bool:
            ready = [pod for pod in (await self.admin.list(PODS, namespace)).items if condition(pod, "Ready") == "True"]
            return len(ready) == len(pods) and not killed & {pod["metadata"]["uid"] for pod in ready}

        await self.until(replaced, f"other pods are ready in {namespace}", SECONDS)


def cluster_document(name: str) -> Object:
    return {
        "apiVersion": MANAGED_CLUSTERS.api_version,
        "kind": MANAGED_CLUSTERS.kind,
        "metadata": {"name": name},
        "spec": {"hubAcceptsClient": True},
    }


def work_document(namespace: str, *manifests: Object) -> Object:
    return {
        "apiVersion": MANIFEST_WORKS.api_version,
        "kind": MANIFEST_WORKS.kind,
        "metadata": {"name": "work", "namespace": namespace},
        "spec": {"workload": {"manifests": list(manifests)}},
    }


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[WholeHub]:
    async with open_site(tmp_path) as site:
        hub = WholeHub(site.admin)
        await hub.surround(CLUSTER_MANAGER_OPERATOR)
        yield hub


async def test_a_hub_works_and_goes_away_with_its_clusters(hub: WholeHub) -> None:
    await hub.up()
    cluster = await hub.cluster("c1")
    assert cluster["metadata"]["labels"][CLUSTER_SET_LABEL] == "default", "the webhook put it there"
    with pytest.raises(BadRequest):
        await hub.cluster("Not.A.Name".lower())
    with pytest.raises(BadRequest, match="name must be set in manifest"):
        await hub.admin.create(MANIFEST_WORKS, work_document("default", {"apiVersion": "v1", "kind": "ConfigMap"}))
    await hub.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone(CLUSTER_MANAGERS, CM, seconds=SECONDS)
    assert await hub.find(NAMESPACES, HUB_NAMESPACE) is None
    assert [one["metadata"]["namespace"] for one in (await hub.admin.list(PODS)).items] == [OPERATOR_NAMESPACE]


@embedded_only
async def test_gates_reach_the_webhooks(hub: WholeHub) -> None:
    await hub.up(registrationConfiguration={"featureGates": [{"feature": "DefaultClusterSet", "mode": "Disable"}]})
    cluster = await hub.cluster("c1")
    assert CLUSTER_SET_LABEL not in (cluster["metadata"].get("labels") or {})


@embedded_only
async def test_the_work_controller_tends_replica_sets_and_lets_them_go_with_the_hub(hub: WholeHub) -> None:
    await hub.up(workConfiguration={"featureGates": [{"feature": "ManifestWorkReplicaSet", "mode": "Enable"}]})
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
    document = {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {"name": "everywhere", "namespace": "default"},
        "spec": {"manifestWorkTemplate": work_document("", manifest)["spec"], "placementRefs": [{"name": "all"}]},
    }
    await hub.admin.create(REPLICA_SETS, document)

    async def tended() -> bool:
        found = await hub.find(REPLICA_SETS, "everywhere", "default")
        return bool(found and found["metadata"].get("finalizers"))

    await hub.until(tended, "the controller holds the replica set", SECONDS)
    await hub.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone(CLUSTER_MANAGERS, CM, seconds=SECONDS)
    assert await hub.find(NAMESPACES, HUB_NAMESPACE) is None


async def test_a_gate_has_bindings_count_for_executors(hub: WholeHub) -> None:
    await hub.up(workConfiguration={"featureGates": [{"feature": "ExecutorByBinding", "mode": "Enable"}]})
    await hub.until_found(BINDING_HOOK.resource, BINDING_HOOK.name, seconds=SECONDS)
    await hub.made(NAMESPACES, {"metadata": {"name": "cluster1"}})
    writes = [{"apiGroups": [MANIFEST_WORKS.group], "resources": ["manifestworks"], "verbs": ["create"]}]
    await hub.made(CLUSTER_ROLES, {"metadata": {"name": "writes-works"}, "rules": writes})
    user = {"kind": "User", "name": "erin", "apiGroup": "rbac.authorization.k8s.io"}
    await hub.made(CLUSTER_ROLE_BINDINGS, binding("erin-writes-works", "ClusterRole", "writes-works", user))
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
    work = work_document("cluster1", manifest)
    account = {"namespace": ADDON_NAMESPACE, "name": "deployer"}
    work["spec"]["executor"] = {"subject": {"type": "ServiceAccount", "serviceAccount": account}}
    erin = hub.admin.as_user("erin")

    async def refused() -> bool:
        with pytest.raises((BadRequest, Forbidden)) as problem:
            await erin.create(MANIFEST_WORKS, work)
        return "user erin cannot manipulate" in str(problem.value)

    await hub.until(refused, "the webhook refuses what nobody has bound", SECONDS)
    await hub.made(ACCOUNTS, {"metadata": {"name": "deployer", "namespace": "cluster1"}, "spec": {"rotation": {}}})
    bound = {"ref": {"namespace": "cluster1", "name": "deployer"}, "subjects": [{"kind": "User", "name": "erin"}]}
    await hub.made(BINDINGS, {"metadata": {"name": "erin"}, "spec": bound})

    async def accepted() -> bool:
        try:
            await erin.create(MANIFEST_WORKS, work)
        except BadRequest:
            return False
        return True

    await hub.until(accepted, "the bound user may have a work run as the account", SECONDS)

    async def told() -> bool:
        found = await hub.admin.get(BINDINGS, "erin")
        return condition(found, "Accepted") == "True"

    await hub.until(told, "the binding says that it counts", SECONDS)


async def test_another_image_rolls_out_and_webhooks_answer_on(hub: WholeHub) -> None:
    await hub.up()
    await hub.admin.patch(CLUSTER_MANAGERS, CM, {"spec": {"registrationImagePullSpec": IMAGE}})

    async def rolled() -> bool:
        pods = [pod for pod in (await hub.admin.list(PODS, HUB_NAMESPACE)).items if "-registration-" in pod["metadata"]["name"]]
        return bool(pods) and all(pod["spec"]["containers"][0]["image"] == IMAGE for pod in pods)

    await hub.until(rolled, "only pods of the new image are left", SECONDS)
    await hub.at_rest()
    made = await hub.admin.create(MANAGED_CLUSTERS, cluster_document("c1"))
    assert made["metadata"]["labels"][CLUSTER_SET_LABEL] == "default", "the new webhook put it there"


@embedded_only
async def test_an_operator_of_another_image_brings_new_components(hub: WholeHub) -> None:
    await hub.up()
    container = {"name": "registration-operator", "image": IMAGE}
    template = {"spec": {"template": {"spec": {"containers": [container]}}}}
    await hub.admin.patch(DEPLOYMENTS, CM, template, OPERATOR_NAMESPACE, kind="strategic")

    async def followed() -> bool:
        found = await hub.find(DEPLOYMENTS, f"{CM}-registration-controller", HUB_NAMESPACE)
        return found is not None and found["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE

    await hub.until(followed, "the components are of the operator's image", SECONDS)
    await hub.at_rest()


async def test_pods_that_die_come_back_and_a_dead_operator_finishes_its_work(hub: WholeHub) -> None:
    await hub.up()
    await hub.kill_pods(HUB_NAMESPACE)
    await hub.at_rest()
    await hub.cluster("c1")
    await hub.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.kill_pods(OPERATOR_NAMESPACE)
    await hub.until_gone(CLUSTER_MANAGERS, CM, seconds=SECONDS)
    assert await hub.find(NAMESPACES, HUB_NAMESPACE) is None
