"""Of the servers on one store at most one leads, whatever becomes of it, and another takes over in seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.apiserver.controllers.election import LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD, Election
from muster.store.api import EncodeAt, Entry, Unavailable
from muster.store.memory import MemoryStore
from tests.support.fake_clock import FakeClock, settle

SYSTEM = "_system"


class Medium(MemoryStore):
    """What several servers share; who is cut off cannot write."""


class Reach:
    """One server's way to the medium."""

    def __init__(self, medium: Medium) -> None:
        self._medium = medium
        self.cut = False
        self.hangs = False
        self.written = 0
        self._late: set[asyncio.Task[Entry]] = set()
        self.get, self.subscribe = medium.get, medium.subscribe

    async def commit(self, cluster: str, resource: str, key: str, encode: EncodeAt, expect: int, delete: bool) -> Entry:
        if self.cut:
            raise Unavailable("the database", "away")
        if self.hangs:
            # Whoever waits may give up; what was sent takes effect in the end all the same.
            late = asyncio.create_task(self._commit_late(cluster, resource, key, encode, expect, delete))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
            return await asyncio.shield(late)
        self.written += 1
        return await self._medium.commit(cluster, resource, key, encode, expect, delete)

    async def _commit_late(self, cluster: str, resource: str, key: str, encode: EncodeAt, expect: int, delete: bool) -> Entry:
        while self.hangs:  # noqa: ASYNC110 - only turns of the loop pass here, no time
            await asyncio.sleep(0)
        return await self._medium.commit(cluster, resource, key, encode, expect, delete)


class Candidate:
    def __init__(self, medium: Medium, name: str, clock: FakeClock) -> None:
        self.reach = Reach(medium)
        self.election = Election(self.reach, SYSTEM, "controllers", identity=name, clock=clock, random=lambda: 0.5)  # type: ignore[arg-type]
        self.told: list[str] = []
        self.task: asyncio.Task[None] = asyncio.create_task(
            self.election.run(lambda: self.told.append("elected"), lambda: self.told.append("lost"))
        )

    @property
    def leading(self) -> bool:
        return self.election.leading

    def kill(self) -> None:
        """Without letting go of anything: nothing it would still write arrives."""
        self.reach.cut = True
        self.task.cancel()


@asynccontextmanager
async def standing(count: int) -> AsyncIterator[tuple[FakeClock, list[Candidate]]]:
    clock = FakeClock()
    medium = Medium()
    await medium.start()
    medium.add_cluster(SYSTEM)
    candidates = [Candidate(medium, f"server-{number}", clock) for number in range(count)]
    await settle()
    try:
        yield clock, candidates
    finally:
        for candidate in candidates:
            candidate.reach.hangs = False
            candidate.task.cancel()
        await asyncio.gather(*(candidate.task for candidate in candidates), return_exceptions=True)


def leaders(candidates: list[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.leading]


async def test_a_lone_server_leads_at_once_and_stays_leader() -> None:
    async with standing(1) as (clock, (alone,)):
        assert alone.leading
        await clock.advance(10 * LEASE_DURATION)
        assert alone.leading
        assert alone.told == ["elected"]


async def test_of_several_servers_one_leads() -> None:
    async with standing(3) as (clock, candidates):
        for _ in range(100):
            await clock.advance(RETRY_PERIOD / 3)
            assert len(leaders(candidates)) == 1
        assert sorted(len(candidate.told) for candidate in candidates) == [0, 0, 1]


async def test_a_leader_that_stops_lets_go_and_the_next_begins_at_once() -> None:
    async with standing(2) as (_, candidates):
        (leader,) = leaders(candidates)
        leader.task.cancel()
        await settle()
        (next_one,) = leaders(candidates)
        assert next_one is not leader


async def test_a_killed_leader_is_followed_within_seconds() -> None:
    async with standing(2) as (clock, candidates):
        await clock.advance(10 * RETRY_PERIOD)
        (leader,) = leaders(candidates)
        other = next(candidate for candidate in candidates if candidate is not leader)
        leader.kill()
        await clock.advance(LEASE_DURATION - RETRY_PERIOD)
        assert not other.leading
        await clock.advance(3 * RETRY_PERIOD)
        assert other.leading


@pytest.mark.parametrize("how", ["cut", "hangs"])
async def test_a_leader_cut_off_from_the_database_stops_before_another_begins(how: str) -> None:
    async with standing(2) as (clock, candidates):
        await clock.advance(5 * RETRY_PERIOD)
        (leader,) = leaders(candidates)
        setattr(leader.reach, how, True)
        changes = []
        for _ in range(100):
            await clock.advance(0.1)
            now = leaders(candidates)
            assert len(now) <= 1
            changes.append(now[0].election.identity if now else "")
        assert changes[0] == leader.election.identity
        assert "" in changes
        assert changes[-1] not in ("", leader.election.identity)
        assert leader.told == ["elected", "lost"]
        setattr(leader.reach, how, False)
        await clock.advance(3 * LEASE_DURATION)
        assert leaders(candidates) == [next(each for each in candidates if each is not leader)]


async def test_a_short_outage_costs_no_leadership() -> None:
    async with standing(2) as (clock, candidates):
        (leader,) = leaders(candidates)
        for candidate in candidates:
            candidate.reach.cut = True
        await clock.advance(RENEW_DEADLINE - 2 * RETRY_PERIOD)
        for candidate in candidates:
            candidate.reach.cut = False
        await clock.advance(LEASE_DURATION)
        assert leaders(candidates) == [leader]
        assert leader.told == ["elected"]


async def test_a_candidate_that_slept_does_not_take_a_lease_that_is_renewed() -> None:
    async with standing(1) as (clock, candidates):
        (leader,) = candidates
        sleeper_clock = FakeClock()
        sleeper = Candidate(leader.reach._medium, "sleeper", sleeper_clock)
        candidates.append(sleeper)
        await settle()
        for _ in range(5):
            await clock.advance(LEASE_DURATION)  # the leader renews while the sleeper's time stands still
        await sleeper_clock.advance(LEASE_DURATION * 0.9)
        assert leaders(candidates) == [leader]


async def test_the_lease_costs_one_write_per_period_whatever_the_number_of_servers() -> None:
    async with standing(5) as (clock, candidates):
        before = sum(candidate.reach.written for candidate in candidates)
        await clock.advance(20 * RETRY_PERIOD)
        assert sum(candidate.reach.written for candidate in candidates) - before <= 20


FAULTS = st.tuples(st.sampled_from(["cut", "hang", "heal", "stop"]), st.integers(0, 2), st.floats(0.05, 4.0))


@settings(max_examples=25)
@given(st.lists(FAULTS, max_size=25))
def test_whatever_fails_there_are_never_two_leaders_and_in_the_end_there_is_one(faults: list[tuple[str, int, float]]) -> None:
    asyncio.run(suffer(faults))


async def suffer(faults: list[tuple[str, int, float]]) -> None:
    async with standing(3) as (clock, candidates):

        async def pass_time(seconds: float) -> None:
            end = clock.monotonic() + seconds
            while clock.monotonic() < end:
                await clock.advance(0.25)
                assert len(leaders(candidates)) <= 1

        alive = set(range(3))
        for fault, number, seconds in faults:
            reach = candidates[number].reach
            if fault == "stop" and len(alive) > 1:
                candidates[number].task.cancel()
                alive.discard(number)
            reach.cut, reach.hangs = fault == "cut", fault == "hang"
            await pass_time(seconds)
        for candidate in candidates:
            candidate.reach.cut = candidate.reach.hangs = False
        await pass_time(LEASE_DURATION + RENEW_DEADLINE + 3 * RETRY_PERIOD)
        assert len(leaders(candidates)) == 1
