"""`clusteradm get …`, `clusterset …` and tokens, against a hub's API."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
import yaml

from muster.administration.content.clustersets import add_namespaces
from muster.api.addon.v1beta1 import ClusterManagementAddOn
from muster.api.cluster.v1beta1 import Placement, PlacementDecision
from muster.api.work.v1 import ManifestWork
from muster.cli.clusteradm import listings
from muster.fleet.in_process import InProcessClient
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import GVR, Object
from muster.operator.bundle import KLUSTERLET_OPERATOR, bundle
from muster.operator.names import KLUSTERLETS, OPERATOR_NAMESPACE
from muster.registration.kinds import ADDONS, CLUSTER_SET_BINDINGS, CLUSTER_SETS, MANAGED_CLUSTERS, MANIFEST_WORKS
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CLUSTER_ROLES, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from muster.runtime.client.typed import served
from muster.runtime.install import await_definitions
from tests.support.pages import documented_fields
from tests.unit.cli.clusteradm.conftest import AVAILABLE, Fleet, condition

CAPACITY = {"cpu": "8", "memory": "16Gi"}


async def put(fleet: Fleet, resource: GVR, document: Object, status: Object | None = None) -> None:
    await fleet.admin().apply(resource, document, manager="test")
    if status is not None:
        key = document["metadata"]
        patch = {"status": status}
        await fleet.admin().patch(resource, key["name"], patch, key.get("namespace", ""), subresource="status")


async def two_clusters(fleet: Fleet) -> None:
    labels = {"labels": {"cluster.open-cluster-management.io/clusterset": "prod"}}
    status = {"conditions": AVAILABLE, "capacity": CAPACITY, "version": {"kubernetes": "v1.35.0"}}
    await fleet.cluster("cluster1", metadata=labels, spec={"hubAcceptsClient": True}, status=status)
    await fleet.cluster("cluster2")


async def test_clusters_as_table_tree_and_objects(fleet: Fleet) -> None:
    await two_clusters(fleet)
    rows = [line.split() for line in (await fleet.ok("get", "clusters", "-o", "table")).splitlines()]
    assert rows == [
        ["NAME", "ACCEPTED", "AVAILABLE", "CLUSTERSET", "CPU", "MEMORY", "KUBERNETES", "VERSION"],
        ["cluster1", "true", "True", "prod", "8", "16Gi", "v1.35.0"],
        ["cluster2", "false"],
    ]
    tree = (await fleet.ok("get", "clusters")).splitlines()
    assert tree[:4] == ["<ManagedCluster>", "├── <cluster1>", "│   ├── <Accepted> true", "│   ├── <Available> True"]
    found = json.loads(await fleet.ok("get", "clusters", "cluster2", "-o", "json"))
    assert [one["metadata"]["name"] for one in found["items"]] == ["cluster2"]
    assert len(yaml.safe_load(await fleet.ok("get", "cluster", "-o", "yaml"))["items"]) == 2


async def test_clusters_of_a_set_and_unknown_ones(fleet: Fleet) -> None:
    await two_clusters(fleet)
    await fleet.ok("clusterset", "create", "prod")
    assert "cluster2" not in await fleet.ok("get", "clusters", "--clusterset", "prod")
    assert "not found" in await fleet.fails("get", "clusters", "--clusterset", "nowhere")
    assert "there is no ManagedCluster ghost" in await fleet.fails("get", "clusters", "ghost")
    assert "-o" in await fleet.fails("get", "clusters", "-o", "poem", code=2)


async def test_a_watch_goes_on_with_rows_that_change(fleet: Fleet) -> None:
    await two_clusters(fleet)
    command = asyncio.create_subprocess_exec(
        "timeout",
        "60",
        *[str(part) for part in program(fleet)],
        "get",
        "clusters",
        "--watch",
        stdout=asyncio.subprocess.PIPE,
    )
    process = await command
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            shown = [await process.stdout.readline() for _ in range(3)]
            assert shown[2].split() == [b"cluster2", b"false"]
            await fleet.admin().patch(MANAGED_CLUSTERS, "cluster2", {"spec": {"hubAcceptsClient": True}})
            assert (await process.stdout.readline()).split() == [b"cluster2", b"true"]
            await fleet.admin().delete(MANAGED_CLUSTERS, "cluster2")
            assert b"cluster2 (deleted)" in await process.stdout.readline()
    finally:
        process.terminate()
        await process.wait()
    assert "--watch" in await fleet.fails("get", "clusters", "--watch", "-o", "json", code=2)


def program(fleet: Fleet) -> list[object]:
    from tests.unit.cli.clusteradm.test_basics import PROGRAM

    return [PROGRAM, "--kubeconfig", fleet.kubeconfig, "--context", "hub"]


async def test_works_show_what_was_applied(fleet: Fleet) -> None:
    for namespace in ("cluster1", "cluster2"):
        await put(fleet, NAMESPACES, {"metadata": {"name": namespace}})
        manifests = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "d"}}]
        meta = {"ordinal": 0, "version": "v1", "kind": "ConfigMap", "resource": "configmaps", "name": "m", "namespace": "d"}
        applied = [{"resourceMeta": meta, "conditions": [condition("Applied", "True")]}]
        status = {"conditions": [condition("Applied", "True")], "resourceStatus": {"manifests": applied}}
        work = {"metadata": {"name": "w", "namespace": namespace}, "spec": {"workload": {"manifests": manifests}}}
        await put(fleet, MANIFEST_WORKS, work, status)
    rows = [line.split() for line in (await fleet.ok("get", "works", "-o", "table", "-c", "cluster2")).splitlines()[1:]]
    assert rows == [["w", "cluster2", "1", "True"]]
    assert "<d/m> applied" in await fleet.ok("get", "work", "w")
    assert "there is no ManifestWork x" in await fleet.fails("get", "works", "x")


async def test_addons_show_where_they_are(fleet: Fleet) -> None:
    await put(fleet, NAMESPACES, {"metadata": {"name": "cluster1"}})
    await put(fleet, served(ClusterManagementAddOn), {"metadata": {"name": "proxy"}, "spec": {}})
    status = {"conditions": [condition("Available", "True"), condition("ManifestApplied", "False")]}
    await put(fleet, ADDONS, {"metadata": {"name": "proxy", "namespace": "cluster1"}, "spec": {}}, status)
    assert (await fleet.ok("get", "addon", "-o", "table")).splitlines()[1].split() == ["proxy", "1", "1"]
    tree = await fleet.ok("get", "addons")
    assert "<Available> true" in tree
    assert "<ManifestApplied> false" in tree
    assert "<RegistrationApplied> unknown" in tree
    assert (await fleet.ok("get", "addons", "-c", "elsewhere", "-o", "table")).splitlines()[1].split() == ["proxy", "0", "0"]


async def test_placements_show_what_they_chose(fleet: Fleet) -> None:
    status = {"numberOfSelectedClusters": 1, "conditions": [condition("PlacementSatisfied", "True", "AllDecisionsScheduled")]}
    await put(fleet, served(Placement), {"metadata": {"name": "p", "namespace": "default"}, "spec": {}}, status)
    label = {"cluster.open-cluster-management.io/placement": "p"}
    decision = {"metadata": {"name": "p-1", "namespace": "default", "labels": label}}
    chosen = {"decisions": [{"clusterName": "cluster1", "reason": ""}]}
    await put(fleet, served(PlacementDecision), decision, chosen)
    row = (await fleet.ok("get", "placements", "-n", "default", "-o", "table")).splitlines()[1].split()
    assert row == ["p", "default", "True", "AllDecisionsScheduled", "cluster1"]
    assert "<PlacementDecision> cluster1" in await fleet.ok("get", "placements", "p")


async def test_sets_are_made_filled_bound_and_shown(fleet: Fleet) -> None:
    await fleet.cluster("cluster1")
    assert await fleet.ok("clusterset", "create", "prod") == "Clusterset prod is created\n"
    assert await fleet.ok("create", "clusterset", "prod") == "Clusterset prod is already created\n"
    assert "Cluster cluster1 is set to Clusterset prod" in await fleet.ok("clusterset", "set", "prod", "--clusters", "cluster1")
    assert "already in" in await fleet.ok("clusterset", "set", "prod", "--clusters", "cluster1")
    assert "from ClusterSet prod" in await _moved(fleet)
    assert "Added 2" in await fleet.ok("clusterset", "set", "prod", "--namespaces", "a,b")
    assert "All specified" in await fleet.ok("clusterset", "set", "prod", "--namespaces", "b")
    assert "is bound to Namespace default" in await fleet.ok("clusterset", "bind", "prod")
    assert "already bound" in await fleet.ok("clusterset", "bind", "prod", "--namespace", "default")
    tree = await fleet.ok("get", "clustersets", "prod")
    assert "<BoundNamespace> default" in tree
    assert "<ManagedNamespaces> a,b" in tree
    assert "<Clusters> cluster1" in await fleet.ok("get", "clusterset", "other")
    assert "still bind to a namespace: default" in await fleet.fails("clusterset", "delete", "prod")
    assert "is unbind from namespace default" in await fleet.ok("clusterset", "unbind", "prod")
    assert "is not bound" in await fleet.ok("clusterset", "unbind", "prod")
    assert await fleet.ok("delete", "clusterset", "prod") == "Clusterset prod is deleted\n"
    assert "already deleted" in await fleet.ok("clusterset", "delete", "prod")
    assert await fleet.find(CLUSTER_SETS, "prod") is None


async def _moved(fleet: Fleet) -> str:
    await fleet.ok("clusterset", "create", "other")
    return await fleet.ok("clusterset", "set", "other", "--clusters", "cluster1")


async def test_wrong_sets_are_refused(fleet: Fleet) -> None:
    assert "cannot name a clusterset" in await fleet.fails("clusterset", "create", "No Name")
    assert "there is no clusterset x" in await fleet.fails("clusterset", "bind", "x")
    assert "there is no clusterset x" in await fleet.fails("clusterset", "set", "x", "--clusters", "a")
    assert "must be specified" in await fleet.fails("clusterset", "set", "x", code=2)
    assert "NAME" in await fleet.fails("clusterset", "create", code=2)
    await fleet.ok("clusterset", "create", "prod")
    assert "there is no namespace nowhere" in await fleet.fails("clusterset", "bind", "prod", "--namespace", "nowhere")
    assert "no managed cluster ghost" in await fleet.fails("clusterset", "set", "prod", "--clusters", "ghost")
    assert "can not be deleted" in await fleet.fails("clusterset", "delete", "default")
    assert "cannot name a namespace" in await fleet.fails("clusterset", "set", "prod", "--namespaces", "A_B")


async def test_commands_about_sets_in_a_dry_run_write_nothing(fleet: Fleet) -> None:
    await fleet.cluster("cluster1")
    await fleet.ok("clusterset", "create", "prod")
    await fleet.ok("clusterset", "create", "bound")
    await fleet.ok("clusterset", "bind", "bound")
    before = await fleet.revision()
    for command in (
        ("create", "new"),
        ("bind", "prod"),
        ("unbind", "bound"),
        ("delete", "prod"),
        ("set", "prod", "--clusters", "cluster1", "--namespaces", "x"),
    ):
        assert "would " in await fleet.ok("clusterset", *command, "--dry-run")
    assert await fleet.revision() == before
    assert await fleet.find(CLUSTER_SET_BINDINGS, "bound", "default")


async def test_lists_and_sets_need_a_hub_and_permission(fleet: Fleet) -> None:
    for command in (("get", "clusters"), ("get", "works"), ("get", "addons"), ("clusterset", "create", "x")):
        assert "non-hub cluster" in await fleet.fails(*command, context="plain")
        assert "forbidden" in await fleet.fails(*command, context="mallory@hub")


async def test_a_token_is_shown_with_the_way_to_join(fleet: Fleet) -> None:
    said = await fleet.ok("get", "token")
    assert said.startswith("token=ey")
    assert "join --hub-token ey" in said
    found = json.loads(await fleet.ok("get", "token", "-o", "json"))
    assert found["hub-apiserver"] == fleet.server.cluster_url("hub")
    assert "--use-bootstrap-token" in await fleet.fails("get", "token", "--use-bootstrap-token")
    assert "token doesn't exist" in await fleet.fails("get", "token", context="plain")
    assert "forbidden" in await fleet.fails("get", "token", context="mallory@hub")


async def test_deleted_tokens_let_nobody_in(fleet: Fleet) -> None:
    await fleet.ok("init", "--use-bootstrap-token")
    before = await fleet.revision()
    assert "would delete secrets kube-system/bootstrap-token-ocmhub" in await fleet.ok("delete", "token", "--dry-run")
    assert await fleet.revision() == before
    await fleet.ok("delete", "token")
    assert await fleet.find(SERVICE_ACCOUNTS, "agent-registration-bootstrap", "open-cluster-management") is None
    assert await fleet.find(CLUSTER_ROLES, "open-cluster-management:bootstrap") is None
    assert await fleet.find(SECRETS, "bootstrap-token-ocmhub", "kube-system") is None
    assert "token doesn't exist" in await fleet.ok("delete", "token")


async def test_hub_info_tells_what_is_missing(fleet: Fleet) -> None:
    assert "<Components> <uninstalled>" in await fleet.ok("get", "hub-info")
    assert await fleet.ok("get", "hub-info", "-o", "name") == ""
    await fleet.ok("init")
    said = await fleet.ok("get", "hub-info")
    assert "<cluster-manager> (1/0) muster:" in said
    assert "the operator has not seen the ClusterManager yet" in said
    assert json.loads(await fleet.ok("get", "hub-info", "-o", "json"))["operator"][0]["name"] == "cluster-manager"
    head, row = (await fleet.ok("get", "hub-info", "-o", "table")).splitlines()
    assert head.split() == ["PART", "COMPONENT", "PODS", "IMAGE"]
    assert row.startswith("Registration Operator   cluster-manager   1/0")
    wide_head, wide = (await fleet.ok("get", "hub-info", "-o", "wide")).splitlines()
    assert (wide_head.split()[-1], wide.split()[-1]) == ("NAMESPACE", OPERATOR_NAMESPACE)
    assert (await fleet.ok("get", "hub-info", "-o", "name")).splitlines() == ["deployment.apps/cluster-manager"]


async def test_klusterlet_info_tells_what_runs(fleet: Fleet) -> None:
    assert "<Problem> there is no Klusterlet" in await fleet.ok("get", "klusterlet-info", context="plain")
    admin = fleet.admin("plain")
    for resource, document in bundle(KLUSTERLET_OPERATOR):
        await admin.apply(resource, document, manager="test")
    await await_definitions(admin, ["klusterlets.operator.open-cluster-management.io"], SYSTEM)
    await admin.apply(KLUSTERLETS, {"metadata": {"name": "klusterlet"}, "spec": {"clusterName": "c"}}, manager="test")
    agent = {"group": "apps", "version": "v1", "resource": "deployments", "name": "klusterlet", "namespace": OPERATOR_NAMESPACE}
    await admin.patch(KLUSTERLETS, "klusterlet", {"status": {"relatedResources": [agent]}}, subresource="status")
    found = json.loads(await fleet.ok("get", "klusterlet-info", "-o", "json", context="plain"))
    assert found["operator"][0]["name"] == "klusterlet"
    assert found["problem"] == "the operator has not seen the Klusterlet yet"
    assert found["components"]["Other"][0]["pods"] == "1/0"
    assert found.keys() == documented_fields("clusteradm get hub-info, klusterlet-info")
    assert found["operator"][0].keys() == documented_fields("clusteradm get hub-info, klusterlet-info: components")


async def test_an_object_that_cannot_be_read_hides_no_other() -> None:
    good = {"metadata": {"name": "good"}, "spec": {"workload": {"manifests": []}}}
    bad = {"metadata": {"name": "bad"}, "spec": {"workload": "perhaps"}}
    found = [(one is not None, document["metadata"]["name"]) for one, document in listings._read(ManifestWork, [good, bad])]
    assert found == [(True, "good"), (False, "bad")]


class Overtaken:
    """A client that somebody overtakes once, between reading and writing."""

    def __init__(self, client: InProcessClient) -> None:
        self._client = client
        self._times = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def get(self, resource: GVR, name: str) -> Any:
        found = await self._client.get(resource, name)
        if self._times:
            self._times -= 1
            await self._client.patch(resource, name, {"spec": {"managedNamespaces": [{"name": "theirs"}]}})
        return found


async def test_namespaces_that_somebody_adds_at_the_same_time_stay(fleet: Fleet) -> None:
    await fleet.ok("clusterset", "create", "prod")
    client = cast(KubeClient, Overtaken(fleet.admin()))
    assert await add_namespaces(client, "prod", ["ours"]) == ["Added 1 managed namespace(s) to Clusterset prod: ours"]
    found = await fleet.admin().get(CLUSTER_SETS, "prod")
    assert found["spec"]["managedNamespaces"] == [{"name": "theirs"}, {"name": "ours"}]


@pytest.mark.parametrize(
    ("memory", "shown"), [("32837660Ki", "31.3Gi"), ("16Gi", "16Gi"), ("536870912", "512Mi"), ("900Ki", "900Ki")]
)
async def test_memory_is_in_gi_or_mi(fleet: Fleet, memory: str, shown: str) -> None:
    await fleet.cluster("c1", status={"capacity": {"cpu": "8", "memory": memory}})
    table = (await fleet.ok("get", "clusters", "-o", "table")).splitlines()
    assert table[1].split()[-1] == shown
    assert max(map(len, table)) <= 80
