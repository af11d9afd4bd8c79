"""`clusteradm create work` and `delete work`: manifests go where they should, and nothing else is touched."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any, cast

import pytest

from muster.administration.content.manifests import read_manifests
from muster.administration.content.works import DECISIONS, PLACEMENTS, REPLICA_SETS, Done, await_works, create_works
from muster.fleet.in_process import InProcessClient
from muster.machinery.objects import GVR, Object
from muster.registration.kinds import MANIFEST_WORKS
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import NAMESPACES, ROLE_BINDINGS, ROLES
from tests.unit.cli.clusteradm.conftest import Fleet, Told, condition

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "greeting", "namespace": "default"}}


@pytest.fixture
async def clusters(fleet: Fleet) -> Fleet:
    for name in ("c1", "c2", "c3"):
        await fleet.cluster(name)
        await fleet.admin().create(NAMESPACES, {"metadata": {"name": name}})
    return fleet


@pytest.fixture
def file(tmp_path: Path) -> str:
    return write(tmp_path / "work.json", CONFIG_MAP)


def write(path: Path, *documents: Any) -> str:
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    return str(path)


async def work(fleet: Fleet, cluster: str, name: str = "web") -> Object | None:
    return await fleet.find(MANIFEST_WORKS, name, cluster)


async def place(fleet: Fleet, *clusters: str) -> None:
    """What the placement controller would decide."""
    await fleet.admin().apply(PLACEMENTS, {"metadata": {"name": "near", "namespace": "default"}, "spec": {}}, manager="test")
    label = {"cluster.open-cluster-management.io/placement": "near"}
    decision = {"metadata": {"name": "near-1", "namespace": "default", "labels": label}}
    await fleet.admin().apply(DECISIONS, decision, manager="test")
    decisions = [{"clusterName": name, "reason": ""} for name in clusters]
    await fleet.admin().patch(DECISIONS, "near-1", {"status": {"decisions": decisions}}, "default", subresource="status")


async def test_a_work_is_made_in_each_cluster(clusters: Fleet, file: str) -> None:
    said = await clusters.ok("create", "work", "web", "-f", file, "--clusters", "c1,c2", "-c", "c1")
    assert said.splitlines() == ["create work web in cluster c1", "create work web in cluster c2"]
    made = await work(clusters, "c1")
    assert made
    assert made["spec"]["workload"]["manifests"] == [CONFIG_MAP]
    assert await work(clusters, "c3") is None


class Reporting:
    """A client beside which an agent writes the status of a work, between reading and writing it."""

    def __init__(self, client: InProcessClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def get(self, resource: GVR, name: str, namespace: str = "") -> Object:
        found = await self._client.get(resource, name, namespace)
        if resource == MANIFEST_WORKS:
            status = {"conditions": [condition("Applied", "True")]}
            await self._client.patch(resource, name, {"status": status}, namespace, subresource="status")
        return found


async def test_a_work_is_replaced_though_its_agent_reports_at_the_same_time(clusters: Fleet) -> None:
    await create_works(clusters.admin(), "web", [CONFIG_MAP], ["c1"])
    client = cast(KubeClient, Reporting(clusters.admin()))
    (outcome,) = await create_works(client, "web", [{**CONFIG_MAP, "data": {"word": "hello"}}], ["c1"], overwrite=True)
    assert outcome.done is Done.UPDATED
    made = await work(clusters, "c1")
    assert made
    assert made["spec"]["workload"]["manifests"][0]["data"] == {"word": "hello"}


async def test_a_work_that_is_there_is_replaced_only_when_asked(clusters: Fleet, file: str, tmp_path: Path) -> None:
    await clusters.ok("create", "work", "web", "-f", file, "--clusters", "c1")
    await clusters.admin().patch(MANIFEST_WORKS, "web", {"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}, "c1")
    other = write(tmp_path / "other.json", {**CONFIG_MAP, "data": {"word": "hello"}})
    complaint = await clusters.fails("create", "work", "web", "-f", other, "--clusters", "c1,c2")
    assert "work web in cluster c1 already exists" in complaint
    assert "--overwrite" in complaint
    assert await work(clusters, "c2"), "the others are made"
    assert "update work web in cluster c1" in await clusters.ok("create", "work", "web", "-f", other, "-c", "c1", "--overwrite")
    made = await work(clusters, "c1")
    assert made
    assert made["spec"]["workload"]["manifests"][0]["data"] == {"word": "hello"}
    assert made["spec"]["deleteOption"]["propagationPolicy"] == "Orphan", "what others said stays"
    before = await clusters.revision()
    assert "is as it should be" in await clusters.ok("create", "work", "web", "-f", other, "-c", "c1", "--overwrite")
    assert await clusters.revision() == before


async def test_who_puts_a_work_into_a_work_is_warned(clusters: Fleet, file: str, tmp_path: Path) -> None:
    inner = {"apiVersion": MANIFEST_WORKS.api_version, "kind": "ManifestWork", "metadata": {"name": "in"}, "spec": {}}
    result = await clusters.run("create", "work", "web", "-f", write(tmp_path / "w.json", inner), "-c", "c1")
    assert result.exit_code == 0
    assert "if that is the work itself, make it with kubectl apply" in result.stderr
    assert "warning" not in (await clusters.run("create", "work", "other", "-f", file, "-c", "c1")).output


async def test_works_follow_a_placement(clusters: Fleet, file: str) -> None:
    await clusters.ok("create", "work", "web", "-f", file, "--clusters", "c3")
    await place(clusters, "c1", "c2")
    await clusters.ok("create", "work", "web", "-f", file, "--placement", "default/near")
    assert await work(clusters, "c2")
    await place(clusters, "c1")
    said = await clusters.ok("create", "work", "web", "-f", file, "--placement", "default/near", "--overwrite")
    assert "delete work web in cluster c2" in said
    assert await work(clusters, "c2") is None
    assert await work(clusters, "c3"), "it was not made for the placement"


async def test_the_hub_can_follow_the_placement_itself(clusters: Fleet, file: str, tmp_path: Path) -> None:
    await place(clusters)
    create = ["create", "work", "web", "--placement", "default/near", "--replicaset"]
    await clusters.ok(*create, "-f", file)
    made = await clusters.find(REPLICA_SETS, "web", "default")
    assert made
    assert [one["name"] for one in made["spec"]["placementRefs"]] == ["near"]
    assert made["spec"]["manifestWorkTemplate"]["workload"]["manifests"] == [CONFIG_MAP]
    other = write(tmp_path / "other.json", {**CONFIG_MAP, "data": {"word": "hello"}})
    assert "already exists" in await clusters.fails(*create, "-f", other)
    await clusters.ok(*create, "-f", other, "--overwrite")
    made = await clusters.find(REPLICA_SETS, "web", "default")
    assert made
    assert made["spec"]["manifestWorkTemplate"]["workload"]["manifests"][0]["data"] == {"word": "hello"}
    await clusters.ok("delete", "work", "web", "--replicaset", "default")
    assert await clusters.find(REPLICA_SETS, "web", "default") is None


async def test_a_work_is_deleted_and_deleting_again_is_no_failure(clusters: Fleet, file: str) -> None:
    await clusters.ok("create", "work", "web", "-f", file, "--clusters", "c1,c2")
    assert "delete work web in cluster c1" in await clusters.ok("delete", "work", "web", "--cluster", "c1", "--wait")
    assert await work(clusters, "c1") is None
    assert await work(clusters, "c2")
    assert "work web not found in cluster c1" in await clusters.ok("delete", "work", "web", "--cluster", "c1")


async def test_a_work_that_its_agent_holds_is_waited_for_or_forced_away(clusters: Fleet, file: str) -> None:
    await clusters.ok("create", "work", "web", "-f", file, "--clusters", "c1")
    await clusters.admin().patch(MANIFEST_WORKS, "web", {"metadata": {"finalizers": ["example.com/held"]}}, "c1")
    complaint = await clusters.fails("delete", "work", "web", "-c", "c1", "--wait", "--timeout", "1")
    assert "what was applied is still there in c1" in complaint
    await clusters.ok("delete", "work", "web", "-c", "c1", "--force")
    assert await work(clusters, "c1") is None


async def let_in(fleet: Fleet, cluster: str, *verbs: str) -> None:
    """Mallory may do this with works of one cluster, and nothing else on the hub."""
    group, name = "rbac.authorization.k8s.io", "works"
    rules = [{"apiGroups": [MANIFEST_WORKS.group], "resources": [MANIFEST_WORKS.plural], "verbs": list(verbs)}]
    reference = {"apiGroup": group, "kind": "Role", "name": name}
    subjects = [{"apiGroup": group, "kind": "User", "name": "mallory"}]
    metadata = {"name": name, "namespace": cluster}
    await fleet.admin().apply(ROLES, {"metadata": metadata, "rules": rules}, manager="test")
    await fleet.admin().apply(ROLE_BINDINGS, {"metadata": metadata, "roleRef": reference, "subjects": subjects}, manager="test")


async def test_rights_in_a_clusters_namespace_suffice_for_its_works(clusters: Fleet, file: str) -> None:
    await let_in(clusters, "c1", "get", "list", "create", "patch", "delete")
    context = "mallory@hub"
    assert "create work" in await clusters.ok("create", "work", "web", "-f", file, "-c", "c1", context=context)
    assert "as it should be" in await clusters.ok("create", "work", "web", "-f", file, "-c", "c1", "--overwrite", context=context)
    assert "<c1/web>" in await clusters.ok("get", "works", "-c", "c1", context=context)
    assert "delete work" in await clusters.ok("delete", "work", "web", "-c", "c1", "--wait", context=context)
    assert await work(clusters, "c1") is None


async def test_who_may_not_see_all_works_is_told_how_to_see_some(clusters: Fleet, file: str) -> None:
    complaint = await clusters.fails("get", "works", context="mallory@hub")
    assert "cannot list" in complaint
    assert "name the clusters whose works you may see with --clusters" in complaint


async def test_a_cluster_that_is_none_has_no_works_to_show(clusters: Fleet, file: str) -> None:
    assert "there is no ManagedCluster nowhere" in await clusters.fails("get", "works", "-c", "c1,nowhere")
    assert await clusters.ok("get", "works", "-c", "c1") == "<ManifestWork>\n"


async def test_what_was_not_deleted_is_not_waited_for(clusters: Fleet, file: str) -> None:
    await let_in(clusters, "c1", "get")
    await clusters.ok("create", "work", "web", "-f", file, "--clusters", "c1")
    refused = ["delete", "work", "web", "-c", "c1", "--wait", "--timeout", "1h"]
    assert "cannot delete" in await clusters.fails(*refused, context="mallory@hub")


async def test_a_work_that_is_going_is_not_replaced(clusters: Fleet, file: str, tmp_path: Path) -> None:
    await clusters.ok("create", "work", "web", "-f", file, "--clusters", "c1")
    await clusters.admin().patch(MANIFEST_WORKS, "web", {"metadata": {"finalizers": ["example.com/held"]}}, "c1")
    await clusters.ok("delete", "work", "web", "-c", "c1")
    other = write(tmp_path / "other.json", {**CONFIG_MAP, "data": {"word": "hello"}})
    complaint = await clusters.fails("create", "work", "web", "-f", other, "-c", "c1", "--overwrite")
    assert "work web in cluster c1 is being deleted; wait until it is gone: delete work web --clusters c1 --wait" in complaint
    whole = {"apiVersion": MANIFEST_WORKS.api_version, "kind": "ManifestWork", "metadata": {"name": "web"}}
    asked = write(tmp_path / "whole.json", {**whole, "spec": {"workload": {"manifests": [CONFIG_MAP]}}})
    result = await clusters.run("work", "can-i", "c1", "-f", asked)
    assert (result.exit_code, "already exists" in result.output) == (3, True), result.output


async def test_who_waits_for_a_deletion_is_told_what_the_agent_waits_for(clusters: Fleet, file: str) -> None:
    await clusters.ok("create", "work", "web", "-f", file, "--clusters", "c1")
    await clusters.admin().patch(MANIFEST_WORKS, "web", {"metadata": {"finalizers": ["example.com/held"]}}, "c1")
    going = condition("Deleting", "True", "WorkDeleting", "ManifestWork is being deleted, waiting for pods default/slow")
    await clusters.admin().patch(MANIFEST_WORKS, "web", {"status": {"conditions": [going]}}, "c1", subresource="status")
    complaint = await clusters.fails("delete", "work", "web", "-c", "c1", "--wait", "--timeout", "1")
    assert "still there in c1 (ManifestWork is being deleted, waiting for pods default/slow)" in complaint


async def test_waiting_follows_what_the_agents_say(clusters: Fleet, file: str) -> None:
    told = Told()
    await clusters.ok("create", "work", "web", "-f", file, "--clusters", "c1")
    waiting = asyncio.create_task(await_works(clusters.admin(), "web", ["c1"], within=30, progress=told))
    await clusters.until(lambda: told.heard("c1: the cluster's agent has not dealt with it yet"))
    failed = {"status": {"conditions": [condition("Applied", "False", "AppliedManifestWorkFailed", "no such kind")]}}
    await clusters.admin().patch(MANIFEST_WORKS, "web", failed, "c1", subresource="status")
    await clusters.until(lambda: told.heard("Applied is False: AppliedManifestWorkFailed: no such kind"))
    well = {"status": {"conditions": [condition("Applied", "True"), condition("Available", "True")]}}
    await clusters.admin().patch(MANIFEST_WORKS, "web", well, "c1", subresource="status")
    await waiting
    assert "is applied and available" in await clusters.ok("create", "work", "web", "-f", file, "-c", "c1", "--overwrite", "--wait")


async def test_a_dry_run_writes_nothing(clusters: Fleet, file: str) -> None:
    await clusters.ok("create", "work", "web", "-f", file, "--clusters", "c1")
    before = await clusters.revision()
    said = await clusters.ok("create", "work", "web", "-f", file, "--clusters", "c1,c2", "--overwrite", "--dry-run", "--wait")
    assert "would create manifestworks.work.open-cluster-management.io c2/web" in said
    said = await clusters.ok("delete", "work", "web", "--clusters", "c1", "--dry-run", "--wait", "--force")
    assert "would delete manifestworks.work.open-cluster-management.io c1/web" in said
    assert await clusters.revision() == before


async def test_what_is_wrong_is_named(clusters: Fleet, file: str) -> None:
    create = ["create", "work", "web", "-f", file]
    assert "there is no ManagedCluster nowhere" in await clusters.fails(*create, "--clusters", "nowhere")
    assert "there is no Placement default/far" in await clusters.fails(*create, "--placement", "default/far")
    assert "there is no Placement default/far" in await clusters.fails(*create, "--placement", "default/far", "-r")
    assert "'near' is not <namespace>/<name>" in await clusters.fails(*create, "--placement", "near")
    assert "work 'Web'" in await clusters.fails("create", "work", "Web", "-f", file, "-c", "c1")
    assert "forbidden" in await clusters.fails(*create, "-c", "c1", context="mallory@hub")
    assert "non-hub cluster" in await clusters.fails(*create, "-c", "c1", context="plain")
    assert "non-hub cluster" in await clusters.fails("delete", "work", "web", "-c", "c1", context="plain")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["create", "work", "web", "-c", "c1"], "--filename"),
        (["create", "work", "web", "-f", "x"], "either --clusters or --placement"),
        (["create", "work", "web", "-f", "x", "-c", "c1", "--placement", "a/b"], "either --clusters or --placement"),
        (["create", "work", "web", "-f", "x", "-c", "c1", "-r"], "--replicaset: needs --placement"),
        (["create", "work", "web", "-f", "x", "--placement", "a/b", "-r", "--wait"], "--wait"),
        (["create", "work"], "NAME"),
        (["delete", "work", "web"], "either --clusters or --replicaset"),
        (["delete", "work", "web", "-r", "default", "--force"], "--force and --wait"),
    ],
)
async def test_wrong_usage_ends_with_2(fleet: Fleet, flags: list[str], complaint: str) -> None:
    assert complaint in await fleet.fails(*flags, code=2)


def test_manifests_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(CONFIG_MAP).encode())))
    assert read_manifests(["-"]) == [CONFIG_MAP]


def test_manifests_come_from_files_directories_and_lists(tmp_path: Path) -> None:
    inside = tmp_path / "all" / "more"
    inside.mkdir(parents=True)
    second = {**CONFIG_MAP, "metadata": {"name": "second"}}
    write(tmp_path / "all" / "a.yaml", {"apiVersion": "v1", "kind": "List", "items": [CONFIG_MAP, second]})
    write(tmp_path / "all" / "notes.txt", "no manifest")
    third = {**CONFIG_MAP, "metadata": {"name": "third"}}
    write(inside / "b.json", third, None)
    assert read_manifests([str(tmp_path / "all")]) == [CONFIG_MAP, second]
    assert read_manifests([str(tmp_path / "all")], recursive=True) == [CONFIG_MAP, second, third]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a: [", "bad.yaml: "),
        ("- 1", "document 1: expected a map"),
        ("kind: A", "document 1: apiVersion: not set"),
        ("apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: B", "document 1: metadata.name: not set"),
        ("apiVersion: v1\nkind: List\nitems: [{}]", "document 1, item 1: apiVersion: not set"),
        ("", "bad.yaml: there is no manifest\n"),
    ],
)
async def test_what_is_no_manifest_is_refused_by_its_place(clusters: Fleet, tmp_path: Path, content: str, complaint: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(content)
    assert complaint in await clusters.fails("create", "work", "web", "-f", str(file), "-c", "c1")
    assert "no such file" in await clusters.fails("create", "work", "web", "-f", str(tmp_path / "none"), "-c", "c1")


async def test_a_placement_that_has_chosen_no_cluster_does_not_end_well(clusters: Fleet, file: str) -> None:
    await place(clusters)
    said = await clusters.fails("create", "work", "web", "-f", file, "--placement", "default/near", "--wait")
    assert "Placement default/near has chosen no cluster, so there is no work web" in said
    assert "get placements near --namespace default --explain" in said


async def test_a_wait_says_how_it_ended(clusters: Fleet, file: str) -> None:
    """No finalizer holds the work: nobody has applied it."""
    await clusters.ok("create", "work", "web", "-f", file, "--clusters", "c1")
    said = await clusters.ok("delete", "work", "web", "--clusters", "c1", "--wait")
    assert said.splitlines()[-1] == "work web is gone from c1"
