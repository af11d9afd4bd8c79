"""Client-side rate limiting of calls to AWS: calls wait for their turn, in order.

AWS' limits are not known beforehand, differ by operation, and are shared by all users of the account. So the rate of each operation
is adaptive, as in TCP: a throttled call, which was not executed, reduces the rate and waits for another turn; each successful one
increases it a little, up to the common limit. After several turns the caller gets the error.
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
"""The most turns of a call that AWS throttles each time."""
SLOWEST: Final = 0.2
"""The minimum rate of an operation per second."""
SLOWED: Final = 0.5
"""The factor of the rate after a call was throttled; several within one second count as one."""
SPED: Final = 0.1
"""The increase of the rate, in calls per second, after each success."""


class AdaptiveRateLimiter:
    """Limits the average rate, with small bursts after idle times."""

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
            # With a tolerance: the missing time may be too short for a clock to show.
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
        # Below the limit there are no bursts.
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
        """Sends nothing, so it waits for no turn."""
        await self._aws.close()


def rate_limited(aws: Aws, per_second: float, clock: Clock) -> Aws:
    return cast("Aws", _Paced(aws, per_second, clock))
