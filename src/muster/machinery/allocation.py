"""How memory is handed out and looked through for garbage, in processes that serve many requests.

The C library first. uvloop has a buffer of 256 KiB for every TLS connection, of which few pages are ever written. As long as the C
library maps such a block by itself, only these pages are resident. But glibc raises the size from which it does so as soon as one
is freed; later buffers then come from its heap, where their pages have been written before, and what imports needed for a moment
stays in it too. With a fixed size a watch through the gateway was measured to take 83 KiB instead of 109, and the process 75 MiB
instead of 101.

Then Python's collector. What is here when everything has been taken in stays, and requests leave no cycles behind: looking through
all of it again and again was measured to cost 6 % of a Publish over gRPC.

The exception are processes of which whole parts end before they do, such as pods that are tasks. What these leave is full of
cycles, and old: the collector would come to it after tens of millions of objects. A `Reclaimer` gives it back.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from typing import Final

from muster.machinery.clock import SYSTEM, Clock, Timer

TLS_BUFFER: Final = 256 * 1024
_M_MMAP_THRESHOLD: Final = -3
"""Of glibc's malloc.h."""
GARBAGE_THRESHOLDS: Final = (50_000, 20, 50)
RECLAIM_AFTER: Final = 20.0
"""Seconds after which nothing waits any more for a part that has ended: timers of its connections are over."""
RECLAIM_PACE: Final = 200
"""How many times as long as a collection takes the next one is away, at least: everybody waits for it."""
FULL_COLLECTION_LIMIT: Final = 1_500_000
"""Of the interpreter's, in a process in which everything is looked through: a fleet of 20 clusters has as many, and that takes a
fifth of a second."""


def map_large_blocks() -> bool:
    """Have blocks of `TLS_BUFFER` and more mapped each by itself, for as long as the process lives; False where the C library
    knows no such setting, and does as it likes."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    mallopt.restype = ctypes.c_int
    return bool(mallopt(_M_MMAP_THRESHOLD, TLS_BUFFER))


def freeze_heap() -> None:
    """Called when a process has taken in what it works with."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


def release_free_memory() -> None:
    """Collect garbage, in large processes what is young only, and let the system have what is free then, where the C library can
    do that."""
    gc.collect(2 if sys.getallocatedblocks() <= FULL_COLLECTION_LIMIT else 1)
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return


class Reclaimer:
    """Has memory given back some time after parts of the process have ended; once for all that end meanwhile."""

    def __init__(self, clock: Clock = SYSTEM, give_back: Callable[[], None] = release_free_memory) -> None:
        self._clock = clock
        self._give_back = give_back
        self._pause = RECLAIM_AFTER
        self._timer: Timer | None = None
        self._again = False

    def ended(self) -> None:
        """A part of the process has. What ends shortly before a round may not be free by then, so another follows."""
        if self._timer is None:
            self._timer = self._clock.call_later(self._pause, self._reclaim)
        else:
            self._again = True

    def _reclaim(self) -> None:
        began = self._clock.monotonic()
        self._give_back()
        self._pause = max(RECLAIM_AFTER, RECLAIM_PACE * (self._clock.monotonic() - began))
        self._timer = None
        if self._again:
            self._again = False
            self.ended()
