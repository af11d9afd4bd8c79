"""Replica sets on an API server in this process: the controller has its own rights only, the test plays placements and agents."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from muster.api.cluster.v1beta1 import Placement, PlacementDecision
from muster.apiserver.server import ApiServer, ServerConfig
from muster.machinery.objects import Object
from muster.runtime.client.builtin import NAMESPACES
from muster.runtime.client.errors import NotFound
from muster.runtime.client.typed import served
from muster.work.hub.install import install
from muster.work.hub.manager import WorkHub
from muster.work.hub.options import WorkHubOptions
from muster.work.kinds import MANIFEST_WORKS, REPLICA_SETS
from muster.work.names import PLACEMENT_NAME_LABEL, REPLICA_SET_FINALIZER, REPLICA_SET_LABEL, WORK_FINALIZER
from tests.support.fake_clock import FakeClock
from tests.unit.work.hub.conftest import EXEC1, Hub, config_map, replica_set, spec, work

PLACEMENTS, DECISIONS = served(Placement), served(PlacementDecision)

OPTIONS = WorkHubOptions(replica_sets=True, clean_up_completed=True)
CLUSTERS = ("c1", "c2", "c3")


class Site(Hub):
    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.clock = FakeClock()

    async def place(self, name: str, *clusters: str, group: tuple[str, int] | None = None) -> None:
        """A placement that has chosen these."""
        metadata = {"name": name, "namespace": "apps"}
        if not await self.find(PLACEMENTS, name, "apps"):
            await self.admin.create(PLACEMENTS, {**_typed(PLACEMENTS), "metadata": metadata, "spec": {}})
        label = "cluster.open-cluster-management.io"
        labels = {f"{label}/placement": name}
        if group is not None:
            labels |= {f"{label}/decision-group-name": group[0], f"{label}/decision-group-index": str(group[1])}
        decision = f"{name}-{group[1] if group else 0}"
        if not await self.find(DECISIONS, decision, "apps"):
            body = {**_typed(DECISIONS), "metadata": {"name": decision, "namespace": "apps", "labels": labels}}
            await self.admin.create(DECISIONS, body)
        chosen = [{"clusterName": cluster, "reason": ""} for cluster in clusters]
        await self.admin.patch(DECISIONS, decision, {"status": {"decisions": chosen}}, "apps", subresource="status")

    async def find(self, resource: Any, name: str, namespace: str) -> Object | None:
        try:
            return await self.admin.get(resource, name, namespace)
        except NotFound:
            return None

    async def works(self) -> dict[str, Object]:
        found = await self.admin.list(MANIFEST_WORKS, label_selector=REPLICA_SET_LABEL)
        return {one["metadata"]["namespace"]: one for one in found.items}

    async def until_works(self, *clusters: str, like: Callable[[Object], bool] = lambda _: True) -> dict[str, Object]:
        async def there() -> list[dict[str, Object]]:
            found = await self.works()
            return [found] if set(found) == set(clusters) and all(map(like, found.values())) else []

        (found,) = await self.until(lambda: self.moving(there))
        return dict(found)

    async def moving(self, probe: Any) -> Any:
        await self.clock.advance(0.2)
        return await probe()

    async def until_says(self, kind: str, status: str, reason: str, message: str = "", name: str = "r") -> Object:
        async def says() -> Object | None:
            found = await self.admin.get(REPLICA_SETS, name, "apps")
            conditions = (found.get("status") or {}).get("conditions") or []
            said = [one for one in conditions if one["type"] == kind]
            return (
                found
                if said and (said[0]["status"], said[0]["reason"]) == (status, reason) and message in said[0]["message"]
                else None
            )

        found: Object = await self.until(lambda: self.moving(says))
        return found

    async def play_agent(self, cluster: str, applied: str = "True", available: str = "True", name: str = "r") -> None:
        """Report on the present generation."""
        found = await self.admin.get(MANIFEST_WORKS, name, cluster)
        now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        said = {"reason": "R", "message": "", "lastTransitionTime": now, "observedGeneration": found["metadata"]["generation"]}
        conditions = [{"type": "Applied", "status": applied, **said}, {"type": "Available", "status": available, **said}]
        await self.admin.patch(MANIFEST_WORKS, name, {"status": {"conditions": conditions}}, cluster, subresource="status")


def _typed(resource: Any) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind}


@asynccontextmanager
async def running(site: Site) -> AsyncIterator[None]:
    hub = WorkHub(site.own, OPTIONS, clock=site.clock, random=lambda: 0.0)
    task = asyncio.create_task(hub.run())
    try:
        await hub.synced()
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def bare() -> AsyncIterator[Site]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub",)))
    await server.start()
    site = Site(server)
    await install(site.admin, OPTIONS, None)
    for name in (*CLUSTERS, "apps"):
        await site.admin.create(NAMESPACES, {**_typed(NAMESPACES), "metadata": {"name": name}})
    yield site
    await server.stop(grace=0.1)


@pytest.fixture
async def site(bare: Site) -> AsyncIterator[Site]:
    async with running(bare):
        yield bare


def one_at_a_time(content: Object | None = None) -> Object:
    document = replica_set("r", content)
    strategy = {"type": "Progressive", "progressive": {"maxConcurrency": 1}}
    document["spec"]["placementRefs"] = [{"name": "everywhere", "rolloutStrategy": strategy}]
    return document


async def test_every_chosen_cluster_gets_a_work_and_one_no_longer_chosen_loses_it(site: Site) -> None:
    await site.place("everywhere", "c1", "c2")
    body = replica_set("r", spec(runs_as=EXEC1))
    body["metadata"]["labels"] = {"team": "blue"}
    await site.admin.create(REPLICA_SETS, body)
    found = await site.until_works("c1", "c2")
    assert found["c1"]["metadata"]["name"] == "r"
    assert found["c1"]["metadata"]["labels"] == {
        "team": "blue",
        REPLICA_SET_LABEL: "apps.r",
        PLACEMENT_NAME_LABEL: "everywhere",
    }
    assert found["c1"]["spec"] == spec(runs_as=EXEC1)
    await site.place("everywhere", "c2", "c3")
    await site.until_works("c2", "c3")


async def test_its_status_counts_and_tells(site: Site) -> None:
    await site.place("everywhere", *CLUSTERS)
    await site.admin.create(REPLICA_SETS, replica_set("r"))
    await site.until_works(*CLUSTERS)
    await site.until_says("ManifestworkApplied", "False", "Processing", "0 of 3 works are available")
    for cluster in CLUSTERS:
        await site.play_agent(cluster)
    found = await site.until_says("ManifestworkApplied", "True", "AsExpected")
    await site.until_says("PlacementVerified", "True", "AsExpected")
    found = await site.until_says("PlacementRolledOut", "True", "Complete", "3 of 3 clusters have succeeded")
    assert found["status"]["summary"] == {"total": 3, "desiredTotal": 3, "updated": 3, "applied": 3, "available": 3}
    (line,) = found["status"]["placementSummary"]
    assert (line["name"], line["availableDecisionGroups"]) == ("everywhere", "1 (3 / 3 clusters applied)")
    await site.play_agent("c2", applied="False", available="False")
    await site.until_says("ManifestworkApplied", "False", "NotAsExpected", "failed on c2")


async def test_a_change_goes_to_one_cluster_after_the_other(site: Site) -> None:
    def has(content: Object) -> Callable[[Object], bool]:
        return lambda one: bool(one["spec"] == content)

    await site.place("everywhere", *CLUSTERS)
    await site.admin.create(REPLICA_SETS, one_at_a_time())
    for number, cluster in enumerate(CLUSTERS, 1):
        await site.until_works(*CLUSTERS[:number])
        await site.play_agent(cluster)
    await site.until_says("PlacementRolledOut", "True", "Complete")
    changed = spec(config_map("other"))
    await site.admin.patch(REPLICA_SETS, "r", {"spec": {"manifestWorkTemplate": changed}}, "apps")
    for number, cluster in enumerate(CLUSTERS, 1):
        await site.until_says("PlacementRolledOut", "False", "Progressing", f"{number - 1} of 3")

        async def reached(count: int = number) -> bool:
            return [one for one, found in sorted((await site.works()).items()) if has(changed)(found)] == list(CLUSTERS[:count])

        await site.until(lambda: site.moving(reached))  # called before the loop goes on
        await site.play_agent(cluster)
    await site.until_says("PlacementRolledOut", "True", "Complete")


async def test_a_failure_stops_the_rollout_until_it_recovers(site: Site) -> None:
    await site.place("everywhere", *CLUSTERS)
    await site.admin.create(REPLICA_SETS, one_at_a_time())
    await site.until_works("c1")
    await site.play_agent("c1", applied="False", available="False")
    await site.until_says("PlacementRolledOut", "False", "Progressing", "stopped, for 1 have failed")
    assert set(await site.works()) == {"c1"}
    await site.play_agent("c1")
    await site.until_works("c1", "c2")


async def test_soaking_and_deadlines_pass_without_any_event(site: Site) -> None:
    await site.place("everywhere", "c1", "c2")
    body = one_at_a_time()
    terms = {"maxConcurrency": 1, "minSuccessTime": "1h"}
    body["spec"]["placementRefs"][0]["rolloutStrategy"]["progressive"] = terms
    await site.admin.create(REPLICA_SETS, body)
    await site.until_works("c1")
    await site.play_agent("c1")
    await site.until_says("PlacementRolledOut", "False", "Progressing", "1 of 2 clusters have succeeded")
    assert set(await site.works()) == {"c1"}
    await site.clock.advance(3600)
    await site.until_works("c1", "c2")


async def test_a_cluster_of_two_placements_belongs_to_the_first(site: Site) -> None:
    await site.place("one", "c1")
    await site.place("two", "c1", "c2")
    await site.admin.create(REPLICA_SETS, replica_set("r", None, "one", "two"))
    found = await site.until_works("c1", "c2")
    assert {cluster: work["metadata"]["labels"][PLACEMENT_NAME_LABEL] for cluster, work in found.items()} == {
        "c1": "one",
        "c2": "two",
    }
    generation = found["c1"]["metadata"]["generation"]
    await site.place("one")
    found = await site.until_works("c1", "c2", like=lambda one: one["metadata"]["labels"][PLACEMENT_NAME_LABEL] == "two")
    assert found["c1"]["metadata"]["generation"] == generation


async def test_works_of_a_placement_that_is_gone_stay_and_those_of_a_reference_taken_out_go(site: Site) -> None:
    await site.place("one", "c1")
    await site.place("two", "c2")
    await site.admin.create(REPLICA_SETS, replica_set("r", None, "one", "two"))
    await site.until_works("c1", "c2")
    await site.admin.delete(PLACEMENTS, "two", "apps")
    await site.until_says("PlacementVerified", "False", "PlacementDecisionNotFound", "there is no placement two")
    assert set(await site.works()) == {"c1", "c2"}
    await site.admin.patch(REPLICA_SETS, "r", {"spec": {"placementRefs": [{"name": "one"}]}}, "apps")
    await site.until_works("c1")
    await site.until_says("PlacementVerified", "True", "AsExpected")


async def test_a_placement_without_clusters_is_told(site: Site) -> None:
    await site.place("everywhere")
    await site.admin.create(REPLICA_SETS, replica_set("r"))
    await site.until_says("PlacementVerified", "False", "PlacementDecisionEmpty")
    await site.until_says("ManifestworkApplied", "False", "PlacementDecisionEmpty")


async def test_what_cannot_be_written_is_named_and_keeps_nobody_waiting(site: Site) -> None:
    await site.place("everywhere", "c1", "c2", "nowhere")
    await site.admin.create(REPLICA_SETS, replica_set("r"))
    await site.until_works("c1", "c2")
    await site.until_says("ManifestworkApplied", "False", "NotAsExpected", "works cannot be written: nowhere: ")
    await site.admin.create(NAMESPACES, {**_typed(NAMESPACES), "metadata": {"name": "nowhere"}})
    await site.until_works("c1", "c2", "nowhere")


async def test_a_decision_that_names_no_cluster_keeps_nobody_waiting(site: Site) -> None:
    await site.place("everywhere", "..", "c1", "no/cluster")
    await site.admin.create(REPLICA_SETS, replica_set("r"))
    await site.until_works("c1")
    found = await site.until_says("ManifestworkApplied", "False", "NotAsExpected", "works cannot be written: ..: ")
    assert "no/cluster: " in str(found["status"]["conditions"])


async def test_a_work_of_its_name_that_is_not_its_own_is_left_alone(site: Site) -> None:
    await site.admin.create(MANIFEST_WORKS, work("r", namespace="c2"))
    await site.place("everywhere", "c1", "c2")
    await site.admin.create(REPLICA_SETS, replica_set("r", spec(config_map("mine"))))
    found = await site.until_works("c1", "c2", like=lambda one: bool(one["spec"] == spec(config_map("mine"))))
    names = [found[cluster]["metadata"]["name"] for cluster in ("c1", "c2")]
    assert names[0] == "r"
    assert re.fullmatch("r-[0-9a-f]{5}", names[1])
    assert (await site.admin.get(MANIFEST_WORKS, "r", "c2"))["spec"] == spec()
    await site.admin.patch(REPLICA_SETS, "r", {"spec": {"manifestWorkTemplate": spec()}}, "apps")
    await site.until_works("c1", "c2", like=lambda one: bool(one["spec"] == spec()))
    await site.admin.delete(REPLICA_SETS, "r", "apps")
    await site.until_works()
    await site.admin.get(MANIFEST_WORKS, "r", "c2")


async def test_works_that_carry_its_label_are_its_own_whatever_they_are_called_and_one_is_kept(bare: Site) -> None:
    """As hubs leave them that generate names."""
    labels = {REPLICA_SET_LABEL: "apps.r", PLACEMENT_NAME_LABEL: "everywhere"}
    for name, cluster in (("rabcde", "c1"), ("rfghij", "c1"), ("rabcde", "c2"), ("r", "c2")):
        await bare.admin.create(MANIFEST_WORKS, work(name, spec(config_map("old")), cluster, labels=labels))
    await bare.place("everywhere", *CLUSTERS)
    await bare.admin.create(REPLICA_SETS, replica_set("r"))
    async with running(bare):
        await bare.until_works(*CLUSTERS, like=lambda one: bool(one["spec"] == spec()))

        async def one_each() -> bool:
            listed = (await bare.admin.list(MANIFEST_WORKS)).items
            found = sorted((one["metadata"]["namespace"], one["metadata"]["name"]) for one in listed)
            return found == [("c1", "rabcde"), ("c2", "r"), ("c3", "r")]

        await bare.until(lambda: bare.moving(one_each))


async def test_somebodys_change_of_a_work_is_undone(site: Site) -> None:
    await site.place("everywhere", "c1")
    await site.admin.create(REPLICA_SETS, replica_set("r"))
    await site.until_works("c1")
    await site.admin.patch(MANIFEST_WORKS, "r", {"spec": spec(config_map("other"))}, "c1")
    await site.until_works("c1", like=lambda one: bool(one["spec"] == spec()))
    await site.admin.delete(MANIFEST_WORKS, "r", "c1")
    await site.until_works("c1")


async def test_a_name_that_is_too_long_is_told_and_nothing_is_made(site: Site) -> None:
    await site.place("everywhere", "c1")
    name = "x" * 60
    await site.admin.create(REPLICA_SETS, replica_set(name))
    await site.until_says("ManifestworkApplied", "False", "InvalidManifestWorkName", "must be a label's value", name)
    assert await site.works() == {}


async def test_a_strategy_that_cannot_be_followed_is_told(bare: Site) -> None:
    body = one_at_a_time()
    body["spec"]["placementRefs"][0]["rolloutStrategy"]["progressive"] = {"minSuccessTime": "soon"}
    await bare.place("everywhere", "c1")
    await bare.admin.create(REPLICA_SETS, body)
    async with running(bare):
        await bare.until_says("PlacementVerified", "False", "NotAsExpected", "minSuccessTime")
    assert await bare.works() == {}


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_its_works_go_with_it(site: Site, policy: str) -> None:
    await site.place("everywhere", "c1", "c2")
    body = replica_set("r.with.dots")
    body["spec"]["cascadeDeletionPolicy"] = policy
    await site.admin.create(REPLICA_SETS, body)
    await site.until_works("c1", "c2")
    held = {"metadata": {"finalizers": [WORK_FINALIZER]}}
    await site.admin.patch(MANIFEST_WORKS, "r.with.dots", held, "c1")
    await site.admin.delete(REPLICA_SETS, "r.with.dots", "apps")
    found = await site.until_works("c1")
    assert found["c1"]["metadata"]["deletionTimestamp"]

    async def gone() -> bool:
        return await site.find(REPLICA_SETS, "r.with.dots", "apps") is None

    if policy == "Foreground":
        there = await site.admin.get(REPLICA_SETS, "r.with.dots", "apps")
        assert there["metadata"]["finalizers"] == [REPLICA_SET_FINALIZER]
        await site.admin.patch(MANIFEST_WORKS, "r.with.dots", {"metadata": {"finalizers": None}}, "c1")
    await site.until(lambda: site.moving(gone))


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_works_that_it_has_only_just_made_go_with_it_too(bare: Site, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    passing, hearing = bare.own.lines, asyncio.Event()
    hearing.set()

    async def lines(path: str, *arguments: Any) -> AsyncGenerator[bytes, None]:
        """The controller does not hear of works while it is not to."""
        async for line in passing(path, *arguments):
            if path.endswith("/manifestworks"):
                await hearing.wait()
            yield line

    monkeypatch.setattr(bare.own, "lines", lines)
    body = replica_set("r")
    body["spec"]["cascadeDeletionPolicy"] = policy
    async with running(bare):
        hearing.clear()
        await bare.place("everywhere", "c1", "c2")
        await bare.admin.create(REPLICA_SETS, body)
        await bare.until_works("c1", "c2")
        await bare.admin.delete(REPLICA_SETS, "r", "apps")
        await bare.until_works()

        async def gone() -> bool:
            return await bare.find(REPLICA_SETS, "r", "apps") is None

        await bare.until(lambda: bare.moving(gone))


async def test_a_controller_that_comes_back_goes_on_where_the_last_one_was(bare: Site) -> None:
    await bare.place("everywhere", *CLUSTERS)
    await bare.admin.create(REPLICA_SETS, one_at_a_time())
    for number, cluster in enumerate(CLUSTERS, 1):
        async with running(bare):
            await bare.until_works(*CLUSTERS[:number])
        await bare.play_agent(cluster)
    async with running(bare):
        await bare.until_says("PlacementRolledOut", "True", "Complete")


async def complete(site: Site, name: str, second: int, generation: int | None = None) -> None:
    found = await site.admin.get(MANIFEST_WORKS, name, "c1")
    now = site.clock.now().timestamp() + second
    condition = {
        "type": "Complete",
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "observedGeneration": generation or found["metadata"]["generation"],
    }
    await site.admin.patch(MANIFEST_WORKS, name, {"status": {"conditions": [condition]}}, "c1", subresource="status")


async def test_finished_works_go_when_their_time_is_over_and_others_stay(site: Site) -> None:
    brief = spec(deleteOption={"propagationPolicy": "Foreground", "ttlSecondsAfterFinished": 60})
    for name, content in (
        ("brief", brief),
        ("unfinished", brief),
        ("stale", brief),
        ("forever", spec()),
        ("at-once", spec(deleteOption={"propagationPolicy": "Foreground", "ttlSecondsAfterFinished": 0})),
    ):
        await site.admin.create(MANIFEST_WORKS, work(name, content, "c1"))
    await site.admin.create(MANIFEST_WORKS, work("of-a-set", brief, "c1", labels={REPLICA_SET_LABEL: "apps.elsewhere"}))
    await site.admin.patch(MANIFEST_WORKS, "stale", {"spec": {"workload": {"manifests": [config_map("other")]}}}, "c1")
    await complete(site, "stale", 0, generation=1)
    for name in ("brief", "forever", "at-once", "of-a-set"):
        await complete(site, name, 0)

    async def names() -> set[str]:
        return {one["metadata"]["name"] for one in (await site.admin.list(MANIFEST_WORKS, "c1")).items}

    async def left(*expected: str) -> bool:
        return await names() == set(expected)

    await site.until(lambda: left("brief", "unfinished", "stale", "forever", "of-a-set"))
    await site.clock.advance(50)
    assert "brief" in await names()
    await site.clock.advance(12)
    await site.until(lambda: site.moving(lambda: left("unfinished", "stale", "forever", "of-a-set")))
