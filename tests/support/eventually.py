"""Waiting, in a coroutine, for what a server or an agent is about to do."""

from __future__ import annotations

import asyncio
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
