"""Clusters share one queue of built-in controllers and nothing else: no worker, no delay, no failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import WORKERS, ControllerManager
from muster.store.api import Event
from tests.support.fake_clock import settle


class Recorder:
    """A controller whose keys are the keys of objects. Those of the cluster `stuck` never end; `fail` is asked first."""

    name = "recorder"
    resources: Sequence[str] | None = ("/things",)

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.fail: Callable[[], Exception | None] = lambda: None
        self.again: float | None = None
        self.succeeded = asyncio.Event()

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        yield event.entry.key

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        return ()

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        if cluster.name == "stuck":
            await asyncio.get_running_loop().create_future()
        problem = self.fail()
        if problem is not None:
            raise problem
        self.done.append((cluster.name, key))
        self.succeeded.set()
        return self.again


class Stage:
    def __init__(self, clusters: Iterable[str]) -> None:
        self.recorder = Recorder()
        self.clusters = {name: SimpleNamespace(name=name) for name in clusters}
        server: Any = SimpleNamespace(clusters=self.clusters, store=SimpleNamespace(subscribe=self._subscribe))
        self.manager = ControllerManager(server, [self.recorder])

    def _subscribe(self, _cluster: None, _resource: None, _key: None, deliver: Callable[..., None], _lost: Any) -> Any:
        self._deliver = deliver
        return SimpleNamespace(close=lambda: None)

    def write(self, cluster: str, *keys: str) -> None:
        self._deliver([SimpleNamespace(cluster=cluster, resource="/things", entry=SimpleNamespace(key=key)) for key in keys])


@asynccontextmanager
async def running(*clusters: str) -> AsyncIterator[Stage]:
    stage = Stage(clusters)
    stage.manager.start()
    try:
        yield stage
    finally:
        await stage.manager.stop()


async def test_a_thousand_idle_clusters_have_no_task_of_their_own() -> None:
    before = len(asyncio.all_tasks())
    async with running(*(f"c{number}" for number in range(1000))) as stage:
        for name in stage.clusters:
            stage.write(name, "a")
        await settle()
        assert len(stage.recorder.done) == 1000
        assert len(asyncio.all_tasks()) == before
        assert stage.manager.backlog == 0


async def test_a_cluster_that_hangs_holds_its_workers_and_delays_nobody() -> None:
    async with running("stuck", "well") as stage:
        stage.write("stuck", *(str(number) for number in range(3 * WORKERS)))
        stage.write("well", *(str(number) for number in range(100)))
        await settle()
        assert [name for name, _ in stage.recorder.done] == ["well"] * 100
        assert stage.manager.backlog == 3 * WORKERS
        stage.manager.forget("stuck")
        assert stage.manager.backlog == WORKERS


async def test_a_failing_key_is_tried_again_until_it_succeeds() -> None:
    problems = iter([ValueError("one"), ValueError("two")])
    async with running("c") as stage, asyncio.timeout(10):
        stage.recorder.fail = lambda: next(problems, None)
        stage.write("c", "a")
        await stage.recorder.succeeded.wait()
        assert stage.recorder.done == [("c", "a")]


async def test_nothing_is_tried_again_for_a_cluster_that_is_gone() -> None:
    async with running("c") as stage:
        stage.recorder.again = 0.01
        stage.write("c", "a")
        await settle()
        assert len(stage.recorder.done) == 1
        stage.manager.forget("c")
        await asyncio.sleep(0.05)
        assert len(stage.recorder.done) == 1
