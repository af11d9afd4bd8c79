"""The agents of addons on each cluster: one set of controllers for all addons of a process.

`Framework` takes a context, the addons of the process, their plans and their configuration objects; `controllers` are its
controllers by name, for a `Manager`. In a process for its own addons, without planning, `plans` is None: then the configurations
that the hub's addon manager wrote into a ManagedClusterAddOn are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.addon.agent_addon import AddonRegistry
from muster.addon.config_objects import ConfigObjects
from muster.addon.framework.controller import NAME, ManagedClusterAddOns
from muster.addon.plans import Plans
from muster.runtime.controller import ControllerContext, Runnable

ADDON_MANAGER: Final = "addon-manager"

__all__ = ["ADDON_MANAGER", "Framework"]


class Framework:
    def __init__(
        self,
        context: ControllerContext,
        registry: AddonRegistry,
        plans: Plans | None,
        configs: ConfigObjects,
        *,
        process: str = ADDON_MANAGER,
    ) -> None:
        """`process` is the label value of this process's role bindings; it must be unique."""
        self._addons = ManagedClusterAddOns(context, registry, plans, configs, process)

    @property
    def controllers(self) -> Mapping[str, Runnable]:
        return {NAME: self._addons}

    def addon_changed(self, name: str) -> None:
        """To be called when the registry's addon of this name was added, replaced or removed."""
        self._addons.addon_changed(name)
