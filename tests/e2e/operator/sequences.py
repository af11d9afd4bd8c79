"""Random sequences of what people and fate do to an operator and its objects: the same harness for either operator.

A sequence is drawn from a seed and played step by step against a cluster; what a step does is the caller's business. When it has
been played, the caller brings the world to rest, checks that it is as it should be, takes it away, and checks that nothing is
left. A failure names the seed and the steps, so it can be played again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Step = Callable[[random.Random], Awaitable[None]]
SEEDS = range(20)
STEPS = 8
LONGEST_PAUSE = 0.4


@dataclass
class Played:
    seed: int
    steps: Mapping[str, Step]
    weights: Mapping[str, int] = field(default_factory=dict)
    played: list[str] = field(default_factory=list)

    async def play(self, count: int = STEPS) -> None:
        """Steps with pauses between them: some meet an operator at rest, some in the middle of its work."""
        chance = random.Random(self.seed)
        names = list(self.steps)
        for name in chance.choices(names, [self.weights.get(name, 1) for name in names], k=count):
            self.played.append(name)
            await self.steps[name](chance)
            await asyncio.sleep(chance.random() ** 3 * LONGEST_PAUSE)


async def play(
    seed: int,
    steps: Mapping[str, Step],
    end: Callable[[], Awaitable[None]],
    *,
    weights: Mapping[str, int] | None = None,
    count: int = STEPS,
) -> None:
    """Play, then `end`, which asserts. A failure tells what was played."""
    sequence = Played(seed, steps, weights or {})
    try:
        await sequence.play(count)
        await end()
    except Exception as error:
        raise AssertionError(f"seed {seed}, steps {' → '.join(sequence.played)}: {error}") from error


class Mortal:
    """An operator that can be killed and started at any moment; `make` gives what is to be run, anew each time."""

    def __init__(self, make: Callable[[], Awaitable[tuple[Awaitable[Any], Callable[[], Awaitable[None]]]]]) -> None:
        self._make = make
        self._task: asyncio.Future[Any] | None = None
        self._bury: Callable[[], Awaitable[None]] | None = None

    @property
    def alive(self) -> bool:
        return self._task is not None

    async def start(self) -> None:
        if self._task is None:
            work, self._bury = await self._make()
            self._task = asyncio.ensure_future(work)

    async def kill(self) -> None:
        """In the middle of whatever it does."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait({self._task})
        self._task = None
        if self._bury is not None:
            await self._bury()


__all__: Sequence[str] = ("SEEDS", "Mortal", "Step", "play")
