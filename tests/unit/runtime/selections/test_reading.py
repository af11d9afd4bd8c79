"""What is read is shared, ordered, without what only writers need, and followed by exactly those who read it."""

import asyncio

import pytest

from muster.fleet.in_process import InProcessClient
from muster.machinery.objects import GVR
from muster.runtime.cache import FollowedSelections, Selection
from muster.runtime.client import BadRequest, NotFound
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from tests.support.eventually import eventually as until
from tests.support.fake_clock import FakeClock, settle
from tests.unit.runtime.conftest import config_map, eventually
from tests.unit.runtime.dynamic.conftest import Disturbed, namespaces
from tests.unit.runtime.scripted import ScriptedClient
from tests.unit.runtime.selections.conftest import SETTINGS, following

LABELLED = Selection(CONFIG_MAPS, label_selector="team=x")


async def test_an_object_is_read_by_its_name_with_one_list_and_one_watch_of_that_name(
    admin: InProcessClient, client: Disturbed
) -> None:
    await admin.create(CONFIG_MAPS, config_map("settings", k="1"))
    await admin.create(CONFIG_MAPS, config_map("other", k="2"))
    async with following(client) as scene:
        assert await scene.names("p", SETTINGS) == ["settings"]
        assert await scene.names("q", SETTINGS) == ["settings"]
        assert client.reads == ["/api/v1/namespaces/default/configmaps"]
        ((path, query),) = client.watches
        assert path == "/api/v1/namespaces/default/configmaps"
        assert query["fieldSelector"] == "metadata.name=settings"
        assert scene.selections.watches == 1
    assert scene.told == []


async def test_objects_of_a_label_selector_come_ordered_by_namespace_and_name(admin: InProcessClient, client: Disturbed) -> None:
    await namespaces(admin, "a", "b")
    for name, namespace in (("z", "a"), ("x", "b"), ("y", "a")):
        await admin.create(CONFIG_MAPS, config_map(name, namespace, {"team": "x"}))
    await admin.create(CONFIG_MAPS, config_map("unlabelled", "a"))
    async with following(client) as scene:
        assert await scene.names("p", LABELLED) == ["y", "z", "x"]
        await admin.create(CONFIG_MAPS, config_map("w", "b", {"team": "x"}))
        await eventually(lambda: scene.told)
        assert await scene.names("p", LABELLED) == ["y", "z", "w", "x"]


async def test_what_only_writers_need_is_left_out_and_the_type_is_there(admin: InProcessClient, client: Disturbed) -> None:
    applied = config_map("settings", k="1")
    applied["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"}
    await admin.create(CONFIG_MAPS, applied, manager="kubectl")
    async with following(client) as scene:
        (found,) = await scene.selections.read("p", SETTINGS)
        assert (found["apiVersion"], found["kind"]) == ("v1", "ConfigMap")
        assert "managedFields" not in found["metadata"]
        assert found["metadata"]["annotations"] == {"kept": "yes"}
        assert found["metadata"]["resourceVersion"]


async def test_readers_share_the_objects(admin: InProcessClient, client: Disturbed) -> None:
    await admin.create(CONFIG_MAPS, config_map("settings", k="1"))
    async with following(client) as scene:
        assert await scene.selections.read("p", SETTINGS) is await scene.selections.read("q", SETTINGS)


async def test_what_is_missing_is_followed_as_well(admin: InProcessClient, client: Disturbed) -> None:
    async with following(client) as scene:
        assert await scene.value() is None
        await admin.create(CONFIG_MAPS, config_map("settings", k="1"))
        await eventually(lambda: scene.told == ["p"])
        assert await scene.value() == {"k": "1"}


async def test_changes_and_deletions_are_told_to_those_who_follow_the_selection_and_to_nobody_else(
    admin: InProcessClient, client: Disturbed
) -> None:
    await admin.create(CONFIG_MAPS, config_map("settings", k="1"))
    async with following(client) as scene:
        await scene.names("p", SETTINGS)
        await scene.names("q", SETTINGS)
        await scene.names("r", Selection(CONFIG_MAPS, "default", "other"))
        await admin.patch(CONFIG_MAPS, "settings", {"data": {"k": "2"}}, "default")
        await eventually(lambda: len(scene.told) == 2)
        assert await scene.value() == {"k": "2"}
        await admin.delete(CONFIG_MAPS, "settings", "default")
        await eventually(lambda: len(scene.told) == 4)
        assert await scene.value() is None
    assert sorted(scene.told) == ["p", "p", "q", "q"]


async def test_several_changes_in_a_moment_are_told_once(admin: InProcessClient, client: Disturbed, clock: FakeClock) -> None:
    everything = Selection(CONFIG_MAPS, "default")
    async with following(client, clock=clock) as scene:
        await eventually(asyncio.create_task(scene.names("p", everything)).done)
        for number in range(5):
            await admin.create(CONFIG_MAPS, config_map(f"c{number}"))

        async def arrived() -> bool:
            return "c4" in await scene.names("p", everything)

        await until(arrived, "the last of them", poll=0)
        assert scene.told == []
        await clock.advance(0.05)
        assert scene.told == ["p"]


async def test_a_handler_that_raises_keeps_nobody_from_hearing(admin: InProcessClient, client: Disturbed) -> None:
    selections, heard = FollowedSelections(client), list[str]()

    def broken(follower: str) -> None:
        raise ValueError("boom")

    selections.on_change(broken)
    selections.on_change(heard.append)
    task = asyncio.create_task(selections.run())
    await selections.read("p", SETTINGS)
    await admin.create(CONFIG_MAPS, config_map("settings"))
    await eventually(lambda: heard == ["p"])
    task.cancel()


async def test_a_namespace_given_for_a_kind_without_namespaces_makes_no_second_watch(client: Disturbed) -> None:
    assert Selection(NAMESPACES, "anything", "default") == Selection(NAMESPACES, name="default")
    async with following(client) as scene:
        assert await scene.names("p", Selection(NAMESPACES, "anything", "default")) == ["default"]


async def test_a_kind_that_is_not_served_is_said_to_be_so(client: Disturbed) -> None:
    async with following(client) as scene:
        with pytest.raises(NotFound):
            await scene.names("p", Selection(GVR("example.com/v1", "widgets", "Widget"), "default", "w"))


async def test_a_namespace_that_would_lead_elsewhere_is_a_bad_request(client: Disturbed) -> None:
    async with following(client) as scene:
        with pytest.raises(BadRequest, match="another place"):
            await scene.names("p", Selection(CONFIG_MAPS, "..", "w"))
    assert scene.selections.watches == 0
    assert scene.selections.selections_of("p") == frozenset()


async def test_a_read_before_the_run_waits_for_it(client: Disturbed) -> None:
    selections = FollowedSelections(client)
    reading = asyncio.create_task(selections.read("p", SETTINGS))
    await settle()
    assert not reading.done()
    running = asyncio.create_task(selections.run())
    assert await reading == ()
    running.cancel()


class TestFollowing:
    async def test_a_follower_follows_what_it_has_read_until_it_settles(self, client: Disturbed) -> None:
        other = Selection(CONFIG_MAPS, "default", "other")
        async with following(client) as scene:
            await scene.names("p", SETTINGS)
            await scene.names("p", other)
            assert scene.selections.selections_of("p") == {SETTINGS, other}
            scene.selections.settle("p", [other])
            assert scene.selections.selections_of("p") == {other}
            scene.selections.forget("p")
            assert scene.selections.selections_of("p") == frozenset()

    async def test_a_watch_ends_soon_after_its_last_follower_has_left(self, client: Disturbed, clock: FakeClock) -> None:
        async with following(client, clock=clock) as scene:
            await eventually(asyncio.create_task(scene.names("p", SETTINGS)).done)
            await eventually(asyncio.create_task(scene.names("q", SETTINGS)).done)
            scene.selections.forget("p")
            await clock.advance(60)
            assert scene.selections.watches == 1
            scene.selections.forget("q")
            await clock.advance(2)
            assert scene.selections.watches == 0
        assert len(client.watches) == 1

    async def test_whoever_comes_back_in_time_finds_the_watch_going_on(self, client: Disturbed, clock: FakeClock) -> None:
        async with following(client, clock=clock) as scene:
            await eventually(asyncio.create_task(scene.names("p", SETTINGS)).done)
            scene.selections.forget("p")
            await clock.advance(1)
            scene.selections.settle("q", [SETTINGS])
            await clock.advance(60)
            assert scene.selections.watches == 1
        assert len(client.watches) == 1

    async def test_whoever_has_turned_away_is_not_told(self, admin: InProcessClient, client: Disturbed, clock: FakeClock) -> None:
        async with following(client, clock=clock) as scene:
            await eventually(asyncio.create_task(scene.names("p", SETTINGS)).done)
            await admin.create(CONFIG_MAPS, config_map("settings"))
            await eventually(lambda: clock.pending and clock.pending[0] == 0.05)
            scene.selections.forget("p")
            await clock.advance(1)
        assert scene.told == []

    async def test_whoever_settles_on_what_nobody_has_read_is_told_when_it_is_known(self, client: Disturbed) -> None:
        async with following(client) as scene:
            scene.selections.settle("p", [SETTINGS])
            await eventually(lambda: scene.told == ["p"])

    async def test_nobody_is_left_when_the_run_has_ended(self) -> None:
        client = ScriptedClient()
        client.answers = [{"metadata": {"resourceVersion": "1"}}]
        async with following(client) as scene:
            scene.selections.settle("p", [SETTINGS])
            await settle()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others
