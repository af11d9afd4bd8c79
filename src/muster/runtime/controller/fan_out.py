"""Many writes of one reconcile, some at a time: one that fails is named and keeps no other waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

MAX_CONCURRENT_WRITES: Final = 16
"""Writes under way for one object."""
_NAMED: Final = 5

WriteOne = Callable[[], Awaitable[None]]


async def write_each(
    writes: Iterable[tuple[str, WriteOne]], expected: tuple[type[Exception], ...], *, at_once: int = MAX_CONCURRENT_WRITES
) -> dict[str, str]:
    """Do all of it. Gives what failed in an expected way, by the name that came with it, and why."""
    failed: dict[str, str] = {}
    slots = asyncio.Semaphore(at_once)

    async def one(name: str, write: WriteOne) -> None:
        async with slots:
            try:
                await write()
            except expected as error:
                failed[name] = str(error)

    async with asyncio.TaskGroup() as tasks:
        for name, write in writes:
            tasks.create_task(one(name, write))
    return failed


def failures_text(failed: Mapping[str, str]) -> str:
    """The first of them by name, and how many more there are."""
    lines = [f"{name}: {why}" for name, why in sorted(failed.items())]
    more = f" and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return ", ".join(lines[:_NAMED]) + more
