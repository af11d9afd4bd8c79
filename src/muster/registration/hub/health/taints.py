"""Keeps placements off unhealthy clusters: taints `unavailable` (Available is False) and `unreachable` (Unknown).

A cluster has at most one of the two; a new one that has not reported yet is unreachable. Taints of other clients stay. The
admission webhook sets a taint's timeAdded and refuses any other value; without the webhook there is none.
"""

from __future__ import annotations

import msgspec

from muster.api import condition_of
from muster.api.cluster.v1 import AVAILABLE, ManagedCluster, Taint
from muster.machinery.logs import get_logger
from muster.registration.hub.context import HubControllerContext
from muster.registration.names import UNAVAILABLE_TAINT, UNREACHABLE_TAINT

log = get_logger("muster.registration.hub.health.taints")

EFFECT = "NoSelect"
OURS = frozenset({UNAVAILABLE_TAINT, UNREACHABLE_TAINT})


def wanted_taint(cluster: ManagedCluster) -> str:
    """The key of the taint that a cluster should have; empty for none."""
    available = condition_of(cluster.status.conditions, AVAILABLE)
    if available is None or available.status == "Unknown":
        return UNREACHABLE_TAINT
    return UNAVAILABLE_TAINT if available.status == "False" else ""


def tainted(taints: tuple[Taint, ...], wanted: str) -> tuple[Taint, ...]:
    """The taints, with the wanted one as the only one of ours."""
    kept = tuple(taint for taint in taints if not _ours(taint) or taint.key == wanted)
    if not wanted or any(_ours(taint) for taint in kept):
        return kept
    return (*kept, Taint(key=wanted, effect=EFFECT))


def with_right_taints(cluster: ManagedCluster) -> ManagedCluster:
    if cluster.metadata.deletion_timestamp:
        return cluster
    taints = tainted(cluster.spec.taints, wanted_taint(cluster))
    return msgspec.structs.replace(cluster, spec=msgspec.structs.replace(cluster.spec, taints=taints))


def _ours(taint: Taint) -> bool:
    return taint.key in OURS and taint.effect == EFFECT


class Taints:
    def __init__(self, hub: HubControllerContext) -> None:
        self._hub = hub
        self._clusters = hub.clusters
        self._controller = hub.context.controller("taints", self.reconcile)
        hub.writer.always(with_right_taints)
        self._controller.watch(self._clusters, lambda cluster: [cluster.metadata.name])

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, name: str) -> None:
        cluster = self._clusters.cache.named(name)
        if cluster is None or with_right_taints(cluster) == cluster:
            return
        if await self._hub.writer.change(name, with_right_taints):
            log.debug("tainted", cluster=name, taint=wanted_taint(cluster) or "none")
