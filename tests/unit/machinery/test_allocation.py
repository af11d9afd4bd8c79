"""Large blocks of memory are mapped each by itself, so that what is never written of them takes no room."""

import subprocess
import sys

import pytest

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
