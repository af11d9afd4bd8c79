"""The hub as a whole: drivers, caches and controllers, wired together and run side by side.

`Hub` takes a client and options and nothing else from the process around it, so that a test, a simulation and `muster hub` run the
very same thing. Everything runs in one task group: either all of it runs, or none. A controller looks after its own failures, so
one that ends by itself is a defect; then the rest is cancelled and `PartFailed` names it, and whoever started the process decides
what to do. Who may run at all (leader election) and webhooks are the caller's business.
"""

from __future__ import annotations

import random as chance
from collections.abc import Callable
from typing import Final, NoReturn, Protocol

from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.confinement import host_name
from muster.machinery.metrics import Metrics
from muster.registration import drivers
from muster.registration.drivers.seam import HubContext, HubDriver
from muster.registration.hub.clusters.acceptance import Acceptance
from muster.registration.hub.clusters.auto_acceptance import AutoAcceptance
from muster.registration.hub.clusters.collection import Collection
from muster.registration.hub.clusters.removal import Removal
from muster.registration.hub.health.addon_health import AddonHealth
from muster.registration.hub.health.clock_check import ClockCheck
from muster.registration.hub.health.leases import Leases
from muster.registration.hub.health.taints import Taints
from muster.registration.hub.options import HubOptions
from muster.registration.hub.sets.bindings import SetBindings
from muster.registration.hub.sets.cluster_sets import ClusterSets
from muster.registration.hub.sets.managed_namespaces import ManagedNamespaces
from muster.registration.hub.world import HubWorld
from muster.runtime.cache.informer import Informers
from muster.runtime.client.base import KubeClient
from muster.runtime.controller.events import EventRecorder
from muster.runtime.process.parts import Part, run_parts

REPORTER = "registration-controller"
"""Who the hub's events are from."""


CONTROLLERS: Final[tuple[Callable[[HubWorld], HubController], ...]] = (
    Collection,
    Removal,
    Leases,
    ClockCheck,
    Taints,
    AddonHealth,
    ClusterSets,
    SetBindings,
    ManagedNamespaces,
)
"""Beside `AutoAcceptance` and `Acceptance`, which drivers call."""


class HubController(Protocol):
    async def run(self) -> None: ...


class Hub:
    """Raises DriverConfigError or the drivers' own lookup error when the options name a driver that cannot be had."""

    def __init__(
        self,
        client: KubeClient,
        options: HubOptions,
        *,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
        metrics: Metrics | None = None,
        events: EventRecorder | None = None,
    ) -> None:
        metrics = metrics or Metrics()
        self._own_events = events is None
        self._events = events or EventRecorder(client, REPORTER, host_name(), metrics=metrics, clock=clock, random=random)
        self._informers = Informers(client, clock=clock, random=random)
        self._listeners: list[Callable[[str], None]] = []
        self._drivers = {name: self._driver(name, client, options, clock, random, metrics) for name in options.drivers}
        self.world = HubWorld(client, self._informers, self._events, metrics, clock, random, options, self._drivers)
        self._controllers = self._make_controllers()

    def _driver(
        self, name: str, client: KubeClient, options: HubOptions, clock: Clock, random: Random, metrics: Metrics
    ) -> HubDriver:
        driver = drivers.find(name)
        called = dict.fromkeys((name, driver.name, *driver.aliases))
        given = [options.driver_options.get(one, {}) for one in called]
        context = HubContext(
            client,
            self._informers,
            self._events,
            metrics,
            clock,
            random,
            self._reconsider,
            auto_approval=options.auto_approval,
            options={option: values for one in given for option, values in one.items()},
        )
        return driver.hub(context)

    def _make_controllers(self) -> list[HubController]:
        auto_acceptance, acceptance = AutoAcceptance(self.world), Acceptance(self.world)
        self._listeners += [auto_acceptance.reconsider, acceptance.reconsider]
        others = (make(self.world) for make in CONTROLLERS)
        return [auto_acceptance, acceptance, *others]

    def _reconsider(self, cluster: str) -> None:
        for listener in self._listeners:
            listener(cluster)

    @property
    def ready(self) -> bool:
        """Whether every cache has held its whole state once."""
        return self._informers.has_synced

    async def synced(self) -> None:
        await self._informers.synced()

    async def run(self) -> NoReturn:
        """Until cancelled. Raises PartFailed."""
        parts: list[Part] = [("the caches", self._informers.run)]
        if self._own_events:
            parts.append(("the event recorder", self._events.run))
        parts += [(f"driver {name}", driver.run) for name, driver in self._drivers.items()]
        parts += [(f"controller {type(controller).__name__}", controller.run) for controller in self._controllers]
        await run_parts(parts)
