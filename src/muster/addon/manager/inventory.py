"""The caches of the addon manager's controllers, with indexes for all lookups.

Indexes map placements to their addons, decisions to their placement, clusters to their decisions. Of each ManagedClusterAddOn only
the fields for planning are kept decoded (`InstalledAddon`), so that a reconcile of an addon on a thousand clusters decodes nothing;
listeners are called when these fields change, and not for other reports of agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from muster.addon.manager.addon_plan import PlacementState, placement_key
from muster.addon.manager.installed import InstalledAddon
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1beta1 import PLACEMENT_LABEL, Placement, PlacementDecision
from muster.api.resource import TypedObject
from muster.machinery.objects import ObjectKey
from muster.placement.names import DISABLED
from muster.runtime.controller import Controller, ControllerContext

_BY_PLACEMENT: Final = "addon manager: placement"
_BY_CLUSTER: Final = "addon manager: cluster"
InstalledListener = Callable[[str, InstalledAddon | None, InstalledAddon | None], None]
"""Called with the addon's name, and its old and new fields on a cluster."""


class Inventory:
    def __init__(self, context: ControllerContext) -> None:
        informers = context.informers
        self.addons = informers.of(ClusterManagementAddOn)
        self.managed_addons = informers.of(ManagedClusterAddOn)
        self.clusters = informers.of(ManagedCluster)
        self.placements = informers.of(Placement)
        self.decisions = informers.of(PlacementDecision)
        self._installed: dict[str, dict[str, InstalledAddon]] = {}
        """By addon and cluster."""
        self._listeners: list[InstalledListener] = []
        self.addons.cache.add_index(_BY_PLACEMENT, lambda addon: [str(key) for key in _placements_of(addon)])
        self.decisions.cache.add_index(_BY_PLACEMENT, lambda decision: [str(placement_of(decision))])
        self.decisions.cache.add_index(_BY_CLUSTER, _clusters_of)
        self.managed_addons.on_change(self._installed_changed)

    def synced_by(self, controller: Controller[ObjectKey] | Controller[str]) -> None:
        """Start a controller only once all of these caches are synced."""
        for informer in (self.addons, self.managed_addons, self.clusters, self.placements, self.decisions):
            controller.depend(informer)

    # Lookups

    def installed(self, addon: str) -> Mapping[str, InstalledAddon]:
        return self._installed.get(addon, {})

    def placements_of(self, addon: ClusterManagementAddOn) -> dict[ObjectKey, PlacementState]:
        """The existing placements of the addon, without those being deleted."""
        found = {}
        for key in _placements_of(addon):
            placement = self.placements.cache.get(key)
            if placement is not None and not placement.metadata.deletion_timestamp:
                found[key] = self._state(key, placement)
        return found

    def _state(self, key: ObjectKey, placement: Placement) -> PlacementState:
        decisions = self.decisions.cache.by_index(_BY_PLACEMENT, str(key))
        state = PlacementState(decisions, placement.spec.decision_strategy.group_strategy.clusters_per_decision_group)
        selected, scheduled = placement.status.number_of_selected_clusters, placement.metadata.annotations.get(DISABLED) != "true"
        return PlacementState(decisions, state.clusters_per_group, not scheduled or len(state.chosen) >= selected)

    # Affected objects

    def addons_with(self, placement: ObjectKey) -> list[str]:
        return [addon.metadata.name for addon in self.addons.cache.by_index(_BY_PLACEMENT, str(placement))]

    def addons_for(self, cluster: str) -> list[str]:
        """The addons with a placement that selected the cluster."""
        placements = {placement_of(decision) for decision in self.decisions.cache.by_index(_BY_CLUSTER, cluster)}
        return sorted({addon for placement in placements for addon in self.addons_with(placement)})

    def on_installed_change(self, listener: InstalledListener) -> None:
        self._listeners.append(listener)

    def _installed_changed(self, old: ManagedClusterAddOn | None, new: ManagedClusterAddOn | None) -> None:
        one = new or old
        assert one is not None, "something changed"
        name, cluster = one.metadata.name, one.metadata.namespace
        of_addon = self._installed.setdefault(name, {})
        before, after = of_addon.get(cluster), InstalledAddon.of(new) if new is not None else None
        if after is not None:
            of_addon[cluster] = after
        else:
            of_addon.pop(cluster, None)
            if not of_addon:
                del self._installed[name]
        if before != after:
            for listener in self._listeners:
                listener(name, before, after)


def key_of(obj: TypedObject) -> ObjectKey:
    return ObjectKey(obj.metadata.namespace, obj.metadata.name)


def placement_of(decision: PlacementDecision) -> ObjectKey:
    return ObjectKey(decision.metadata.namespace, decision.metadata.labels.get(PLACEMENT_LABEL, ""))


def _placements_of(addon: ClusterManagementAddOn) -> Iterable[ObjectKey]:
    return [placement_key(strategy) for strategy in addon.spec.install_strategy.placements]


def _clusters_of(decision: PlacementDecision) -> Iterable[str]:
    return {one.cluster_name for one in decision.status.decisions}
