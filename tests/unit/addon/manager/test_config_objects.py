"""Configurations of any kind, watched as long as somebody refers to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import NoReturn

import pytest

from muster.addon.config_objects import ConfigKey, WatchedConfigObjects
from muster.api.addon.v1alpha1 import GROUP
from muster.machinery.authentication import UserInfo
from muster.runtime.client import JSON
from muster.runtime.client.rest import Query
from tests.support.mortal_hub import Mortal
from tests.unit.addon.manager.conftest import CONFIGS, Life, Site

KEY = ConfigKey(GROUP, "addondeploymentconfigs", "config", "a")


class Watching:
    def __init__(self, site: Site) -> None:
        self.site = site
        self.life = Life()
        self.objects = WatchedConfigObjects(site.own(self.life), clock=site.clock)
        self.told: list[ConfigKey] = []
        self.objects.on_change(lambda *parts: self.told.append(ConfigKey(*parts)))

    async def refer(self, user: str, *keys: ConfigKey) -> None:
        """Time goes on meanwhile."""
        task = asyncio.create_task(self.objects.refer(user, keys))

        async def ended() -> bool:
            return task.done()

        await self.site.until(ended, "the hub to tell")
        assert task.result()

    async def until_told(self) -> None:
        async def look() -> bool:
            return KEY in self.told

        await self.site.until(look, "to be told")
        self.told.clear()


@pytest.fixture
async def watching(bare: Site) -> AsyncIterator[Watching]:
    made = Watching(bare)
    task = asyncio.create_task(made.objects.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_after_referring_to_an_object_it_is_known(watching: Watching) -> None:
    await watching.site.deployment_config("a")
    await watching.refer("u", KEY)
    found = watching.objects.get(*KEY)
    assert found is not None
    assert found.document["spec"]["customizedVariables"] == [{"name": "V", "value": "1"}]
    assert watching.objects.get(*KEY) is found, "it is read once per version"
    await watching.site.deployment_config("a", "2")
    await watching.until_told()
    changed = watching.objects.get(*KEY)
    assert changed is not None
    assert changed.spec_hash != found.spec_hash


async def test_who_only_asks_is_told_when_it_is_known(watching: Watching) -> None:
    await watching.site.deployment_config("a")
    assert watching.objects.get(*KEY) is None
    await watching.until_told()
    assert watching.objects.get(*KEY) is not None
    await watching.site.admin.delete(CONFIGS, "a", "config")
    await watching.until_told()
    assert watching.objects.get(*KEY) is None


async def test_what_the_last_user_lets_go_is_no_longer_followed(watching: Watching) -> None:
    await watching.site.deployment_config("a")
    await watching.refer("u", KEY)
    await watching.refer("v", KEY)
    assert watching.objects.users_of(KEY) == ["u", "v"]
    await watching.refer("u")
    assert watching.objects.get(*KEY) is not None
    await watching.refer("v")
    assert watching.objects.users_of(KEY) == []
    await watching.site.deployment_config("a", "2")
    await watching.site.quiet()
    assert watching.told == []


class Silent(Mortal):
    """Its watches of configurations are never answered."""

    watching: asyncio.Event

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        if path.endswith("/addondeploymentconfigs"):
            self.watching.set()
            await asyncio.Event().wait()
        async for line in super().lines(path, query, timeout, opened):
            yield line


async def test_who_waits_for_the_hub_to_tell_does_not_outlast_what_is_stopped(bare: Site) -> None:
    """Time stands still then: a pass that waits ends because those who would tell it have ended."""
    client = Silent(bare.server.client(bare.server.clusters["hub"], UserInfo("admin", groups=("system:masters",))))
    client.life, client.watching = Life(), asyncio.Event()
    objects = WatchedConfigObjects(client, clock=bare.clock)
    running = asyncio.create_task(objects.run())
    waiting = asyncio.create_task(objects.refer("u", (KEY,)))

    async def asked() -> bool:
        return client.watching.is_set()

    await bare.until(asked, "the hub to be asked", moving=0.01)
    assert not waiting.done()
    running.cancel()
    await asyncio.wait([waiting], timeout=30)
    assert waiting.cancelled()


class Late(Mortal):
    """Its answer about one object is on the way for long."""

    asked: asyncio.Event
    arrive: asyncio.Event

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        try:
            return await super().exchange(method, path, query, body, media, idempotent=idempotent)
        finally:
            if method == "GET" and path.endswith("/addondeploymentconfigs/a"):
                self.asked.set()
                await self.arrive.wait()


async def _late(bare: Site) -> tuple[Late, WatchedConfigObjects, asyncio.Task[NoReturn], asyncio.Task[bool]]:
    """Asked for an object of a kind that is watched already, and not answered yet."""
    await bare.deployment_config("other")
    client = Late(bare.server.client(bare.server.clusters["hub"], UserInfo("admin", groups=("system:masters",))))
    client.life, client.asked, client.arrive = Life(), asyncio.Event(), asyncio.Event()
    objects = WatchedConfigObjects(client, clock=bare.clock)
    running = asyncio.create_task(objects.run())
    first = asyncio.create_task(objects.refer("v", (KEY._replace(name="other"),)))

    async def ended() -> bool:
        return first.done()

    await bare.until(ended, "the kind to be watched")
    second = asyncio.create_task(objects.refer("u", (KEY,)))

    async def asked() -> bool:
        return client.asked.is_set()

    await bare.until(asked, "the hub to be asked")
    return client, objects, running, second


async def test_a_late_answer_does_not_take_back_what_a_watch_has_told(bare: Site) -> None:
    client, objects, running, second = await _late(bare)
    told = asyncio.Event()
    objects.on_change(lambda *_: told.set())
    await bare.deployment_config("a")

    async def seen() -> bool:
        return told.is_set()

    await bare.until(seen, "the watch to tell")
    client.arrive.set()
    assert await second
    assert objects.get(*KEY) is not None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
