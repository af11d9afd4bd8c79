"""Copies the status Unknown of an unreachable cluster's Available condition to its addons.

An addon's agent renews its own lease on the managed cluster, and the registration agent reports it; without that agent the last
report is out of date. Only Unknown is copied: on a cluster that is reachable but not available, each addon reports its own state.
"""

from __future__ import annotations

from typing import Final

import msgspec

from muster.api import Condition, condition_of
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.cluster.v1 import AVAILABLE, ManagedCluster
from muster.machinery.logs import get_logger
from muster.registration.hub.context import HubControllerContext
from muster.registration.kinds import ADDONS
from muster.runtime.cache import Snapshot
from muster.runtime.controller import set_condition

log = get_logger("muster.registration.hub.health.addon_health")

ADDON_AVAILABLE: Final = "Available"


def unknown_of(cluster: ManagedCluster) -> Condition | None:
    """The condition for a cluster's addons; None if they report their own state."""
    available = condition_of(cluster.status.conditions, AVAILABLE)
    if available is None or available.status != "Unknown":
        return None
    return msgspec.structs.replace(available, type=ADDON_AVAILABLE)


class AddonHealth:
    def __init__(self, hub: HubControllerContext) -> None:
        self._context = hub.context
        self._clusters = hub.clusters
        self._addons = hub.context.informers.of(ADDONS)
        self._controller = hub.context.controller("addon-health", self.reconcile)
        self._controller.watch(self._clusters, lambda cluster: [cluster.metadata.name])
        self._controller.watch(self._addons, lambda addon: [addon.namespace])

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, name: str) -> None:
        cluster = self._clusters.cache.named(name)
        unknown = unknown_of(cluster) if cluster is not None else None
        if unknown is None:
            return
        for snapshot in self._addons.cache.in_namespace(name):
            await self._set_condition(snapshot, unknown)

    async def _set_condition(self, snapshot: Snapshot, unknown: Condition) -> None:
        addon = ManagedClusterAddOn.decode(snapshot.raw)
        if await set_condition(self._context.client, addon, unknown, self._context.clock.now()):
            log.info("addon is out of sight with its cluster", cluster=snapshot.namespace, addon=snapshot.name)
