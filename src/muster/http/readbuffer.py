"""The buffer that a loop reads into: one for all its connections, of servers and of clients.

A loop reads from one socket at a time, and a connection copies out what came before the next read. So there is nothing to gain from
a buffer for each server and each pool; where many of them live and go in one process, each kept its own until a full garbage
collection, and that was most of what they cost.
"""

from __future__ import annotations

import asyncio
from typing import Final
from weakref import WeakKeyDictionary

READ_BUFFER: Final = (256 + 32) * 1024
"""More than TLS has at once, so that nothing of it stays behind where `lose_nothing_unread` does not see it."""

_buffers: WeakKeyDictionary[asyncio.AbstractEventLoop, memoryview] = WeakKeyDictionary()


def read_buffer(loop: asyncio.AbstractEventLoop) -> memoryview:
    buffer = _buffers.get(loop)
    if buffer is None:
        buffer = _buffers[loop] = memoryview(bytearray(READ_BUFFER))
    return buffer
