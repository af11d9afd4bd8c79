"""The first step of a request runs at once and has a current task, by whichever way this Python offers.

On a Python whose `asyncio` no longer has what `eager_tasks` takes from it, these tests fail before a server does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from muster.http.eager_tasks import begin

who: ContextVar[str] = ContextVar("who", default="nobody")


def outside_of_tasks(act: Callable[[asyncio.AbstractEventLoop], Awaitable[Any]]) -> Any:
    """What a transport's callback does, which is where requests begin; the task it gives is awaited."""

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        given: asyncio.Future[Awaitable[Any]] = loop.create_future()

        def callback() -> None:
            assert asyncio.current_task() is None
            try:
                given.set_result(act(loop))
            except BaseException as error:
                given.set_exception(error)
            assert asyncio.current_task() is None

        loop.call_soon(callback)
        return await (await given)

    async def bounded() -> Any:
        async with asyncio.timeout(10):
            return await main()

    return asyncio.run(bounded())


def done(result: Any) -> Awaitable[Any]:
    future = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future


def test_what_does_not_wait_is_finished_at_once() -> None:
    async def answer() -> str:
        return "ok"

    def act(loop: asyncio.AbstractEventLoop) -> Awaitable[Any]:
        assert begin(loop, answer()) == (None, "ok")
        return done(None)

    outside_of_tasks(act)


def test_what_the_first_step_raises_is_raised() -> None:
    async def fail() -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        outside_of_tasks(lambda loop: done(begin(loop, fail())))


def test_the_first_step_has_a_current_task_so_that_timeouts_work() -> None:
    async def wait_too_long() -> str:
        assert asyncio.current_task() is not None
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "not reached"

    def act(loop: asyncio.AbstractEventLoop) -> Awaitable[Any]:
        task, _ = begin(loop, wait_too_long())
        assert task is not None
        return task

    assert outside_of_tasks(act) == "timed out"


def test_a_cancellation_of_the_first_step_reaches_the_rest() -> None:
    async def cancel_itself() -> str:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "cancelled"
        return "not reached"

    def act(loop: asyncio.AbstractEventLoop) -> Awaitable[Any]:
        task, _ = begin(loop, cancel_itself())
        assert task is not None
        return task

    assert outside_of_tasks(act) == "cancelled"


def test_groups_of_tasks_work_across_the_first_step() -> None:
    async def together() -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asyncio.sleep(0, number)) for number in range(3)]
        return [task.result() for task in tasks]

    def act(loop: asyncio.AbstractEventLoop) -> Awaitable[Any]:
        task, _ = begin(loop, together())
        assert task is not None
        return task

    assert outside_of_tasks(act) == [0, 1, 2]


def test_context_of_one_request_is_not_seen_by_another() -> None:
    async def ask(name: str) -> str:
        before = who.get()
        who.set(name)
        await asyncio.sleep(0)
        return f"{before} {who.get()}"

    def act(loop: asyncio.AbstractEventLoop) -> Awaitable[Any]:
        tasks = [begin(loop, ask(name))[0] for name in ("alice", "bob")]
        assert who.get() == "nobody"
        return asyncio.gather(*(task for task in tasks if task is not None))

    assert outside_of_tasks(act) == ["nobody alice", "nobody bob"]
