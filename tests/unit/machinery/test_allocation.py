"""Large blocks of memory are mapped each by itself, so that what is never written of them takes no room; what parts of a process
leave behind is given back."""

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from muster.machinery import allocation
from muster.machinery.allocation import RECLAIM_AFTER, RECLAIM_PACE, Reclaimer, release_free_memory
from tests.support.fake_clock import FakeClock

GROWN = """
import ctypes
from muster.machinery.allocation import TLS_BUFFER, map_large_blocks

library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.malloc.argtypes = (ctypes.c_size_t,)
library.free.argtypes = (ctypes.c_void_p,)
{setting}
library.free(library.malloc(4 * TLS_BUFFER))  # upon which glibc takes all that is smaller from its heap
blocks = [library.malloc(TLS_BUFFER) for _ in range(100)]
print(sum(block % 4096 == 16 for block in blocks))
"""


def mapped(setting: str) -> int:
    """How many of 100 blocks of the size of TLS buffers begin where a mapping does."""
    done = subprocess.run([sys.executable, "-c", GROWN.format(setting=setting)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's own")
def test_blocks_of_tls_buffers_are_mapped_after_larger_ones_were_freed() -> None:
    assert mapped("") < 100
    assert mapped("assert map_large_blocks()") == 100


class Part:
    """Holds itself, as what has tasks and handlers does."""

    def __init__(self) -> None:
        self.me = self


class SlowClock(FakeClock):
    """On which a collection takes as long as is set."""

    took = 0.0
    collections = 0

    def collect(self) -> None:
        self._elapsed += self.took
        self.collections += 1


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
async def test_what_a_part_left_in_cycles_is_given_back_a_while_after_it_ended() -> None:
    clock = FakeClock()
    reclaimer, left = Reclaimer(clock), weakref.ref(Part())
    reclaimer.ended()
    await clock.advance(RECLAIM_AFTER - 1)
    assert left() is not None
    await clock.advance(1)
    assert left() is None


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(("most", "kept"), [(sys.maxsize, False), (0, True)], ids=["small", "large"])
def test_what_is_old_is_looked_through_in_small_processes_only(monkeypatch: pytest.MonkeyPatch, most: int, kept: bool) -> None:
    monkeypatch.setattr(allocation, "FULL_COLLECTION_LIMIT", most)
    part = Part()
    gc.collect()
    old, young = weakref.ref(part), weakref.ref(Part())
    del part
    release_free_memory()
    assert young() is None
    assert (old() is not None) is kept


async def test_nothing_is_collected_where_nothing_ended() -> None:
    clock = SlowClock()
    Reclaimer(clock, clock.collect)
    await clock.advance(10 * RECLAIM_AFTER)
    assert clock.collections == 0


async def test_parts_that_end_together_are_collected_together_and_once_more_for_the_last_of_them() -> None:
    clock = SlowClock()
    reclaimer = Reclaimer(clock, clock.collect)
    for _ in range(int(RECLAIM_AFTER)):
        reclaimer.ended()
        await clock.advance(1)
    assert clock.collections == 1
    await clock.advance(10 * RECLAIM_AFTER)
    assert clock.collections == 2


async def test_a_collection_that_takes_long_is_not_repeated_soon() -> None:
    clock = SlowClock()
    clock.took = 0.5
    reclaimer = Reclaimer(clock, clock.collect)
    reclaimer.ended()
    await clock.advance(RECLAIM_AFTER)
    reclaimer.ended()
    await clock.advance(RECLAIM_PACE * clock.took - 1)
    assert clock.collections == 1
    await clock.advance(1)
    assert clock.collections == 2
