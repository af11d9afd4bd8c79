"""The addon manager: installs addons on clusters, and rolls out their configurations.

Its controllers work on ClusterManagementAddOns. Decisions for single clusters are passed on by `muster.addon.plans`; of
ManagedClusterAddOns only the metadata is written here.
"""

from __future__ import annotations

from typing import Final

from muster.addon.config_objects import WatchedConfigObjects
from muster.addon.manager.installation import Installation
from muster.addon.manager.inventory import Inventory
from muster.addon.manager.metadata import AddonMetadata
from muster.addon.manager.rollouts import Rollouts
from muster.addon.plans import Plans
from muster.runtime.controller import ControllerContext, Runnable

INSTALLATION_CONTROLLER: Final = "addon-installation"
METADATA_CONTROLLER: Final = "addon-metadata"
ROLLOUT_CONTROLLER: Final = "addon-rollouts"

__all__ = ["INSTALLATION_CONTROLLER", "METADATA_CONTROLLER", "ROLLOUT_CONTROLLER", "manager_controllers"]


def manager_controllers(context: ControllerContext, plans: Plans, configs: WatchedConfigObjects) -> dict[str, Runnable]:
    """The controllers by name. The owner of `configs` runs it."""
    inventory = Inventory(context)
    return {
        INSTALLATION_CONTROLLER: Installation(context, inventory),
        METADATA_CONTROLLER: AddonMetadata(context, inventory),
        ROLLOUT_CONTROLLER: Rollouts(context, inventory, plans, configs),
    }
