"""What an addon's agent is given on each cluster: one set of controllers for all addons of a process.

`Framework` is put together from a context, the addons that the process serves, what is planned for them and the configurations they
refer to; `controllers` are its controllers by name, for a `Manager`. In the process of an addon of its own, where nobody plans,
`plans` is None: then what the hub's addon manager wrote into a ManagedClusterAddOn counts.
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
        """`process` is a label's value by which the process knows the role bindings that it keeps; no two share one."""
        self._addons = ManagedClusterAddOns(context, registry, plans, configs, process)

    @property
    def controllers(self) -> Mapping[str, Runnable]:
        return {NAME: self._addons}

    def addon_changed(self, name: str) -> None:
        """To be called when the registry has another addon of this name than before, or none."""
        self._addons.addon_changed(name)
