"""A cluster in this process, followed selections of it, and what they told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from muster.machinery.objects import Object
from muster.runtime.cache import FollowedSelections, Selection
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CONFIG_MAPS
from tests.unit.runtime.dynamic.conftest import admin, client, limited

__all__ = ["admin", "client", "limited"]

SETTINGS = Selection(CONFIG_MAPS, "default", "settings")


@dataclass
class Scene:
    selections: FollowedSelections
    told: list[str] = field(default_factory=list)

    async def names(self, follower: str, selection: Selection, **options: Any) -> list[str]:
        return [one["metadata"]["name"] for one in await self.selections.read(follower, selection, **options)]

    async def value(self, follower: str = "p", selection: Selection = SETTINGS) -> Object | None:
        """The data of the only object that is selected."""
        found = await self.selections.read(follower, selection)
        return found[0]["data"] if found else None


@asynccontextmanager
async def following(client: KubeClient, **options: Any) -> AsyncIterator[Scene]:
    scene = Scene(FollowedSelections(client, **options))
    scene.selections.on_change(scene.told.append)
    task = asyncio.create_task(scene.selections.run())
    try:
        yield scene
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
