"""Whether clusters answer: by traffic where there is some, by probes where there is none, and without churn."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise

import pytest

from muster.gateway.inventory.health import CONCURRENT_PROBES, PROBE_TIMEOUT, Health, ProbeFailed
from muster.gateway.target import (
    CLUSTER_BROKEN,
    CLUSTER_BUSY,
    CLUSTER_REDIRECTED,
    CLUSTER_TIMEOUT,
    CLUSTER_UNREACHABLE,
    CREDENTIAL_MISSING,
    CREDENTIAL_REFUSED,
    NOT_PROBED,
    BearerToken,
    Endpoint,
    Problem,
    Target,
)
from tests.support.fake_clock import FakeClock, settle
from tests.unit.gateway.inventory.objects import NOW

DOWN = Problem(CLUSTER_UNREACHABLE, "connection refused")


def cluster(name: str = "c1", **fields: object) -> Target:
    return Target(name, (Endpoint("api.example", 443),), credential=BearerToken("t"), **fields)  # type: ignore[arg-type]


class Clusters:
    """Answers probes as it is told to."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.health = Health(clock=self.clock, random=lambda: 0.5)
        self.asked: list[tuple[float, str, str]] = []
        self.answers: dict[str, int | Exception | None] = {}
        """By path or by cluster; None: never."""
        self.changes: list[tuple[str, bool, str]] = []
        self.most_at_once = self._at_once = 0
        self.health.on_change(self._changed)

    def _changed(self, name: str) -> None:
        status = self.health.status(name)
        self.changes.append((name, status.healthy, status.cause))

    async def send(self, target: Target, path: str) -> int:
        self.asked.append((self.clock.monotonic(), target.cluster, path))
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await asyncio.sleep(0)
            answer = self.answers.get(target.cluster, self.answers.get(path, 200))
            if answer is None:
                await asyncio.Event().wait()
            if isinstance(answer, Exception):
                raise answer
            assert answer is not None
            return answer
        finally:
            self._at_once -= 1

    def cause(self, name: str = "c1") -> str:
        status = self.health.status(name)
        assert status.healthy == (not status.cause)
        return status.cause

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.health.run(self.send))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def clusters() -> AsyncIterator[Clusters]:
    made = Clusters()
    async with made.running():
        yield made


async def test_a_new_cluster_is_probed_soon_and_then_about_every_minute(clusters: Clusters) -> None:
    clusters.health.track(cluster())
    assert clusters.cause() == NOT_PROBED
    await clusters.clock.advance(2)
    assert clusters.cause() == ""
    await clusters.clock.advance(600)
    assert 9 <= len(clusters.asked) <= 12
    assert {path for _, _, path in clusters.asked} == {"/readyz"}
    assert clusters.changes == [("c1", True, "")]


async def test_a_cluster_with_traffic_is_not_probed(clusters: Clusters) -> None:
    target = cluster()
    clusters.health.track(target)
    clusters.health.answered(target)
    for _ in range(60):
        await clusters.clock.advance(10)
        clusters.health.answered(target)
    assert clusters.asked == []
    assert clusters.changes == [("c1", True, "")]


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (200, ""),
        (429, ""),
        (401, CREDENTIAL_REFUSED),
        (302, CLUSTER_REDIRECTED),
        (500, CLUSTER_BROKEN),
        (ProbeFailed(DOWN), CLUSTER_UNREACHABLE),
        (RuntimeError("token-in-the-text"), CLUSTER_UNREACHABLE),
    ],
)
async def test_what_a_probe_finds_is_what_is_shown(clusters: Clusters, answer: int | Exception, cause: str) -> None:
    clusters.answers["/readyz"] = answer
    clusters.health.track(cluster())
    await clusters.clock.advance(2)
    assert clusters.cause() == cause
    assert "token-in-the-text" not in clusters.health.status("c1").reason


@pytest.mark.parametrize("refusal", [403, 404])
async def test_who_may_not_ask_for_readiness_asks_for_the_version(clusters: Clusters, refusal: int) -> None:
    clusters.answers |= {"/readyz": refusal}
    clusters.health.track(cluster())
    await clusters.clock.advance(2)
    assert clusters.cause() == ""
    await clusters.clock.advance(100)
    assert [path for _, _, path in clusters.asked][:3] == ["/readyz", "/version", "/version"]
    clusters.answers |= {"/version": 401}
    await clusters.clock.advance(100)
    assert clusters.cause() == CREDENTIAL_REFUSED


async def test_a_cluster_that_never_answers_times_out_and_holds_up_nobody(clusters: Clusters) -> None:
    clusters.answers["c1"] = None
    for name in ("c1", "c2"):
        clusters.health.track(cluster(name))
    await clusters.clock.advance(2)
    assert clusters.cause("c2") == ""
    await clusters.clock.advance(PROBE_TIMEOUT)
    assert clusters.cause("c1") == CLUSTER_TIMEOUT


async def test_a_failed_request_makes_a_suspect_and_the_probe_decides(clusters: Clusters) -> None:
    target = cluster()
    clusters.health.track(target)
    await clusters.clock.advance(10)
    clusters.changes.clear()
    asked = len(clusters.asked)
    for _ in range(100):
        clusters.health.failed(target, DOWN)
    assert clusters.cause() == ""
    await clusters.clock.advance(2)
    assert len(clusters.asked) == asked + 1
    assert clusters.changes == []
    clusters.answers["c1"] = ProbeFailed(DOWN)
    clusters.health.failed(target, DOWN)
    await clusters.clock.advance(10)
    assert clusters.changes == [("c1", False, CLUSTER_UNREACHABLE)]


async def test_our_own_limits_say_nothing_about_a_cluster(clusters: Clusters) -> None:
    target = cluster()
    clusters.health.track(target)
    clusters.health.answered(target)
    clusters.health.failed(target, Problem(CLUSTER_BUSY, "too many requests in flight"))
    await clusters.clock.advance(10)
    assert clusters.asked == []


async def test_a_failing_cluster_is_asked_with_growing_pauses_and_shown_once(clusters: Clusters) -> None:
    clusters.answers["c1"] = ProbeFailed(DOWN)
    target = cluster()
    clusters.health.track(target)
    for _ in range(300):
        await clusters.clock.advance(1)
        clusters.health.failed(target, Problem(CLUSTER_UNREACHABLE, "said otherwise"))
    times = [time for time, _, _ in clusters.asked]
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[0] <= 2
    assert 30 <= pauses[-1] <= 60
    assert clusters.changes == [("c1", False, CLUSTER_UNREACHABLE)]
    clusters.health.answered(target)
    assert clusters.cause() == ""


async def test_a_new_way_to_a_cluster_is_tried_at_once(clusters: Clusters) -> None:
    clusters.answers["c1"] = ProbeFailed(DOWN)
    clusters.health.track(cluster())
    await clusters.clock.advance(300)
    clusters.answers["c1"] = 200
    clusters.health.track(cluster(proxy_url="http://proxy:3128"))
    await clusters.clock.advance(2)
    assert clusters.cause() == ""


async def test_traffic_by_the_way_of_before_says_nothing_of_a_new_one(clusters: Clusters) -> None:
    target = cluster()
    clusters.health.track(target)
    clusters.health.answered(target)
    clusters.answers["c1"] = ProbeFailed(DOWN)
    clusters.health.track(cluster(proxy_url="http://proxy:3128"))
    await clusters.clock.advance(2)
    assert clusters.cause() == CLUSTER_UNREACHABLE


async def test_what_cannot_be_sent_is_not_tried(clusters: Clusters) -> None:
    clusters.health.track(cluster(problem=Problem(CREDENTIAL_MISSING, "none")))
    ended = BearerToken("t", NOW - timedelta(seconds=1))
    clusters.health.track(Target("c2", (Endpoint("api.example", 443),), credential=ended))
    await clusters.clock.advance(300)
    assert clusters.asked == []


async def test_a_cluster_that_is_gone_is_forgotten(clusters: Clusters) -> None:
    target = cluster()
    clusters.health.track(target)
    clusters.health.forget("c1")
    clusters.health.answered(target)
    clusters.health.failed(target, DOWN)
    await clusters.clock.advance(300)
    assert clusters.asked == []
    assert clusters.changes == []


async def test_a_fleet_is_probed_a_few_at_a_time() -> None:
    clusters = Clusters()
    for number in range(500):
        clusters.health.track(cluster(f"c{number}"))
    async with clusters.running():
        await clusters.clock.advance(2)
        for _ in range(20):
            await settle()
    assert len(clusters.asked) == 500
    assert clusters.most_at_once <= CONCURRENT_PROBES


async def test_a_result_for_an_old_way_does_not_count(clusters: Clusters) -> None:
    clusters.answers["c1"] = None
    clusters.health.track(cluster())
    await clusters.clock.advance(2)
    clusters.answers["c1"] = 200
    clusters.health.track(cluster(account="another"))
    await clusters.clock.advance(PROBE_TIMEOUT)
    await clusters.clock.advance(2)
    assert clusters.changes == [("c1", True, "")]
