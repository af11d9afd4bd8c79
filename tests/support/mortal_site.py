"""A hub and a managed cluster on an API server in this process, for one controller that may die at any of its writes (`Life`).

Time stands still but where a test moves it. Everything that the controller asks is on record in its `Life`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from muster.api.crds import Definition, definitions
from muster.apiserver.server import ApiServer
from muster.embedded.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import GVR, Object
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import CRDS, NAMESPACES
from muster.runtime.install import apply_all, await_definitions
from tests.support.fake_clock import FakeClock
from tests.support.mortal_hub import Life, Mortal

CLUSTER = "cluster1"
ADMINISTRATOR = UserInfo("admin", groups=("system:masters", "system:authenticated"))


class MortalSite:
    step = 0.02
    """Seconds by which time goes on at each look of a wait."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.clock = FakeClock(datetime.now(UTC))
        for cluster in server.clusters.values():
            cluster.clock = self.clock.now
        self.hub, self.spoke = self.client("hub"), self.client(CLUSTER)

    def client(self, cluster: str, life: Life | None = None, user: UserInfo = ADMINISTRATOR) -> InProcessClient:
        client = Mortal(self.server.client(self.server.clusters[cluster], user))
        client.life = life or Life()
        return client

    async def define(self, client: KubeClient, kinds: Iterable[Definition]) -> None:
        made = list(definitions(kinds))
        await apply_all(client, [(CRDS, document) for document in made], "test")
        await await_definitions(client, [document["metadata"]["name"] for document in made], SYSTEM)

    async def create_namespace(self, name: str, **labels: str) -> Object:
        """On the managed cluster."""
        metadata = {"name": name, "labels": labels}
        return await self.spoke.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    async def find(self, client: KubeClient, resource: GVR, name: str, namespace: str) -> Object | None:
        with suppress(NotFound):
            return await client.get(resource, name, namespace)
        return None

    @asynccontextmanager
    async def living(self, run: Callable[[], Coroutine[Any, Any, Any]], life: Life) -> AsyncIterator[Life]:
        """While what runs lives, or until its life is over."""
        task = asyncio.create_task(run())
        try:
            yield life
            assert life.over.is_set() or not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def others_act(self) -> None:
        """What goes on beside the controller while a test waits."""

    async def until(
        self, probe: Callable[[], Awaitable[Any]], what: str, seconds: float = 20.0, moving: float | None = None
    ) -> Any:
        """What the probe gives once it is true."""
        found: Any = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self.others_act()
                    await self.clock.advance(self.step if moving is None else moving)
                    if found := await probe():
                        return found
                    await asyncio.sleep(0.002)
        except TimeoutError:
            raise AssertionError(f"waited for {what}; last seen: {found!r}") from None

    async def at_rest(self, life: Life, seconds: float = 30.0) -> None:
        """Until the controller has had nothing to do for so long."""
        for _ in range(100):
            before = len(life.asked)
            for _ in range(int(seconds * 2)):
                await self.clock.advance(0.5)
            if len(life.asked) == before:
                return
        raise AssertionError(f"the controller does not come to rest: {life.asked[-10:]}")
