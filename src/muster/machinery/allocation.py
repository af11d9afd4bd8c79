"""Settings of memory allocation and garbage collection, for processes that serve many requests.

The C library: uvloop has a buffer of 256 KiB for every TLS connection, of which few pages are ever written. As long as the C
library maps such a block separately, only these pages are resident. But glibc raises the threshold for that as soon as one is
freed; later buffers then come from its heap, whose pages have been written before, including memory that imports needed for a
moment. With a fixed threshold a watch through the gateway was measured to take 83 KiB instead of 109, and the process 75 MiB
instead of 101.

Python's collector: the caches of a started process stay, and requests leave no cycles: repeated full collections were measured to
cost 6 % of a Publish over gRPC.

The exception are processes of which whole parts end earlier, such as pods that are tasks. What these leave has many cycles, in the
oldest generation: the collector would free it after tens of millions of objects. A `Reclaimer` frees it.
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
"""Seconds after which no timers of an ended part's connections remain."""
RECLAIM_PACE: Final = 200
"""The least time until the next collection, in multiples of a collection's duration: a collection blocks the process."""
FULL_COLLECTION_LIMIT: Final = 1_500_000
"""The most objects of the interpreter for a full collection: a fleet of 20 clusters has as many, which takes a fifth of a
second.
"""


def map_large_blocks() -> bool:
    """Map blocks of `TLS_BUFFER` and more separately, for the lifetime of the process; False if the C library has no such
    setting."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    mallopt.restype = ctypes.c_int
    return bool(mallopt(_M_MMAP_THRESHOLD, TLS_BUFFER))


def freeze_heap() -> None:
    """Call this when a process has filled its caches."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


def release_free_memory() -> None:
    """Collect garbage, in large processes the young generations only, and return free memory to the system, if the C library can do
    that."""
    gc.collect(2 if sys.getallocatedblocks() <= FULL_COLLECTION_LIMIT else 1)
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return


class Reclaimer:
    """Frees memory some time after parts of the process have ended; once for all that end meanwhile."""

    def __init__(self, clock: Clock = SYSTEM, give_back: Callable[[], None] = release_free_memory) -> None:
        self._clock = clock
        self._give_back = give_back
        self._pause = RECLAIM_AFTER
        self._timer: Timer | None = None
        self._again = False

    def ended(self) -> None:
        """A part of the process has ended. What ends shortly before a round may not be free by then, so another follows."""
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
