"""A worker thread for requests that may take long to process, so that the event loop stays responsive.

The cost of reading, patching and validating a body is proportional to its size, and megabytes take a large part of a second. Such
steps are pure functions of the request and of immutable objects; they run here, one at a time (because of Python's GIL),
round-robin by user. Code that reads or changes the state of the server stays on the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

LARGE: Final = 32 * 1024
"""Size of a body or object in bytes above which it is not processed on the event loop; smaller ones take a few milliseconds at
most."""
SWITCH_INTERVAL: Final = 0.001
"""The interpreter's switch interval in seconds: how long the thread may block the loop. Python's default of 5 ms adds up."""

Result = TypeVar("Result")
_Turn = asyncio.Future[None]


class Worker:
    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._queues: dict[str, deque[_Turn]] = {}
        self._busy = False

    async def run(self, user: str, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run the function when it is the user's turn; return its result."""
        if self._busy:
            turn: _Turn = asyncio.get_running_loop().create_future()
            self._queues.setdefault(user, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._start_next()
                raise
        self._busy = True
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "apiserver-worker")
        work = asyncio.get_running_loop().run_in_executor(self._pool, partial(function, *arguments))
        work.add_done_callback(lambda _: self._start_next())
        return await asyncio.shield(work)

    def _start_next(self) -> None:
        """Start the next queued function, of the next user."""
        self._busy = False
        while self._queues:
            user = next(iter(self._queues))
            queue = self._queues.pop(user)
            turn = queue.popleft()
            if queue:
                self._queues[user] = queue
            if not turn.done():
                self._busy = True
                turn.set_result(None)
                return

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
