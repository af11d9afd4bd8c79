"""The desired configurations of an addon on a cluster: the addon's defaults, overridden by a placement's, overridden by its own.

Each level overrides whole kinds: a placement with one configuration of a kind replaces all defaults of this kind. Duplicates are
dropped. Kinds are sorted; within a kind the order is that of the level.
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
    """The kinds of configurations that the hub reads for this addon. A user who may write a ManagedClusterAddOn in a cluster's
    namespace can refer to any object: it is read only if the addon itself supports its kind."""
    supported = {(kind.group, kind.resource) for kind in addon.spec.supported_configs}
    placed = {(config.group, config.resource) for strategy in addon.spec.install_strategy.placements for config in strategy.configs}
    return _COMMON_KINDS | supported | placed


def referenced(addon: ClusterManagementAddOn, own: Iterable[tuple[AddOnConfig, ...]]) -> frozenset[ConfigKey]:
    """All configurations that a cluster may be given; `own` are those in the specs of ManagedClusterAddOns."""
    configs = [default_configs(addon), *(overridden({}, placement.configs) for placement in addon.spec.install_strategy.placements)]
    configs += [overridden({}, one) for one in own if one]
    kinds = readable_kinds(addon)
    found = {key for some in configs for kind, keys in some.items() if kind in kinds for key in keys}
    return frozenset(found.union(key for key in _reported(addon) if key[:2] in kinds))


def _reported(addon: ClusterManagementAddOn) -> Iterator[ConfigKey]:
    """The references in the progressions of an addon that is not planned here: their hashes are kept up to date."""
    for progression in () if is_managed(addon) else addon.status.install_progressions:
        for config_reference in progression.config_references:
            if config_reference.desired_config is not None:
                yield ConfigKey(
                    config_reference.group,
                    config_reference.resource,
                    config_reference.desired_config.namespace,
                    config_reference.desired_config.name,
                )
