"""Deletes ManagedClusters that were denied long ago, so that clusters which left do not pile up on the hub.

Off by default. With `remove_denied_after`, a ManagedCluster whose condition HubAcceptedManagedCluster has been False with reason
`HubClusterAdminDenied` for that many seconds is deleted: after an administrator's denial, or after the cluster has unjoined. Only
clusters that were accepted once have that reason. A cluster that waits for its first acceptance, that failed to be accepted, or
that is accepted again is never deleted. The deletion is an ordinary one, with all cleanup, is announced by an event, and has a
precondition on the version that was read: if an administrator accepts the cluster at the same moment, it stays.

Nothing is polled: each denied cluster is requeued for its time.
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
"""Seconds. The wall clock may be set, so later deadlines are checked once a day as well."""


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
    """When an accepted cluster was denied; None for any other, and if that time cannot be parsed."""
    condition = condition_of(cluster.status.conditions, ACCEPTED)
    if condition is None or condition.status != "False" or condition.reason != DENIED:
        return None
    if cluster.spec.hub_accepts_client or cluster.metadata.deletion_timestamp:
        return None
    try:
        return parse_time(condition.last_transition_time)
    except ValueError:
        return None
