"""Several coroutines as one: all of them or none (`run_all`), or whichever ends first (`race`).

What `run_all` runs lasts until it is cancelled and looks after its own failures. So an end that nobody asked for is a defect: the
others are cancelled, `RunnableEnded` names the one that ended, and whoever started them decides what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class RunnableEnded(Exception):
    """Something that was to run until cancelled has ended; `error` is None when it just returned."""

    def __init__(self, name: str, error: Exception | None) -> None:
        super().__init__(f"{name} ended: {type(error).__name__}: {error}" if error else f"{name} ended by itself")
        self.name = name
        self.error = error


async def run_all(runnables: Mapping[str, Callable[[], Awaitable[None]]]) -> NoReturn:
    """Until cancelled. Raises RunnableEnded."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for name, run in runnables.items():
                tasks.create_task(_lasting(name, run), name=name)
    except ExceptionGroup as failures:
        # What an `except*` clause raises comes out in a group again, or not, by Python's version.
        raise failures.exceptions[0] from None
    raise AssertionError("a task group of endless runnables ended")


async def _lasting(name: str, run: Callable[[], Awaitable[None]]) -> NoReturn:
    try:
        await run()
    except RunnableEnded:
        # It has runnables of its own, and one of these is the cause.
        raise
    except Exception as error:
        raise RunnableEnded(name, error) from error
    raise RunnableEnded(name, None)


async def race(*runners: Coroutine[Any, Any, T]) -> T:
    """The result of whichever ends first; the others are cancelled and have ended before this does."""
    tasks = [asyncio.create_task(runner) for runner in runners]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
