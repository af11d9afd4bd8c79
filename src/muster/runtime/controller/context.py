"""The dependencies of every controller: a client, shared caches, an event recorder, metrics, and a clock.

A controller is a class that takes a `ControllerContext` (or a small class of its package that has one), gets its caches from it,
makes its queue and workers with `controller`, and has `async def run()`. Caches are shared: one watch per collection for all
controllers of a context. An object that cannot be decoded is refused by its cache and logged there; other objects are not affected.
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
    """Concurrent reconciles of a controller that does not set them itself."""

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
        """A context with its own caches; `reporter` is the reportingController of events."""
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
