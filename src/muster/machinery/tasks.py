"""Several coroutines as one: all of them (`run_all`), or the first to end (`race`).

The runnables of `run_all` run until cancelled and handle their own failures. So an unexpected end is a bug: the others are
cancelled, and `RunnableEnded` names the one that ended, for the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class RunnableEnded(Exception):
    """A runnable has ended before it was cancelled; `error` is None if it returned."""

    def __init__(self, name: str, error: Exception | None) -> None:
        super().__init__(f"{name} ended: {type(error).__name__}: {error}" if error else f"{name} ended by itself")
        self.name = name
        self.error = error


async def run_all(runnables: Mapping[str, Callable[[], Awaitable[None]]]) -> NoReturn:
    """Runs until cancelled. Raises RunnableEnded."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for name, run in runnables.items():
                tasks.create_task(_lasting(name, run), name=name)
    except ExceptionGroup as failures:
        # An exception of an `except*` clause is raised in a group or not, depending on Python's version.
        raise failures.exceptions[0] from None
    raise AssertionError("a task group of endless runnables ended")


async def _lasting(name: str, run: Callable[[], Awaitable[None]]) -> NoReturn:
    try:
        await run()
    except RunnableEnded:
        # It has runnables of its own, one of which is the cause.
        raise
    except Exception as error:
        raise RunnableEnded(name, error) from error
    raise RunnableEnded(name, None)


async def race(*runners: Coroutine[Any, Any, T]) -> T:
    """The result of the first to end; the others are cancelled and awaited."""
    tasks = [asyncio.create_task(runner) for runner in runners]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
