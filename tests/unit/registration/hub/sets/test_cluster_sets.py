"""The well-known sets are there, sets know their size, bindings know whether their set exists, clusters their namespaces."""

from functools import partial
from typing import Any

from muster.api.cluster.v1 import ClusterSetManagedNamespace, ManagedCluster
from muster.api.cluster.v1beta2 import ManagedClusterSet
from muster.machinery.objects import Object
from muster.registration.hub.sets.bindings import SetBindings
from muster.registration.hub.sets.cluster_sets import ClusterSets
from muster.registration.hub.sets.managed_namespaces import ManagedNamespaces, wanted_namespaces
from muster.registration.hub.sets.members import selector_of
from muster.registration.kinds import CLUSTER_SET_BINDINGS, CLUSTER_SETS, MANAGED_CLUSTERS
from muster.registration.names import CLUSTER_SET_LABEL
from tests.unit.registration.hub.conftest import DeafClient, Play


async def create_set(play: Play, name: str, **spec: Any) -> None:
    document = {"apiVersion": CLUSTER_SETS.api_version, "kind": CLUSTER_SETS.kind, "metadata": {"name": name}, "spec": spec}
    await play.admin.create(CLUSTER_SETS, document)


async def until_said(play: Play, name: str, status: str, message: str) -> Object:
    async def probe() -> Object | None:
        found = await play.get(CLUSTER_SETS, name)
        conditions = ((found or {}).get("status") or {}).get("conditions") or []
        return next((one for one in conditions if (one["status"], one["message"]) == (status, message)), None)

    found: Object = await play.until(probe)
    return found


def cluster_set(name: str, **selector: Any) -> ManagedClusterSet:
    return ManagedClusterSet.decode({"metadata": {"name": name}, "spec": {"clusterSelector": selector}})


def test_a_set_selects_by_its_label_or_by_its_selector_and_nonsense_selects_nothing() -> None:
    mine, other = {CLUSTER_SET_LABEL: "s", "env": "dev"}, {CLUSTER_SET_LABEL: "t"}
    exclusive = selector_of(cluster_set("s", selectorType="ExclusiveClusterSetLabel"))
    assert exclusive.matches(mine)
    assert not exclusive.matches(other)
    assert selector_of(cluster_set("global", selectorType="LabelSelector", labelSelector={})).matches(other)
    by_labels = selector_of(cluster_set("s", selectorType="LabelSelector", labelSelector={"matchLabels": {"env": "dev"}}))
    assert by_labels.matches(mine)
    assert not by_labels.matches(other)
    for selector in (
        {"selectorType": "LabelSelector"},
        {"selectorType": "Unheard"},
        {"selectorType": "LabelSelector", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
    ):
        assert not selector_of(cluster_set("s", **selector)).matches(mine)


async def test_default_and_global_exist_and_come_back(play: Play) -> None:
    async with play.running(ClusterSets):
        for name in ("default", "global"):
            await play.until(partial(play.get, CLUSTER_SETS, name))
        everything = await play.admin.get(CLUSTER_SETS, "global")
        assert everything["spec"]["clusterSelector"] == {"selectorType": "LabelSelector", "labelSelector": {}}
        await play.admin.delete(CLUSTER_SETS, "default")
        found = await play.until(lambda: play.get(CLUSTER_SETS, "default"))
        assert found["spec"]["clusterSelector"] == {"selectorType": "ExclusiveClusterSetLabel"}


async def test_edited_selectors_are_put_back_unless_the_set_says_otherwise(play: Play) -> None:
    narrowed = {"spec": {"clusterSelector": {"labelSelector": {"matchLabels": {"a": "b"}}}}}

    async def labels() -> Object:
        found: Object = (await play.admin.get(CLUSTER_SETS, "global"))["spec"]["clusterSelector"]["labelSelector"]
        return found

    async with play.running(ClusterSets):
        await until_said(play, "global", "True", "No ManagedCluster selected")
        await play.admin.patch(CLUSTER_SETS, "global", narrowed)

        async def put_back() -> bool:
            return await labels() == {}

        await play.until(put_back)
        unmanaged = {"metadata": {"annotations": {"cluster.open-cluster-management.io/autoupdate": "false"}}}
        await play.admin.patch(CLUSTER_SETS, "global", {**narrowed, **unmanaged})
        await play.at_rest()
        assert await labels() == {"matchLabels": {"a": "b"}}


async def test_without_the_gate_nothing_is_made_or_put_back(play: Play) -> None:
    async with play.running(ClusterSets, default_cluster_set=False):
        await play.at_rest()
        assert not await play.get(CLUSTER_SETS, "default")


async def test_sets_count_their_clusters_and_a_crowd_costs_few_writes(play: Play) -> None:
    async with play.running(ClusterSets):
        condition = await until_said(play, "default", "True", "No ManagedCluster selected")
        assert (condition["type"], condition["reason"]) == ("ClusterSetEmpty", "NoClusterMatched")
        await play.at_rest()
        play.hub_client.writes()
        for number in range(20):
            await play.create_cluster(f"c{number}", labels={CLUSTER_SET_LABEL: "default"})
        condition = await until_said(play, "default", "False", "20 ManagedClusters selected")
        assert condition["reason"] == "ClustersSelected"
        await until_said(play, "global", "False", "20 ManagedClusters selected")
        assert len(play.hub_client.writes()) <= 8
        await play.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"labels": {CLUSTER_SET_LABEL: "blue"}}})
        await create_set(play, "blue")
        await until_said(play, "blue", "False", "1 ManagedClusters selected")
        await until_said(play, "default", "False", "19 ManagedClusters selected")
        await play.admin.delete(MANAGED_CLUSTERS, "c1")
        await until_said(play, "blue", "True", "No ManagedCluster selected")


async def test_counting_goes_on_while_the_watch_has_not_shown_the_last_count(play: Play) -> None:
    client = play.hub_client = play.as_hub(DeafClient)
    async with play.running(ClusterSets):
        await until_said(play, "global", "True", "No ManagedCluster selected")
        await play.at_rest()
        client.deaf_to("/managedclustersets")
        for count in (1, 2, 3):
            await play.create_cluster(f"c{count}")
            await until_said(play, "global", "False", f"{count} ManagedClusters selected")
        client.deaf_to()


async def test_a_binding_says_whether_its_set_is_there(play: Play) -> None:
    metadata = {"name": "blue", "namespace": "default"}
    binding = {"apiVersion": CLUSTER_SET_BINDINGS.api_version, "kind": CLUSTER_SET_BINDINGS.kind, "metadata": metadata}
    await play.admin.create(CLUSTER_SET_BINDINGS, {**binding, "spec": {"clusterSet": "blue"}})

    async def until_bound(status: str, reason: str) -> None:
        async def probe() -> bool:
            found = await play.admin.get(CLUSTER_SET_BINDINGS, "blue", "default")
            conditions = (found.get("status") or {}).get("conditions") or []
            return any((one["type"], one["status"], one["reason"]) == ("Bound", status, reason) for one in conditions)

        await play.until(probe)

    async with play.running(SetBindings):
        await until_bound("False", "ClusterSetNotFound")
        await create_set(play, "blue")
        await until_bound("True", "ClusterSetBound")
        await play.admin.delete(CLUSTER_SETS, "blue")
        await until_bound("False", "ClusterSetNotFound")


def test_what_the_agent_reported_on_a_namespace_stays() -> None:
    reported = {"type": "NamespaceAvailable", "status": "True", "reason": "NamespaceApplied", "message": ""}
    reported["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    known = {"clusterSet": "blue", "name": "a", "conditions": [reported]}
    gone = {"clusterSet": "red", "name": "z"}
    cluster = ManagedCluster.decode(
        {"metadata": {"name": "c1", "labels": {CLUSTER_SET_LABEL: "blue"}}, "status": {"managedNamespaces": [known, gone]}}
    )
    blue = ManagedClusterSet.decode({"metadata": {"name": "blue"}, "spec": {"managedNamespaces": [{"name": "b"}, {"name": "a"}]}})
    wanted = wanted_namespaces(cluster, [blue])
    assert wanted == (cluster.status.managed_namespaces[0], ClusterSetManagedNamespace(cluster_set="blue", name="b"))


async def test_clusters_list_the_namespaces_of_their_sets(play: Play) -> None:
    async def listed(name: str) -> list[tuple[str, str]]:
        found = await play.admin.get(MANAGED_CLUSTERS, name)
        entries = (found.get("status") or {}).get("managedNamespaces") or []
        return [(entry["clusterSet"], entry["name"]) for entry in entries]

    async def until_listed(name: str, *expected: tuple[str, str]) -> None:
        async def probe() -> bool:
            return await listed(name) == list(expected)

        await play.until(probe)

    async with play.running(ManagedNamespaces):
        await play.create_cluster("c1", labels={CLUSTER_SET_LABEL: "blue"})
        await play.create_cluster("c2", labels={CLUSTER_SET_LABEL: "red"})
        await create_set(play, "blue", managedNamespaces=[{"name": "b"}, {"name": "a"}])
        await until_listed("c1", ("blue", "a"), ("blue", "b"))
        await play.at_rest()
        assert await listed("c2") == []
        await play.admin.patch(MANAGED_CLUSTERS, "c2", {"metadata": {"labels": {CLUSTER_SET_LABEL: "blue"}}})
        await until_listed("c2", ("blue", "a"), ("blue", "b"))
        await play.admin.patch(CLUSTER_SETS, "blue", {"spec": {"managedNamespaces": [{"name": "b"}]}})
        await until_listed("c1", ("blue", "b"))
        await play.admin.delete(CLUSTER_SETS, "blue")
        await until_listed("c1")
        await until_listed("c2")
