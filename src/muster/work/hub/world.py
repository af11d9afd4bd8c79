"""What every controller of the hub's side of works is given: a client, shared caches, and time.

A controller is a class that takes a `WorkHubWorld`, asks it for the caches it watches, and offers `async def run()`. Caches are
shared: one watch per collection for the whole process, whoever looks.
"""

from __future__ import annotations

from dataclasses import dataclass

from muster.machinery.clock import Clock, Random
from muster.machinery.metrics import Metrics
from muster.machinery.objects import ObjectKey
from muster.runtime.cache.informer import Informers
from muster.runtime.client.base import KubeClient
from muster.runtime.controller.controller import Controller, Reconcile
from muster.runtime.controller.events import EventRecorder
from muster.work.hub.options import WorkHubOptions


@dataclass(frozen=True)
class WorkHubWorld:
    client: KubeClient
    informers: Informers
    events: EventRecorder
    metrics: Metrics
    clock: Clock
    random: Random
    options: WorkHubOptions

    def controller(self, name: str, reconcile: Reconcile[ObjectKey]) -> Controller[ObjectKey]:
        """A controller whose keys are those of objects."""
        return Controller(name, reconcile, workers=self.options.workers, metrics=self.metrics, clock=self.clock, random=self.random)
