"""The hub's metrics of managed clusters and their addons, from the caches that its controllers watch.

There is a gauge for each condition of each cluster, with the present status as a label, so that counting series gives clusters by
condition; a missing condition counts as Unknown. Each change of an object updates the stored statuses, so a scrape decodes nothing.
The duration of joining is observed when the hub sees a cluster become joined, not for clusters that had joined before it started.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from muster.api import Condition, MalformedObject, condition_of, is_true
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.cluster.v1 import ACCEPTED, AVAILABLE, JOINED, ManagedCluster
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.metrics import Labels
from muster.registration.hub.context import HubControllerContext
from muster.registration.hub.health.addon_health import ADDON_AVAILABLE
from muster.registration.kinds import ADDONS
from muster.runtime.cache import Snapshot

CONDITIONS: Final = (ACCEPTED, JOINED, AVAILABLE)
JOIN_BUCKETS: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 21600.0, 86400.0)


class ClusterMetrics:
    def __init__(self, hub: HubControllerContext) -> None:
        self._clusters: dict[str, tuple[str, ...]] = {}
        """Statuses of `CONDITIONS`, by cluster."""
        self._addons: dict[tuple[str, str], str] = {}
        """Status of Available, by cluster and addon."""
        metrics = hub.context.metrics
        metrics.gauges(
            "muster_managed_cluster_condition",
            "1 for each condition (accepted, joined, available) of a managed cluster, with its present status as label.",
            self._read_clusters,
        )
        metrics.gauges(
            "muster_managed_cluster_addon_condition",
            "1 for the condition Available of an addon of a managed cluster, with its present status as label.",
            self._read_addons,
        )
        self._joining = metrics.histogram(
            "muster_managed_cluster_join_duration_seconds",
            "Seconds from the creation of a ManagedCluster until it joined, of those that the hub saw joining.",
            JOIN_BUCKETS,
        )
        hub.clusters.on_change(self._cluster_changed)
        hub.context.informers.of(ADDONS).on_change(self._addon_changed)

    def _cluster_changed(self, old: ManagedCluster | None, new: ManagedCluster | None) -> None:
        if new is None:
            if old is not None:
                self._clusters.pop(old.metadata.name, None)
            return
        self._clusters[new.metadata.name] = tuple(status_of(new.status.conditions, kind) for kind in CONDITIONS)
        if old is not None and not is_true(old.status.conditions, JOINED) and (seconds := join_duration(new)) is not None:
            self._joining.observe(seconds)

    def _addon_changed(self, old: Snapshot | None, new: Snapshot | None) -> None:
        if new is None:
            if old is not None:
                self._addons.pop((old.namespace, old.name), None)
            return
        status = "Unknown"
        with suppress(MalformedObject):
            status = status_of(ManagedClusterAddOn.decode(new.raw).status.conditions, ADDON_AVAILABLE)
        self._addons[new.namespace, new.name] = status

    def _read_clusters(self) -> Iterable[tuple[Labels, float]]:
        for cluster, statuses in self._clusters.items():
            for kind, status in zip(CONDITIONS, statuses, strict=True):
                yield (("cluster", cluster), ("condition", kind), ("status", status)), 1.0

    def _read_addons(self) -> Iterable[tuple[Labels, float]]:
        for (cluster, addon), status in self._addons.items():
            yield (("cluster", cluster), ("addon", addon), ("condition", ADDON_AVAILABLE), ("status", status)), 1.0


def status_of(conditions: tuple[Condition, ...], kind: str) -> str:
    found = condition_of(conditions, kind)
    return found.status if found is not None else "Unknown"


def join_duration(cluster: ManagedCluster) -> float | None:
    """Seconds from creation to joining; None for a cluster that has not joined or whose times cannot be parsed."""
    joined = condition_of(cluster.status.conditions, JOINED)
    if joined is None or joined.status != "True":
        return None
    try:
        created, since = parse_time(cluster.metadata.creation_timestamp), parse_time(joined.last_transition_time)
    except ValueError:
        return None
    return max((since - created).total_seconds(), 0.0)
