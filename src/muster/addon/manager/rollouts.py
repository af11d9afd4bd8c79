"""Plans every ClusterManagementAddOn: the plan is passed to `Plans`, its progress is written to the addon's status.

A reconcile is: refer to the configurations, plan, pass on the plan, update the status in one patch. It is triggered by the addon,
its placements and their decisions, its configurations, the specs and progress of its ManagedClusterAddOns, and the time at which a
rollout may continue. Reports of clusters are collected for a moment, because many come together.
"""

from __future__ import annotations

from typing import Final

import msgspec

from muster.addon.config_objects import ConfigKey, WatchedConfigObjects
from muster.addon.manager.addon_plan import AddonSnapshot, plan_addon
from muster.addon.manager.installed import InstalledAddon
from muster.addon.manager.inventory import Inventory, key_of, placement_of
from muster.addon.manager.references import referenced
from muster.addon.manager.status import status_of
from muster.addon.plans import Plans
from muster.api.addon.v1alpha1 import ClusterManagementAddOn
from muster.api.cluster.v1beta1 import Placement
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import MutationCache
from muster.runtime.client import patch_object
from muster.runtime.controller import ControllerContext

REPORT_DELAY: Final = 0.1
"""Seconds for which reports of clusters are collected."""
JUST_AFTER: Final = 0.01
"""Seconds that are added to a deadline, so that it has passed when a reconcile begins."""
_USER: Final = "rollout of "


class ConfigsUnknown(Exception):
    """The state of configurations that an addon refers to is not known yet."""


class Rollouts:
    def __init__(self, context: ControllerContext, inventory: Inventory, plans: Plans, configs: WatchedConfigObjects) -> None:
        self._context = context
        self._inventory = inventory
        self._plans = plans
        self._configs = configs
        self._latest: MutationCache[ClusterManagementAddOn] = MutationCache(inventory.addons, clock=context.clock)
        self._controller = context.controller("addon-rollouts", self.reconcile)
        inventory.synced_by(self._controller)
        inventory.on_installed_change(self._installed_changed)
        inventory.addons.on_change(self._addon_changed)
        inventory.placements.on_change(self._placement_changed)
        self._controller.watch(inventory.decisions, lambda decision: inventory.addons_with(placement_of(decision)))
        configs.on_change(self._config_changed)

    async def run(self) -> None:
        await self._controller.run()

    # Watches

    def _addon_changed(self, old: ClusterManagementAddOn | None, new: ClusterManagementAddOn | None) -> None:
        one = new or old
        assert one is not None, "something changed"
        if new is None:
            self._latest.confirm_delete(key_of(one), one.metadata.uid)
        self._controller.enqueue(one.metadata.name)

    def _installed_changed(self, addon: str, before: InstalledAddon | None, after: InstalledAddon | None) -> None:
        self._controller.queue.add_after(addon, REPORT_DELAY)

    def _placement_changed(self, old: Placement | None, new: Placement | None) -> None:
        if old is not None and new is not None and _looked_at(old) == _looked_at(new):
            return
        for side in (old, new):
            for addon in self._inventory.addons_with(key_of(side)) if side is not None else ():
                self._controller.enqueue(addon)

    def _config_changed(self, group: str, resource: str, namespace: str, name: str) -> None:
        for user in self._configs.users_of(ConfigKey(group, resource, namespace, name)):
            if user.startswith(_USER):
                self._controller.enqueue(user.removeprefix(_USER))

    # Reconcile

    async def reconcile(self, name: str) -> float | None:
        addon = self._latest.get(ObjectKey("", name))
        if addon is None:
            self._plans.put(name, None)
            await self._configs.refer(f"{_USER}{name}", ())
            return None
        if addon.metadata.deletion_timestamp:
            return None
        return await self._plan(name, addon)

    async def _plan(self, name: str, addon: ClusterManagementAddOn) -> float | None:
        # All of one moment: changes during requests are for the next reconcile.
        installed, placements = dict(self._inventory.installed(name)), self._inventory.placements_of(addon)
        keys = referenced(addon, (one.own for one in installed.values()))
        if not await self._configs.refer(f"{_USER}{name}", keys):
            raise ConfigsUnknown(f"the configurations that {name} refers to cannot be read from the hub")

        def hash_of(key: ConfigKey) -> str:
            found = self._configs.get(*key) if key in keys else None
            return found.spec_hash if found is not None else ""

        now = self._context.clock.now()
        planned = plan_addon(AddonSnapshot(addon, placements, installed, hash_of, now))
        self._plans.put(name, planned.plan)
        wanted = msgspec.structs.replace(addon, status=status_of(addon, planned, hash_of, now))
        answer = await patch_object(self._context.client, addon, wanted, status=True)
        if answer is not None:
            self._latest.record_write(answer)
        if planned.again is None:
            return None
        return max(0.0, (planned.again - self._context.clock.now()).total_seconds()) + JUST_AFTER


def _looked_at(placement: Placement) -> tuple[object, ...]:
    metadata = placement.metadata
    return metadata.uid, bool(metadata.deletion_timestamp), placement.spec.decision_strategy
