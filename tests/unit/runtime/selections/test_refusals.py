"""The server's refusals reach who asked, drop what was known, and heal when a right is granted; its absence does neither."""

import asyncio

import pytest

from muster.fleet.in_process import InProcessClient
from muster.runtime.cache import Selection
from muster.runtime.client import JSON, Forbidden, KubeError, Query, ServerFailure, Unauthorized, Unreachable
from muster.runtime.client.builtin import CONFIG_MAPS
from tests.support.eventually import eventually as until
from tests.support.fake_clock import FakeClock, settle
from tests.unit.runtime.conftest import config_map, eventually
from tests.unit.runtime.dynamic.conftest import BINDINGS, ROLES, Disturbed, permit
from tests.unit.runtime.scripted import ScriptedClient, event
from tests.unit.runtime.selections.conftest import SETTINGS, Scene, following

AWAY = Unreachable("scripted", "connection refused")
DENIED = Forbidden(403, "Forbidden", "not yours")


def listed(version: int, *names: str) -> dict[str, object]:
    return {"metadata": {"resourceVersion": str(version)}, "items": [event("", name, version)["object"] for name in names]}


async def refused(scene: Scene) -> str:
    with pytest.raises(Forbidden) as caught:
        await scene.value()
    return str(caught.value)


class TestRights:
    async def test_without_any_the_server_says_that_it_cannot_be_listed(self, limited: Disturbed) -> None:
        async with following(limited) as scene:
            assert 'cannot list resource "configmaps"' in await refused(scene)

    async def test_with_list_alone_it_says_that_it_cannot_be_watched(self, admin: InProcessClient, limited: Disturbed) -> None:
        await permit(admin, ["get", "list"], "configmaps", "default")
        async with following(limited) as scene:
            assert 'cannot watch resource "configmaps"' in await refused(scene)

    async def test_list_and_watch_of_the_name_suffice(self, admin: InProcessClient, limited: Disturbed) -> None:
        await permit(admin, ["list", "watch"], "configmaps", "default")
        await admin.patch(
            ROLES,
            "configmaps-default",
            [{"op": "add", "path": "/rules/0/resourceNames", "value": ["settings"]}],
            "default",
            kind="json",
        )
        await admin.create(CONFIG_MAPS, config_map("settings", k="1"))
        async with following(limited) as scene:
            assert await scene.value() == {"k": "1"}
            with pytest.raises(Forbidden):
                await scene.names("p", Selection(CONFIG_MAPS, "default", "other"))
            with pytest.raises(Forbidden):
                await scene.names("p", Selection(CONFIG_MAPS, "default"))

    async def test_a_grant_heals_by_itself_and_is_told(self, admin: InProcessClient, limited: Disturbed) -> None:
        async with following(limited) as scene:
            await refused(scene)
            await permit(admin, ["list", "watch"], "configmaps", "default")
            await eventually(lambda: scene.told == ["p"])
            assert await scene.value() is None

    async def test_a_right_that_is_taken_back_drops_what_was_known(self, admin: InProcessClient, limited: Disturbed) -> None:
        await permit(admin, ["list", "watch"], "configmaps", "default")
        await admin.create(CONFIG_MAPS, config_map("settings", k="1"))
        async with following(limited) as scene:
            assert await scene.value() == {"k": "1"}
            await admin.delete(BINDINGS, "configmaps-default", "default")

            async def told() -> bool:
                limited.cut()
                return bool(scene.told)

            await until(told, "the refusal", poll=0.01)
            assert "cannot" in await refused(scene)


async def test_a_refusal_is_tried_again_by_who_reads_but_not_by_everybody(clock: FakeClock) -> None:
    client = ScriptedClient()
    client.answers = [DENIED] * 100
    async with following(client, clock=clock, random=lambda: 0.0) as scene:
        first = asyncio.create_task(scene.value())
        await settle()
        assert isinstance(first.exception(), Forbidden)
        await clock.advance(60)
        before = len(client.asked)
        for follower in "abc":
            with pytest.raises(Forbidden):
                await scene.selections.read(follower, SETTINGS)
        assert len(client.asked) == before + 1


async def test_who_may_only_list_is_not_asked_for_again_and_again(clock: FakeClock) -> None:
    client = ScriptedClient()
    client.answers = [listed(5, "settings")] * 500
    client.streams = [[DENIED]] * 500
    async with following(client, clock=clock, random=lambda: 0.0) as scene:
        scene.selections.settle("p", [SETTINGS])
        await clock.advance(300)
        assert len(client.asked) < 50


@pytest.mark.parametrize("refusal", [DENIED, Unauthorized(401, "Unauthorized", "who?")])
async def test_what_was_known_answers_while_the_server_is_away_until_it_refuses(clock: FakeClock, refusal: KubeError) -> None:
    client = ScriptedClient()
    client.answers = [listed(5, "settings"), refusal]
    client.streams = [["opened", AWAY], [AWAY], [AWAY], [refusal]]
    async with following(client, clock=clock, random=lambda: 0.0) as scene:
        assert len(await scene.selections.read("p", SETTINGS)) == 1
        await clock.advance(0.8 + 1.6)
        assert len(await scene.selections.read("p", SETTINGS)) == 1
        assert scene.told == []
        await clock.advance(3.2 + 0.05)
        assert scene.told == ["p"]
        with pytest.raises(type(refusal)):
            await scene.selections.read("p", SETTINGS)


async def test_an_outage_after_a_refusal_does_not_change_the_servers_last_word(clock: FakeClock) -> None:
    client = ScriptedClient()
    client.answers = [DENIED, *[AWAY] * 20]
    async with following(client, clock=clock) as scene:
        scene.selections.settle("p", [SETTINGS])
        await clock.advance(30)
        with pytest.raises(Forbidden):
            await scene.value()


@pytest.mark.parametrize("failure", [AWAY, ServerFailure(503, "ServiceUnavailable", "later")])
async def test_a_server_that_is_away_is_said_to_be_and_what_it_has_is_told_when_it_is_back(
    clock: FakeClock, failure: KubeError
) -> None:
    client = ScriptedClient()
    client.answers = [failure, failure, listed(5, "settings")]
    client.streams = [["opened", ...]]
    async with following(client, clock=clock) as scene:
        with pytest.raises(type(failure)):
            await scene.value()
        assert scene.told == []
        await clock.advance(10)
        assert scene.told == ["p"]
        assert len(await scene.selections.read("p", SETTINGS)) == 1


class Silent(ScriptedClient):
    """Answers what is about one namespace, and nothing else."""

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if "/default/" not in path:
            await asyncio.Event().wait()
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)


async def test_silence_is_waited_for_no_longer_than_asked_and_delays_nobody_else(clock: FakeClock) -> None:
    client = Silent()
    client.answers = [listed(5, "settings")]
    client.streams = [["opened", ...]]
    async with following(client, clock=clock) as scene:
        silent = asyncio.create_task(scene.selections.read("p", Selection(CONFIG_MAPS, "hole", "x"), timeout=7))
        await settle()
        assert len(await scene.selections.read("q", SETTINGS)) == 1
        assert not silent.done()
        await clock.advance(7)
        assert isinstance(silent.exception(), Unreachable)
