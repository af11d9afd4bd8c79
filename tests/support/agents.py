"""A registration agent for as long as a block of a test lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from muster.registration.agent.agent import Agent


@asynccontextmanager
async def agent_running(agent: Agent) -> AsyncIterator[Agent]:
    """It has to be there still at the end of the block; then it is stopped."""
    task = asyncio.create_task(agent.run())
    try:
        yield agent
        assert not task.done(), task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
