"""Removes ManagedClusters that were put out long ago, so that clusters which left do not pile up on the hub.

Off by default. With `remove_denied_after`, a ManagedCluster whose condition HubAcceptedManagedCluster has been False with reason
`HubClusterAdminDenied` for that many seconds is deleted: by an administrator's denial, or by the cluster's own when it unjoined.
Only clusters that were accepted once have that reason. One that waits for its first acceptance, one that failed to be accepted,
and one that is wanted again are never touched. The deletion is an ordinary one, with all its cleaning up, announced by an event,
and it counts only for the version that was looked at: who accepts the cluster again in the same moment wins.

Nothing is polled: each denied cluster is looked at again at its time.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from muster.api import condition_of
from muster.api.cluster.v1 import ACCEPTED, ManagedCluster
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectKey
from muster.registration.hub.clusters.acceptance import DENIED
from muster.registration.hub.context import HubControllerContext
from muster.registration.hub.options import REMOVAL
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import NotFound

log = get_logger("muster.registration.removal")

LONGEST_NAP: Final = 86_400.0
"""A wall clock may be set: whoever is due later is looked at once a day all the same."""


class Removal:
    def __init__(self, hub: HubControllerContext) -> None:
        self._hub = hub
        self._context = hub.context
        after = hub.options.remove_denied_after
        assert after is not None, "switched on"
        self._after = timedelta(seconds=after)
        self._controller = hub.context.controller(REMOVAL, self.reconcile, workers=2)
        self._controller.watch(hub.clusters, lambda cluster: [cluster.metadata.name] if denied_at(cluster) else [])

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, name: str) -> float | None:
        cluster = self._hub.clusters.cache.get(ObjectKey("", name))
        since = None if cluster is None else denied_at(cluster)
        if cluster is None or since is None:
            return None
        left = (since + self._after - self._context.clock.now()).total_seconds()
        if left > 0:
            return min(left, LONGEST_NAP)
        await self._remove(cluster, since)
        return None

    async def _remove(self, cluster: ManagedCluster, since: datetime) -> None:
        metadata = cluster.metadata
        note = f"managed cluster {metadata.name} is deleted: denied since {since:%Y-%m-%dT%H:%M:%SZ}, longer than {self._after}"
        self._context.events.event(cluster.document(), "Normal", "ManagedClusterRemoved", note)
        try:
            await self._context.client.delete(
                MANAGED_CLUSTERS, metadata.name, uid=metadata.uid, resource_version=metadata.resource_version
            )
        except NotFound:
            return
        log.info("denied cluster deleted", cluster=metadata.name, denied_since=since.isoformat())


def denied_at(cluster: ManagedCluster) -> datetime | None:
    """When a cluster that had been accepted was denied; None for any other, and where that time cannot be read."""
    condition = condition_of(cluster.status.conditions, ACCEPTED)
    if condition is None or condition.status != "False" or condition.reason != DENIED:
        return None
    if cluster.spec.hub_accepts_client or cluster.metadata.deletion_timestamp:
        return None
    try:
        return parse_time(condition.last_transition_time)
    except ValueError:
        return None
