"""A thread beside the event loop for requests whose handling may take long, so that everybody else is still served.

What a large body costs to read, patch and check is in step with its size, but megabytes take a large part of a second. Such steps
are pure functions of the request and of objects nobody changes; they run here, one at a time (the interpreter runs one thread at a
time anyway), and users with several waiting take turns. What reads or changes the server's state stays on the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

LARGE: Final = 32 * 1024
"""Bytes of a body or an object from which on it is not handled on the loop; smaller ones take some milliseconds at worst."""
SWITCH_SECONDS: Final = 0.001
"""How long the thread may keep the loop from running on (Python's own five milliseconds add up over a request)."""

Result = TypeVar("Result")
_Turn = asyncio.Future[None]


class Worker:
    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._lines: dict[str, deque[_Turn]] = {}
        self._busy = False

    async def run(self, user: str, function: Callable[..., Result], *arguments: Any) -> Result:
        """The function's result, when it is the user's turn."""
        if self._busy:
            turn: _Turn = asyncio.get_running_loop().create_future()
            self._lines.setdefault(user, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()
                raise
        self._busy = True
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "apiserver-worker")
        work = asyncio.get_running_loop().run_in_executor(self._pool, partial(function, *arguments))
        work.add_done_callback(lambda _: self._pass_on())
        return await asyncio.shield(work)

    def _pass_on(self) -> None:
        """Give the turn to the next user in the rotation."""
        self._busy = False
        while self._lines:
            user = next(iter(self._lines))
            line = self._lines.pop(user)
            turn = line.popleft()
            if line:
                self._lines[user] = line
            if not turn.done():
                self._busy = True
                turn.set_result(None)
                return

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
