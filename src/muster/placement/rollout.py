"""Rollout strategies: the clusters that get a change next, as a pure function of the selected clusters, their progress, and the
time.

A cluster without the change is *new*. One that has it is *busy* until it has succeeded for the minimum time (soaking), is *failing*
when it has failed, and is *late* when it has not succeeded within the deadline. Failing and late clusters are failures. Busy and
failing ones count towards the concurrency of a progressive rollout; late ones no longer do. More failures than tolerated stop the
rollout: clusters with the change keep it, no new one gets it. A recovered failure does not count.

- All: all clusters at once, in any state.
- Progressive: mandatory groups first, group by group and without any failure; then up to the concurrency at a time, by name.
- ProgressivePerGroup: mandatory groups first; then group by group, the next when all of one have succeeded or the failures are
  tolerated.

Invariant: clusters that are begun are new, selected, and in the order of names or groups; so a repeated call with an outdated cache
begins the same ones again and not others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from muster.api.cluster.v1alpha1 import MandatoryDecisionGroup, RolloutConfig, RolloutStrategy
from muster.api.cluster.v1alpha1 import RolloutAll as All
from muster.api.cluster.v1alpha1 import RolloutProgressive as Progressive
from muster.api.cluster.v1alpha1 import RolloutProgressivePerGroup as PerGroup
from muster.machinery.golang.durations import parse_duration
from muster.machinery.golang.errors import GoError


class BadStrategy(ValueError):
    """An invalid strategy; names the field."""


class State(Enum):
    PENDING = "pending"
    """It was given the change, and has not reported on it."""
    PROGRESSING = "progressing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class Progress:
    """The progress of a cluster with the change, and since when."""

    state: State
    since: datetime | None = None


@dataclass(frozen=True)
class Group:
    """A decision group of a placement."""

    name: str
    index: int
    clusters: frozenset[str]


@dataclass(frozen=True)
class Rollout:
    begin: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    failures: int = 0
    stopped: bool = False
    """Too many have failed."""
    settled: bool = False
    """There are no clusters left to begin or to wait for."""
    again: datetime | None = None
    """When the result may change without an event."""


class _RolloutState(Enum):
    NEW = "new"
    BUSY = "busy"
    FAILING = "failing"
    LATE = "late"
    DONE = "done"


@dataclass(frozen=True)
class _Terms:
    soak: timedelta
    deadline: timedelta | None
    now: datetime

    def rollout_state(self, progress: Progress | None) -> tuple[_RolloutState, datetime | None]:
        """The state, and when it changes without an event."""
        if progress is None:
            return _RolloutState.NEW, None
        if progress.state is State.PENDING:
            return _RolloutState.BUSY, None
        # An agent writes these times; one in the future would delay the others.
        since = min(progress.since or self.now, self.now)
        if progress.state is State.SUCCEEDED:
            done = since + self.soak
            return (_RolloutState.BUSY, done) if self.now < done else (_RolloutState.DONE, None)
        hopeful = _RolloutState.FAILING if progress.state is State.FAILED else _RolloutState.BUSY
        if self.deadline is None:
            return hopeful, None
        late = since + self.deadline
        return (hopeful, late) if self.now < late else (_RolloutState.LATE, None)


@dataclass
class _Count:
    """The states of some clusters."""

    terms: _Terms
    known: Mapping[str, Progress]
    clusters: Iterable[str]
    by: dict[_RolloutState, list[str]] = field(default_factory=lambda: {rollout_state: [] for rollout_state in _RolloutState})
    again: datetime | None = None

    def __post_init__(self) -> None:
        for cluster in sorted(self.clusters):
            rollout_state, change = self.terms.rollout_state(self.known.get(cluster))
            self.by[rollout_state].append(cluster)
            self.again = min(filter(None, (self.again, change)), default=None)

    def rollout(self, quota: int, tolerated: int) -> Rollout:
        """Begin new ones within the free concurrency, unless too many have failed."""
        failures = len(self.by[_RolloutState.FAILING]) + len(self.by[_RolloutState.LATE])
        stopped = failures > tolerated
        free = quota - len(self.by[_RolloutState.BUSY]) - len(self.by[_RolloutState.FAILING])
        begin = () if stopped or free <= 0 else tuple(self.by[_RolloutState.NEW][:free])
        settled = not (self.by[_RolloutState.NEW] or self.by[_RolloutState.BUSY])
        return Rollout(begin, tuple(self.by[_RolloutState.LATE]), failures, stopped, settled, self.again)


def plan(groups: Sequence[Group], strategy: RolloutStrategy, known: Mapping[str, Progress], now: datetime) -> Rollout:
    """`known` are those with the change. Raises BadStrategy."""
    ordered = sorted(groups, key=lambda group: (group.index, group.name))
    match strategy.type:
        case "All":
            return _all(ordered, strategy.all or All(), known, now)
        case "Progressive":
            return _progressive(ordered, strategy.progressive or Progressive(), known, now)
        case "ProgressivePerGroup":
            return _per_group(ordered, strategy.progressive_per_group or PerGroup(), known, now)
    raise BadStrategy(f"rolloutStrategy.type: {strategy.type!r} is none of All, Progressive, ProgressivePerGroup")


def is_done(strategy: RolloutStrategy, progress: Progress, now: datetime) -> bool:
    """Whether a cluster has succeeded for the minimum time. Raises BadStrategy."""
    config = {"Progressive": strategy.progressive, "ProgressivePerGroup": strategy.progressive_per_group}.get(strategy.type)
    terms = _terms(config, now) if config is not None else _Terms(timedelta(0), None, now)
    return terms.rollout_state(progress)[0] is _RolloutState.DONE


def _all(groups: Sequence[Group], config: All, known: Mapping[str, Progress], now: datetime) -> Rollout:
    everybody = _members(groups)
    count = _Count(_Terms(timedelta(0), _deadline(config), now), known, everybody)
    return count.rollout(len(everybody), len(everybody))


def _progressive(groups: Sequence[Group], config: Progressive, known: Mapping[str, Progress], now: datetime) -> Rollout:
    terms = _terms(config, now)
    tolerated = _share(config.max_failures, len(_members(groups)), "maxFailures")
    first, rest = _mandatory(groups, config.mandatory_decision_groups)
    begun = _group_by_group(first, terms, known, lambda _: 0)
    if not _passed(begun):
        return begun
    others = _members(rest) - _members(first)
    quota = _share(config.max_concurrency, len(others), "maxConcurrency") if config.max_concurrency is not None else 0
    rollout = _Count(terms, known, others).rollout(quota or len(others), tolerated)
    return _with(rollout, begun)


def _per_group(groups: Sequence[Group], config: PerGroup, known: Mapping[str, Progress], now: datetime) -> Rollout:
    terms = _terms(config, now)
    _share(config.max_failures, 0, "maxFailures")
    first, rest = _mandatory(groups, config.mandatory_decision_groups)
    begun = _group_by_group(first, terms, known, lambda _: 0)
    if not _passed(begun):
        return begun
    rollout = _group_by_group(rest, terms, known, lambda size: _share(config.max_failures, size, "maxFailures"))
    return _with(rollout, begun)


def _group_by_group(
    groups: Sequence[Group], terms: _Terms, known: Mapping[str, Progress], tolerated: Callable[[int], int]
) -> Rollout:
    """Up to the first group that is not settled or has failed too often."""
    so_far = Rollout(settled=True)
    for group in groups:
        size = len(group.clusters)
        so_far = _with(_Count(terms, known, group.clusters).rollout(size, tolerated(size)), so_far)
        if so_far.stopped or not so_far.settled:
            return so_far
    return so_far


def _with(rollout: Rollout, before: Rollout) -> Rollout:
    """A rollout following another that permits it."""
    again = min(filter(None, (rollout.again, before.again)), default=None)
    late, failures = before.late + rollout.late, before.failures + rollout.failures
    return Rollout(rollout.begin, late, failures, rollout.stopped, rollout.settled, again)


def _passed(rollout: Rollout) -> bool:
    return rollout.settled and not rollout.failures


def _mandatory(groups: Sequence[Group], wanted: Sequence[MandatoryDecisionGroup]) -> tuple[list[Group], list[Group]]:
    """The mandatory groups, in their order, and the others."""
    first: dict[tuple[str, int], Group] = {}
    for one in wanted:
        for group in groups:
            if group.name == one.group_name if one.group_name else group.index == one.group_index:
                first.setdefault((group.name, group.index), group)
    return list(first.values()), [group for group in groups if (group.name, group.index) not in first]


def _members(groups: Iterable[Group]) -> frozenset[str]:
    return frozenset(cluster for group in groups for cluster in group.clusters)


def _terms(config: RolloutConfig, now: datetime) -> _Terms:
    return _Terms(_duration(config.min_success_time or "0", "minSuccessTime"), _deadline(config), now)


def _deadline(config: RolloutConfig) -> timedelta | None:
    text = config.progress_deadline
    return None if text in ("", "None") else _duration(text, "progressDeadline")


def _duration(text: str, name: str) -> timedelta:
    try:
        return timedelta(microseconds=parse_duration(text) / 1000)
    except (GoError, OverflowError) as error:
        raise BadStrategy(f"rolloutStrategy: {name}: {error}") from error


def _share(value: int | str, total: int, name: str) -> int:
    """A number of clusters, or a percentage of `total` rounded up; never more than all."""
    if isinstance(value, str):
        try:
            if not value.endswith("%"):
                raise ValueError(value)
            value = math.ceil(float(value[:-1]) / 100 * total)
        except (ValueError, OverflowError):
            raise BadStrategy(f"rolloutStrategy: {name}: {value!r} is neither a number nor a percentage") from None
    return max(0, min(value, total))
