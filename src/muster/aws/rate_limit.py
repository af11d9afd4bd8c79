"""A limit to how often one process asks AWS: calls wait for their turn, in the order in which they came.

How much AWS takes of an account is not known beforehand, differs from operation to operation, and others ask with the same account.
So the pace of each operation follows its answers, as TCP does: a call that AWS has throttled, which therefore was not carried out,
slows its like down and waits for another turn; every one that gets through speeds up a little, up to the limit of all. After some
turns the caller is told: whoever waits shall see why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from muster.aws.errors import Throttled
from muster.aws.interfaces import Aws
from muster.machinery.clock import Clock, sleep

BURST: Final = 10.0
MOST_TURNS: Final = 8
"""Of a call that AWS throttles each time."""
SLOWEST: Final = 0.2
"""Calls of an operation per second, whatever AWS says."""
SLOWED: Final = 0.5
"""What is left of the pace after a call was throttled; several of one second count as one."""
SPED: Final = 0.1
"""Calls per second that each one that gets through adds."""


class AdaptiveRateLimiter:
    """So many calls in a second on the average, a few at once where there were none for a while."""

    def __init__(self, per_second: float, clock: Clock, burst: float = BURST) -> None:
        self._most = per_second
        self.per_second = per_second
        self._clock = clock
        self._burst = burst
        self._left = burst
        self._counted = clock.monotonic()
        self._slowed = float("-inf")
        self._turn = asyncio.Lock()

    async def wait(self) -> None:
        async with self._turn:
            self._count()
            # A little less is enough: what is missing may be too short a time for a clock to show.
            while self._left < 0.999:
                await sleep(self._clock, (1.0 - self._left) / self.per_second)
                self._count()
            self._left -= 1.0

    def slow_down(self) -> None:
        self._count()
        self._left = min(self._left, 0.0)
        if self._counted - self._slowed >= 1.0:
            self._slowed = self._counted
            self.per_second = max(SLOWEST, self.per_second * SLOWED)

    def speed_up(self) -> None:
        self.per_second = min(self._most, self.per_second + SPED)

    def _count(self) -> None:
        now = self._clock.monotonic()
        # While AWS takes less than the limit, nothing is saved up for later.
        burst = self._burst if self.per_second >= self._most else 1.0
        self._left = min(burst, self._left + (now - self._counted) * self.per_second)
        self._counted = now


class _Paced:
    def __init__(self, aws: Aws, per_second: float, clock: Clock) -> None:
        self._aws = aws
        self._all = AdaptiveRateLimiter(per_second, clock)
        self._make_pace = partial(AdaptiveRateLimiter, per_second, clock)
        self._own: dict[str, AdaptiveRateLimiter] = {}
        """By operation."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._aws, name)
        own = self._own.setdefault(name, self._make_pace())

        async def in_turn(*args: Any, **kwargs: Any) -> Any:
            for turn in range(MOST_TURNS):
                await own.wait()
                await self._all.wait()
                try:
                    result = await call(*args, **kwargs)
                except Throttled:
                    own.slow_down()
                    if turn + 1 == MOST_TURNS:
                        raise
                else:
                    own.speed_up()
                    return result
            raise AssertionError("the last turn returns or raises")

        return in_turn

    async def close(self) -> None:
        """Asks nobody, so it waits for no turn."""
        await self._aws.close()


def rate_limited(aws: Aws, per_second: float, clock: Clock) -> Aws:
    return cast("Aws", _Paced(aws, per_second, clock))
