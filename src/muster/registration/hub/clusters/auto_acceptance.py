"""Automatic acceptance of clusters: one driver votes for it and none against it.

Off unless the hub is started with auto approval. A driver votes ALLOW only on evidence, such as a request for credentials from an
identity on its list; without evidence it abstains, and a ManagedCluster that an administrator prepared stays as it is. Drivers vote
when the ManagedCluster changes and when a driver has new evidence, in any order.

If a namespace of the cluster's name exists without this cluster's label, an administrator has to accept.

This happens once in a ManagedCluster's life. An annotation records when, and a cluster that was ever accepted, by any client, has a
finalizer and a condition: so a later denial by an administrator stays. Acceptance is written with the resourceVersion that was
voted on.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from muster.api import condition_of
from muster.api.cluster.v1 import ACCEPTED, ManagedCluster
from muster.machinery.golang.timestamps import format_time
from muster.machinery.logs import get_logger
from muster.registration.drivers.interfaces import Vote
from muster.registration.hub.clusters.namespaces import foreign_namespace_problem, namespace_named
from muster.registration.hub.clusters.rbac import name_problem
from muster.registration.hub.context import HubControllerContext
from muster.registration.hub.options import AUTO_ACCEPTANCE
from muster.registration.names import AUTO_ACCEPTED, RESOURCE_CLEANUP

log = get_logger("muster.registration.auto_acceptance")


class AutoAcceptance:
    def __init__(self, hub: HubControllerContext) -> None:
        self._hub = hub
        self._context = hub.context
        self._controller = hub.context.controller(AUTO_ACCEPTANCE, self.reconcile)
        self._controller.watch(hub.clusters, lambda cluster: [cluster.metadata.name] if undecided(cluster) else [])

    async def run(self) -> None:
        await self._controller.run()

    def reconsider(self, cluster: str) -> None:
        """Requeue a cluster, because a driver may vote differently now."""
        self._controller.enqueue(cluster)

    async def reconcile(self, name: str) -> None:
        cluster = self._hub.writer.get(name)
        if cluster is None or not self._electable(cluster) or name_problem(name, self._hub.options.namespace, is_new=True):
            return
        if foreign_namespace_problem(name, await namespace_named(self._context.client, name)):
            log.warning("cluster is not accepted automatically: its namespace exists and is not a cluster's", cluster=name)
            return
        if not await self._hub.writer.change(name, self._accepted):
            return
        vouching = ", ".join(sorted(driver for driver, vote in self._votes(cluster).items() if vote is Vote.ALLOW))
        log.info("cluster accepted automatically", cluster=name, driver=vouching)
        note = f"managed cluster {name} is accepted automatically: vouched for by driver {vouching}"
        self._context.events.event(cluster.document(), "Normal", "ManagedClusterAutoApproved", note)

    def _votes(self, cluster: ManagedCluster) -> dict[str, Vote]:
        return {name: driver.vote(cluster) for name, driver in self._hub.drivers.items()}

    def _electable(self, cluster: ManagedCluster) -> bool:
        return undecided(cluster) and elected(self._votes(cluster).values())

    def _accepted(self, cluster: ManagedCluster) -> ManagedCluster:
        if not self._electable(cluster):
            return cluster
        annotations = {**cluster.metadata.annotations, AUTO_ACCEPTED: format_time(self._context.clock.now())}
        return msgspec.structs.replace(
            cluster,
            metadata=msgspec.structs.replace(cluster.metadata, annotations=annotations),
            spec=msgspec.structs.replace(cluster.spec, hub_accepts_client=True),
        )


def undecided(cluster: ManagedCluster) -> bool:
    """Whether no user and no hub has ever accepted this cluster."""
    metadata = cluster.metadata
    return not (
        cluster.spec.hub_accepts_client
        or metadata.deletion_timestamp
        or AUTO_ACCEPTED in metadata.annotations
        or RESOURCE_CLEANUP in metadata.finalizers
        or condition_of(cluster.status.conditions, ACCEPTED)
    )


def elected(votes: Iterable[Vote]) -> bool:
    """Whether there is an ALLOW and no DENY; abstaining is no vote."""
    cast = set(votes)
    return Vote.ALLOW in cast and Vote.DENY not in cast
