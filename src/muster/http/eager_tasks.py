"""Runs a coroutine's first step at once, without an iteration of the event loop.

Most requests are answered from memory: their handler never suspends, and the loop iterations and callbacks of a scheduled Task
would cost more than the work. `begin` runs the first step directly; only if the coroutine suspends does a Task continue it. During
that step `asyncio.current_task()` is not None, because `asyncio.timeout`, `TaskGroup` and HTTP clients use it. The step runs in its
own copy of the context, with which the task continues, so context variables set by one request never reach another.

Python 3.12 has this built in: eager tasks. Before that a stand-in is the current task for the first step, and forwards
cancellations to the real task. That needs the two functions which asyncio's documentation ("Extending") provides for other
implementations of tasks, `asyncio._enter_task` and `asyncio._leave_task`. `_step` is the only user of them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import Context, copy_context
from types import CoroutineType
from typing import Any, TypeVar

T = TypeVar("T")


def begin(loop: asyncio.AbstractEventLoop, awaitable: Awaitable[T]) -> tuple[asyncio.Task[T] | None, T | None]:
    """Run the first step: returns (None, result) if that finished it, else (task that runs the rest, None). Raises its
    exception."""
    if not isinstance(awaitable, CoroutineType):
        return loop.create_task(_awaited(awaitable)), None
    return _begin(loop, awaitable)


def _begin_eagerly(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> tuple[asyncio.Task[T] | None, T | None]:
    eager: dict[str, Any] = {"eager_start": True}  # the types are checked for Python 3.11
    task = asyncio.Task(coroutine, loop=loop, **eager)
    try:
        return (None, task.result()) if task.done() else (task, None)
    finally:
        # The traceback of its exception refers to this frame: a reference cycle until a collection.
        del task


def _begin_by_hand(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> tuple[asyncio.Task[T] | None, T | None]:
    context = copy_context()
    suspended = _Suspended()
    try:
        waits_for = _step(loop, suspended, coroutine, context)
    except StopIteration as stop:
        return None, stop.value
    task: asyncio.Task[T] = loop.create_task(_Rest(coroutine, waits_for), context=context)
    suspended.become(task)
    return task, None


def _step(loop: asyncio.AbstractEventLoop, current: Any, coroutine: Coroutine[Any, Any, Any], context: Context) -> Any:
    asyncio._enter_task(loop, current)
    try:
        return context.run(coroutine.send, None)
    finally:
        asyncio._leave_task(loop, current)


_begin = _begin_eagerly if sys.version_info >= (3, 12) else _begin_by_hand


class _Suspended:
    """The result of `asyncio.current_task()` during the first step."""

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
            # Its traceback refers to this frame: a reference cycle with the connection until a collection.
            del error

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise TypeError("only a task runs this")
