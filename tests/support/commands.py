"""A command of `muster` that serves, as a process: from its first line to its end by a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MUSTER = (sys.executable, "-c", "from muster.cli.muster import main; main()")
SECONDS = 60


async def begun(*words: str) -> asyncio.subprocess.Process:
    """`muster` with these words."""
    pipe = asyncio.subprocess.PIPE
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return await asyncio.create_subprocess_exec(*MUSTER, *words, stdout=pipe, stderr=pipe, env=environment)


@asynccontextmanager
async def serving(*words: str) -> AsyncIterator[str]:
    """The line with which it says that it serves. When the block is over it is told to end, and has to end well."""
    process = await begun(*words)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            yield (await process.stdout.readline()).decode()
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
