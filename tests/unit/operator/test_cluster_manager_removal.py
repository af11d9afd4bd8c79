"""A hub that is removed, or of which somebody removes a part: nothing is left behind, and nothing waits for ever."""

from __future__ import annotations

import pytest

from muster.machinery.objects import GVR
from muster.operator.cluster_manager.components import HOOKS
from muster.operator.names import CLUSTER_MANAGER_LABEL, CLUSTER_MANAGERS
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import (
    CLUSTER_LABEL,
    HUB_NAMESPACE,
    LEASE,
    RESOURCE_CLEANUP,
    WORK_CLEANUP,
    cluster_role,
    work_binding,
)
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    ROLE_BINDINGS,
)
from muster.runtime.client.errors import ServerFailure
from muster.runtime.install import binding
from muster.work.hub.install import HOOKS as WORK_HOOKS
from tests.unit.operator.conftest import Cluster
from tests.unit.operator.hubs import (
    ALWAYS,
    CM,
    CONTROLLER,
    WORK_WEBHOOK,
    Hub,
    operated,
)


async def test_deleted_it_leaves_nothing_behind(hub: Hub) -> None:
    await hub.up()
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert await hub.remains() == []


async def test_removal_lets_clusters_go_that_no_controller_will_finalize(hub: Hub) -> None:
    await hub.create()
    await hub.says("Applied", "True")
    cluster = {"metadata": {"name": "c1", "finalizers": [RESOURCE_CLEANUP]}, "spec": {"hubAcceptsClient": False}}
    await hub.place.admin.create(
        MANAGED_CLUSTERS, {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind, **cluster}
    )
    await hub.place.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c1"}})
    await leave_behind(hub.place, "c1")
    await hub.available()
    await hub.place.until_found(HOOKS[0].resource, HOOKS[0].name)
    for name in ALWAYS:
        await hub.place.set_available(name, HUB_NAMESPACE, available=False)
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert await hub.remains() == []
    assert await hub.place.find(LEASES, LEASE, "c1") is None
    assert await hub.place.find(ROLE_BINDINGS, work_binding("c1"), "c1") is None
    assert await hub.place.find(NAMESPACES, "c1"), "users have things there"


async def test_removal_lets_replica_sets_go_that_no_controller_will_finalize(here: Cluster) -> None:
    async with operated(here) as hub:
        await hub.up()
        await here.set_available(WORK_WEBHOOK, HUB_NAMESPACE, available=False)
        await here.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sets"}})
        for hook in WORK_HOOKS:
            await here.admin.delete(hook.resource, hook.name)
        metadata = {"name": "left", "namespace": "sets", "finalizers": ["work.open-cluster-management.io/manifest-work-cleanup"]}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
        template = {"workload": {"manifests": [manifest]}}
        spec = {"manifestWorkTemplate": template, "placementRefs": [{"name": "all"}]}
        resource = GVR("work.open-cluster-management.io/v1alpha1", "manifestworkreplicasets", "ManifestWorkReplicaSet")
        await here.admin.create(
            resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        )
        await here.admin.delete(CLUSTER_MANAGERS, CM)
        await hub.until_gone()
        assert await hub.remains() == []


async def leave_behind(place: Cluster, cluster: str) -> None:
    """What a controller makes for a cluster and takes away again, if it is still there to do so."""
    role = cluster_role(cluster)
    labels = {CLUSTER_LABEL: cluster}
    subject = {"kind": "Group", "name": "any", "apiGroup": "rbac.authorization.k8s.io"}
    works = binding(work_binding(cluster), "ClusterRole", role, subject, cluster)
    works["metadata"] |= {"labels": labels, "finalizers": [WORK_CLEANUP]}
    whole = binding(role, "ClusterRole", role, subject)
    whole["metadata"]["labels"] = labels
    for resource, document in (
        (CLUSTER_ROLES, {"metadata": {"name": role, "labels": labels}, "rules": []}),
        (CLUSTER_ROLE_BINDINGS, whole),
        (ROLE_BINDINGS, works),
        (LEASES, {"metadata": {"name": LEASE, "namespace": cluster, "labels": labels}, "spec": {}}),
    ):
        await place.admin.apply(resource, document, manager="test")


async def test_removal_waits_for_the_controller_and_says_for_what(here: Cluster) -> None:
    async with operated(here) as hub:
        await hub.create()
        await hub.says("Applied", "True")
        cluster = {"metadata": {"name": "c1", "finalizers": [RESOURCE_CLEANUP]}, "spec": {"hubAcceptsClient": False}}
        whole = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind, **cluster}
        await here.admin.create(MANAGED_CLUSTERS, whole)
        await here.set_available(CONTROLLER, HUB_NAMESPACE)
        await here.admin.delete(CLUSTER_MANAGERS, CM)

        async def told() -> bool:
            waiting = await here.condition(CLUSTER_MANAGERS, CM, "Deleting")
            return "ManagedCluster: c1" in waiting.get("message", "")

        await here.until(told, "it says what it waits for")
        await here.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"finalizers": None}})
        await hub.until_gone()
        assert await hub.remains() == []


async def test_webhooks_that_only_seem_to_answer_do_not_hold_a_removal_up_for_ever(hub: Hub) -> None:
    await hub.create()
    await hub.says("Applied", "True")
    cluster = {"metadata": {"name": "c1", "finalizers": [RESOURCE_CLEANUP]}, "spec": {"hubAcceptsClient": False}}
    whole = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind, **cluster}
    await hub.place.admin.create(MANAGED_CLUSTERS, whole)
    await hub.available()
    for hook in HOOKS:
        await hub.place.until_found(hook.resource, hook.name)
    with pytest.raises(ServerFailure, match="webhook"):
        await hub.place.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"finalizers": None}})
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert await hub.remains() == []


async def test_the_namespace_may_be_deleted_first(hub: Hub) -> None:
    await hub.up()
    await hub.place.admin.delete(NAMESPACES, HUB_NAMESPACE)
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert await hub.remains() == []


async def test_a_namespace_that_is_deleted_comes_back(hub: Hub) -> None:
    await hub.up()
    before = await hub.place.until_found(NAMESPACES, HUB_NAMESPACE)
    await hub.place.admin.delete(NAMESPACES, HUB_NAMESPACE)

    async def anew() -> bool:
        found = await hub.place.find(NAMESPACES, HUB_NAMESPACE)
        return bool(found and found["metadata"]["uid"] != before["metadata"]["uid"])

    await hub.place.until(anew, "the namespace is made again")
    await hub.place.until_found(DEPLOYMENTS, CONTROLLER, HUB_NAMESPACE)
    await hub.says("Applied", "True")


async def test_its_own_definition_may_be_deleted_first(hub: Hub) -> None:
    await hub.up()
    await hub.place.admin.delete(CRDS, "clustermanagers.operator.open-cluster-management.io")
    await hub.place.until_gone(CRDS, "clustermanagers.operator.open-cluster-management.io")
    assert await hub.remains() == []


async def test_the_younger_takes_over_when_the_older_goes(hub: Hub) -> None:
    await hub.up()
    await hub.create("second")
    await hub.says("Applied", "False", name="second")
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    await hub.says("Applied", "True", name="second")
    await hub.place.until_found(DEPLOYMENTS, "second-registration-controller", HUB_NAMESPACE)
    assert await hub.place.find(DEPLOYMENTS, CONTROLLER, HUB_NAMESPACE) is None


async def test_what_an_older_version_made_and_nobody_wants_goes(hub: Hub) -> None:
    await hub.up()
    labels = {CLUSTER_MANAGER_LABEL: CM}
    stale = {"metadata": {"name": "stale", "namespace": HUB_NAMESPACE, "labels": labels}}
    await hub.place.admin.apply(CONFIG_MAPS, stale, manager="test")
    foreign = {"metadata": {"name": "foreign", "namespace": HUB_NAMESPACE}}
    await hub.place.admin.apply(CONFIG_MAPS, foreign, manager="test")
    await hub.place.until_gone(CONFIG_MAPS, "stale", HUB_NAMESPACE)
    assert await hub.place.find(CONFIG_MAPS, "foreign", HUB_NAMESPACE)
