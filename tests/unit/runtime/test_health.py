"""What a process tells its keeper."""

from collections.abc import AsyncIterator

import pytest

from muster.machinery.metrics import Metrics
from muster.machinery.workqueue import WorkQueue
from muster.runtime.process.health import HealthServer
from tests.support.fetching import fetch


@pytest.fixture
async def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def health(metrics: Metrics) -> AsyncIterator[HealthServer]:
    server = HealthServer(metrics)
    await server.start("127.0.0.1", 0)
    yield server
    await server.stop(0.1)


async def get(server: HealthServer, path: str) -> tuple[int, str]:
    status, text = await fetch(f"http://127.0.0.1:{server.port}{path}")
    return status, text.decode()


async def test_a_process_may_be_alive_and_not_ready(health: HealthServer) -> None:
    synced = False
    health.ready("caches", lambda: None if synced else "password=hunter2 is wrong")
    assert await get(health, "/healthz") == (200, "ok")
    assert await get(health, "/livez?verbose") == (200, "[+]ping ok\nlivez check passed\n")
    code, text = await get(health, "/readyz")
    assert (code, text) == (500, "[+]ping ok\n[-]caches failed: reason withheld\nreadyz check failed\n")
    assert (await get(health, "/readyz?exclude=caches"))[0] == 200
    assert (await get(health, "/readyz/caches"))[0] == 500
    synced = True
    assert await get(health, "/readyz") == (200, "ok")


async def test_a_check_that_raises_has_failed(health: HealthServer) -> None:
    def broken() -> str | None:
        raise ValueError("boom")

    health.live("broken", broken)
    assert (await get(health, "/livez"))[0] == 500


async def test_other_pages_are_not_there(health: HealthServer) -> None:
    for path in ("/", "/readyz/unknown", "/debug"):
        assert (await get(health, path))[0] == 404


async def test_metrics_are_in_the_form_that_prometheus_reads(health: HealthServer, metrics: Metrics) -> None:
    queue: WorkQueue[str] = WorkQueue("clusters", metrics=metrics)
    queue.add("a")
    queue.add("b")
    queue.done(await queue.get())
    metrics.counter("muster_odd_total", "Odd labels", text='say "hi"\n').inc(2)
    code, text = await get(health, "/metrics")
    lines = text.splitlines()
    assert code == 200
    assert "# TYPE workqueue_depth gauge" in lines
    assert 'workqueue_depth{name="clusters"} 1' in lines
    assert 'workqueue_adds_total{name="clusters"} 2' in lines
    assert 'workqueue_work_duration_seconds_bucket{name="clusters",le="+Inf"} 1' in lines
    assert 'workqueue_queue_duration_seconds_count{name="clusters"} 1' in lines
    assert 'muster_odd_total{text="say \\"hi\\"\\n"} 2' in lines


def test_a_name_has_one_kind() -> None:
    metrics = Metrics()
    first = metrics.counter("a_total", "text", x="1")
    assert metrics.counter("a_total", "text", x="1") is first
    with pytest.raises(ValueError, match="is a counter, not a gauge"):
        metrics.gauge("a_total", "text", lambda: 1.0)
