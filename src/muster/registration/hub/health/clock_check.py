"""Compares a cluster's clock with the hub's: condition ManagedClusterConditionClockSynced.

A renewed lease has the agent's time and is seen within moments, so the two clocks are compared at each renewal, and only then. A
difference of five lease durations or more is out of sync. A cluster with the annotation that disables the check counts as in sync.
The condition is informational: `leases.py` works with wrong clocks too.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from muster.api import Condition, condition_of
from muster.api.cluster.v1 import CLOCK_SYNCED, ManagedCluster
from muster.machinery.logs import get_logger
from muster.registration.hub.cluster_writer import with_cluster_condition
from muster.registration.hub.context import HubControllerContext
from muster.registration.hub.health.leases import grace, is_cluster_lease, renewal
from muster.registration.names import SKIP_CLOCK_CHECK
from muster.runtime.cache import Snapshot
from muster.runtime.client.builtin import LEASES

log = get_logger("muster.registration.hub.health.clock_check")

IN_STEP: Final = Condition(
    type=CLOCK_SYNCED,
    status="True",
    reason="ManagedClusterClockSynced",
    message="The clock of the managed cluster is synced with the hub.",
)
OUT_OF_STEP: Final = Condition(
    type=CLOCK_SYNCED,
    status="False",
    reason="ManagedClusterClockOutOfSync",
    message="The clock of hub and agent is out of sync. This may cause the Unknown status and affect agent functionalities.",
)


def tolerance(cluster: ManagedCluster) -> timedelta:
    """The difference from which clocks are out of sync."""
    return timedelta.max if cluster.metadata.annotations.get(SKIP_CLOCK_CHECK) == "true" else grace(cluster)


def verdict(cluster: ManagedCluster, apart: timedelta) -> Condition:
    """The condition for this difference."""
    return IN_STEP if abs(apart) < tolerance(cluster) else OUT_OF_STEP


class ClockCheck:
    def __init__(self, hub: HubControllerContext) -> None:
        self._hub = hub
        self._context = hub.context
        self._clusters = hub.clusters
        self._apart: dict[str, timedelta] = {}
        """The hub's time minus the agent's at a cluster's last renewal."""
        self._settled: dict[str, tuple[bool, timedelta]] = {}
        """The status of a cluster's condition, and the difference at which it would change: other renewals are no work."""
        self._controller = hub.context.controller("clock-check", self.reconcile)
        leases = hub.kept(LEASES)
        self._controller.watch(self._clusters, lambda cluster: [cluster.metadata.name])
        self._controller.depend(leases)
        leases.on_change(self._renewed)

    async def run(self) -> None:
        await self._controller.run()

    def _renewed(self, old: Snapshot | None, new: Snapshot | None) -> None:
        if old is None or new is None or not is_cluster_lease(new):
            return
        moment = renewal(new)
        if moment is None or moment == renewal(old):
            return
        name = new.namespace
        apart = self._apart[name] = self._context.clock.now() - moment
        settled = self._settled.get(name)
        if settled is None or (abs(apart) < settled[1]) != settled[0]:
            self._controller.enqueue(name)

    async def reconcile(self, name: str) -> None:
        cluster, apart = self._clusters.cache.named(name), self._apart.get(name)
        if cluster is None:
            self._apart.pop(name, None)
            self._settled.pop(name, None)
            return
        if apart is None or cluster.metadata.deletion_timestamp:
            return
        found = verdict(cluster, apart)
        former = condition_of(cluster.status.conditions, CLOCK_SYNCED)
        news = former is None or former.reason != found.reason
        if news and await self._hub.writer.change(name, with_cluster_condition(found, self._context.clock.now()), status=True):
            # A new cluster whose clock is right needs no line in the log.
            write = log.debug if former is None and found is IN_STEP else log.info
            write("clock compared", cluster=name, in_step=found is IN_STEP, seconds_apart=round(apart.total_seconds(), 3))
        self._settled[name] = (found is IN_STEP, tolerance(cluster))
