"""Replica sets end to end: `muster work-hub` as a process judges and rolls out, real agents apply, the test plays placements."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from muster.api.cluster.v1beta1 import Placement, PlacementDecision
from muster.machinery.objects import Object
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from muster.runtime.client.typed import served
from muster.work.kinds import MANIFEST_WORKS, REPLICA_SETS
from tests.support.executing import Keeper, rule
from tests.support.planes import ControlPlane
from tests.support.processes import complaints
from tests.support.work_hub import WorkHub
from tests.support.working import Workplace, condition, config_map

PLACEMENTS, DECISIONS = served(Placement), served(PlacementDecision)

GATES = "--feature-gates=ManifestWorkReplicaSet=true,CleanUpCompletedManifestWork=true"
APP = "replicated"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def hub(ground: ControlPlane) -> Iterator[WorkHub]:
    hub = WorkHub(ground.cluster, ground.directory / "work-hub")
    hub.install(GATES)
    for name in ("apps", APP):
        hub.namespace(name)
    hub.start(GATES)
    yield hub
    hub.stop()
    assert hub.process is not None
    assert complaints(hub.process.log) == []


@pytest.fixture
async def fleet(hub: WorkHub) -> AsyncIterator[list[Workplace]]:
    """Two clusters with agents at work. Both are the same cluster really, and each agent takes the hub for another one."""
    async with AsyncExitStack() as stack:
        places = []
        number = next(_numbers)
        for name in ("first", "second"):
            place = Workplace(hub.cluster)
            place.name = f"{name}{number}"
            await place.prepare()
            stack.push_async_callback(place.close)
            await stack.enter_async_context(place.agent(hub_url=f"https://{place.name}.example"))
            places.append(place)
        yield places


async def place_on(place: Workplace, *clusters: str) -> None:
    admin, metadata = place.admin, {"name": "everywhere", "namespace": "apps"}
    await admin.apply(PLACEMENTS, {"metadata": metadata, "spec": {}}, manager="tests")
    labels = {"cluster.open-cluster-management.io/placement": "everywhere"}
    await admin.apply(DECISIONS, {"metadata": {**metadata, "labels": labels}}, manager="tests")
    decisions = [{"clusterName": cluster, "reason": ""} for cluster in clusters]
    await admin.patch(DECISIONS, "everywhere", {"status": {"decisions": decisions}}, "apps", subresource="status")


def replica_set(name: str, *manifests: Object, **spec: Any) -> Object:
    one_by_one = {"type": "Progressive", "progressive": {"maxConcurrency": 1}}
    refs = [{"name": "everywhere", "rolloutStrategy": one_by_one}]
    kind = {"apiVersion": REPLICA_SETS.api_version, "kind": REPLICA_SETS.kind}
    template = {"workload": {"manifests": list(manifests)}}
    metadata = {"name": name, "namespace": "apps"}
    return {**kind, "metadata": metadata, "spec": {"manifestWorkTemplate": template, "placementRefs": refs, **spec}}


async def until_said(place: Workplace, name: str, kind: str, reason: str) -> Object:
    async def look() -> Object | None:
        found = await place.find(REPLICA_SETS, name, "apps")
        said = condition((found or {}).get("status") or {}, kind)
        current = found is not None and said.get("observedGeneration") == found["metadata"]["generation"]
        return found if current and said.get("reason") == reason else None

    found: Object = await place.wait(look, f"{name} to say {kind} {reason}")
    return found


async def data(place: Workplace, name: str) -> Any:
    found = await place.find(CONFIG_MAPS, name, APP)
    return None if found is None else found["data"]


async def test_a_change_is_rolled_out_by_real_agents_and_goes_with_the_set(fleet: list[Workplace]) -> None:
    first, second = fleet
    await place_on(first, first.name, second.name)
    await first.admin.create(
        REPLICA_SETS, replica_set("rolled", config_map("rolled", APP, v="1"), cascadeDeletionPolicy="Foreground")
    )
    found = await until_said(first, "rolled", "PlacementRolledOut", "Complete")
    assert found["status"]["summary"]["available"] == 2
    await until_said(first, "rolled", "ManifestworkApplied", "AsExpected")
    assert await data(first, "rolled") == {"v": "1"}

    template = {"workload": {"manifests": [config_map("rolled", APP, v="2")]}}
    await first.admin.patch(REPLICA_SETS, "rolled", {"spec": {"manifestWorkTemplate": template}}, "apps")
    await until_said(first, "rolled", "PlacementRolledOut", "Complete")
    assert await data(first, "rolled") == {"v": "2"}
    for place in fleet:
        await place.wait_applied("rolled")

    await place_on(first, second.name)
    await first.wait_gone("rolled")
    assert await second.work("rolled") is not None

    await first.admin.delete(REPLICA_SETS, "rolled", "apps")

    async def gone() -> bool:
        return await first.find(REPLICA_SETS, "rolled", "apps") is None

    await first.wait(gone, "the set to go")
    assert await second.work("rolled") is None, "in the foreground, works go first"
    assert await data(first, "rolled") is None


async def test_a_cluster_that_cannot_apply_stops_the_rollout_until_it_can(fleet: list[Workplace]) -> None:
    first, second = fleet
    await place_on(first, first.name, second.name)
    await first.admin.create(REPLICA_SETS, replica_set("stuck", config_map("stuck", "not-yet", v="1")))
    found = await until_said(first, "stuck", "ManifestworkApplied", "NotAsExpected")
    said = condition(found["status"], "PlacementRolledOut")
    assert (said["status"], "stopped, for 1 have failed" in said["message"]) == ("False", True)
    assert await second.work("stuck") is None
    await first.admin.create(NAMESPACES, {"metadata": {"name": "not-yet"}})
    await first.wait_applied("stuck", timeout=60)
    await until_said(first, "stuck", "PlacementRolledOut", "Complete")
    await first.admin.delete(REPLICA_SETS, "stuck", "apps")
    for place in fleet:
        await place.wait_gone("stuck")


async def test_what_the_server_adds_to_a_template_is_no_change(fleet: list[Workplace]) -> None:
    """Defaults of works and of templates must be the same, or a work would be written for ever."""
    first, second = fleet
    await place_on(first, first.name, second.name)
    manifest = config_map("rich", APP, v="1", n="2")

    def config(name: str, **content: Any) -> Object:
        return {"resourceIdentifier": {"resource": "configmaps", "name": name, "namespace": APP}, **content}

    ignored = [{"jsonPaths": [".data.n"]}, {"condition": "OnSpokeChange", "jsonPointers": ["/data/v"]}]
    template = {
        "workload": {"manifests": [manifest]},
        "deleteOption": {"ttlSecondsAfterFinished": 3600},
        "manifestConfigs": [
            config(
                "rich",
                updateStrategy={"type": "ServerSideApply", "serverSideApply": {"ignoreFields": ignored}},
                feedbackRules=[{"type": "JSONPaths", "jsonPaths": [{"name": "v", "path": ".data.v"}]}],
                conditionRules=[{"type": "CEL", "condition": "Told", "celExpressions": ["true"]}],
            ),
            config("other", updateStrategy={"type": "ServerSideApply", "serverSideApply": {}}),
            config("third", updateStrategy={"type": "CreateOnly"}, feedbackScrapeType="Watch"),
        ],
    }
    body = replica_set("rich")
    body["spec"]["manifestWorkTemplate"] = template
    await first.admin.create(REPLICA_SETS, body)
    await until_said(first, "rich", "PlacementRolledOut", "Complete")
    await until_said(first, "rich", "ManifestworkApplied", "AsExpected")
    for place in fleet:
        work = await place.work("rich")
        assert work is not None
        assert work["metadata"]["generation"] == 1
    await first.admin.delete(REPLICA_SETS, "rich", "apps")
    for place in fleet:
        await place.wait_gone("rich")


async def test_a_set_is_applied_in_its_executors_name_group_by_group(fleet: list[Workplace]) -> None:
    first, second = fleet
    keeper = Keeper(first)
    await place_on(first)
    await first.admin.delete(DECISIONS, "everywhere", "apps")
    for index, place in enumerate(fleet):
        label = "cluster.open-cluster-management.io"
        labels = {f"{label}/placement": "everywhere", f"{label}/decision-group-index": str(index)}
        name = f"everywhere-{index}"
        metadata = {"name": name, "namespace": "apps", "labels": {**labels, f"{label}/decision-group-name": f"g{index}"}}
        await first.admin.apply(DECISIONS, {"metadata": metadata}, manager="tests")
        status = {"status": {"decisions": [{"clusterName": place.name, "reason": ""}]}}
        await first.admin.patch(DECISIONS, name, status, "apps", subresource="status")
    body = replica_set("executed", config_map("executed", APP, v="1"))
    body["spec"]["manifestWorkTemplate"]["executor"] = keeper.executor()
    body["spec"]["placementRefs"][0]["rolloutStrategy"] = {"type": "ProgressivePerGroup", "progressivePerGroup": {}}
    try:
        await first.admin.create(REPLICA_SETS, body)
        await first.wait(lambda: first.work("executed"), "the first group's work")
        await keeper.wait_refused("executed", f"{keeper.user()} may not create")
        await until_said(first, "executed", "ManifestworkApplied", "NotAsExpected")
        assert await second.work("executed") is None
        assert await data(first, "executed") is None
        await keeper.grant("executed", rule(), namespace=APP)
        found = await until_said(first, "executed", "PlacementRolledOut", "Complete")
        assert found["status"]["placementSummary"][0]["availableDecisionGroups"] == "2 (2 / 2 clusters applied)"
        await second.wait_applied("executed")
    finally:
        await first.admin.delete(REPLICA_SETS, "executed", "apps")
        for place in fleet:
            await place.wait_gone("executed")
        for index in range(2):
            await first.admin.delete(DECISIONS, f"everywhere-{index}", "apps")
        await keeper.close()


async def test_a_finished_work_goes_when_its_time_is_over(fleet: list[Workplace]) -> None:
    place, _ = fleet
    manifest = config_map("short", APP, done="no")
    rule = {"type": "CEL", "condition": "Complete", "celExpressions": ["object.data.done == 'yes'"]}
    config = {"resourceIdentifier": {"resource": "configmaps", "name": "short", "namespace": APP}, "conditionRules": [rule]}
    await place.create("short", manifest, manifestConfigs=[config], deleteOption={"ttlSecondsAfterFinished": 1})
    await place.wait_condition("short", "Complete", "False")
    await place.change("short", config_map("short", APP, done="yes"))
    await place.wait_gone("short")
    assert await place.find(MANIFEST_WORKS, "short", place.name) is None
    assert await data(place, "short") is None
