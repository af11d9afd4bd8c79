import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.machinery.objects import Object
from muster.transport.client.client import TransportClient
from tests.support.fake_clock import FakeClock, settle
from tests.support.transport_hub import FakeHub


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hub(clock: FakeClock) -> FakeHub:
    return FakeHub(clock=clock)


@pytest.fixture
def go_hub(clock: FakeClock) -> FakeHub:
    """Which does as upstream's servers do."""
    return FakeHub(clock=clock, go=True)


@asynccontextmanager
async def connected(hub: FakeHub, **options: Any) -> AsyncIterator[TransportClient]:
    client = hub.connect(random=lambda: 0.5, **options)
    try:
        yield client
    finally:
        await client.close()
        assert not hub.streams(), "streams outlive their client"


@pytest.fixture
async def client(hub: FakeHub) -> AsyncIterator[TransportClient]:
    async with connected(hub) as made:
        yield made


async def until(condition: Callable[[], Any], what: str, turns: int = 2000) -> None:
    """Without the clock's help."""
    for _ in range(turns):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError(f"never: {what}")


async def passing(clock: FakeClock, task: "asyncio.Future[Any]", seconds: float = 60.0, step: float = 0.5) -> Any:
    """The result of something that takes its time, while time goes by."""
    while not task.done() and seconds > 0:
        await clock.advance(step)
        seconds -= step
    await settle()
    assert task.done(), "it never ended"
    return task.result()


def lease(renewed: str = "2026-01-01T00:00:00.000000Z", name: str = "managed-cluster-lease", cluster: str = "c1") -> Object:
    labels = {"open-cluster-management.io/cluster-name": cluster}
    return {"metadata": {"name": name, "namespace": cluster, "labels": labels}, "spec": {"renewTime": renewed}}


def managed_cluster(name: str = "c1", **status: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"hubAcceptsClient": False}, "status": {"conditions": [], **status}}
