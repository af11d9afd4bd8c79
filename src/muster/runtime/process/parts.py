"""Parts of a process that all run or none: one that ends though nobody asked it to ends the others, and is named.

A part looks after its own failures, so its end is a defect, and whoever started the process decides what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NoReturn, TypeVar

from muster.machinery.logs import get_logger

log = get_logger("muster.runtime.process.parts")

T = TypeVar("T")
Part = tuple[str, Callable[[], Awaitable[None]]]
"""What it is called, and what runs until it is cancelled."""


class PartFailed(Exception):
    """A part ended though nobody asked it to."""

    def __init__(self, part: str, error: BaseException | None) -> None:
        super().__init__(f"{part} ended: {type(error).__name__}: {error}" if error else f"{part} ended by itself")
        self.part = part
        self.error = error


async def run_parts(parts: Sequence[Part]) -> NoReturn:
    """Until cancelled. Raises PartFailed."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for name, run in parts:
                tasks.create_task(_lasting(name, run), name=name)
    except ExceptionGroup as failures:
        # What an `except*` clause raises comes out in a group again, or not, by Python's version.
        raise failures.exceptions[0] from None
    raise AssertionError("a task group of endless parts ended")


async def _lasting(name: str, run: Callable[[], Awaitable[None]]) -> NoReturn:
    try:
        await run()
    except Exception as error:
        log.error("a part failed", part=name, error=f"{type(error).__name__}: {error}")
        raise PartFailed(name, error) from error
    raise PartFailed(name, None)


async def first(*parts: Coroutine[Any, Any, T]) -> T:
    """The result of whichever ends first; the others are cancelled and have ended before this does."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
