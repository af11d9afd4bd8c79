"""How often AWS is asked: never more than the limit, and as much as AWS takes where that is less."""

import asyncio
from contextlib import suppress

import pytest

from muster.aws.errors import NotFound, Throttled
from muster.aws.rate_limit import MOST_TURNS, rate_limited
from tests.support.fake_aws import FakeAws
from tests.support.fake_clock import FakeClock


class ThrottlingAws(FakeAws):
    """Takes so many calls a second."""

    def limit(self, clock: FakeClock, per_second: float) -> None:
        self._clock, self._per_second, self._left, self._seen = clock, per_second, per_second, clock.monotonic()
        self.refused: list[float] = []
        self.fault = self._judged

    def _judged(self, operation: str) -> Exception | None:
        now = self._clock.monotonic()
        self._left = min(self._per_second, self._left + (now - self._seen) * self._per_second)
        self._seen = now
        if self._left < 1.0:
            self.refused.append(now)
            return Throttled(operation, "Throttling", "Rate exceeded")
        self._left -= 1.0
        return None


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def asked(clock: FakeClock, aws: FakeAws, workers: int, each: int) -> float:
    """Seconds until all workers have made their calls, one after the other."""
    front = rate_limited(aws, 10.0, clock)

    async def work() -> None:
        left = each
        while left:
            with suppress(Throttled):
                await front.caller_identity()
                left -= 1

    working = asyncio.gather(*(work() for _ in range(workers)))
    while not working.done():
        await clock.advance(0.05)
    await working
    return clock.monotonic()


async def test_no_more_than_the_limit(clock: FakeClock):
    aws = FakeAws()
    seconds = await asked(clock, aws, 8, 10)
    assert len(aws.calls) == 80
    assert 6.5 < seconds < 8


@pytest.mark.parametrize("takes", [2.0, 5.0])
async def test_an_aws_that_takes_less_is_asked_for_little_more(clock: FakeClock, takes: float):
    aws = ThrottlingAws()
    aws.limit(clock, takes)
    seconds = await asked(clock, aws, 8, 10)
    assert seconds < 2 * 80 / takes + 5, "most of what it takes"
    assert len(aws.refused) < 0.25 * 80, "and little more"


async def test_the_pace_comes_back(clock: FakeClock):
    aws = ThrottlingAws()
    aws.limit(clock, 1.0)
    front = rate_limited(aws, 10.0, clock)

    async def calls(count: int) -> float:
        before = clock.monotonic()
        working = asyncio.gather(*(front.caller_identity() for _ in range(count)))
        while not working.done():
            await clock.advance(0.05)
        await working
        return clock.monotonic() - before

    await calls(15)
    aws.limit(clock, 1000.0)
    await calls(100)
    assert await calls(50) < 6


async def test_one_that_is_throttled_for_ever_is_told_so(clock: FakeClock):
    aws = FakeAws()
    aws.fault = lambda operation: Throttled(operation, "Throttling", "Rate exceeded")
    asking = asyncio.ensure_future(rate_limited(aws, 10.0, clock).caller_identity())
    while not asking.done():
        await clock.advance(0.5)
    with pytest.raises(Throttled):
        await asking
    assert len(aws.calls) == MOST_TURNS


async def test_other_answers_are_the_callers_business(clock: FakeClock):
    aws = FakeAws()
    with pytest.raises(NotFound):
        await rate_limited(aws, 10.0, clock).get_role("none")
    assert aws.calls == ["GetRole"]


async def test_what_aws_throttles_slows_its_like_down_and_nothing_else(clock: FakeClock):
    aws = FakeAws()
    aws.fault = lambda operation: Throttled(operation, "Throttling", "Rate exceeded") if operation == "ListRoles" else None
    front = rate_limited(aws, 10.0, clock)
    throttled = asyncio.gather(*(front.list_roles() for _ in range(4)), return_exceptions=True)
    working = asyncio.gather(*(front.caller_identity() for _ in range(40)))
    while not working.done():
        await clock.advance(0.05)
    await working
    assert clock.monotonic() < 7
    while not throttled.done():
        await clock.advance(0.5)
    assert all(isinstance(one, Throttled) for one in await throttled)
