"""The registrations of an addon on a cluster, rendered from objects that administrators write.

A ManagedClusterAddOn's status has the configurations in use; but the cluster's agent may write that status. So a reference is used
only if the addon's ClusterManagementAddOn or the ManagedClusterAddOn's own spec has it too: an agent can neither use the template
of another addon, nor invent one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from muster.addon.agent_addon import AddonRegistry, ConfigObject, Installation, Registration
from muster.addon.config_objects import ConfigObjects
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ConfigReferent, ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import Informers

_Reference = tuple[str, str, str, str]
"""Group, resource, namespace and name of a configuration."""


class RegistrationsOf(Protocol):
    def __call__(self, cluster: str, addon: str) -> tuple[Registration, ...] | None:
        """The registrations of an addon on a cluster; None if it does not exist, or is not this process's. Raises AddonError if
        they cannot be determined now."""


class RenderedRegistrations:
    """From caches and the addons themselves; the owner of the informers runs them."""

    def __init__(self, informers: Informers, registry: AddonRegistry, configs: ConfigObjects) -> None:
        self._clusters = informers.of(ManagedCluster)
        self._addons = informers.of(ManagedClusterAddOn)
        self._offered = informers.of(ClusterManagementAddOn)
        self._registry = registry
        self._configs = configs

    def __call__(self, cluster: str, addon: str) -> tuple[Registration, ...] | None:
        served = self._registry.find(addon)
        there = self._clusters.cache.named(cluster)
        installed = self._addons.cache.get(ObjectKey(cluster, addon))
        offered = self._offered.cache.named(addon)
        if served is None or there is None or installed is None or offered is None:
            return None
        return served.agent(Installation(there, installed, tuple(self._found(installed, offered)))).registrations

    def _found(self, addon: ManagedClusterAddOn, offered: ClusterManagementAddOn) -> Iterator[ConfigObject]:
        named = {
            *_named_by_hub(offered),
            *((config.group, config.resource, config.namespace, config.name) for config in addon.spec.configs),
        }
        for reference in addon.status.config_references:
            wanted = reference.desired_config
            key = None if wanted is None else (reference.group, reference.resource, wanted.namespace, wanted.name)
            if key in named and key is not None and (found := self._configs.get(*key)) is not None:
                yield found


def _named_by_hub(offered: ClusterManagementAddOn) -> Iterator[_Reference]:
    """All configurations of a ClusterManagementAddOn: its defaults, its placements', and those rolled out before."""

    def reference(group: str, resource: str, config: ConfigReferent | None) -> Iterator[_Reference]:
        if config is not None:
            yield (group, resource, config.namespace, config.name)

    for kind in offered.spec.supported_configs:
        yield from reference(kind.group, kind.resource, kind.default_config)
    for placement in offered.spec.install_strategy.placements:
        for config in placement.configs:
            yield (config.group, config.resource, config.namespace, config.name)
    for known in offered.status.default_config_references:
        yield from reference(known.group, known.resource, known.desired_config)
    for progression in offered.status.install_progressions:
        for rolled in progression.config_references:
            for config_hash in (rolled.desired_config, rolled.last_applied_config, rolled.last_known_good_config):
                yield from reference(rolled.group, rolled.resource, config_hash)
