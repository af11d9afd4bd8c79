"""One client cannot starve the others: requests beyond a small share of each loop turn wait in line, one line per user.

A user's first requests in a turn of the event loop run at once; the rest wait, and every turn lets the lines advance in rotation.
A client alone on the server only notices a few microseconds; beside a flood, everybody else is still served in the next turn.
Lines are bounded: what does not fit is answered 429, and clients retry by themselves.
"""

from __future__ import annotations

import asyncio
from collections import deque

from muster.apiserver.errors import too_many_requests

AT_ONCE = 8
"""Requests of one user that run in the turn they arrive in."""
PER_TURN = 16
"""Waiting requests that start in one turn, over all users."""
LONGEST_LINE = 2000


class FairQueue:
    def __init__(self) -> None:
        self._started: dict[str, int] = {}
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        self._ticking = False
        self.in_flight = 0
        self.refused = 0

    def may_start(self, user: str) -> bool:
        """Whether a request runs at once; if not, `wait` for its turn."""
        if user in self._lines:
            return False
        started = self._started.get(user, 0)
        if started >= AT_ONCE:
            return False
        self._started[user] = started + 1
        self._tick()
        return True

    async def wait(self, user: str) -> None:
        line = self._lines.setdefault(user, deque())
        if len(line) >= LONGEST_LINE:
            self.refused += 1
            raise too_many_requests()
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        self._tick()
        await turn

    def _tick(self) -> None:
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._ticking = False
        self._started.clear()
        started = 0
        while self._lines and started < PER_TURN:
            for user in list(self._lines):
                line = self._lines[user]
                while line and line[0].done():
                    line.popleft()
                if line:
                    line.popleft().set_result(None)
                    started += 1
                if not line:
                    del self._lines[user]
        if self._lines:
            self._tick()

    @property
    def waiting(self) -> int:
        return sum(len(line) for line in self._lines.values())
