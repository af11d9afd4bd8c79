"""The controllers of the hub's side of works, wired together and run side by side.

`WorkHub` takes a client and options and nothing else from the process around it. Which controllers run is a table: each with what
switches it on. Everything runs in one task group: either all of it runs, or none. Who may run at all (leader election) and
webhooks are the caller's business.
"""

from __future__ import annotations

import random as chance
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.confinement import host_name
from muster.machinery.metrics import Metrics
from muster.runtime.cache.informer import Informers
from muster.runtime.client.base import KubeClient
from muster.runtime.controller.events import EventRecorder
from muster.runtime.process.parts import Part, run_parts
from muster.work.hub.bindings.status import BindingStatus
from muster.work.hub.finished import FinishedWorks
from muster.work.hub.options import WorkHubOptions
from muster.work.hub.replica_sets.controller import ReplicaSets
from muster.work.hub.world import WorkHubWorld

REPORTER: Final = "work-controller"
"""Who the events are from."""


class WorkHubController(Protocol):
    async def run(self) -> None: ...


@dataclass(frozen=True)
class Row:
    make: Callable[[WorkHubWorld], WorkHubController]
    wanted: Callable[[WorkHubOptions], bool]


CONTROLLERS: Final[tuple[Row, ...]] = (
    Row(ReplicaSets, lambda options: options.replica_sets),
    Row(FinishedWorks, lambda options: options.clean_up_completed),
    Row(BindingStatus, lambda options: options.authorization.by_bindings),
)


class WorkHub:
    def __init__(
        self,
        client: KubeClient,
        options: WorkHubOptions,
        *,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
        metrics: Metrics | None = None,
    ) -> None:
        metrics = metrics or Metrics()
        self._events = EventRecorder(client, REPORTER, host_name(), metrics=metrics, clock=clock, random=random)
        self._informers = Informers(client, clock=clock, random=random)
        self.world = WorkHubWorld(client, self._informers, self._events, metrics, clock, random, options)
        self._controllers = [row.make(self.world) for row in CONTROLLERS if row.wanted(options)]

    @property
    def ready(self) -> bool:
        """Whether every cache has held its whole state once."""
        return self._informers.has_synced

    async def synced(self) -> None:
        await self._informers.synced()

    async def run(self) -> NoReturn:
        """Until cancelled. Raises PartFailed."""
        parts: list[Part] = [("the caches", self._informers.run), ("the event recorder", self._events.run)]
        parts += [(f"controller {type(controller).__name__}", controller.run) for controller in self._controllers]
        await run_parts(parts)
