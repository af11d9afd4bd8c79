"""What an administrator can set on the hub, with the defaults that an empty command line gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.registration.drivers import DEFAULT
from muster.registration.drivers.profile import DriverOptions
from muster.registration.names import HUB_NAMESPACE

CLEANED_RESOURCES = (
    "addon.open-cluster-management.io/v1beta1/managedclusteraddons",
    "work.open-cluster-management.io/v1/manifestworks",
)
"""What goes before a deleted cluster does, in this order."""
AUTO_ACCEPTANCE = "auto-acceptance"
REMOVAL = "removal"


@dataclass(frozen=True)
class HubOptions:
    namespace: str = HUB_NAMESPACE
    """Where the hub keeps its own lease and serving certificate."""
    drivers: tuple[str, ...] = (DEFAULT,)
    driver_options: Mapping[str, DriverOptions] = field(default_factory=dict)
    """By driver."""
    auto_approval: bool = False
    default_cluster_set: bool = True
    agent_restriction: bool = False
    """Whether agents may not write what clusters are selected by."""
    resource_cleanup: bool = True
    cleaned_resources: tuple[str, ...] = CLEANED_RESOURCES
    labels: Mapping[str, str] = field(default_factory=dict)
    """Put on every object that the hub makes for a cluster."""
    remove_denied_after: float | None = None
    """Seconds after which a ManagedCluster that was accepted and then denied is deleted; None keeps it for ever."""
    workers: int = 16

    @property
    def disabled_controllers(self) -> frozenset[str]:
        """By name; they are not made."""
        off = {AUTO_ACCEPTANCE: not self.auto_approval, REMOVAL: self.remove_denied_after is None}
        return frozenset(name for name, is_off in off.items() if is_off)
