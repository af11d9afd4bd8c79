"""One flush per iteration of the event loop for everything that was written in it, on all connections.

Consecutive writes were measured to cost less than writes between reads (docs/decisions/0001).
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Flushable(Protocol):
    def flush(self) -> None: ...


class FlushQueue:
    def __init__(self) -> None:
        self._waiting: list[Flushable] = []

    def add(self, writer: Flushable) -> None:
        """Flush it at the end of this iteration."""
        waiting = self._waiting
        if not waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        waiting.append(writer)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for writer in waiting:
            writer.flush()
