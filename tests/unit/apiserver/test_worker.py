"""The thread beside the loop: one piece of work at a time, users in turn, nothing lost when a client goes away."""

from __future__ import annotations

import asyncio
import threading

import pytest

from muster.apiserver.worker import Worker


async def test_work_runs_beside_the_loop_and_gives_its_result() -> None:
    worker = Worker()
    assert await worker.run("alice", lambda number: (number + 1, threading.current_thread().name), 1) == (2, "apiserver-worker_0")
    worker.close()


async def test_a_failure_is_the_callers() -> None:
    worker = Worker()
    with pytest.raises(ZeroDivisionError):
        await worker.run("alice", lambda: 1 // 0)
    assert await worker.run("alice", lambda: "still there") == "still there"
    worker.close()


async def test_users_with_several_waiting_take_turns() -> None:
    worker = Worker()
    gate = threading.Event()
    order: list[str] = []
    first = asyncio.create_task(worker.run("alice", gate.wait))
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(worker.run(user, order.append, f"{user}{n}")) for user in ("alice", "bob") for n in range(2)]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *waiting)
    assert order == ["alice0", "bob0", "alice1", "bob1"]
    worker.close()


async def test_one_who_goes_away_neither_blocks_nor_skips_the_others() -> None:
    worker = Worker()
    gate = threading.Event()
    first = asyncio.create_task(worker.run("alice", gate.wait))
    await asyncio.sleep(0)
    gone = asyncio.create_task(worker.run("alice", lambda: "never"))
    other = asyncio.create_task(worker.run("bob", lambda: "served"))
    await asyncio.sleep(0)
    gone.cancel()
    first.cancel()
    gate.set()
    assert await other == "served"
    assert await worker.run("alice", lambda: "again") == "again"
    worker.close()
