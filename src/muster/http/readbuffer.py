"""The read buffer of an event loop: one for all connections of servers and clients.

A loop reads from one socket at a time, and a connection copies the data before the next read. So separate buffers have no
advantage; with many servers and pools in one process, each buffer was kept until a full garbage collection, and was most of their
memory.
"""

from __future__ import annotations

import asyncio
from typing import Final
from weakref import WeakKeyDictionary

READ_BUFFER: Final = (256 + 32) * 1024
"""More than TLS decrypts at once, so that no data remain unnoticed by `lose_nothing_unread`."""

_buffers: WeakKeyDictionary[asyncio.AbstractEventLoop, memoryview] = WeakKeyDictionary()


def read_buffer(loop: asyncio.AbstractEventLoop) -> memoryview:
    buffer = _buffers.get(loop)
    if buffer is None:
        buffer = _buffers[loop] = memoryview(bytearray(READ_BUFFER))
    return buffer
