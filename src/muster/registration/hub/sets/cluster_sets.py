"""Cluster sets: the sets `default` and `global` exist, and the status of every set has its number of clusters.

With the feature gate DefaultClusterSet the two well-known sets are created if they are missing, and edits of their selectors are
reverted, unless the set is annotated `autoupdate: "false"`; everything else in them may be edited. Condition ClusterSetEmpty has
the count. While many clusters join, the counts of the same few sets change again and again, so a set is counted when its clusters
have not changed for a moment, at the latest a second after the first change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from muster.api import Condition, ObjectMeta
from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1beta2 import BY_LABELS, EMPTY, EXCLUSIVE, ClusterSetSelector, ManagedClusterSet, ManagedClusterSetSpec
from muster.api.meta import LabelSelector
from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectKey
from muster.registration.hub.context import HubControllerContext
from muster.registration.hub.sets.members import selector_of, sets_of
from muster.registration.kinds import CLUSTER_SETS
from muster.registration.names import AUTO_UPDATE
from muster.runtime.cache import MutationCache
from muster.runtime.client import AlreadyExists, patch_object
from muster.runtime.controller import with_condition

log = get_logger("muster.registration.hub.sets.cluster_sets")

SETTLING: Final = 1.0
"""Seconds in which changes of clusters are batched."""
WELL_KNOWN: Final[Mapping[str, ClusterSetSelector]] = {
    "default": ClusterSetSelector(selector_type=EXCLUSIVE),
    "global": ClusterSetSelector(selector_type=BY_LABELS, label_selector=LabelSelector()),
}


def emptiness(count: int) -> Condition:
    if count == 0:
        return Condition(type=EMPTY, status="True", reason="NoClusterMatched", message="No ManagedCluster selected")
    return Condition(type=EMPTY, status="False", reason="ClustersSelected", message=f"{count} ManagedClusters selected")


def rolled_back(cluster_set: ManagedClusterSet) -> ManagedClusterSet:
    """A well-known set with its required spec; other sets unchanged."""
    wanted = WELL_KNOWN.get(cluster_set.metadata.name)
    if wanted is None or cluster_set.metadata.annotations.get(AUTO_UPDATE) == "false":
        return cluster_set
    spec = msgspec.structs.replace(cluster_set.spec, cluster_selector=wanted)
    return msgspec.structs.replace(cluster_set, spec=spec)


class ClusterSets:
    def __init__(self, hub: HubControllerContext) -> None:
        self._context = hub.context
        self._clusters = hub.clusters
        self._sets = hub.context.informers.of(CLUSTER_SETS, decode=ManagedClusterSet.decode)
        # While many clusters join, the next count is often due before the watch has shown the last write.
        self._latest = MutationCache(self._sets, clock=hub.context.clock)
        self._kept = WELL_KNOWN if hub.options.default_cluster_set else {}
        self._controller = hub.context.controller("cluster-sets", self.reconcile, workers=2)
        self._controller.watch(self._sets, lambda cluster_set: [cluster_set.metadata.name])
        self._controller.depend(self._clusters)
        self._clusters.on_change(self._cluster_changed)
        for name in self._kept:
            self._controller.enqueue(name)

    async def run(self) -> None:
        await self._controller.run()

    def _cluster_changed(self, old: ManagedCluster | None, new: ManagedCluster | None) -> None:
        before, after = ((side.metadata.labels if side else None) for side in (old, new))
        if before == after:
            return
        left, joined = (
            {one.metadata.name for one in sets_of(labels, self._sets.cache)} if labels is not None else set()
            for labels in (before, after)
        )
        for name in left ^ joined:
            self._controller.queue.add_after(name, SETTLING)

    async def reconcile(self, name: str) -> None:
        cluster_set = self._latest.get(ObjectKey("", name))
        if cluster_set is None:
            if name in self._kept:
                await self._create(name)
            return
        if cluster_set.metadata.deletion_timestamp:
            return
        wanted = rolled_back(cluster_set) if name in self._kept else cluster_set
        if await self._write(cluster_set, wanted):
            log.info("put back the selector of a well-known cluster set", set=name)
            # The write comes back as an event, and then the clusters are counted.
            return
        count = len(self._clusters.cache.select_keys(selector_of(cluster_set)))
        conditions = with_condition(cluster_set, emptiness(count), self._context.clock.now())
        await self._write(cluster_set, conditions, status=True)

    async def _write(self, before: ManagedClusterSet, after: ManagedClusterSet, *, status: bool = False) -> bool:
        answer = await patch_object(self._context.client, before, after, status=status)
        if answer is not None:
            self._latest.record_write(answer)
        return answer is not None

    async def _create(self, name: str) -> None:
        spec = ManagedClusterSetSpec(cluster_selector=self._kept[name])
        document = ManagedClusterSet(metadata=ObjectMeta(name=name), spec=spec).document()
        try:
            await self._context.client.create(CLUSTER_SETS, document)
            log.info("made a well-known cluster set", set=name)
        except AlreadyExists:
            return
