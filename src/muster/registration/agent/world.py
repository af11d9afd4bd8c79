"""What every part of an agent is given: its own cluster, where its Secrets are, who it is, its driver, and time.

`first` is how an agent lives through a phase: everything that belongs to the phase runs at once, and the first that ends, ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from muster.registration.agent.hub_secret import HubSecret
from muster.registration.agent.options import AgentOptions
from muster.registration.drivers.seam import SpokeDriver
from muster.registration.names import AgentIdentity
from muster.runtime.clock import Clock, Random
from muster.runtime.events import EventRecorder
from muster.runtime.metrics import Metrics
from muster.runtime.verbs import KubeClient

T = TypeVar("T")


@dataclass(frozen=True)
class AgentWorld:
    spoke: KubeClient
    """The managed cluster."""
    secret: HubSecret
    events: EventRecorder
    """On the cluster that the agent's Secrets are on."""
    options: AgentOptions
    identity: AgentIdentity
    driver: SpokeDriver
    metrics: Metrics
    clock: Clock
    random: Random

    @property
    def cluster(self) -> str:
        return self.identity.cluster


async def first(*parts: Coroutine[Any, Any, T]) -> T:
    """The result of whichever ends first; the others are cancelled and have ended before this does."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
