"""Everybody gets a turn, and nobody all of them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.transport.server import turns as module
from muster.transport.server.turns import FairTurns
from tests.support.fake_clock import settle
from tests.unit.transport.server.fakes import code_of


class Work:
    """Calls that run until they are let go, in the order in which they began."""

    def __init__(self, turns: FairTurns) -> None:
        self.turns = turns
        self.begun: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def _run(self, caller: str, name: str) -> None:
        async with self.turns.turn(caller):
            self.begun.append(name)
            await self.ends[name].wait()

    def start(self, caller: str, count: int) -> None:
        for index in range(count):
            name = f"{caller}{index}"
            self.ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._run(caller, name))

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await settle()


async def test_a_caller_that_is_alone_gets_its_share_and_the_rest_waits() -> None:
    work = Work(FairTurns(in_all=10, each=4))
    work.start("a", 6)
    await settle()
    assert work.begun == ["a0", "a1", "a2", "a3"]
    await work.end("a0")
    assert work.begun[-1] == "a4"
    assert (work.turns.in_flight, work.turns.waiting) == (4, 1)


async def test_beside_a_flood_everybody_gets_the_next_free_place() -> None:
    work = Work(FairTurns(in_all=4, each=4))
    work.start("flood", 100)
    await settle()
    work.start("b", 2)
    work.start("c", 1)
    await settle()
    for name in ("flood0", "flood1", "flood2", "flood3"):
        await work.end(name)
    assert work.begun[4:] == ["flood4", "b0", "c0", "flood5"]


async def test_a_caller_that_is_gone_is_not_begun() -> None:
    work = Work(FairTurns(in_all=1, each=1))
    work.start("a", 2)
    work.start("b", 1)
    await settle()
    work.tasks["a1"].cancel()
    await settle()
    await work.end("a0")
    assert work.begun == ["a0", "b0"]
    await work.end("b0")
    assert (work.turns.in_flight, work.turns.waiting) == (0, 0)


async def test_a_turn_that_comes_to_a_caller_that_goes_is_given_on() -> None:
    work = Work(FairTurns(in_all=1, each=1))
    work.start("a", 1)
    work.start("b", 1)
    work.start("c", 1)
    await settle()
    work.ends["a0"].set()
    while work.turns.waiting == 2:  # noqa: ASYNC110  # the very moment is meant
        await asyncio.sleep(0)
    work.tasks["b0"].cancel()
    await settle()
    assert work.begun == ["a0", "c0"]


async def test_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(FairTurns(in_all=1, each=1, longest_line=2))
    work.start("a", 3)
    await settle()

    async def one_more(size: int = 0) -> None:
        async with work.turns.turn("a", size):
            pass

    assert await code_of(one_more()) == "RESOURCE_EXHAUSTED"
    assert work.turns.refused == 1
    monkeypatch.setattr(module, "MAX_QUEUED_BYTES_PER_CALLER", 10)
    await work.end("a0")
    assert await code_of(one_more(11)) == "RESOURCE_EXHAUSTED"
    for name in ("a1", "a2"):
        await work.end(name)
    assert work.turns._held == {}


STEPS = st.lists(st.tuples(st.sampled_from(["start", "end", "cancel"]), st.integers(0, 2), st.integers(0, 3)), max_size=80)


@given(STEPS)
async def test_nothing_is_left_whatever_comes_and_goes(steps: list[tuple[str, int, int]]) -> None:
    turns = FairTurns(in_all=3, each=2, longest_line=3)
    calls: list[tuple[asyncio.Task[str], asyncio.Event]] = []
    running: dict[int, int] = dict.fromkeys(range(3), 0)

    async def run(caller: int, size: int, end: asyncio.Event) -> None:
        async with turns.turn(caller, size):
            running[caller] += 1
            assert running[caller] <= 2
            assert sum(running.values()) <= 3
            try:
                await end.wait()
            finally:
                running[caller] -= 1

    async def outcome(caller: int, size: int, end: asyncio.Event) -> str:
        return await code_of(run(caller, size, end))

    for step, caller, number in steps:
        if step == "start":
            end = asyncio.Event()
            calls.append((asyncio.create_task(outcome(caller, number, end)), end))
        elif calls:
            task, end = calls[number % len(calls)]
            if step == "end":
                end.set()
            else:
                task.cancel()
        if number:
            await asyncio.sleep(0)
    for _, end in calls:
        end.set()
    results = await asyncio.gather(*(task for task, _ in calls), return_exceptions=True)
    assert not [one for one in results if isinstance(one, Exception)]
    assert (turns.in_flight, turns.waiting, turns._held, turns._all_held, turns._running) == (0, 0, {}, 0, {})
