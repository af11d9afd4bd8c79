"""What is planned for an addon, as a function of what is there: who has it with which configurations, and whose turn it is.

Every placement of the install strategy has a share: the clusters that it chose and no later placement did. A share is rolled out
by its strategy: a cluster that has not been given its configurations yet waits for its turn, one that has keeps them. What no
placement chose is given its configurations at once, as an addon that is installed by hand.

A placement that is not there has chosen nobody that could be known, and it takes nothing with it: what nobody else chose stays as
it is, with the configurations that it was given. A strategy that cannot be followed gives nobody anything new, and the progression
says what is wrong with it.
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
    """A placement that is there."""

    decisions: Sequence[PlacementDecision] = ()
    clusters_per_group: int | str = "100%"
    complete: bool = True
    """Whether the decisions are as many as the placement says it has made."""

    @property
    def chosen(self) -> frozenset[str]:
        return frozenset(one.cluster_name for decision in self.decisions for one in decision.status.decisions if one.cluster_name)


@dataclass(frozen=True)
class AddonSnapshot:
    """All that a plan follows from."""

    addon: ClusterManagementAddOn
    placements: Mapping[ObjectKey, PlacementState]
    installed: Mapping[str, InstalledAddon]
    """By cluster."""
    hash_of: Callable[[ConfigKey], str]
    """Of a configuration, empty where there is none."""
    now: datetime


@dataclass(frozen=True)
class PlacementShare:
    """Of a placement of the install strategy."""

    strategy: PlacementStrategy
    configs: Configs
    missing: bool = False
    selected: frozenset[str] = frozenset()
    """Whom the placement chose."""
    clusters: frozenset[str] = frozenset()
    """Those among them for whom its configurations count."""
    problem: str = ""
    """Why its strategy cannot be followed."""
    rollout: Rollout = field(default_factory=Rollout)
    done: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    upgrading: frozenset[str] = frozenset()
    """Those that have been given the configurations or are about to, and have not succeeded for long enough."""

    @property
    def key(self) -> ObjectKey:
        return placement_key(self.strategy)


@dataclass(frozen=True)
class AddonPlan:
    plan: AddonPlans | None
    """None where somebody else manages the addon."""
    shares: tuple[PlacementShare, ...] = ()
    kept: frozenset[str] = frozenset()
    """Clusters on which it was installed by hand and that no placement chose."""

    @property
    def again(self) -> datetime | None:
        """When time alone may change the plan."""
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
    """What clusters are given: mostly the same for all of a share, so it is put together once."""

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
            # A later placement that is lost may have chosen some of them, and had precedence.
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
    """Whether an addon has been given what a share gives it."""
    return addon.holds(in_order(overridden(share.configs, addon.own)))


def _complete(strategy: PlacementStrategy, state: PlacementState | None) -> PlacementStrategy:
    """A progressive strategy that does not say how many at once takes as many as the placement has in a group."""
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
    """The share as far as it has come, and what its clusters are given."""
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
    """For a cluster that no placement chose. One that was given something while a placement was there that is lost now keeps it,
    and is told to wait only for what it does not have."""
    if not lost or not addon.held:
        return Planned(cards.of(defaults, addon)[0], released=True)
    share = next((one for one in reversed(lost) if _is_held_by(addon, one)), None)
    configs, hashes = cards.of(defaults if share is None else share.configs, addon)
    by_hand = share is None and addon.manual
    return Planned(configs, released=by_hand or addon.progress(hashes) is not None)
