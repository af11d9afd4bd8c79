"""The plan of an addon, as a pure function: its clusters with their configurations, and the state of the rollout.

Every placement of the install strategy has a share: the clusters that it and no later placement selected. A share is rolled out by
its strategy: a cluster without its configurations waits for its turn, one with them keeps them. Clusters without a placement get
their configurations at once, as with a manual installation.

A missing placement has no known clusters, and changes nothing: clusters that no other placement selects keep their configurations.
An invalid strategy changes no cluster, and the progression has the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from muster.addon.config_objects import ConfigKey
from muster.addon.manager.installed import InstalledAddon
from muster.addon.manager.references import Configs, default_configs, in_order, overridden
from muster.addon.plans import AddonPlans, Planned, PlannedConfig, is_managed
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ConfigSpecHash, PlacementStrategy
from muster.api.cluster.v1alpha1 import RolloutProgressive, RolloutStrategy
from muster.api.cluster.v1beta1 import PlacementDecision
from muster.machinery.objects import ObjectKey
from muster.placement.decisions import Precedence, divided_groups
from muster.placement.rollout import BadStrategy, Group, Progress, Rollout, State, is_done, plan


@dataclass(frozen=True)
class PlacementState:
    """An existing placement."""

    decisions: Sequence[PlacementDecision] = ()
    clusters_per_group: int | str = "100%"
    complete: bool = True
    """Whether there are as many decisions as the placement's status reports."""

    @property
    def chosen(self) -> frozenset[str]:
        return frozenset(one.cluster_name for decision in self.decisions for one in decision.status.decisions if one.cluster_name)


@dataclass(frozen=True)
class AddonSnapshot:
    """All inputs of a plan."""

    addon: ClusterManagementAddOn
    placements: Mapping[ObjectKey, PlacementState]
    installed: Mapping[str, InstalledAddon]
    """By cluster."""
    hash_of: Callable[[ConfigKey], str]
    """The hash of a configuration, empty if it does not exist."""
    now: datetime


@dataclass(frozen=True)
class PlacementShare:
    """The share of a placement of the install strategy."""

    strategy: PlacementStrategy
    configs: Configs
    missing: bool = False
    selected: frozenset[str] = frozenset()
    """The clusters that the placement selected."""
    clusters: frozenset[str] = frozenset()
    """Those among them to which its configurations apply."""
    problem: str = ""
    """Why its strategy is invalid."""
    rollout: Rollout = field(default_factory=Rollout)
    done: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    upgrading: frozenset[str] = frozenset()
    """Those that have been given the configurations or are about to be, and have not succeeded for the minimum time."""

    @property
    def key(self) -> ObjectKey:
        return placement_key(self.strategy)


@dataclass(frozen=True)
class AddonPlan:
    plan: AddonPlans | None
    """None if another program manages the addon."""
    shares: tuple[PlacementShare, ...] = ()
    kept: frozenset[str] = frozenset()
    """Clusters with a manual installation that no placement selected."""

    @property
    def again(self) -> datetime | None:
        """The time at which the plan may change without an event."""
        return min((share.rollout.again for share in self.shares if share.rollout.again is not None), default=None)


def placement_key(strategy: PlacementStrategy) -> ObjectKey:
    return ObjectKey(strategy.namespace, strategy.name)


def by_placements(addon: ClusterManagementAddOn) -> bool:
    return addon.spec.install_strategy.type == "Placements"


def plan_addon(world: AddonSnapshot) -> AddonPlan:
    addon = world.addon
    if not is_managed(addon):
        return AddonPlan(None)
    defaults = default_configs(addon)
    cards = _Cards(world.hash_of)
    clusters: dict[str, Planned] = {}
    shares = []
    for share, groups in _divided(world, defaults):
        share, planned = _rolled_out(share, groups, world, cards)
        shares.append(share)
        clusters |= planned
    lost = [share for share in shares if share.missing]
    rest = {cluster: one for cluster, one in world.installed.items() if cluster not in clusters}
    for cluster, one in rest.items():
        clusters[cluster] = _left_over(one, defaults, lost, cards)
    kept = frozenset(cluster for cluster, one in rest.items() if one.manual and shares)
    return AddonPlan(AddonPlans(addon.metadata.uid, clusters), tuple(shares), kept)


@dataclass
class _Cards:
    """The planned configurations, which most clusters of a share have in common, so they are cached."""

    hash_of: Callable[[ConfigKey], str]
    _made: dict[tuple[ConfigKey, ...], tuple[tuple[PlannedConfig, ...], dict[ConfigKey, str]]] = field(default_factory=dict)

    def of(self, configs: Configs, addon: InstalledAddon | None) -> tuple[tuple[PlannedConfig, ...], dict[ConfigKey, str]]:
        """The configurations of a cluster, and the hash of each."""
        keys = in_order(overridden(configs, addon.own) if addon is not None and addon.own else configs)
        made = self._made.get(keys)
        if made is None:
            hashes = {key: self.hash_of(key) for key in keys}
            made = self._made[keys] = (tuple(_planned(key, hashes[key]) for key in keys), hashes)
        return made


def _planned(key: ConfigKey, spec_hash: str) -> PlannedConfig:
    config = ConfigSpecHash(name=key.name, namespace=key.namespace, spec_hash=spec_hash)
    return PlannedConfig(key.group, key.resource, config)


def _divided(world: AddonSnapshot, defaults: Configs) -> list[tuple[PlacementShare, list[Group]]]:
    """The shares in the order of the install strategy, and their clusters by decision group."""
    if not by_placements(world.addon):
        return []
    strategies = world.addon.spec.install_strategy.placements
    states = [world.placements.get(placement_key(strategy)) for strategy in strategies]
    divided = divided_groups([state.decisions if state else () for state in states], Precedence.LAST)
    shares: list[tuple[PlacementShare, list[Group]]] = []
    lost: list[PlacementShare] = []
    for strategy, state, groups in reversed(list(zip(strategies, states, divided, strict=True))):
        share = PlacementShare(_complete(strategy, state), overridden(defaults, strategy.configs), missing=state is None)
        if state is None:
            lost.append(share)
        else:
            # A later missing placement may have selected some of them, with precedence.
            kept = frozenset(
                cluster
                for cluster, one in (world.installed.items() if lost else ())
                if not _is_held_by(one, share) and any(_is_held_by(one, other) for other in lost)
            )
            groups = [replace(group, clusters=group.clusters - kept) for group in groups]
            members = frozenset(cluster for group in groups for cluster in group.clusters)
            share = replace(share, selected=state.chosen, clusters=members)
        shares.append((share, groups))
    return shares[::-1]


def _is_held_by(addon: InstalledAddon, share: PlacementShare) -> bool:
    """Whether an addon has been given the configurations of a share."""
    return addon.holds(in_order(overridden(share.configs, addon.own)))


def _complete(strategy: PlacementStrategy, state: PlacementState | None) -> PlacementStrategy:
    """A progressive strategy without maxConcurrency uses the size of the placement's groups."""
    rollout = strategy.rollout_strategy
    progressive = rollout.progressive or RolloutProgressive()
    if state is None or rollout.type != "Progressive" or progressive.max_concurrency not in (None, 0, ""):
        return strategy
    progressive = msgspec.structs.replace(progressive, max_concurrency=state.clusters_per_group)
    completed: RolloutStrategy = msgspec.structs.replace(rollout, progressive=progressive)
    return msgspec.structs.replace(strategy, rollout_strategy=completed)


def _rolled_out(
    share: PlacementShare, groups: Sequence[Group], world: AddonSnapshot, cards: _Cards
) -> tuple[PlacementShare, dict[str, Planned]]:
    """The rollout of a share, and the configurations of its clusters."""
    configs: dict[str, tuple[PlannedConfig, ...]] = {}
    known: dict[str, Progress] = {}
    for cluster in sorted(share.clusters):
        addon = world.installed.get(cluster)
        configs[cluster], hashes = cards.of(share.configs, addon)
        progress = addon.progress(hashes) if addon is not None else None
        if progress is not None:
            known[cluster] = progress
    strategy = share.strategy.rollout_strategy
    try:
        rollout = plan(groups, strategy, known, world.now)
        done = frozenset(cluster for cluster, progress in known.items() if is_done(strategy, progress, world.now))
    except BadStrategy as error:
        return replace(share, problem=str(error)), {
            cluster: Planned(configs[cluster], cluster in known) for cluster in sorted(share.clusters)
        }
    begun, late = frozenset(rollout.begin), frozenset(rollout.late)
    share = replace(
        share,
        rollout=rollout,
        done=done,
        failed=frozenset(cluster for cluster in late if known[cluster].state is State.FAILED),
        upgrading=frozenset(known.keys() - done - late) | (begun & world.installed.keys()),
    )
    return share, {cluster: Planned(configs[cluster], cluster in known or cluster in begun) for cluster in sorted(share.clusters)}


def _left_over(addon: InstalledAddon, defaults: Configs, lost: Sequence[PlacementShare], cards: _Cards) -> Planned:
    """For a cluster without a placement. If it has the configurations of a placement that is missing now, it keeps them, and waits
    only for the others."""
    if not lost or not addon.held:
        return Planned(cards.of(defaults, addon)[0], released=True)
    share = next((one for one in reversed(lost) if _is_held_by(addon, one)), None)
    configs, hashes = cards.of(defaults if share is None else share.configs, addon)
    by_hand = share is None and addon.manual
    return Planned(configs, released=by_hand or addon.progress(hashes) is not None)
