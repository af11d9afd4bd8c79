"""What the manager has planned for the clusters of an addon, handed to whoever writes the ManagedClusterAddOns.

A plan follows from what is stored and is made anew after a restart; nothing is lost with it. Whoever writes waits until there is
one, and is told when it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ConfigSpecHash
from muster.api.addons import LIFECYCLE_ANNOTATION, LIFECYCLE_MANAGED


def is_managed(addon: ClusterManagementAddOn) -> bool:
    """Whether its installation and rollout are the hub's manager's business; an addon's own manager may say otherwise."""
    return addon.metadata.annotations.get(LIFECYCLE_ANNOTATION, LIFECYCLE_MANAGED) == LIFECYCLE_MANAGED


@dataclass(frozen=True)
class PlannedConfig:
    """A configuration that the addon is to have."""

    group: str
    resource: str
    config: ConfigSpecHash


@dataclass(frozen=True)
class Planned:
    """For one cluster: its configurations, sorted by group and resource, and whether it is its turn to have them."""

    configs: tuple[PlannedConfig, ...]
    released: bool


@dataclass(frozen=True)
class AddonPlans:
    """Of one ClusterManagementAddOn."""

    uid: str
    clusters: Mapping[str, Planned] = field(default_factory=dict)


class Plans:
    """By the addon's name; `changed` is told each cluster whose plan is another than before."""

    def __init__(self) -> None:
        self._plans: dict[str, AddonPlans] = {}
        self._listeners: list[Callable[[str, str], None]] = []

    def on_change(self, listener: Callable[[str, str], None]) -> None:
        """Called with the addon and the cluster."""
        self._listeners.append(listener)

    def of(self, addon: str) -> AddonPlans | None:
        return self._plans.get(addon)

    def put(self, addon: str, plan: AddonPlans | None) -> None:
        """None where the addon is gone or is not planned here."""
        before = self._plans.get(addon)
        if plan is None:
            self._plans.pop(addon, None)
        else:
            self._plans[addon] = plan
        old, new = (one.clusters if one is not None else {} for one in (before, plan))
        # Whose plan it is counts too: an addon is owned by one ClusterManagementAddOn, and not by the next of its name.
        others = before is not None and plan is not None and before.uid != plan.uid
        for cluster in sorted(old.keys() | new.keys()):
            if others or old.get(cluster) != new.get(cluster):
                for listener in self._listeners:
                    listener(addon, cluster)
