"""The addons of a cluster and their health as labels of its ManagedCluster, which placements select.

`feature.open-cluster-management.io/addon-<addon>` is `available`, `unhealthy` or `unreachable`. The label of a deleted addon is
removed, also if the hub did not run at the deletion. Clusters that have never reported, or that are being deleted, get no labels.
An addon whose name is too long for a label has none; that is reported once, and does not affect the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from muster.api import MalformedObject, condition_of
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.addons import FEATURE_LABEL_PREFIX, feature_label
from muster.api.cluster.v1 import AVAILABLE, ManagedCluster
from muster.machinery.logs import get_logger
from muster.registration.hub.context import HubControllerContext
from muster.registration.hub.health.addon_health import ADDON_AVAILABLE
from muster.registration.kinds import ADDONS
from muster.runtime.cache import Snapshot

log = get_logger("muster.registration.hub.health.feature_labels")

LONGEST_NAME: Final = 63 - len(FEATURE_LABEL_PREFIX.rpartition("/")[2])
"""The longest name of an addon that can have a label."""
TOO_LONG: Final = "FeatureLabelNotPossible"
_VALUES: Final[Mapping[str, str]] = {"True": "available", "False": "unhealthy"}
UNREACHABLE: Final = "unreachable"


def feature_labels(addons: Iterable[ManagedClusterAddOn]) -> dict[str, str]:
    """The labels for the addons of a cluster."""
    labels = {}
    for addon in addons:
        if not addon.metadata.deletion_timestamp and len(addon.metadata.name) <= LONGEST_NAME:
            available = condition_of(addon.status.conditions, ADDON_AVAILABLE)
            labels[feature_label(addon.metadata.name)] = _VALUES.get(available.status if available else "", UNREACHABLE)
    return labels


def with_feature_labels(cluster: ManagedCluster, labels: Mapping[str, str]) -> ManagedCluster:
    """The cluster with these labels of addons, and no others."""
    if cluster.metadata.deletion_timestamp or condition_of(cluster.status.conditions, AVAILABLE) is None:
        return cluster
    others = {key: value for key, value in cluster.metadata.labels.items() if not key.startswith(FEATURE_LABEL_PREFIX)}
    metadata = msgspec.structs.replace(cluster.metadata, labels={**others, **labels})
    return msgspec.structs.replace(cluster, metadata=metadata)


class FeatureLabels:
    def __init__(self, hub: HubControllerContext) -> None:
        self._hub = hub
        self._events = hub.context.events
        self._clusters = hub.clusters
        self._addons = hub.context.informers.of(ADDONS)
        self._reported: set[str] = set()
        """The uids of addons without a label that were reported."""
        self._controller = hub.context.controller("feature-labels", self.reconcile)
        self._controller.watch(self._clusters, lambda cluster: [cluster.metadata.name])
        self._controller.watch(self._addons, lambda addon: [addon.namespace])

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, name: str) -> None:
        cluster = self._clusters.cache.named(name)
        if cluster is None:
            return
        labels = feature_labels(self._read(name))
        if with_feature_labels(cluster, labels) == cluster:
            return
        if await self._hub.writer.change(name, lambda current: with_feature_labels(current, labels)):
            log.debug("labelled by addons", cluster=name, addons=len(labels))

    def _read(self, cluster: str) -> list[ManagedClusterAddOn]:
        found = []
        for snapshot in self._addons.cache.in_namespace(cluster):
            try:
                found.append(ManagedClusterAddOn.decode(snapshot.raw))
            except MalformedObject as error:
                log.warning("cannot read addon", cluster=cluster, addon=snapshot.name, error=str(error))
            if len(snapshot.name) > LONGEST_NAME:
                self._report_unlabelled(snapshot)
        return found

    def _report_unlabelled(self, addon: Snapshot) -> None:
        if addon.uid not in self._reported:
            self._reported.add(addon.uid)
            text = f"addon {addon.name} has no label on ManagedCluster {addon.namespace}: its name is longer than {LONGEST_NAME}"
            log.warning("addon cannot have a label", cluster=addon.namespace, addon=addon.name)
            self._events.event(addon.data, "Warning", TOO_LONG, text)
