"""The author of works that fault tests have: what it says to be wanted is what the hub was told, whenever it is stopped."""

from __future__ import annotations

import asyncio
import random
from typing import cast

import pytest

from muster.machinery.objects import Object
from muster.runtime.client import KubeClient, Unreachable
from tests.support.work_author import WorkAuthor


class SlowHub:
    """Takes a request when it is allowed to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.allowed = asyncio.Event()
        self.works: dict[str, str] = {}

    async def create(self, resource: object, work: Object) -> Object:
        self.asked.set()
        await self.allowed.wait()
        (manifest,) = work["spec"]["workload"]["manifests"]
        (self.works[work["metadata"]["name"]],) = manifest["data"].values()
        return work


def author_on(hub: object) -> WorkAuthor:
    return WorkAuthor(cast(KubeClient, hub), ["cluster1"], random.Random("author"))


async def test_the_change_that_is_under_way_is_made_before_the_author_stops() -> None:
    hub = SlowHub()
    author = author_on(hub)
    async with author.at_work():
        await hub.asked.wait()
        asyncio.get_running_loop().call_later(0.01, hub.allowed.set)
    assert hub.works == author.wanted["cluster1"]


async def test_a_hub_that_refuses_a_change_fails_the_test() -> None:
    class NoHub:
        async def create(self, resource: object, work: Object) -> Object:
            raise Unreachable("hub", "it is away")

    with pytest.raises(Unreachable):
        async with author_on(NoHub()).at_work():
            await asyncio.sleep(0)


async def test_whatever_fails_beside_the_author_is_what_is_told() -> None:
    hub = SlowHub()

    async def fail_beside() -> None:
        async with author_on(hub).at_work():
            await hub.asked.wait()
            raise LookupError

    with pytest.raises(LookupError):
        await fail_beside()
