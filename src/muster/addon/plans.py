"""The manager's plans for the clusters of an addon, for the controllers that write ManagedClusterAddOns.

A plan is computed from stored objects and again after a restart, so it is not persisted. Controllers wait until there is one, and
are notified of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ConfigSpecHash
from muster.api.addons import LIFECYCLE_ANNOTATION, LIFECYCLE_MANAGED


def is_managed(addon: ClusterManagementAddOn) -> bool:
    """Whether the hub's manager installs the addon and rolls it out; an addon's own manager may do so instead."""
    return addon.metadata.annotations.get(LIFECYCLE_ANNOTATION, LIFECYCLE_MANAGED) == LIFECYCLE_MANAGED


@dataclass(frozen=True)
class PlannedConfig:
    """A planned configuration of the addon."""

    group: str
    resource: str
    config: ConfigSpecHash


@dataclass(frozen=True)
class Planned:
    """The plan for one cluster: its configurations, sorted by group and resource, and whether they are released."""

    configs: tuple[PlannedConfig, ...]
    released: bool


@dataclass(frozen=True)
class AddonPlans:
    """The plan of one ClusterManagementAddOn."""

    uid: str
    clusters: Mapping[str, Planned] = field(default_factory=dict)


class Plans:
    """By the addon's name; listeners are called for each cluster whose plan has changed."""

    def __init__(self) -> None:
        self._plans: dict[str, AddonPlans] = {}
        self._listeners: list[Callable[[str, str], None]] = []

    def on_change(self, listener: Callable[[str, str], None]) -> None:
        """Called with the addon and the cluster."""
        self._listeners.append(listener)

    def of(self, addon: str) -> AddonPlans | None:
        return self._plans.get(addon)

    def put(self, addon: str, plan: AddonPlans | None) -> None:
        """None if the addon is deleted or is not planned here."""
        before = self._plans.get(addon)
        if plan is None:
            self._plans.pop(addon, None)
        else:
            self._plans[addon] = plan
        old, new = (one.clusters if one is not None else {} for one in (before, plan))
        # The uid counts too: an addon is owned by one ClusterManagementAddOn, and not by a later one of its name.
        others = before is not None and plan is not None and before.uid != plan.uid
        for cluster in sorted(old.keys() | new.keys()):
            if others or old.get(cluster) != new.get(cluster):
                for listener in self._listeners:
                    listener(addon, cluster)
