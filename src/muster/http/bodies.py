"""Limits for request bodies in memory: in all, and per holder (a user, or the address of an unauthenticated client).

A small body that came with its head is free. For any other, memory for all of it must be available before it is read: for its
announced length, or for the maximum if none is announced. So a started body can always be finished, and bodies never wait for each
other. Without available memory a request waits in its holder's queue; its client is not read meanwhile. After
`STALLED_BODY_TIMEOUT` the oldest incomplete body is dropped, so slow clients do not block others for long. Requests beyond the
queue are refused with 429, and clients retry.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.http.message import Connection

SMALL_BODY = 16 * 1024
"""Bodies up to this size are not counted, once per connection."""
TOTAL = 64 * 1024 * 1024
OWNER_SHARE_DIVISOR = 4
"""The part of the whole that one holder may use, as a divisor."""
LONGEST_LINE = 64
STALLED_BODY_TIMEOUT = 5.0


class BodyRefused(Exception):
    """A body that is not read, or not to its end: the status of the response, and the reason."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Hold:
    """Memory for a body until it is released."""

    __slots__ = ("_budget", "abandon", "holder", "since", "size")

    def __init__(self, budget: BodyBudget, holder: Hashable, size: int, abandon: Callable[[], None] | None) -> None:
        self._budget = budget
        self.holder = holder
        self.size = size
        self.since = 0.0
        self.abandon = abandon
        """Drops an incomplete body; None once it is complete."""

    def release(self) -> None:
        self._budget.release(self)


class BodyBudget:
    """`largest` is the maximum of a single body: a share is never smaller."""

    def __init__(self, total: int, largest: int) -> None:
        self._total = max(total, largest)
        self._share = max(total // OWNER_SHARE_DIVISOR, largest)
        self._holds: dict[Hold, None] = {}
        self._held: dict[Hashable, int] = {}
        self._lines: dict[Hashable, deque[tuple[asyncio.Future[Hold], Hold]]] = {}
        self.held = 0
        self.refused = 0

    def try_hold(self, holder: Hashable, size: int) -> Hold:
        """Memory for a complete body; raises BodyRefused."""
        if not self._fits(holder, size):
            raise self._refusal()
        return self._take(Hold(self, holder, size, None))

    async def hold(self, holder: Hashable, size: int, abandon: Callable[[], None]) -> Hold:
        """Memory for a body that is to be read, after waiting for it; raises BodyRefused."""
        hold = Hold(self, holder, size, abandon)
        if holder not in self._lines and self._fits(holder, size):
            return self._take(hold)
        line = self._lines.setdefault(holder, deque())
        if len(line) >= LONGEST_LINE:
            raise self._refusal()
        turn: asyncio.Future[Hold] = asyncio.get_running_loop().create_future()
        line.append((turn, hold))
        try:
            return await self._turn(turn, hold)
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.release(hold)
            raise
        finally:
            turn.cancel()
            self._advance()

    async def _turn(self, turn: asyncio.Future[Hold], hold: Hold) -> Hold:
        await asyncio.wait((turn,), timeout=STALLED_BODY_TIMEOUT)
        if not turn.done():
            self._make_room(hold)
            await asyncio.wait((turn,), timeout=STALLED_BODY_TIMEOUT)
        if not turn.done():
            raise self._refusal()
        return turn.result()

    def release(self, hold: Hold) -> None:
        if hold not in self._holds:
            return
        del self._holds[hold]
        self.held -= hold.size
        left = self._held[hold.holder] - hold.size
        if left:
            self._held[hold.holder] = left
        else:
            del self._held[hold.holder]
        if self._lines:
            self._advance()

    def _fits(self, holder: Hashable, size: int) -> bool:
        return self.held + size <= self._total and self._held.get(holder, 0) + size <= self._share

    def _take(self, hold: Hold) -> Hold:
        hold.since = time.monotonic()
        self._holds[hold] = None
        self.held += hold.size
        self._held[hold.holder] = self._held.get(hold.holder, 0) + hold.size
        return hold

    def _refusal(self) -> BodyRefused:
        self.refused += 1
        return BodyRefused(429, "too many request bodies are being received, please try again later")

    def _make_room(self, wanted: Hold) -> None:
        """Drop stalled bodies, oldest first: the holder's own if its share is used up, else those of the holder with the most."""
        crowding = wanted.holder
        if self._held.get(crowding, 0) + wanted.size <= self._share:
            crowding = max(self._held, key=self._held.__getitem__)
        latest, freed = time.monotonic() - STALLED_BODY_TIMEOUT, 0
        for hold in list(self._holds):
            if freed >= wanted.size or hold.since > latest:
                return
            if hold.holder == crowding and hold.abandon is not None:
                freed += hold.size
                hold.abandon()

    def _advance(self) -> None:
        """Grant memory to the first of each queue while it is available."""
        for holder in list(self._lines):
            line = self._lines[holder]
            while line:
                turn, hold = line[0]
                if not turn.done():
                    if not self._fits(holder, hold.size):
                        break
                    turn.set_result(self._take(hold))
                line.popleft()
            if not line:
                del self._lines[holder]


class Budgets:
    """The budget of authenticated clients, and the part reserved for unauthenticated ones."""

    def __init__(self, total: int, largest: int, strangers: float) -> None:
        self._owned = BodyBudget(total, largest)
        self._strangers = self._owned if strangers >= 1 else BodyBudget(int(total * strangers), largest)

    def of(self, info: Connection) -> tuple[BodyBudget, Hashable]:
        """The budget of a connection, and its holder."""
        return (self._strangers, info.remote[0]) if info.owner is None else (self._owned, info.owner)
