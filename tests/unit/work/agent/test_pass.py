"""The pass over a work: what it asks for, what it leaves alone, and what it remembers."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from muster.api.work.v1 import ManifestWork
from muster.fleet.in_process import InProcessClient
from muster.machinery.objects import Object
from muster.machinery.workqueue import WorkQueue
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from muster.runtime.client.errors import Unreachable
from muster.runtime.controller.controller import Controller
from muster.work.agent.records import Records
from muster.work.kinds import APPLIED_WORKS, MANIFEST_WORKS
from tests.unit.work.agent.conftest import CLUSTER, Life, Site, config_map, namespace, until


async def quiet(life: Life, seconds: float = 0.35) -> None:
    """Until nothing was asked for so long."""
    for _ in range(50):
        count = len(life.asked)
        await asyncio.sleep(seconds)
        if count == len(life.asked):
            return
    raise AssertionError(f"it never stops asking: {life.asked[-5:]}")


async def applied(site: Site, name: str = "w") -> None:
    await until(lambda: site.applied(name), f"{name} to be applied")


def of(plural: str, name: str, **options: object) -> Object:
    return {"resourceIdentifier": {"resource": plural, "name": name, "namespace": "app"}, **options}


async def message(site: Site, ordinal: int, name: str = "w") -> str:
    work = await site.work(name)
    assert work is not None
    entries = ((work.get("status") or {}).get("resourceStatus") or {}).get("manifests") or ()
    conditions = entries[ordinal]["conditions"] if len(entries) > ordinal else ()
    return next((str(one["message"]) for one in conditions if one["type"] == "Applied"), "")


async def test_the_first_apply_costs_two_requests_here_and_two_more_than_manifests_there(site: Site) -> None:
    async with site.agent() as life:
        await site.create("w", *(config_map(f"c{number}") for number in range(5)))
        await applied(site)
        await quiet(life)
        hub = [method for method, path in life.asked if "/manifestworks/" in path]
        assert hub == ["PATCH", "PATCH"]
        assert [method for method, path in life.writes if "/manifestworks/" not in path] == ["POST"] * 6 + ["PATCH"]


async def test_while_works_wait_they_come_before_the_last_word_of_records(site: Site) -> None:
    names = [f"w{number}" for number in range(8)]
    for name in names:
        await site.create(name, config_map(f"{name}-a"), config_map(f"{name}-b"))
    async with site.agent(workers=1) as life:
        await applied(site, names[-1])
        await quiet(life)
        told = [(method, path.rsplit("/", 2)[-2:]) for method, path in life.writes]
        statuses = [number for number, one in enumerate(told) if one[1][1] == "status"]
        # Those of the works but for the last, then that work's record and status, and the other records.
        kinds = ["hub" if told[number][1][0] in names else "record" for number in statuses]
        assert kinds == ["hub"] * 7 + ["record", "hub"] + ["record"] * 7
        live = await site.config_maps()
        for record in await site.records():
            entries = {one["name"]: one["uid"] for one in record["status"]["appliedResources"]}
            own = [f"{record['spec']['manifestWorkName']}-{letter}" for letter in "ab"]
            assert entries == {name: live[name]["metadata"]["uid"] for name in own}


async def test_a_work_that_changes_before_its_record_is_written_leaves_nothing_behind(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Controller, "crowded", True)
    monkeypatch.setattr(Controller, "enqueue_when_idle", lambda self, key, within: None)
    async with site.agent():
        await site.create("w", config_map("stays"), config_map("goes"))
        await applied(site)
        assert all("status" not in record for record in await site.records())
        await site.change("w", config_map("stays"), config_map("new"))
        await applied(site)
        assert set(await site.config_maps()) == {"stays", "new"}
        await site.hub.delete(MANIFEST_WORKS, "w", CLUSTER)
        await until(lambda: _gone(site), "the work to be gone")
    assert await site.config_maps() == {}
    assert await site.records() == []


async def _gone(site: Site) -> bool:
    return await site.work("w") is None


async def test_a_record_is_written_in_time_however_much_there_is_to_do(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Controller, "crowded", True)
    monkeypatch.setattr(WorkQueue, "_take_idle", lambda self: None)
    monkeypatch.setattr("muster.work.agent.reconcile.RECORDED_WITHIN", 0.5)
    async with site.agent():
        await site.create("w", config_map("a"))

        async def recorded() -> bool:
            return [len(one.get("status", {}).get("appliedResources", ())) for one in await site.records()] == [1]

        await until(recorded, "the record to be written")


async def test_our_own_writes_cause_no_further_request(site: Site) -> None:
    async with site.agent() as life:
        await site.create("w", config_map("a"))
        await applied(site)
        await quiet(life)
        count = len(life.asked)
        await site.hub.patch(MANIFEST_WORKS, "w", {"metadata": {"annotations": {"seen": "by others"}}}, CLUSTER)
        await quiet(life)
        assert len(life.asked) == count


async def test_what_is_only_read_and_is_not_there_costs_nothing_but_the_look(site: Site) -> None:
    async with site.agent() as life:
        only_read = [of("configmaps", "absent", updateStrategy={"type": "ReadOnly"})]
        await site.create("w", config_map("absent"), config_map("b"), manifestConfigs=only_read)
        await applied(site)
        await quiet(life)
        life.asked.clear()
        await site.hub.patch(MANIFEST_WORKS, "w", {"metadata": {"annotations": {"x": "y"}}}, CLUSTER)
        await quiet(life)
        assert life.writes == []


async def test_a_pass_that_failed_for_one_manifest_tries_that_one_again_and_no_other(site: Site) -> None:
    async with site.agent() as life:
        await site.create("w", config_map("fine"), config_map("later", "nowhere"))
        await until(lambda: message(site, 1), "the failure to be told")
        assert "nowhere" in await message(site, 1)
        life.asked.clear()
        await site.spoke.create(NAMESPACES, namespace("nowhere"))
        await applied(site)
        made = {path for method, path in life.asked if method == "POST" and not path.endswith("/events")}
        assert made == {"/api/v1/namespaces/nowhere/configmaps"}


async def test_an_executor_that_names_nobody_has_nothing_written(site: Site) -> None:
    async with site.agent() as life:
        await site.create("w", config_map("a"), executor={"subject": {"type": "ServiceAccount"}})
        await until(lambda: message(site, 0), "the refusal to be told")
        assert await message(site, 0) == "Failed to apply manifest: the executor service account is nil"
        assert await site.config_maps() == {}
        await quiet(life)
        count = len(life.asked)
        await asyncio.sleep(0.5)
        assert len(life.asked) == count


async def test_what_an_executor_may_not_is_neither_written_nor_is_anything_removed(site: Site) -> None:
    async with site.agent() as life:
        await site.create("w", config_map("stays", a="1"), config_map("goes"))
        await applied(site)
        nobody = {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "app", "name": "nobody"}}}
        spec = {"executor": nobody, "workload": {"manifests": [config_map("stays", a="2"), config_map("new")]}}
        await site.hub.patch(MANIFEST_WORKS, "w", {"spec": spec}, CLUSTER)

        async def denied() -> bool:
            return "not allowed to apply the resource" in await message(site, 0)

        await until(denied, "the refusal to be told")
        await quiet(life)
        live = await site.config_maps()
        assert set(live) == {"stays", "goes"}
        assert live["stays"]["data"] == {"a": "1"}
        (record,) = await site.records()
        assert {entry["name"] for entry in record["status"]["appliedResources"]} == {"stays", "goes"}


async def test_values_that_change_all_the_time_are_told_now_and_then(site: Site) -> None:
    rules = [{"type": "JSONPaths", "jsonPaths": [{"name": "beat", "path": ".metadata.labels.beat"}]}]
    async with site.agent() as life:
        await site.create("w", config_map("a"), manifestConfigs=[of("configmaps", "a", feedbackRules=rules)])
        await applied(site)
        await quiet(life)
        life.asked.clear()
        for beat in range(15):
            await site.spoke.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"beat": f"b{beat}"}}}, "app")
            await asyncio.sleep(0.1)

        async def last() -> bool:
            work = await site.work("w")
            assert work is not None
            values = work["status"]["resourceStatus"]["manifests"][0].get("statusFeedback", {}).get("values") or []
            return [one["fieldValue"].get("string") for one in values] == ["b14"]

        await until(last, "the last value to be told")
        assert 1 <= len([path for _, path in life.asked if path.endswith("/status")]) <= 5


async def test_a_kind_whose_group_is_away_for_a_moment_does_not_lose_its_objects(site: Site) -> None:
    async with site.agent() as life:
        await site.create("w", config_map("a"))
        await applied(site)
        # As after a rename of the kind by somebody: what is on record may be the manifest's object.
        strange = {"apiVersion": "v1", "kind": "Unheard", "metadata": {"name": "a", "namespace": "app"}}
        await site.change("w", strange)
        await until(lambda: message(site, 0), "the invalid manifest to be reported")
        await quiet(life)
        assert set(await site.config_maps()) == {"a"}


async def test_a_work_without_a_finalizer_of_ours_that_goes_leaves_its_record_to_eviction(site: Site) -> None:
    async with site.agent():
        await site.create("w", config_map("a"))
        await applied(site)
    await site.hub.patch(MANIFEST_WORKS, "w", {"metadata": {"finalizers": None}}, CLUSTER)
    await site.hub.delete(MANIFEST_WORKS, "w", CLUSTER)
    async with site.agent():

        async def noted() -> bool:
            (record,) = await site.records()
            return bool(record["status"].get("evictionStartTime"))

        await until(noted, "the loss to be noted")
        assert set(await site.config_maps()) == {"a"}
    async with site.agent(eviction_grace=0.0):

        async def evicted() -> bool:
            return not await site.records() and not await site.config_maps()

        await until(evicted, "what was the work's to go")


async def test_a_record_that_names_what_is_not_its_own_takes_nothing(site: Site) -> None:
    await site.spoke.create(CONFIG_MAPS, config_map("foreign", keep="me"))
    async with site.agent() as life:
        await site.create("w", config_map("a"))
        await applied(site)
        await quiet(life)
        (record,) = await site.records()
        uid = (await site.config_maps())["foreign"]["metadata"]["uid"]
        claimed = {"version": "v1", "resource": "configmaps", "name": "foreign", "namespace": "app", "uid": uid}
        status = {"appliedResources": [*record["status"]["appliedResources"], claimed]}
        await site.spoke.patch(APPLIED_WORKS, record["metadata"]["name"], {"status": status}, subresource="status")
        await quiet(life)
        await site.hub.delete(MANIFEST_WORKS, "w", CLUSTER)

        async def gone() -> bool:
            return await site.work("w") is None

        await until(gone, "the work to go")
        assert set(await site.config_maps()) == {"foreign"}


async def test_a_record_that_was_made_without_an_answer_is_not_forgotten_when_its_work_goes(site: Site) -> None:
    records = Records(site.spoke, "hub", "agent")

    class Silent(InProcessClient):
        async def exchange(self, *given: Any, **options: Any) -> bytes:
            await super().exchange(*given, **options)
            raise Unreachable("in-process", "no answer")

    records._client = Silent(site.server.client(site.server.clusters["spoke"]))
    work = ManifestWork.decode({"metadata": {"name": "w"}})
    with pytest.raises(Unreachable):
        await records.ensure(work, ())
    records._client = site.spoke
    assert records.of("w") is None
    found = await records.sure_of("w")
    assert found is not None
    assert found.metadata.name == "hub-w"


async def test_a_record_too_large_for_its_annotation_has_everything_in_its_status_before_it_is_applied(site: Site) -> None:
    names = [f"{number:03}-{'x' * 200}" for number in range(3)]
    with mock.patch("muster.work.agent.records.MAX_INTENT", 300):
        async with site.agent() as life:
            await site.create("w", *(config_map(name) for name in names))
            await applied(site)
            await quiet(life)
            first = [method for method, path in life.writes if "/manifestworks/" not in path]
            assert first == ["POST", "PATCH", "POST", "POST", "POST", "PATCH"]
            (record,) = await site.records()
            assert not record["metadata"].get("annotations")


async def test_a_work_whose_name_is_too_long_for_a_record_is_told_so(site: Site) -> None:
    name = "w" * 200
    async with site.agent():
        await site.create(name, config_map("a"))
        await until(lambda: message(site, 0, name), "the failure to be told")
        assert "AppliedManifestWork" in await message(site, 0, name)
        assert await site.config_maps() == {}
