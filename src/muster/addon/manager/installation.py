"""Installs addons on the clusters that the placements of their install strategy selected, and deletes them from others.

A reconcile is: compare the selected clusters with the existing ManagedClusterAddOns, create the missing ones, delete the others. A
selected one that was deleted is created again; one that is annotated as manually installed stays.

Missing information deletes nothing: while a placement is missing, or has fewer decisions than its status reports, nothing is
deleted, and before a deletion the placements are read from the server, because the watch of decisions may be ahead of that of
placements. Removing a reference from the install strategy does delete its addons.

A cluster may be selected before its namespace exists. That is no error: it is retried with increasing delay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from muster.addon.manager.addon_plan import PlacementState, by_placements, placement_key
from muster.addon.manager.annotations import FIELD_MANAGER, passed_on
from muster.addon.manager.installed import InstalledAddon
from muster.addon.manager.inventory import Inventory, key_of, placement_of
from muster.addon.manager.ownership import owner_of
from muster.addon.plans import is_managed
from muster.api.addon.conversion import INSTALL_NAMESPACE_ANNOTATION
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1beta1 import Placement
from muster.api.resource import known_fields
from muster.machinery.backoff import Backoff
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.runtime.cache import MutationCache
from muster.runtime.client import AlreadyExists, KubeError, NotFound, served
from muster.runtime.controller import ControllerContext, WriteOne, failures_text, write_each

log = get_logger("muster.addon.installation")
_ADDONS = served(ManagedClusterAddOn)
FIRST_NAMESPACE_DELAY: Final = 0.05
LONGEST_NAMESPACE_DELAY: Final = 30.0
"""The longest delay in seconds between checks for a missing namespace."""


class AddonsNotWritten(Exception):
    """Some ManagedClusterAddOns could not be created or deleted; the message has the errors."""


@dataclass(frozen=True)
class InstallationChanges:
    create: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()


def installation_changes(
    addon: ClusterManagementAddOn,
    placements: Mapping[ObjectKey, PlacementState],
    installed: Mapping[str, InstalledAddon],
    takes_addons: Callable[[str], bool],
) -> InstallationChanges:
    """The clusters on which an addon must be created or deleted. `takes_addons`: whether a cluster exists and is not being
    deleted."""
    if not is_managed(addon) or not by_placements(addon) or addon.metadata.deletion_timestamp:
        return InstallationChanges()
    chosen = frozenset[str]().union(*(state.chosen for state in placements.values()))
    create = tuple(cluster for cluster in sorted(chosen - installed.keys()) if takes_addons(cluster))
    keys = [placement_key(strategy) for strategy in addon.spec.install_strategy.placements]
    if not all(key in placements and placements[key].complete for key in keys):
        return InstallationChanges(create)
    unwanted = (one for cluster, one in sorted(installed.items()) if cluster not in chosen)
    return InstallationChanges(create, tuple(one.cluster for one in unwanted if not one.manual and not one.deleting))


class Installation:
    def __init__(self, context: ControllerContext, inventory: Inventory) -> None:
        self._context = context
        self._inventory = inventory
        self._latest: MutationCache[ManagedClusterAddOn] = MutationCache(inventory.managed_addons, clock=context.clock)
        self._controller = context.controller("addon-installation", self.reconcile)
        self._namespace_delays: dict[str, Backoff] = {}
        """The backoffs of addons that wait for a cluster's namespace."""
        inventory.synced_by(self._controller)
        inventory.addons.on_change(self._addon_changed)
        inventory.on_installed_change(self._installed_changed)
        inventory.clusters.on_change(self._cluster_changed)
        self._controller.watch(inventory.placements, lambda placement: inventory.addons_with(key_of(placement)))
        self._controller.watch(inventory.decisions, lambda decision: inventory.addons_with(placement_of(decision)))

    async def run(self) -> None:
        await self._controller.run()

    # Watches

    def _addon_changed(self, old: ClusterManagementAddOn | None, new: ClusterManagementAddOn | None) -> None:
        if new is not None and (old is None or _looked_at(old) != _looked_at(new)):
            self._controller.enqueue(new.metadata.name)

    def _installed_changed(self, addon: str, before: InstalledAddon | None, after: InstalledAddon | None) -> None:
        if after is None and before is not None:
            self._latest.confirm_delete(ObjectKey(before.cluster, addon), before.uid)
        if before is None or after is None or (before.manual, before.uid) != (after.manual, after.uid):
            self._controller.enqueue(addon)

    def _cluster_changed(self, old: ManagedCluster | None, new: ManagedCluster | None) -> None:
        one = new or old
        assert one is not None, "something changed"
        if old is None or new is None or _stays(old) != _stays(new):
            for addon in self._inventory.addons_for(one.metadata.name):
                self._controller.enqueue(addon)

    # Reconcile

    async def reconcile(self, name: str) -> float | None:
        addon = self._inventory.addons.cache.named(name)
        if addon is None:
            self._namespace_delays.pop(name, None)
            return None
        missing: set[str] = set()
        installed = self._inventory.installed(name)
        changes = installation_changes(addon, self._inventory.placements_of(addon), installed, self._takes_addons)
        delete = changes.delete if changes.delete and await self._placements_are_there(addon) else ()
        creations: Iterator[tuple[str, WriteOne]] = (
            (cluster, partial(self._create, addon, cluster, missing))
            for cluster in changes.create
            if not self._is_made(name, cluster)
        )
        deletions = [(cluster, partial(self._delete, name, installed[cluster])) for cluster in delete if cluster in installed]
        # A decision without a cluster name is a ValueError.
        failed = await write_each(chain(creations, deletions), (KubeError, ValueError))
        if failed:
            raise AddonsNotWritten(failures_text(failed))
        if missing:
            if name not in self._namespace_delays:
                log.info("namespace not found", addon=name, clusters=",".join(sorted(missing)))
            return self._namespace_delay(name)
        self._namespace_delays.pop(name, None)
        return None

    def _namespace_delay(self, name: str) -> float:
        if name not in self._namespace_delays:
            random = self._context.random
            self._namespace_delays[name] = Backoff(FIRST_NAMESPACE_DELAY, LONGEST_NAMESPACE_DELAY, random=random)
        return self._namespace_delays[name].next()

    def _takes_addons(self, cluster: str) -> bool:
        found = self._inventory.clusters.cache.named(cluster)
        return found is not None and not found.metadata.deletion_timestamp

    async def _placements_are_there(self, addon: ClusterManagementAddOn) -> bool:
        for strategy in addon.spec.install_strategy.placements:
            try:
                found = await self._context.client.get(Placement, strategy.name, strategy.namespace)
            except NotFound:
                return False
            if found.metadata.deletion_timestamp:
                return False
        return True

    def _is_made(self, name: str, cluster: str) -> bool:
        """It was just created, and is not in the cache yet."""
        return self._latest.snapshot(ObjectKey(cluster, name)) is not None

    async def _create(self, addon: ClusterManagementAddOn, cluster: str, missing: set[str]) -> None:
        managed = self._inventory.clusters.cache.named(cluster)
        annotations = managed.metadata.annotations if managed is not None else {}
        try:
            answer = await self._context.client.create(_ADDONS, _document(addon, cluster, annotations), manager=FIELD_MANAGER)
        except AlreadyExists:
            return
        except NotFound:
            missing.add(cluster)
            return
        self._latest.record_write(answer)

    async def _delete(self, name: str, addon: InstalledAddon) -> None:
        key = ObjectKey(addon.cluster, name)
        try:
            answer = await self._context.client.delete(_ADDONS, name, addon.cluster, uid=addon.uid)
        except NotFound:
            return
        self._latest.record_delete(key, addon.uid, answer)


def _document(addon: ClusterManagementAddOn, cluster: str, annotations: Mapping[str, str]) -> Object:
    namespace = annotations.get(INSTALL_NAMESPACE_ANNOTATION, "")
    return {
        "apiVersion": _ADDONS.api_version,
        "kind": _ADDONS.kind,
        "metadata": {
            "name": addon.metadata.name,
            "namespace": cluster,
            "annotations": passed_on(annotations),
            "ownerReferences": [known_fields(owner_of(addon))],
        },
        "spec": {"installNamespace": namespace} if namespace else {},
    }


def _looked_at(addon: ClusterManagementAddOn) -> tuple[object, ...]:
    metadata = addon.metadata
    return metadata.uid, addon.spec.install_strategy, is_managed(addon), bool(metadata.deletion_timestamp)


def _stays(cluster: ManagedCluster) -> tuple[object, ...]:
    """Accepted clusters get their namespace."""
    return bool(cluster.metadata.deletion_timestamp), cluster.spec.hub_accepts_client, cluster.metadata.uid
