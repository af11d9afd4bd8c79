"""A hub's API server in this process, and controllers on it with their own rights only, which may die at any write.

`Life` says when; `Mortal` is the client that dies then. Time stands still but where a test moves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.metrics import Metrics
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import KubeClient
from muster.runtime.client.errors import Unreachable
from muster.runtime.client.rest import JSON, Query
from muster.runtime.controller import Manager
from tests.support.fake_clock import FakeClock

Probe = Callable[[], Awaitable[Any]]


class Life:
    """Of one controller: it ends with the n-th request, `before` it is carried out or after. Without a number it goes on."""

    def __init__(self, requests: int | None = None, *, before: bool = False) -> None:
        self.left = requests
        self.before = before
        self.asked: list[tuple[str, str]] = []
        self.watched: list[str] = []
        """What is followed, once for each time that it was begun or taken up."""
        self.over = asyncio.Event()
        self.refuse: Callable[[str, str], Exception | None] = lambda method, path: None
        self.delay: Callable[[str, str], Awaitable[Any]] | None = None
        """Is awaited between what a request does and its answer."""

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
        if life.delay is not None:
            await life.delay(method, path)
        if counts and life.left is not None and life.left < 0:
            life.over.set()
            raise Unreachable("in-process", "died before it was answered")
        return answer

    def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        self.life.watched.append(path)
        return super().lines(path, query, timeout, opened)


class MortalHub:
    """`account` is the controllers' own, in the hub's namespace."""

    account: str
    step = 0.02
    """Seconds by which time goes on at each look of a wait."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.life = Life()
        self.admin: KubeClient = self.client(UserInfo("admin", groups=("system:masters", "system:authenticated")))

    def client(self, user: UserInfo) -> InProcessClient:
        return InProcessClient(self.server.client(self.server.clusters["hub"], user))

    def own(self, life: Life) -> Mortal:
        """The client of controllers that live so long."""
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{HUB_NAMESPACE}", "system:authenticated")
        account = UserInfo(f"system:serviceaccount:{HUB_NAMESPACE}:{self.account}", groups=groups)
        client = Mortal(self.server.client(self.server.clusters["hub"], account))
        client.life = life
        return client

    async def until(
        self, probe: Callable[[], Awaitable[Any]], what: str, seconds: float = 30.0, *, moving: float | None = None
    ) -> Any:
        """What the probe gives once it is true; time goes on a little at each look."""
        found: Any = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self.clock.advance(self.step if moving is None else moving)
                    if found := await probe():
                        return found
                    await asyncio.sleep(0.002)
        except TimeoutError:
            raise AssertionError(f"waited for {what}; last seen: {found!r}; {await self.described()}") from None

    async def described(self) -> str:
        """What helps to understand a wait in vain."""
        return ""


@asynccontextmanager
async def hub_server() -> AsyncIterator[ApiServer]:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub",)))
    await server.start()
    yield server
    await server.stop(grace=0.1)


@asynccontextmanager
async def running(manager: Manager, *, synced: bool = True) -> AsyncIterator[None]:
    """It has to be there still at the end of the block; then it is stopped."""
    task = asyncio.create_task(manager.run())
    try:
        if synced:
            await manager.synced()
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
