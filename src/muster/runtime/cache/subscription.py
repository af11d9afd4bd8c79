"""Changes for a slow handler: merged per object while it is busy, so that it delays no other handler and never misses the last
state.

The number of pending changes is bounded by the number of objects: per object there is at most one, from the state that the handler
saw last to the current one. Objects that came and went meanwhile are not reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectKey

log = get_logger("muster.runtime.cache.subscription")

T = TypeVar("T")
AsyncHandler = Callable[[T | None, T | None], Awaitable[None]]


class Subscription(Generic[T]):
    """The pending changes of one slow handler: at most one per object, from the state that it saw last to the current one."""

    def __init__(self, handler: AsyncHandler[T], name: str) -> None:
        self._handler = handler
        self._name = name
        self._pending: dict[ObjectKey, tuple[T | None, T | None]] = {}
        self._news = asyncio.Event()

    @property
    def behind(self) -> int:
        return len(self._pending)

    def offer(self, key: ObjectKey, old: T | None, new: T | None) -> None:
        if key in self._pending:
            old = self._pending[key][0]
        if old is None and new is None:
            self._pending.pop(key, None)
            return
        self._pending[key] = (old, new)
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            while self._pending:
                key = next(iter(self._pending))
                old, new = self._pending.pop(key)
                try:
                    await self._handler(old, new)
                except Exception as error:
                    log.error("handler failed", resource=self._name, key=str(key), error=f"{type(error).__name__}: {error}")
            self._news.clear()
