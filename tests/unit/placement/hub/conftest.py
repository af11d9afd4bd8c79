"""`site`: the placement controller on an API server in this process, with its own rights only and a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.metrics import Metrics
from muster.placement.hub.install import ACCOUNT, install
from muster.placement.hub.manager import PlacementManager
from muster.placement.hub.options import PlacementOptions
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.errors import Unreachable
from muster.runtime.client.rest import JSON, Query
from tests.support.choosing import NS, Chooser
from tests.support.fake_clock import FakeClock

OPTIONS = PlacementOptions()


class Life:
    """Of one controller: it ends with the n-th request, `before` it is carried out or after. Without a number it goes on."""

    def __init__(self, requests: int | None = None, *, before: bool = False) -> None:
        self.left = requests
        self.before = before
        self.asked: list[tuple[str, str]] = []
        self.over = asyncio.Event()
        self.refuse: Callable[[str, str], Exception | None] = lambda method, path: None

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path in self.asked if method != "GET" and "/events" not in path]


class Mortal(InProcessClient):
    """Every write may be the last; events do not count."""

    life: Life

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        life = self.life
        if life.over.is_set():
            raise Unreachable("in-process", "dead")
        counts = method != "GET" and "/events" not in path
        life.asked.append((method, path))
        if error := life.refuse(method, path):
            raise error
        if counts and life.left is not None:
            life.left -= 1
            if life.left < 0 and life.before:
                life.over.set()
                raise Unreachable("in-process", "died before it was sent")
        answer = await super().exchange(method, path, query, body, media, idempotent=idempotent)
        if counts and life.left is not None and life.left < 0:
            life.over.set()
            raise Unreachable("in-process", "died before it was answered")
        return answer


class Site(Chooser):
    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.life = Life()
        self.manager: PlacementManager | None = None
        hub = server.clusters["hub"]
        self.admin = InProcessClient(server.client(hub, UserInfo("admin", groups=("system:masters", "system:authenticated"))))

    def own(self, life: Life) -> Mortal:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{HUB_NAMESPACE}", "system:authenticated")
        account = UserInfo(f"system:serviceaccount:{HUB_NAMESPACE}:{ACCOUNT}", groups=groups)
        client = Mortal(self.server.client(self.server.clusters["hub"], account))
        client.life = life
        return client

    @asynccontextmanager
    async def controller(self, life: Life | None = None) -> AsyncIterator[Life]:
        self.life = life or Life()
        self.manager = PlacementManager(self.own(self.life), OPTIONS, clock=self.clock, random=lambda: 0.0, metrics=self.metrics)
        task = asyncio.create_task(self.manager.run())
        try:
            if life is None:
                await self.manager.synced()
            yield self.life
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until(self, probe: Callable[[], Awaitable[Any]], what: str, seconds: float = 20.0, *, moving: float = 0.02) -> Any:
        """What the probe gives once it is true; time goes on a little at each look."""
        found: Any = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self.clock.advance(moving)
                    if found := await probe():
                        return found
                    await asyncio.sleep(0.002)
        except TimeoutError:
            raise AssertionError(f"waited for {what}; last seen: {found!r}") from None

    async def settled(self) -> None:
        """Until the controller has nothing to do now."""
        assert self.manager is not None
        queue = self.manager.placements._controller.queue

        async def idle() -> bool:
            return not len(queue) and not queue.processing

        for _ in range(3):
            await self.until(idle, "the controller to be idle", moving=0.0)
            await asyncio.sleep(0.01)

    @property
    def passes(self) -> int:
        """How often the controller has chosen so far."""
        return self.manager.placements.measurements.choices if self.manager is not None else 0


@asynccontextmanager
async def hub() -> AsyncIterator[Site]:
    server = ApiServer(ServerConfig(store="memory", clusters=("hub",)))
    await server.start()
    site = Site(server)
    await install(site.admin, OPTIONS)
    await site.namespace(NS)
    await site.cluster_set("all")
    await site.bind("all")
    yield site
    await server.stop(grace=0.1)


@pytest.fixture
async def bare() -> AsyncIterator[Site]:
    """Without a controller."""
    async with hub() as site:
        yield site


@pytest.fixture
async def site(bare: Site) -> AsyncIterator[Site]:
    async with bare.controller():
        yield bare
