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
from pathlib import Path
from typing import Any, Protocol

from tests.support.processes import Server, complaints, tail
from tests.support.sites import KUBE

Step = Callable[[random.Random], Awaitable[None]]
SEEDS = range(8 if KUBE else 4)
STEPS = 8
LONGEST_PAUSE = 0.4
PROCESS_SEEDS = range(1)
"""A process takes a second to start, and a real server its time to take things away, so there are few."""
LONGEST_LIFE = 3.0


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


class Operator(Protocol):
    """What is killed and started at any moment, and goes on where it was."""

    async def start(self) -> None:
        """Unless it runs."""

    async def kill(self) -> None:
        """In the middle of whatever it does."""


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


class MortalProcess:
    """An operator as a process of its own, killed as processes are: without a word. `command` gives what is to be run, anew each
    time. What it logs is in one file, however often it dies."""

    def __init__(self, command: Callable[[], Awaitable[Sequence[str | Path]]], log: Path) -> None:
        self._command = command
        self._log = log
        self._server: Server | None = None
        self.killed = 0

    async def start(self) -> None:
        if self._server is None:
            self._server = Server("operator", await self._command(), self._log, {"KUBECONFIG": ""})
            self._server.start()

    async def kill(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            assert server.running, f"it died by itself:\n{tail(self._log)}"
            await asyncio.to_thread(server.stop, kill=True)
            self.killed += 1

    async def die_at_work(self, chance: random.Random) -> None:
        """Killed after a while, at which it may be starting, working or done, and started again."""
        await self.start()
        await asyncio.sleep(chance.random() * LONGEST_LIFE)
        await self.kill()
        await self.start()

    def complaints(self) -> list[str]:
        """But for what the play brings about: that a definition which somebody has deleted is waited for."""
        return [one for one in complaints(self._log) if "being deleted, and made again when gone" not in one]


__all__: Sequence[str] = ("SEEDS", "Mortal", "MortalProcess", "Operator", "Step", "play")
