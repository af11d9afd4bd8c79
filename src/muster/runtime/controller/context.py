"""What every controller is given: a client, shared caches, a recorder of events, metrics, and time.

A controller is a class that takes a `ControllerContext` (or a small class of its room that holds one beside the room's own things),
asks it for the caches it watches, makes its queue and workers with `controller`, and offers `async def run()`. Caches are shared:
one watch per collection for all controllers of a context. An object that cannot be read is refused by its cache and reported
there; it harms no other object.
"""

from __future__ import annotations

import random as chance
from dataclasses import dataclass

from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.confinement import host_name
from muster.machinery.metrics import Metrics
from muster.runtime.cache.informer import Informers
from muster.runtime.client.base import KubeClient
from muster.runtime.controller.controller import MAX_DELAY, RECONCILE_TIMEOUT, SHUTDOWN_GRACE, WORKERS, Controller, K, Reconcile
from muster.runtime.controller.events import EventRecorder


@dataclass(frozen=True)
class ControllerContext:
    client: KubeClient
    informers: Informers
    events: EventRecorder
    metrics: Metrics
    clock: Clock
    random: Random
    workers: int = WORKERS
    """Reconciles at once, of a controller that does not say."""

    @classmethod
    def of(
        cls,
        client: KubeClient,
        reporter: str,
        *,
        workers: int = WORKERS,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> ControllerContext:
        """With caches of its own; events are reported as `reporter`."""
        metrics = metrics or Metrics()
        events = EventRecorder(client, reporter, host_name(), metrics=metrics, clock=clock, random=random)
        return cls(client, Informers(client, clock=clock, random=random), events, metrics, clock, random, workers)

    def controller(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        workers: int | None = None,
        timeout: float | None = RECONCILE_TIMEOUT,
        max_delay: float = MAX_DELAY,
        grace: float = SHUTDOWN_GRACE,
    ) -> Controller[K]:
        return Controller(
            name,
            reconcile,
            workers=workers or self.workers,
            timeout=timeout,
            max_delay=max_delay,
            grace=grace,
            metrics=self.metrics,
            clock=self.clock,
            random=self.random,
        )
