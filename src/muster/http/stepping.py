"""Running a coroutine without a task for as long as it does not wait.

Most requests are answered from memory: their handler never suspends, and a Task, its loop turns and its callbacks would
cost more than the work. `begin` sends the first step directly; only if the coroutine suspends is the rest handed to a
Task. During the first step `asyncio.current_task()` must not be None, because `asyncio.timeout`, `TaskGroup` and HTTP
clients ask for it: a stand-in is current then, and passes on to the real task whatever it was told. The step runs in
its own copy of the context, which the task goes on with, so context variables set by one request never reach another.
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import copy_context
from types import CoroutineType
from typing import Any, TypeVar

T = TypeVar("T")


class _StandIn:
    """What `asyncio.current_task()` gives during the first step."""

    __slots__ = ("__weakref__", "_cancellations", "_task")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._cancellations = 0

    def become(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        for _ in range(self._cancellations):
            task.cancel()

    def cancel(self, msg: Any = None) -> bool:
        if self._task is not None:
            return self._task.cancel(msg)
        self._cancellations += 1
        return True

    def cancelling(self) -> int:
        return self._cancellations if self._task is None else self._task.cancelling()

    def uncancel(self) -> int:
        if self._task is not None:
            return self._task.uncancel()
        self._cancellations = max(0, self._cancellations - 1)
        return self._cancellations

    def done(self) -> bool:
        return self._task is not None and self._task.done()

    def cancelled(self) -> bool:
        return self._task is not None and self._task.cancelled()

    def get_name(self) -> str:
        return "request" if self._task is None else self._task.get_name()


def begin(loop: asyncio.AbstractEventLoop, awaitable: Awaitable[T]) -> tuple[asyncio.Task[T] | None, T | None]:
    """Step once: (None, result) if that finished it, else (task that runs the rest, None). Raises what the step raised."""
    if not isinstance(awaitable, CoroutineType):
        return loop.create_task(_awaited(awaitable)), None
    context = copy_context()
    stand_in: Any = _StandIn()
    _enter_task(loop, stand_in)
    try:
        waits_for = context.run(awaitable.send, None)
    except StopIteration as stop:
        return None, stop.value
    finally:
        _leave_task(loop, stand_in)
    task: asyncio.Task[T] = loop.create_task(_Rest(awaitable, waits_for), context=context)
    stand_in.become(task)
    return task, None


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


class _Rest(Coroutine[Any, Any, T]):
    """A started coroutine as a task sees it: first what the first step yielded, then the coroutine itself.

    A class and not an `async def`, because a task cancelled before its first step throws into a coroutine that has
    not begun, which could then not pass the cancellation on.
    """

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, started: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._coroutine = started
        self._waits_for: Any = (waits_for,)

    def send(self, value: Any) -> Any:
        if self._waits_for is not None:
            first, self._waits_for = self._waits_for[0], None
            return first
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        self._waits_for = None
        try:
            return self._coroutine.throw(*error)
        finally:
            # Its traceback has this frame: they would hold each other, and the connection behind them, until a collection.
            del error

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise TypeError("only a task runs this")
