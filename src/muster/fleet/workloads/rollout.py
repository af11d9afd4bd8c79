"""The next size of each ReplicaSet of a Deployment: pure arithmetic over sizes, without objects and clock.

One call gives the next step, not the whole rollout: controllers call again when pods have changed. Invariants of a rolling update:
never more than `replicas + surge` pods wanted, and no step reduces the available pods below `replicas - unavailable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RolloutSpec:
    """The rollout's settings in the Deployment's spec; surge and unavailable are pods, not percentages."""

    replicas: int
    surge: int = 0
    unavailable: int = 0
    recreate: bool = False

    @property
    def most(self) -> int:
        return self.replicas + self.surge

    @property
    def least_available(self) -> int:
        return self.replicas - self.unavailable


@dataclass(frozen=True, slots=True)
class Group:
    """One ReplicaSet.

    `wanted` is from its spec, `actual` and `available` from its status, `leaving` are terminating pods; `noted_replicas` and
    `noted_most` are the Deployment's replicas and maximum when the set was last scaled.
    """

    name: str
    wanted: int
    actual: int = 0
    available: int = 0
    leaving: int = 0
    created: str = ""
    noted_replicas: int | None = None
    noted_most: int | None = None


Sizes = dict[str, int]
"""ReplicaSets whose size changes."""


def resolve(surge: int | str, unavailable: int | str, replicas: int) -> tuple[int, int]:
    """Percentages as pods: surge is rounded up, unavailable down; both zero would block the rollout."""
    more, fewer = scaled(surge, replicas, up=True), scaled(unavailable, replicas, up=False)
    return (more, 1) if not more and not fewer else (more, min(fewer, replicas))


def scaled(value: int | str, replicas: int, *, up: bool) -> int:
    """A number of pods, or a percentage of them."""
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%"))
    return -(-replicas * percent // 100) if up else replicas * percent // 100


def first_size(spec: RolloutSpec, old: Sequence[Group]) -> int:
    """The initial size of a new ReplicaSet."""
    return spec.replicas if spec.recreate else _room(spec, 0, sum(group.wanted for group in old))


def _room(spec: RolloutSpec, wanted: int, total: int) -> int:
    if total >= spec.most:
        return wanted
    return wanted + min(spec.most - total, spec.replicas - wanted)


def was_rescaled(spec: RolloutSpec, groups: Sequence[Group]) -> bool:
    """Whether `replicas` has changed since the sets were scaled: then they are scaled proportionally before the rollout."""
    return any(group.wanted and group.noted_replicas not in (None, spec.replicas) for group in groups)


def rescale(spec: RolloutSpec, new: Group | None, old: Sequence[Group]) -> Sizes:
    groups = [*old, new] if new is not None else list(old)
    active = [group for group in groups if group.wanted]
    if len(active) <= 1:
        only = active[0] if active else new or (max(old, key=lambda group: group.created) if old else None)
        return {only.name: spec.replicas} if only is not None and only.wanted != spec.replicas else {}
    if new is not None and new.wanted == new.noted_replicas == new.available == spec.replicas:
        return {group.name: 0 for group in old if group.wanted}
    return {} if spec.recreate else _proportional(spec, active)


def _proportional(spec: RolloutSpec, active: Sequence[Group]) -> Sizes:
    """Distribute the difference in proportion to the present sizes; the largest set gets the rounding remainder."""
    missing = (spec.most if spec.replicas else 0) - sum(group.wanted for group in active)
    # Of sets of one size, the newer grow first and the older shrink first.
    by_age = sorted(active, key=lambda group: group.created, reverse=missing > 0)
    ordered = sorted(by_age, key=lambda group: -group.wanted)
    left, sizes = missing, {}
    for group in ordered:
        share = 0
        if left:
            # Rounded half up, as by Go's controller.
            target = int(group.wanted * spec.most / (group.noted_most or spec.most) + 0.5) if spec.replicas else 0
            share = min(target - group.wanted, left) if missing > 0 else max(target - group.wanted, left)
        sizes[group.name] = group.wanted + share
        left -= share
    if left:
        sizes[ordered[0].name] = max(sizes[ordered[0].name] + left, 0)
    return {group.name: sizes[group.name] for group in active if sizes[group.name] != group.wanted}


def recreate(spec: RolloutSpec, new: Group | None, old: Sequence[Group]) -> Sizes:
    """Old pods are deleted first; new ones are created when all are gone."""
    shrinking = {group.name: 0 for group in old if group.wanted}
    if shrinking or not old_are_gone(old) or new is None:
        return shrinking
    return {new.name: spec.replicas} if new.wanted != spec.replicas else {}


def old_are_gone(old: Sequence[Group]) -> bool:
    return not any(group.actual or group.leaving for group in old)


def roll(spec: RolloutSpec, new: Group, old: Sequence[Group]) -> Sizes:
    """One step of a rolling update: first the new set grows; if it cannot, the old ones shrink."""
    total = new.wanted + sum(group.wanted for group in old)
    size = spec.replicas if new.wanted > spec.replicas else _room(spec, new.wanted, total)
    if size != new.wanted:
        return {new.name: size}
    ordered = sorted((group for group in old if group.wanted), key=lambda group: group.created)
    spare = total - spec.least_available - (new.wanted - new.available)
    if not ordered or spare <= 0:
        return {}
    sizes = {group.name: group.wanted for group in ordered}
    # Pods that are not available can be deleted without reducing availability.
    for group in ordered:
        broken = min(spare, max(group.wanted - group.available, 0))
        sizes[group.name] -= broken
        spare -= broken
    working = new.available + sum(group.available for group in old) - spec.least_available
    for group in ordered:
        taken = min(sizes[group.name], max(working, 0))
        sizes[group.name] -= taken
        working -= taken
    return {group.name: sizes[group.name] for group in ordered if sizes[group.name] != group.wanted}
