"""Many writes of one reconcile, with bounded concurrency: a failure is reported by name and does not stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

MAX_CONCURRENT_WRITES: Final = 16
"""Concurrent writes for one object."""
_NAMED: Final = 5

WriteOne = Callable[[], Awaitable[None]]


async def write_each(
    writes: Iterable[tuple[str, WriteOne]], expected: tuple[type[Exception], ...], *, at_once: int = MAX_CONCURRENT_WRITES
) -> dict[str, str]:
    """Do all writes. Returns the expected failures, by the name of the write."""
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
    """The first failure with its name, and the number of others."""
    lines = [f"{name}: {why}" for name, why in sorted(failed.items())]
    more = f" and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return ", ".join(lines[:_NAMED]) + more
