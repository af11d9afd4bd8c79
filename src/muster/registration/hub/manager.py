"""Assembly of the hub: drivers, caches and controllers.

`Hub` uses a client and options and nothing else of the process, so that a test, a simulation and `muster hub` run the same code.
Leader election and webhooks are the caller's.
"""

from __future__ import annotations

import random as chance
from collections.abc import Callable, Mapping
from typing import Final

from muster.aws.process_env import ProcessEnv
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.metrics import Metrics
from muster.registration import drivers
from muster.registration.drivers.interfaces import HubContext, HubDriver
from muster.registration.drivers.ownership import claimed_by_others
from muster.registration.hub.cluster_metrics import ClusterMetrics
from muster.registration.hub.clusters.acceptance import Acceptance
from muster.registration.hub.clusters.auto_acceptance import AutoAcceptance
from muster.registration.hub.clusters.collection import Collection
from muster.registration.hub.clusters.removal import Removal
from muster.registration.hub.context import HubControllerContext
from muster.registration.hub.health.addon_health import AddonHealth
from muster.registration.hub.health.clock_check import ClockCheck
from muster.registration.hub.health.feature_labels import FeatureLabels
from muster.registration.hub.health.leases import Leases
from muster.registration.hub.health.taints import Taints
from muster.registration.hub.options import AUTO_ACCEPTANCE, REMOVAL, HubOptions
from muster.registration.hub.sets.bindings import SetBindings
from muster.registration.hub.sets.cluster_sets import ClusterSets
from muster.registration.hub.sets.managed_namespaces import ManagedNamespaces
from muster.runtime.client import KubeClient
from muster.runtime.controller import ControllerContext, Manager, Runnable, make_controllers

REPORTER = "registration-controller"
"""The reporting component of the hub's events."""

CONTROLLERS: Final[Mapping[str, Callable[[HubControllerContext], Runnable]]] = {
    AUTO_ACCEPTANCE: AutoAcceptance,
    "acceptance": Acceptance,
    "collection": Collection,
    REMOVAL: Removal,
    "leases": Leases,
    "clock-check": ClockCheck,
    "taints": Taints,
    "addon-health": AddonHealth,
    "feature-labels": FeatureLabels,
    "cluster-sets": ClusterSets,
    "set-bindings": SetBindings,
    "managed-namespaces": ManagedNamespaces,
}


class Hub(Manager):
    """Raises DriverConfigError, or the drivers' lookup error if the options name an unavailable driver."""

    def __init__(
        self,
        client: KubeClient,
        options: HubOptions,
        *,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
        metrics: Metrics | None = None,
        process_env: ProcessEnv | None = None,
    ) -> None:
        super().__init__()
        self._surroundings = process_env or ProcessEnv()
        workers = options.workers
        self._context = ControllerContext.of(client, REPORTER, workers=workers, metrics=metrics, clock=clock, random=random)
        made = {name: self._driver(name, options) for name in options.drivers}
        shared = HubControllerContext(self._context, options, made)
        self._controllers = make_controllers(CONTROLLERS, shared, options.disabled_controllers)
        ClusterMetrics(shared)
        self.add_context(self._context)
        for name, driver in made.items():
            self.add(f"driver {name}", driver)
        self.add_controllers(self._controllers)

    def _driver(self, name: str, options: HubOptions) -> HubDriver:
        driver = drivers.find(name)
        shared = self._context
        context = HubContext(
            shared.client,
            shared.informers,
            shared.events,
            shared.metrics,
            shared.clock,
            shared.random,
            shared.workers,
            reconsider=self._reconsider,
            auto_approval=options.auto_approval,
            options=drivers.options_of(driver, options.driver_options),
            claimed=claimed_by_others(driver.name),
            namespace=options.namespace,
            process_env=self._surroundings,
        )
        return driver.hub(context)

    def _reconsider(self, cluster: str) -> None:
        """Requeue a cluster: a driver may vote differently now, or has a new result of `grant` or `revoke`."""
        for controller in self._controllers.values():
            if isinstance(controller, AutoAcceptance | Acceptance):
                controller.reconsider(cluster)
