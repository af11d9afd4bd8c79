"""Each key once, failures later and later, groups in turn."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.workqueue import Closed, WorkQueue
from tests.support.fake_clock import FakeClock, settle


def cluster_of(key: str) -> str:
    return key.partition("/")[0]


async def test_a_key_added_twice_is_worked_on_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_added_while_it_is_worked_on_comes_again_afterwards_and_not_before() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert await queue.get() == "a"


async def test_groups_take_turns_however_much_one_of_them_wants() -> None:
    queue: WorkQueue[str] = WorkQueue(group=cluster_of)
    for number in range(100):
        queue.add(f"busy/{number}")
    queue.add("quiet/1")
    served = []
    for _ in range(3):
        key = await queue.get()
        served.append(key)
        queue.done(key)
    assert served == ["busy/0", "quiet/1", "busy/1"]


async def test_a_group_holds_no_more_workers_than_its_share() -> None:
    queue: WorkQueue[str] = WorkQueue(group=cluster_of, max_per_group=2)
    for number in range(5):
        queue.add(f"stuck/{number}")
    held = [await queue.get(), await queue.get()]
    waiting = asyncio.create_task(queue.get())
    await settle()
    assert not waiting.done()
    queue.add("free/1")
    assert await waiting == "free/1"
    another = asyncio.create_task(queue.get())
    await settle()
    assert not another.done()
    queue.done(held[0])
    assert await another == "stuck/2"


async def test_a_failing_key_waits_longer_each_time_and_only_that_key(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(initial_delay=1, max_delay=10, clock=clock, random=lambda: 0.0)
    assert [queue.retry("bad") for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    queue.add("good")
    assert await queue.get() == "good"
    await clock.advance(0.9)
    assert len(queue) == 0
    await clock.advance(0.2)
    assert await queue.get() == "bad"
    queue.forget("bad")
    assert queue.retry("bad") == 1


async def test_of_two_delays_the_earlier_counts(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock=clock)
    queue.add_after("a", 10)
    queue.add_after("a", 2)
    queue.add_after("a", 5)
    await clock.advance(2)
    assert await queue.get() == "a"
    assert queue.delayed == 0


async def test_a_delayed_key_that_is_added_meanwhile_is_not_worked_on_twice_at_once(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock=clock)
    queue.add_after("a", 5)
    queue.add("a")
    key = await queue.get()
    await clock.advance(6)
    assert len(queue) == 0
    queue.done(key)
    assert await queue.get() == "a"


async def test_shutting_down_ends_waiting_workers_and_waits_for_busy_ones() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    key = await queue.get()
    idle = asyncio.create_task(queue.get())
    await settle()
    queue.shut_down()
    with pytest.raises(Closed):
        await idle
    drained = asyncio.create_task(queue.drained())
    await settle()
    assert not drained.done()
    queue.done(key)
    await drained


async def test_a_cancelled_worker_takes_no_key_with_it() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await settle()
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 1) == "a"


async def test_a_key_for_idle_moments_waits_for_all_others() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_when_idle("later", 60)
    for key in ("a", "b"):
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["a", "b", "later"]


async def test_an_ordinary_turn_does_for_an_idle_moment() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_when_idle("a", 60)
    queue.add("a")
    queue.add_when_idle("a", 60)
    queue.done(await queue.get())
    waiting = asyncio.create_task(queue.get())
    await settle()
    assert not waiting.done()
    queue.add_when_idle("b", 60)
    assert await asyncio.wait_for(waiting, 1) == "b"


async def test_a_key_for_idle_moments_that_is_worked_on_comes_again_afterwards() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    key = await queue.get()
    queue.add_when_idle("a", 60)
    waiting = asyncio.create_task(queue.get())
    await settle()
    assert not waiting.done()
    queue.done(key)
    assert await asyncio.wait_for(waiting, 1) == "a"


async def test_a_key_for_idle_moments_has_its_turn_in_time_and_only_one(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock=clock)
    queue.add("first")
    queue.add_when_idle("later", 5)
    await clock.advance(5)
    queue.add("last")
    for expected in ("first", "later", "last"):
        key = await queue.get()
        assert key == expected
        queue.done(key)
    queue.add_when_idle("again", 5)
    queue.done(await queue.get())
    assert not clock.pending
    assert len(queue) == 0


@given(st.lists(st.tuples(st.sampled_from(["add", "idle", "get", "done"]), st.integers(0, 5)), max_size=60))
def test_no_key_is_lost_or_worked_on_twice_at_once(steps: list[tuple[str, int]]) -> None:
    async def play() -> None:
        queue: WorkQueue[int] = WorkQueue(group=lambda key: key % 2, max_per_group=2)
        wanted: set[int] = set()
        busy: set[int] = set()
        for step, key in steps:
            if step in ("add", "idle"):
                if step == "add":
                    queue.add(key)
                else:
                    queue.add_when_idle(key, 60)
                wanted.add(key)
            elif step == "done" and key in busy:
                busy.discard(key)
                queue.done(key)
            elif step == "get":
                waiting = asyncio.create_task(queue.get())
                await asyncio.sleep(0)
                if waiting.done():
                    assert waiting.result() not in busy
                    busy.add(waiting.result())
                    wanted.discard(waiting.result())
                else:
                    waiting.cancel()
        while wanted or busy:
            for key in list(busy):
                busy.discard(key)
                queue.done(key)
            if wanted:
                key = await asyncio.wait_for(queue.get(), 1)
                wanted.discard(key)
                busy.add(key)

    asyncio.run(play())


async def test_a_group_that_is_dropped_is_as_if_it_had_never_been(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(group=cluster_of, max_per_group=1, clock=clock)
    for key in ("gone/running", "gone/waiting", "kept/waiting"):
        queue.add(key)
    running = [await queue.get(), await queue.get()]
    queue.retry("gone/failing")
    queue.add_after("gone/later", 5)
    queue.add_when_idle("gone/idle", 5)
    queue.add("gone/running")
    queue.drop("gone")
    assert (len(queue), queue.delayed, queue.failures("gone/failing")) == (0, 0, 0)
    for key in running:
        queue.done(key)
    await clock.advance(60)
    assert (len(queue), queue.processing) == (0, 0)
    queue.add("gone/running")
    assert await queue.get() == "gone/running"


async def test_a_group_that_held_its_share_goes_on_when_it_gives_some_back() -> None:
    queue: WorkQueue[str] = WorkQueue(group=cluster_of, max_per_group=2)
    for number in range(5):
        queue.add(f"a/{number}")
    queue.add("b/0")
    taken = [await queue.get() for _ in range(3)]
    assert (taken, len(queue)) == (["a/0", "b/0", "a/1"], 3)
    queue.done("a/1")
    assert await queue.get() == "a/2"
    queue.done("a/2")
    queue.done("a/0")
    assert [await queue.get(), await queue.get()] == ["a/3", "a/4"]


async def test_workers_can_be_started_as_keys_come_and_go_on_while_there_are_any() -> None:
    begun: list[str] = []

    def start() -> None:
        key = queue.take()
        if key is not None:
            begun.append(key)

    queue: WorkQueue[str] = WorkQueue(group=cluster_of, max_per_group=1, on_ready=start)
    for key in ("a/0", "a/1", "b/0"):
        queue.add(key)
    assert begun == ["a/0", "b/0"]
    queue.add("a/0")
    queue.done("a/0")
    assert queue.take() == "a/1"
    queue.done("a/1")
    assert queue.take() == "a/0"
    queue.done("b/0")
    assert queue.take() is None
    queue.add_when_idle("b/1", 60)
    assert begun == ["a/0", "b/0", "b/1"]
