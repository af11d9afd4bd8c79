"""One leader at a time, whatever clocks and networks do."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from muster.fleet.in_process import InProcessClient
from muster.machinery.objects import Object
from muster.runtime.client.base import WatchEvent
from muster.runtime.client.builtin import LEASES
from muster.runtime.client.errors import Forbidden, Unreachable
from muster.runtime.client.rest import JSON, Query
from muster.runtime.controller.leader_election import LeaderElector, LeadershipLost
from tests.support.fake_clock import FakeClock, settle


class Cuttable(InProcessClient):
    """A client whose line to the server can be cut, or whose answers can be lost."""

    cut = False
    lose_answers = False
    blind = False
    requests = 0
    refusals = 0

    async def watch(self, resource: Any, namespace: str = "", **options: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        if self.blind:
            self.refusals += 1
            raise Forbidden(403, "Forbidden", "leases may not be watched")
        async for event in super().watch(resource, namespace, **options):
            yield event

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        self.requests += 1
        if self.cut:
            raise Unreachable(self.server, "cut off")
        answer = await super().exchange(method, path, query, body, media, idempotent=idempotent)
        if self.lose_answers:
            raise Unreachable(self.server, "the answer was lost")
        return answer


class Candidate:
    def __init__(self, client: InProcessClient, name: str, clock: FakeClock) -> None:
        self.client = Cuttable(client._client)
        self.elector = LeaderElector(self.client, "lock", "default", name, clock=clock, random=lambda: 0.0)
        self.leading = False
        self.task = asyncio.create_task(self.elector.run(self._lead))

    async def _lead(self) -> None:
        self.leading = True
        try:
            await asyncio.Event().wait()
        finally:
            self.leading = False

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def spec(client: InProcessClient) -> dict[str, Any]:
    lease: Object = await client.get(LEASES, "lock", "default")
    return dict(lease["spec"])


async def test_one_of_two_leads_and_the_other_follows_when_it_leaves(client: InProcessClient, clock: FakeClock) -> None:
    first = Candidate(client, "first", clock)
    await settle()
    second = Candidate(client, "second", clock)
    await clock.advance(60)
    assert (first.leading, second.leading) == (True, False)
    await first.leave()
    assert (await spec(client))["holderIdentity"] == ""
    await clock.advance(3)
    assert second.leading
    held = await spec(client)
    assert (held["holderIdentity"], held["leaseTransitions"], held["leaseDurationSeconds"]) == ("second", 2 - 1, 15)
    await second.leave()


async def until(look: Callable[[], object]) -> None:
    """While the clock stands still."""
    async with asyncio.timeout(20):
        while True:
            if look():
                return
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("how", ["let go", "deleted"])
async def test_a_lease_that_is_free_is_taken_at_once(client: InProcessClient, clock: FakeClock, how: str) -> None:
    first = Candidate(client, "first", clock)
    await settle()
    second = Candidate(client, "second", clock)
    await until(lambda: second.elector.leader == "first")
    if how == "deleted":
        first.client.cut = True
    await first.leave()
    if how == "deleted":
        assert (await spec(client))["holderIdentity"] == "first"
        await client.delete(LEASES, "lock", "default")
    await until(lambda: second.leading)
    assert clock.monotonic() == 0
    await second.leave()


async def test_whoever_may_not_watch_the_lease_looks_at_it_from_time_to_time(client: InProcessClient, clock: FakeClock) -> None:
    first = Candidate(client, "first", clock)
    await settle()
    second = Candidate(client, "second", clock)
    second.client.blind = True
    await until(lambda: second.elector.leader == "first")
    await first.leave()
    await settle()
    assert not second.leading
    await clock.advance(2.1)
    await until(lambda: second.leading)
    assert second.client.refusals <= 2, "it is not asked without a pause"
    await second.leave()


async def test_whoever_stands_by_leaves_nothing_running(client: InProcessClient, clock: FakeClock) -> None:
    before = asyncio.all_tasks()
    first, second = Candidate(client, "first", clock), Candidate(client, "second", clock)
    await settle()
    await first.leave()
    await second.leave()
    await until(lambda: asyncio.all_tasks() <= before)


async def test_a_leader_that_is_cut_off_stops_before_another_may_begin(client: InProcessClient, clock: FakeClock) -> None:
    first = Candidate(client, "first", clock)
    await settle()
    second = Candidate(client, "second", clock)
    await clock.advance(30)
    first.client.cut = True
    ended = began = 0.0
    for _ in range(400):
        await clock.advance(0.1)
        assert not (first.leading and second.leading)
        if not first.leading and not ended:
            ended = clock.monotonic()
        if second.leading and not began:
            began = clock.monotonic()
    assert 30 + 8 <= ended <= 30 + 10.2
    assert ended < began <= 30 + 15 + 2 * 2.2
    with pytest.raises(LeadershipLost):
        await first.task
    await second.leave()


async def test_clocks_that_disagree_make_no_two_leaders(client: InProcessClient, clock: FakeClock) -> None:
    first = Candidate(client, "first", clock)
    await settle()
    ahead = FakeClock(clock.now().replace(year=2036))
    second = Candidate(client, "second", ahead)
    for _ in range(60):
        await clock.advance(1)
        await ahead.advance(1)
    assert (first.leading, second.leading) == (True, False)
    await first.leave()
    await second.leave()


async def test_renewals_whose_answers_are_lost_do_not_stretch_the_deadline(client: InProcessClient, clock: FakeClock) -> None:
    first = Candidate(client, "first", clock)
    await clock.advance(20)
    first.client.lose_answers = True
    await clock.advance(10.1)
    assert not first.leading
    with pytest.raises(LeadershipLost):
        await first.task


async def test_a_lease_that_somebody_else_took_ends_the_work_at_the_next_renewal(client: InProcessClient, clock: FakeClock) -> None:
    first = Candidate(client, "first", clock)
    await settle()
    await client.patch(LEASES, "lock", {"spec": {"holderIdentity": "thief"}}, "default")
    await clock.advance(2.1)
    assert not first.leading
    with pytest.raises(LeadershipLost):
        await first.task
    assert (await spec(client))["holderIdentity"] == "thief"


async def test_a_restarted_leader_takes_its_own_lease_at_once(client: InProcessClient, clock: FakeClock) -> None:
    first = Candidate(client, "same", clock)
    await settle()
    first.client.cut = True
    await first.leave()
    again = Candidate(client, "same", clock)
    await settle()
    assert again.leading
    assert (await spec(client))["leaseTransitions"] == 0
    await again.leave()


async def test_a_leader_renews_with_one_request_per_period(client: InProcessClient, clock: FakeClock) -> None:
    first = Candidate(client, "first", clock)
    await settle()
    before = first.client.requests
    await clock.advance(60)
    assert first.client.requests - before == 30
    await first.leave()


async def test_when_the_work_ends_so_does_the_leadership(client: InProcessClient, clock: FakeClock) -> None:
    heard: list[str] = []

    async def work() -> None:
        return None

    elector = LeaderElector(client, "lock", "default", "a", clock=clock, on_new_leader=heard.append)
    await elector.run(work)
    assert (await spec(client))["holderIdentity"] == ""
    assert heard == ["a"]

    async def broken() -> None:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        await elector.run(broken)


def test_durations_that_allow_two_leaders_are_refused() -> None:
    nobody: Any = None
    wrong: list[dict[str, Any]] = [{"lease_duration": 10.0}, {"retry_period": 9.0}, {"lease_duration": 15.5}]
    for durations in wrong:
        with pytest.raises(ValueError):
            LeaderElector(nobody, "lock", "default", "a", **durations)
