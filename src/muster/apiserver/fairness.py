"""Fair queuing of requests by user: requests beyond a small number per turn of the event loop are queued, with one queue per user.

Serves the purpose of API Priority and Fairness (`k8s.io/apiserver/pkg/util/flowcontrol`), with users as flows and one priority
level. The first requests of a user in a turn of the event loop start immediately; the others are queued, and in each turn the
queues are served round-robin. A client alone on the server loses a few microseconds; beside a flood of requests, all others are
still served in the next turn. Queues are bounded: a request that does not fit is answered 429, and clients retry.
"""

from __future__ import annotations

import asyncio
from collections import deque

from muster.apiserver.errors import too_many_requests

IMMEDIATE_STARTS = 8
"""Requests of one user that start immediately in one turn."""
QUEUED_STARTS = 16
"""Queued requests that start in one turn, of all users together."""
MAX_QUEUE_LENGTH = 2000


class FairQueue:
    def __init__(self) -> None:
        self._started: dict[str, int] = {}
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._ticking = False
        self.in_flight = 0
        self.rejected = 0

    def try_start(self, user: str) -> bool:
        """Whether a request may start immediately; if not, the caller has to `wait`."""
        if user in self._queues:
            return False
        started = self._started.get(user, 0)
        if started >= IMMEDIATE_STARTS:
            return False
        self._started[user] = started + 1
        self._tick()
        return True

    async def wait(self, user: str) -> None:
        queue = self._queues.setdefault(user, deque())
        if len(queue) >= MAX_QUEUE_LENGTH:
            self.rejected += 1
            raise too_many_requests()
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
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
        while self._queues and started < QUEUED_STARTS:
            for user in list(self._queues):
                queue = self._queues[user]
                while queue and queue[0].done():
                    queue.popleft()
                if queue:
                    queue.popleft().set_result(None)
                    started += 1
                if not queue:
                    del self._queues[user]
        if self._queues:
            self._tick()

    @property
    def waiting(self) -> int:
        return sum(len(queue) for queue in self._queues.values())
