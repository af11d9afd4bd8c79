"""Fair queuing of published events: limits of concurrent calls in all and per caller, with callers served in rotation.

There is no rate limit: a single caller gets all the concurrency that one caller may have, and beside a busy caller every other one
still gets the next free slot. Queues are bounded in number and bytes; further calls are refused at once, and agents retry. A
cancelled call leaves its queue and is never started.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final

from muster.transport.rpc.status import Code, RpcError

MAX_CONCURRENT: Final = 256
MAX_CONCURRENT_PER_CALLER: Final = 16
MAX_QUEUE_LENGTH: Final = 256
MAX_QUEUED_BYTES_PER_CALLER: Final = 16 * 1024 * 1024
MAX_QUEUED_BYTES: Final = 256 * 1024 * 1024
"""Of waiting messages, in all queues together."""


class FairTurns:
    def __init__(
        self, *, in_all: int = MAX_CONCURRENT, each: int = MAX_CONCURRENT_PER_CALLER, longest_line: int = MAX_QUEUE_LENGTH
    ) -> None:
        self._in_all = in_all
        self._each = each
        self._longest_line = longest_line
        self._running: dict[Hashable, int] = {}
        self._lines: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()
        self._held: dict[Hashable, int] = {}
        """Bytes that wait, by caller."""
        self._all_held = 0
        self.in_flight = 0
        self.refused = 0

    @property
    def waiting(self) -> int:
        return sum(map(len, self._lines.values()))

    @asynccontextmanager
    async def turn(self, caller: Hashable, size: int = 0) -> AsyncIterator[None]:
        """For a call that holds so many bytes. Raises RpcError if the caller's queue is full."""
        if self.in_flight < self._in_all and self._running.get(caller, 0) < self._each and caller not in self._lines:
            self._begin(caller)
        else:
            await self._wait(caller, size)
        try:
            yield
        finally:
            self._end(caller)

    async def _wait(self, caller: Hashable, size: int) -> None:
        line, held = self._lines.setdefault(caller, deque()), self._held.get(caller, 0) + size
        full = len(line) >= self._longest_line or (
            line and (held > MAX_QUEUED_BYTES_PER_CALLER or self._all_held + size > MAX_QUEUED_BYTES)
        )
        if full:
            self.refused += 1
            raise RpcError(Code.RESOURCE_EXHAUSTED, "too many calls of this caller are waiting; try again later")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(waiter)
        if held:
            self._held[caller] = held
        self._all_held += size
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                # The slot was granted at the same moment: it is passed on.
                self._end(caller)
            else:
                self._leave(caller, waiter)
            raise
        finally:
            self._all_held -= size
            left = self._held.pop(caller, 0) - size
            if left > 0:
                self._held[caller] = left

    def _leave(self, caller: Hashable, waiter: asyncio.Future[None]) -> None:
        line = self._lines[caller]
        line.remove(waiter)
        if not line:
            del self._lines[caller]

    def _begin(self, caller: Hashable) -> None:
        self.in_flight += 1
        self._running[caller] = self._running.get(caller, 0) + 1

    def _end(self, caller: Hashable) -> None:
        self.in_flight -= 1
        self._running[caller] -= 1
        if not self._running[caller]:
            del self._running[caller]
        self._advance()

    def _advance(self) -> None:
        while self.in_flight < self._in_all:
            caller = next((one for one in self._lines if self._running.get(one, 0) < self._each), None)
            if caller is None:
                return
            line = self._lines[caller]
            waiter = line.popleft()
            if line:
                self._lines.move_to_end(caller)
            else:
                del self._lines[caller]
            if not waiter.done():
                self._begin(caller)
                waiter.set_result(None)
