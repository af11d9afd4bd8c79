"""Waiting for what a server or an agent is about to do: in a coroutine, and by blocking."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any


async def eventually(look: Callable[[], Awaitable[Any]], what: str, timeout: float = 60.0, poll: float = 0.1) -> Any:
    """What the coroutine of `look` gives, once that is true in the sense of `if`; a wait in vain shows what was seen last."""
    found: Any = None
    try:
        async with asyncio.timeout(timeout):
            while True:
                found = await look()
                if found:
                    return found
                await asyncio.sleep(poll)
    except TimeoutError:
        raise AssertionError(f"waited {timeout:g} s for {what}; last seen: {found!r}") from None


def until(holds: Callable[[], Any], seconds: float = 40) -> Any:
    """The first true answer of `holds`, for whoever waits by blocking."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
    return found
