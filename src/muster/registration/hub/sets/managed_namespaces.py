"""The namespaces that a cluster gets from its cluster sets: `status.managedNamespaces` of its ManagedCluster.

The hub writes the list, ordered by set and name; the agent creates the namespaces and reports on each entry. Its reports on entries
that stay are kept.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from muster.api.cluster.v1 import ClusterSetManagedNamespace, ManagedCluster
from muster.api.cluster.v1beta2 import ManagedClusterSet
from muster.registration.hub.context import HubControllerContext
from muster.registration.hub.sets.members import selector_of, sets_of
from muster.registration.kinds import CLUSTER_SETS

BY_SET = "set of managed namespaces"


def wanted_namespaces(cluster: ManagedCluster, cluster_sets: Iterable[ManagedClusterSet]) -> tuple[ClusterSetManagedNamespace, ...]:
    """The namespaces of a cluster's sets, with the existing report on each."""
    known = {
        (managed_namespace.cluster_set, managed_namespace.name): managed_namespace
        for managed_namespace in cluster.status.managed_namespaces
    }
    desired = {
        (one.metadata.name, namespace.name)
        for one in sets_of(cluster.metadata.labels, cluster_sets)
        if not one.metadata.deletion_timestamp
        for namespace in one.spec.managed_namespaces
    }
    return tuple(
        known.get(location) or ClusterSetManagedNamespace(cluster_set=location[0], name=location[1]) for location in sorted(desired)
    )


class ManagedNamespaces:
    def __init__(self, hub: HubControllerContext) -> None:
        self._hub = hub
        self._clusters = hub.clusters
        self._sets = hub.context.informers.of(CLUSTER_SETS, decode=ManagedClusterSet.decode)
        self._clusters.cache.add_index(
            BY_SET, lambda cluster: {namespace.cluster_set for namespace in cluster.status.managed_namespaces}
        )
        self._controller = hub.context.controller("managed-namespaces", self.reconcile)
        self._controller.watch(self._clusters, lambda cluster: [cluster.metadata.name])
        self._controller.depend(self._sets)
        self._sets.on_change(self._set_changed)

    async def run(self) -> None:
        await self._controller.run()

    def _set_changed(self, old: ManagedClusterSet | None, new: ManagedClusterSet | None) -> None:
        """A set whose namespaces or members changed requeues its present and former members."""
        for side in (old, new):
            if side is None:
                continue
            if side.spec.managed_namespaces:
                for key in self._clusters.cache.select_keys(selector_of(side)):
                    self._controller.enqueue(key.name)
            for cluster in self._clusters.cache.by_index(BY_SET, side.metadata.name):
                self._controller.enqueue(cluster.metadata.name)

    async def reconcile(self, name: str) -> None:
        cluster = self._clusters.cache.named(name)
        if cluster is not None and self._right(cluster) != cluster:
            await self._hub.writer.change(name, self._right, status=True)

    def _right(self, cluster: ManagedCluster) -> ManagedCluster:
        if cluster.metadata.deletion_timestamp:
            return cluster
        status = msgspec.structs.replace(cluster.status, managed_namespaces=wanted_namespaces(cluster, self._sets.cache))
        return msgspec.structs.replace(cluster, status=status)
