"""Keys in, reconciles out: one at a time per key, failures isolated, an orderly end."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.fleet.in_process import InProcessClient
from muster.machinery.logs import diverted
from muster.machinery.metrics import Metrics
from muster.machinery.objects import ObjectKey
from muster.runtime.cache.informer import Informer
from muster.runtime.cache.store import Snapshot
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.client.errors import Conflict, KubeError, TooManyRequests, Unreachable
from muster.runtime.controller.controller import Controller, Stop
from tests.support.fake_clock import FakeClock, settle
from tests.unit.runtime.conftest import config_map, eventually


@asynccontextmanager
async def running(*runners: Any) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(runner.run()) for runner in runners]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_changes_become_keys_and_keys_are_reconciled(client: InProcessClient) -> None:
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, "default", label_selector="mirror")

    async def mirror(key: ObjectKey) -> None:
        source = informer.cache.get(key)
        if source is None:
            await client.delete(CONFIG_MAPS, f"{key.name}-copy", key.namespace)
        else:
            await client.apply(CONFIG_MAPS, config_map(f"{key.name}-copy", **source.data["data"]), manager="mirror")

    controller = Controller("mirror", mirror)
    controller.watch(informer, lambda snapshot: [snapshot.key])

    async def copy() -> str | None:
        found = [item for item in (await client.list(CONFIG_MAPS, "default")).items if item["metadata"]["name"] == "a-copy"]
        return found[0]["data"]["k"] if found else None

    async def until(value: str | None) -> None:
        async with asyncio.timeout(20):
            while True:
                if await copy() == value:
                    return
                await asyncio.sleep(0.005)

    async with running(informer, controller):
        await client.create(CONFIG_MAPS, config_map("a", labels={"mirror": "y"}, k="1"))
        await until("1")
        await client.patch(CONFIG_MAPS, "a", {"data": {"k": "2"}}, "default")
        await until("2")
        await client.delete(CONFIG_MAPS, "a", "default")
        await until(None)


async def test_a_poisoned_key_is_retried_alone_and_later_each_time(clock: FakeClock) -> None:
    calls: list[tuple[str, float]] = []

    async def reconcile(key: str) -> None:
        calls.append((key, clock.monotonic()))
        if key == "poison":
            raise ValueError("cannot")

    metrics = Metrics()
    controller = Controller("c", reconcile, workers=1, clock=clock, random=lambda: 0.0, max_delay=1000, metrics=metrics)
    controller.enqueue("poison")
    for number in range(5):
        controller.enqueue(f"k{number}")
    async with running(controller):
        await settle()
        assert [key for key, _ in calls] == ["poison", "k0", "k1", "k2", "k3", "k4"]
        await clock.advance(1)
        times = [when for key, when in calls if key == "poison"]
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert len(gaps) >= 6
        assert all(abs(after - 2 * before) < 1e-9 for before, after in itertools.pairwise(gaps))
    text = metrics.render().decode()
    assert 'controller_runtime_reconcile_total{controller="c",result="success"} 5' in text
    assert f'controller_runtime_reconcile_errors_total{{controller="c"}} {len(times)}' in text
    assert f'workqueue_retries_total{{name="c"}} {len(times)}' in text


async def test_why_a_key_fails_is_an_error_in_the_log_once_and_again_when_that_changes(clock: FakeClock) -> None:
    why = ["of this", "of this", "of this", "of that", "of that", "", "of that"]
    lines: list[str] = []

    async def reconcile(key: str) -> float | None:
        problem = why.pop(0) if why else ""
        if problem:
            raise ValueError(problem)
        return 0.5 if why else None

    with diverted(lines.append):
        controller = Controller("c", reconcile, workers=1, clock=clock, random=lambda: 0.0)
        controller.enqueue("poison")
        async with running(controller):
            for _ in range(100):
                await clock.advance(0.1)
    assert not why
    assert [problem for line in lines for problem in ("of this", "of that") if problem in line] == ["of this", "of that", "of that"]


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        (Conflict(409, "Conflict", "no"), 5),
        (TooManyRequests(429, "TooManyRequests", "no"), 10),
        (Unreachable("https://hub", "refused"), 5),
    ],
)
async def test_what_passes_by_itself_is_no_error_in_the_log_unless_it_stays(clock: FakeClock, error: KubeError, limit: int) -> None:
    failures = 0

    async def reconcile(key: str) -> None:
        nonlocal failures
        failures += 1
        if failures != limit:
            raise error

    lines: list[str] = []
    controller = Controller("test", reconcile, clock=clock)
    with diverted(lines.append):
        async with running(controller):
            for wanted in (limit, 2 * limit):
                controller.enqueue("key")
                while failures < wanted:
                    await clock.advance(1)
                assert len(lines) == (0 if wanted == limit else 1), lines


async def test_a_key_is_never_reconciled_twice_at_once_and_no_change_is_lost() -> None:
    active: set[str] = set()
    runs = 0
    gate = asyncio.Event()

    async def reconcile(key: str) -> None:
        nonlocal runs
        assert key not in active
        active.add(key)
        runs += 1
        await gate.wait()
        active.discard(key)

    controller = Controller("c", reconcile, workers=4)
    controller.enqueue("a")
    async with running(controller):
        await settle()
        controller.enqueue("a")
        controller.enqueue("a")
        await settle()
        assert runs == 1
        gate.set()
        await settle()
        assert runs == 2


async def test_a_reconcile_that_hangs_is_ended_and_its_group_keeps_no_other_from_working() -> None:
    done: list[str] = []

    async def reconcile(key: str) -> None:
        if key.startswith("hung/"):
            await asyncio.Event().wait()
        done.append(key)

    controller = Controller(
        "c", reconcile, workers=3, group=lambda key: key.partition("/")[0], max_per_group=2, timeout=0.05, max_delay=1000
    )
    for number in range(10):
        controller.enqueue(f"hung/{number}")
        controller.enqueue(f"well/{number}")
    async with running(controller):
        await eventually(lambda: len(done) == 10)
        await eventually(lambda: controller.queue.failures("hung/9") > 0)


async def test_a_reconcile_may_ask_to_be_called_again_and_may_give_up(clock: FakeClock) -> None:
    calls: list[tuple[str, float]] = []

    async def reconcile(key: str) -> float | None:
        calls.append((key, clock.monotonic()))
        if key == "hopeless":
            raise Stop("the name is not valid")
        return 30.0

    controller = Controller("c", reconcile, clock=clock)
    controller.enqueue("again")
    controller.enqueue("hopeless")
    async with running(controller):
        await clock.advance(61)
    assert calls == [("again", 0.0), ("hopeless", 0.0), ("again", 30.0), ("again", 60.0)]


async def test_stopping_lets_running_reconciles_finish_and_begins_no_other() -> None:
    began: list[str] = []
    finished: list[str] = []
    gate = asyncio.Event()

    async def reconcile(key: str) -> None:
        began.append(key)
        await gate.wait()
        finished.append(key)

    controller = Controller("c", reconcile, workers=1)
    controller.enqueue("a")
    controller.enqueue("b")
    run = asyncio.create_task(controller.run())
    await settle()
    controller.stop()
    await settle()
    assert not run.done()
    gate.set()
    await asyncio.wait_for(run, 1)
    assert (began, finished) == (["a"], ["a"])


async def test_stopping_cuts_what_does_not_finish_in_time() -> None:
    async def reconcile(key: str) -> None:
        await asyncio.Event().wait()

    controller = Controller("c", reconcile, grace=0.01, timeout=None)
    controller.enqueue("a")
    run = asyncio.create_task(controller.run())
    await settle()
    controller.stop()
    await asyncio.wait_for(run, 1)


async def test_work_waits_for_caches_it_depends_on_though_their_changes_enqueue_nothing(client: InProcessClient) -> None:
    watched: Informer[Snapshot] = Informer(client, CONFIG_MAPS, "default")
    needed: Informer[Snapshot] = Informer(client, CONFIG_MAPS, "kube-system")
    seen: list[str] = []

    async def note(key: str) -> None:
        seen.append(key)

    controller = Controller("waiting", note)
    controller.watch(watched, lambda obj: [obj.name])
    controller.depend(needed)
    await client.create(CONFIG_MAPS, config_map("a"))
    await client.create(CONFIG_MAPS, config_map("b", "kube-system"))
    async with running(watched, controller):
        await watched.synced()
        await settle()
        assert seen == []
        async with running(needed):
            await eventually(lambda: "a" in seen)
            await settle()
    assert "b" not in seen
