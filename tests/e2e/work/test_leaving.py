"""Works leave: what was theirs goes in the right order, what is others' stays, and what takes its time is named."""

from __future__ import annotations

from typing import Any

from muster.api.work.v1 import GROUP
from muster.machinery.objects import Object
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from muster.work.kinds import APPLIED_WORKS, MANIFEST_WORKS
from tests.support.shifted import ShiftedClock
from tests.support.working import Workplace, condition, config_map, identifier

HELD = "example.org/held"


async def test_ranks_go_in_reverse_and_what_holds_them_up_is_named(place: Workplace) -> None:
    inner = f"{place.namespace}-inner"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": inner}}
    held = config_map("held", place.namespace)
    held["metadata"]["finalizers"] = [HELD]
    async with place.agent() as agent:
        await place.create("ranked", config_map("free", place.namespace), held, namespace)
        await place.wait_applied("ranked")
        await place.delete("ranked")

        async def named() -> bool:
            work = await place.work("ranked")
            message = condition((work or {}).get("status", {}), "Deleting").get("message", "")
            return message == f"ManifestWork is being deleted, waiting for configmaps {place.namespace}/held"

        await place.wait(named, "the held object to be named")
        assert await place.data("free") is None
        waiting = await place.find(NAMESPACES, inner)
        assert waiting is not None
        assert not waiting["metadata"].get("deletionTimestamp")
        record = await place.record(agent, "ranked")
        assert record is not None
        assert {entry["name"] for entry in record["status"]["appliedResources"]} == {"held", inner}

        await place.admin.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, place.namespace)
        await place.wait_gone("ranked")
        assert await place.record(agent, "ranked") is None
        assert await place.find(NAMESPACES, inner) is None


async def test_orphaned_objects_stay_without_our_mark(place: Workplace) -> None:
    some = {
        "propagationPolicy": "SelectivelyOrphan",
        "selectivelyOrphans": {
            "orphaningRules": [{"group": "", "resource": "configmaps", "namespace": place.namespace, "name": "stays"}]
        },
    }
    async with place.agent():
        await place.create("all", config_map("left", place.namespace), deleteOption={"propagationPolicy": "Orphan"})
        await place.create("some", config_map("stays", place.namespace), config_map("goes", place.namespace), deleteOption=some)
        for work in ("all", "some"):
            await place.wait_applied(work)
            await place.delete(work)
            await place.wait_gone(work)
        for name in ("left", "stays"):
            found = await place.find(CONFIG_MAPS, name, place.namespace)
            assert found is not None
            assert not found["metadata"].get("ownerReferences")
        assert await place.data("goes") is None


async def test_a_change_to_orphaning_takes_our_mark_away_and_back(place: Workplace) -> None:
    async with place.agent():
        await place.create("fickle", config_map("fickle", place.namespace))
        await place.wait_applied("fickle")

        async def owners() -> list[Any]:
            found = await place.find(CONFIG_MAPS, "fickle", place.namespace)
            return list((found or {"metadata": {}})["metadata"].get("ownerReferences") or ())

        assert [owner["kind"] for owner in await owners()] == ["AppliedManifestWork"]
        await place.change("fickle", deleteOption={"propagationPolicy": "Orphan"})
        await place.wait_applied("fickle")
        assert await owners() == []
        await place.change("fickle", deleteOption={"propagationPolicy": "Foreground"})
        await place.wait_applied("fickle")
        assert len(await owners()) == 1


async def test_a_work_that_is_orphaned_and_deleted_while_no_agent_runs_leaves_its_objects(place: Workplace) -> None:
    rules = [{"group": "", "resource": "configmaps", "namespace": place.namespace, "name": "stays"}]
    some = {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": rules}}
    async with place.agent() as agent:
        await place.create("all", config_map("left", place.namespace))
        await place.create("some", config_map("stays", place.namespace), config_map("goes", place.namespace))
        await place.wait_applied("all")
        await place.wait_applied("some")
        await agent.quiet(0.5)
    await place.change("all", deleteOption={"propagationPolicy": "Orphan"})
    await place.change("some", deleteOption=some)
    for work in ("all", "some"):
        await place.delete(work)
    async with place.agent() as agent:
        await place.wait_gone("all")
        await place.wait_gone("some")
        assert await place.record(agent, "all") is None
        assert await place.data("goes") is None
        for name in ("left", "stays"):
            found = await place.find(CONFIG_MAPS, name, place.namespace)
            assert found is not None
            assert not found["metadata"].get("ownerReferences")


async def test_what_becomes_read_only_stays_when_the_work_goes(place: Workplace) -> None:
    read = config_map("read", place.namespace, a="b")
    async with place.agent():
        await place.create("reader", read, config_map("goes", place.namespace))
        await place.wait_applied("reader")
        await place.change("reader", manifestConfigs=[identifier(read, "configmaps", updateStrategy={"type": "ReadOnly"})])
        await place.wait_applied("reader")
        found = await place.find(CONFIG_MAPS, "read", place.namespace)
        assert found is not None
        assert not found["metadata"].get("ownerReferences")
        await place.delete("reader")
        await place.wait_gone("reader")
        assert await place.data("goes") is None
        assert await place.data("read") == {"a": "b"}


async def test_an_object_of_two_works_goes_with_the_second(place: Workplace) -> None:
    async with place.agent():
        for work in ("one", "two"):
            await place.create(work, config_map("shared", place.namespace, a="b"), config_map(f"of-{work}", place.namespace))
            await place.wait_applied(work)
        await place.delete("one")
        await place.wait_gone("one")
        shared = await place.find(CONFIG_MAPS, "shared", place.namespace)
        assert shared is not None
        assert [owner["name"].endswith("-two") for owner in shared["metadata"]["ownerReferences"]] == [True]
        assert await place.data("of-one") is None
        await place.delete("two")
        await place.wait_gone("two")
        assert await place.data("shared") is None


async def test_what_a_work_no_longer_has_goes_but_never_what_is_not_its_own(place: Workplace) -> None:
    async with place.agent():
        await place.create("shrinking", *(config_map(name, place.namespace) for name in ("stays", "goes", "taken")))
        await place.wait_applied("shrinking")
        # Somebody takes one over, by hand.
        await place.admin.patch(CONFIG_MAPS, "taken", {"metadata": {"ownerReferences": None}}, place.namespace)
        await place.admin.delete(CONFIG_MAPS, "taken", place.namespace)
        await place.change("shrinking", config_map("stays", place.namespace))
        await place.wait_applied("shrinking")
        await place.admin.create(CONFIG_MAPS, config_map("foreign", place.namespace))

        async def gone() -> bool:
            return await place.data("goes") is None and await place.data("taken") is None

        await place.wait(gone, "what went from the work to go from the cluster")
        await place.delete("shrinking")
        await place.wait_gone("shrinking")
        assert await place.data("foreign") is not None


async def test_objects_of_a_work_that_the_hub_lost_stay_for_the_time_of_grace(place: Workplace) -> None:
    async with place.agent() as agent:
        await place.create("lost", config_map("lost", place.namespace))
        await place.create("back", config_map("back", place.namespace))
        await place.wait_applied("lost")
        await place.wait_applied("back")
        name = f"{agent.hub_hash}-lost"
    # The hub loses its works: nobody asks the agent.
    for work in ("lost", "back"):
        await place.admin.patch(MANIFEST_WORKS, work, {"metadata": {"finalizers": None}}, place.name)
        await place.delete(work)

    async def since(work: str) -> str:
        record = await place.find(APPLIED_WORKS, f"{agent.hub_hash}-{work}")
        return str((record or {}).get("status", {}).get("evictionStartTime", ""))

    async with place.agent():
        await place.wait(lambda: since("lost"), "the loss to be noted")
        await place.wait(lambda: since("back"), "the loss to be noted")
        assert await place.data("lost") == {}
        await place.create("back", config_map("back", place.namespace, a="b"))
        await place.wait_applied("back")

        async def cleared() -> bool:
            return not await since("back")

        await place.wait(cleared, "a work that is back to be wanted")
    async with place.agent(clock=ShiftedClock(3700)):

        async def evicted() -> bool:
            return await place.data("lost") is None and await place.find(APPLIED_WORKS, name) is None

        await place.wait(evicted, "the objects to be evicted")
        assert await place.data("back") == {"a": "b"}


async def test_records_of_other_agents_are_left_alone(place: Workplace) -> None:
    foreign: Object = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "AppliedManifestWork",
        "metadata": {"name": f"{place.name}-foreign"},
        "spec": {"hubHash": place.name, "manifestWorkName": "foreign", "agentID": "somebody-else"},
    }
    await place.admin.create(APPLIED_WORKS, foreign)
    async with place.agent(eviction_grace=0.1) as agent:
        await place.create("mine", config_map("mine", place.namespace))
        await place.wait_applied("mine")
        await agent.quiet(0.5)
        found = await place.find(APPLIED_WORKS, f"{place.name}-foreign")
        assert found is not None
        assert not found.get("status")
    await place.admin.delete(APPLIED_WORKS, f"{place.name}-foreign")
