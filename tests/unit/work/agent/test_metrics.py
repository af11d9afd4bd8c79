"""What `/metrics` of the work agent shows of works: how many there are by condition, and how long changes take."""

from __future__ import annotations

from muster.machinery.metrics import Metrics
from muster.runtime.client.builtin import NAMESPACES
from muster.work.kinds import MANIFEST_WORKS
from tests.unit.work.agent.conftest import CLUSTER, Site, config_map, namespace, until


async def test_works_are_counted_by_condition_as_it_is_now(site: Site) -> None:
    metrics = Metrics()

    async def shows(true: int, false: int) -> bool:
        counts = {"True": true, "False": false}.items()
        wanted = {f'muster_manifestworks{{condition="Applied",status="{status}"}} {count}' for status, count in counts}
        return wanted <= set(metrics.render().decode().splitlines())

    async with site.agent(metrics=metrics):
        await until(lambda: shows(0, 0), "no works")
        await site.create("good", config_map("a"))
        await site.create("bad", config_map("b", "nowhere"))
        await until(lambda: shows(1, 1), "one that is applied and one that is not")
        await site.spoke.create(NAMESPACES, namespace("nowhere"))
        await until(lambda: shows(2, 0), "both to be applied")
        await site.hub.delete(MANIFEST_WORKS, "bad", CLUSTER)
        await until(lambda: shows(1, 0), "one to be gone")


async def test_works_that_were_applied_before_the_agent_started_are_counted_too(site: Site) -> None:
    metrics = Metrics()

    async def shown() -> bool:
        return b'muster_manifestworks{condition="Applied",status="True"} 1\n' in metrics.render()

    async with site.agent():
        await site.create("good", config_map("a"))
        await until(lambda: site.applied("good"), "it to be applied")
    async with site.agent(metrics=metrics):
        await until(shown, "it to be counted")


def value(metrics: Metrics, name: str) -> float:
    (line,) = [line for line in metrics.render().decode().splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[-1])


async def test_a_change_is_open_until_it_is_applied_and_then_counted_once(site: Site) -> None:
    metrics = Metrics()
    count, oldest = "muster_manifestwork_apply_duration_seconds_count", "muster_manifestwork_oldest_change_seconds"

    async def applied(changes: int) -> bool:
        return value(metrics, count) == changes and value(metrics, oldest) == 0

    async def is_open() -> bool:
        return value(metrics, oldest) > 0

    async with site.agent(metrics=metrics):
        await until(lambda: applied(0), "nothing to be open")
        await site.create("good", config_map("a"))
        await until(lambda: applied(1), "one change to be applied")
        await site.create("bad", config_map("b", "nowhere"))
        await until(is_open, "the other to be open")
        first = value(metrics, oldest)
        assert value(metrics, oldest) > first, "it grows until somebody makes the namespace"
        await site.spoke.create(NAMESPACES, namespace("nowhere"))
        await until(lambda: applied(2), "both to be applied")
        await site.create("worse", config_map("c", "nowhere-else"))
        await until(is_open, "it to be open")
        await site.hub.delete(MANIFEST_WORKS, "worse", CLUSTER)
        await until(lambda: applied(2), "a work that is gone to be open no more")
