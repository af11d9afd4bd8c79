"""Which configurations an addon is to have: the addon's defaults, over them a placement's, over them the cluster's own.

Each overrides by kind as a whole: a placement that names one configuration of a kind replaces all that there was of this kind. What
is named twice counts once. Kinds are in order; within a kind the order is that of whoever named them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from muster.addon.config_objects import ConfigKey
from muster.addon.plans import is_managed
from muster.api.addon.conversion import NO_DEFAULT_CONFIG
from muster.api.addon.v1alpha1 import GROUP, AddOnConfig, ClusterManagementAddOn

ConfigKind = tuple[str, str]
"""A group and a resource."""
Configs = Mapping[ConfigKind, tuple[ConfigKey, ...]]
_COMMON_KINDS: Final = frozenset(((GROUP, "addontemplates"), (GROUP, "addondeploymentconfigs")))


def default_configs(addon: ClusterManagementAddOn) -> Configs:
    """In the order of the spec."""
    found: dict[ConfigKind, tuple[ConfigKey, ...]] = {}
    for kind in addon.spec.supported_configs:
        default = kind.default_config
        if default is not None and default.name not in ("", NO_DEFAULT_CONFIG):
            found[kind.group, kind.resource] = (ConfigKey(kind.group, kind.resource, default.namespace, default.name),)
    return found


def overridden(configs: Configs, by: Iterable[AddOnConfig]) -> Configs:
    own: dict[ConfigKind, dict[ConfigKey, None]] = {}
    for one in by:
        if one.name:
            own.setdefault((one.group, one.resource), {})[ConfigKey(one.group, one.resource, one.namespace, one.name)] = None
    return {**configs, **{kind: tuple(keys) for kind, keys in own.items()}} if own else configs


def in_order(configs: Configs) -> tuple[ConfigKey, ...]:
    return tuple(key for kind in sorted(configs) for key in configs[kind])


def readable_kinds(addon: ClusterManagementAddOn) -> frozenset[ConfigKind]:
    """Kinds of which the hub reads configurations for this addon. Whoever may write a ManagedClusterAddOn, in a namespace of one
    cluster, can refer to anything there: it is read only where the addon itself has to do with its kind."""
    supported = {(kind.group, kind.resource) for kind in addon.spec.supported_configs}
    placed = {(config.group, config.resource) for strategy in addon.spec.install_strategy.placements for config in strategy.configs}
    return _COMMON_KINDS | supported | placed


def referenced(addon: ClusterManagementAddOn, own: Iterable[tuple[AddOnConfig, ...]]) -> frozenset[ConfigKey]:
    """Everything that some cluster may be given; `own` are the configurations that clusters have of their own."""
    configs = [default_configs(addon), *(overridden({}, placement.configs) for placement in addon.spec.install_strategy.placements)]
    configs += [overridden({}, one) for one in own if one]
    kinds = readable_kinds(addon)
    found = {key for some in configs for kind, keys in some.items() if kind in kinds for key in keys}
    return frozenset(found.union(key for key in _reported(addon) if key[:2] in kinds))


def _reported(addon: ClusterManagementAddOn) -> Iterator[ConfigKey]:
    """What the progressions of an addon refer to that nobody plans here: its hashes are kept true."""
    for progression in () if is_managed(addon) else addon.status.install_progressions:
        for config_reference in progression.config_references:
            if config_reference.desired_config is not None:
                yield ConfigKey(
                    config_reference.group,
                    config_reference.resource,
                    config_reference.desired_config.namespace,
                    config_reference.desired_config.name,
                )
