"""The options of the hub, with the defaults of an empty command line."""

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
"""The kinds that are deleted before a deleted cluster is removed, in this order."""
AUTO_ACCEPTANCE = "auto-acceptance"
REMOVAL = "removal"


@dataclass(frozen=True)
class HubOptions:
    namespace: str = HUB_NAMESPACE
    """The namespace of the hub's own lease and serving certificate."""
    drivers: tuple[str, ...] = (DEFAULT,)
    driver_options: Mapping[str, DriverOptions] = field(default_factory=dict)
    """By driver."""
    auto_approval: bool = False
    default_cluster_set: bool = True
    agent_restriction: bool = False
    """Whether agents are forbidden to write the labels and other fields by which clusters are selected."""
    resource_cleanup: bool = True
    cleaned_resources: tuple[str, ...] = CLEANED_RESOURCES
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every object that the hub creates for a cluster."""
    remove_denied_after: float | None = None
    """Seconds after which a ManagedCluster that was accepted and then denied is deleted; None never deletes it."""
    workers: int = 16

    @property
    def disabled_controllers(self) -> frozenset[str]:
        """The names of controllers that are not started."""
        off = {AUTO_ACCEPTANCE: not self.auto_approval, REMOVAL: self.remove_denied_after is None}
        return frozenset(name for name, is_off in off.items() if is_off)
