"""Reconciles the metadata of every ManagedClusterAddOn with a ClusterManagementAddOn: its owner, and the annotations of its
cluster.

Every addon gets an owner, also a manually installed one; registration and deployment wait for that. Annotations are copied to
addons that placements install.
"""

from __future__ import annotations

import msgspec

from muster.addon.manager.addon_plan import by_placements
from muster.addon.manager.annotations import FIELD_MANAGER, passed_on, put_here, with_passed_on
from muster.addon.manager.inventory import Inventory, key_of
from muster.addon.manager.ownership import with_owner
from muster.addon.plans import is_managed
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import MutationCache
from muster.runtime.client import patch_object
from muster.runtime.controller import ControllerContext


class AddonMetadata:
    def __init__(self, context: ControllerContext, inventory: Inventory) -> None:
        self._context = context
        self._inventory = inventory
        self._latest: MutationCache[ManagedClusterAddOn] = MutationCache(inventory.managed_addons, clock=context.clock)
        self._controller = context.controller("addon-metadata", self.reconcile)
        inventory.synced_by(self._controller)
        inventory.managed_addons.on_change(self._managed_addon_changed)
        inventory.addons.on_change(self._addon_changed)
        inventory.clusters.on_change(self._cluster_changed)

    async def run(self) -> None:
        await self._controller.run()

    # Watches

    def _managed_addon_changed(self, old: ManagedClusterAddOn | None, new: ManagedClusterAddOn | None) -> None:
        if new is not None and (old is None or _looked_at(old) != _looked_at(new)):
            self._controller.enqueue(key_of(new))

    def _addon_changed(self, old: ClusterManagementAddOn | None, new: ClusterManagementAddOn | None) -> None:
        if new is not None and (old is None or _role(old) != _role(new)):
            for cluster in self._inventory.installed(new.metadata.name):
                self._controller.enqueue(ObjectKey(cluster, new.metadata.name))

    def _cluster_changed(self, old: ManagedCluster | None, new: ManagedCluster | None) -> None:
        if new is None or (old is not None and passed_on(old.metadata.annotations) == passed_on(new.metadata.annotations)):
            return
        for addon in self._inventory.managed_addons.cache.in_namespace(new.metadata.name):
            self._controller.enqueue(key_of(addon))

    # Reconcile

    async def reconcile(self, key: ObjectKey) -> None:
        found = self._latest.get(key)
        addon = self._inventory.addons.cache.named(key.name)
        if found is None or addon is None or found.metadata.deletion_timestamp or addon.metadata.deletion_timestamp:
            return
        metadata = found.metadata
        cluster = self._inventory.clusters.cache.named(key.namespace)
        annotations = metadata.annotations
        if cluster is not None and is_managed(addon) and by_placements(addon):
            annotations = with_passed_on(annotations, cluster.metadata.annotations, put_here(found.document()))
        owners = with_owner(metadata.owner_references, addon)
        wanted = msgspec.structs.replace(
            found, metadata=msgspec.structs.replace(metadata, owner_references=owners, annotations=annotations)
        )
        answer = await patch_object(self._context.client, found, wanted, manager=FIELD_MANAGER)
        if answer is not None:
            self._latest.record_write(answer)


def _looked_at(addon: ManagedClusterAddOn) -> tuple[object, ...]:
    return addon.metadata.uid, addon.metadata.owner_references, addon.metadata.annotations


def _role(addon: ClusterManagementAddOn) -> tuple[object, ...]:
    return addon.metadata.uid, is_managed(addon), by_placements(addon)
