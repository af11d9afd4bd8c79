"""Waiting for what a process under measurement does, and when it was done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from tests.support.processes import Server, tail

LOOK_SECONDS = 0.5
"""How long nothing may be heard before it is looked whether the process still runs."""


class Measured(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def server(self) -> Server: ...


async def until(measured: Measured, news: asyncio.Event, done: Callable[[], bool], what: str, timeout: float) -> float:
    """When it was so: monotonic time. `news` is set at every change of what `done` looks at."""
    deadline = time.monotonic() + timeout
    while not done():
        news.clear()
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await news.wait()
        except TimeoutError:
            pass
        if not measured.server.running:
            raise RuntimeError(f"{measured.name} ended: {tail(measured.server.log)}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{measured.name}: waited {timeout:.0f} s for {what}\n{tail(measured.server.log, 5)}")
    return time.monotonic()
