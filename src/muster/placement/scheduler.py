"""Scheduling: selects clusters for a placement, as a pure function of its spec and a snapshot.

In order: the spec is parsed, and a misconfigured one selects nothing; the clusters of the eligible sets are available, except those
being deleted; each filter removes some; prioritizers score the others; those with the highest totals are selected, equal ones by
name, or one by one if they must be spread; the selected ones are divided into groups.

Invariants: the result does not depend on the order of clusters or sets, and invalid data of a cluster's agent do not affect other
clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain, repeat
from operator import add, attrgetter, itemgetter, mul
from typing import Final

from muster.api.cluster.v1beta1 import Placement, PlacementSpec
from muster.api.meta import Condition
from muster.kube.names import label_value
from muster.placement import conditions
from muster.placement.choice import Choice, Chosen, Filtered, Prioritized
from muster.placement.filters import Filter
from muster.placement.filters.predicates import Predicates
from muster.placement.filters.taints import Taints
from muster.placement.groups import EMPTY, Grouping
from muster.placement.misconfiguration import Misconfigured
from muster.placement.prioritizers import Prioritizer
from muster.placement.prioritizers.addon import AddOn
from muster.placement.prioritizers.builtin import Allocatable, Balance, Steady
from muster.placement.prioritizers.weights import ALLOCATABLE, BALANCE, SPREAD, Weights, weights_of
from muster.placement.scores import ScoreReader
from muster.placement.snapshot import Candidate, PlacementSnapshot
from muster.placement.spread import HARD, spread
from muster.placement.stopwatch import UNMEASURED, Stopwatch

_NAME: Final[Callable[[Candidate], str]] = attrgetter("name")
_SECOND: Final = itemgetter(1)
_CHOSEN: Final[Callable[[tuple[str, int]], Chosen]] = partial(tuple.__new__, Chosen)
"""Converts very many pairs of cluster and score without a Python call for each."""


def schedule(placement: Placement, world: PlacementSnapshot, stopwatch: Stopwatch = UNMEASURED) -> Choice:
    spec = placement.spec
    available = _Available.of(spec, world)
    scores = ScoreReader(world)
    try:
        _check(placement)
        grouping = Grouping.of(spec)
        predicates = Predicates(spec.predicates, scores, stopwatch)
        taints = Taints(spec.tolerations, world.present, world.now)
        weights = weights_of(spec.prioritizer_policy)
    except Misconfigured as problem:
        return Choice(EMPTY, available.satisfied(0, 0), conditions.misconfigured(problem), available=len(available.candidates))
    left, filtered = _filter(available.candidates, (predicates, taints), stopwatch)
    addons = [(AddOn(score, scores), weight) for score, weight in weights.addons]
    prioritized = [_prioritized(one, weight, left, stopwatch) for one, weight in [*_built_in(weights, world), *addons]]
    totals = _totals(left, prioritized)
    wanted = len(left) if spec.number_of_clusters is None else spec.number_of_clusters
    if _must_spread(spec, len(left), wanted):
        with stopwatch.plugin("prioritizer", SPREAD):
            spreading = spread(left, totals, spec.spread_policy.spread_constraints, weights.spread, wanted)
        prioritized.append(Prioritized(SPREAD, weights.spread, spreading.scores))
        chosen = spreading.chosen
        totals |= {one.cluster: one.score for one in chosen}
    else:
        chosen = _best(totals, wanted)
    unscheduled = wanted - len(chosen)
    return Choice(
        groups=grouping.divide(chosen, world.clusters),
        satisfied=available.satisfied(len(chosen), unscheduled),
        misconfigured=conditions.WELL_CONFIGURED,
        filters=tuple(filtered),
        prioritizers=tuple(prioritized),
        totals=totals,
        unscheduled=unscheduled,
        warnings=tuple(warning for addon, _ in addons for warning in addon.warnings()),
        again=_first(scores.again, taints.again),
        available=len(available.candidates),
    )


def _check(placement: Placement) -> None:
    """Errors that upstream fails on: a negative number, a name that is no valid label value."""
    number = placement.spec.number_of_clusters
    if number is not None and number < 0:
        raise Misconfigured("", f"numberOfClusters must not be negative, but is {number}: leave it out to choose all clusters")
    if label_value(placement.metadata.name):
        raise Misconfigured("", "metadata.name has more than 63 characters and cannot label decisions: use a shorter name")


@dataclass(frozen=True)
class _Available:
    """The clusters that a placement may select, and their sets."""

    wanted_sets: Sequence[str]
    bindings: int
    eligible: Sequence[str]
    candidates: list[Candidate]

    @classmethod
    def of(cls, spec: PlacementSpec, world: PlacementSnapshot) -> _Available:
        bound = [name for name in world.bound if name in world.sets]
        eligible = sorted(set(bound).intersection(spec.cluster_sets) if spec.cluster_sets else bound)
        names = dict.fromkeys(chain.from_iterable(map(world.members, eligible)))
        found = map(world.clusters.get, sorted(names))
        return cls(spec.cluster_sets, len(bound), eligible, [one for one in found if one is not None and not one.deleting])

    def satisfied(self, chosen: int, unscheduled: int) -> Condition:
        return conditions.satisfied(self.wanted_sets, self.bindings, self.eligible, len(self.candidates), chosen, unscheduled)


def _filter(candidates: list[Candidate], filters: Sequence[Filter], stopwatch: Stopwatch) -> tuple[list[Candidate], list[Filtered]]:
    results = []
    for one in filters:
        with stopwatch.plugin("filter", one.name):
            left = one.left(candidates)
        names = tuple(map(_NAME, left))
        results.append(Filtered(one.name, names, _Removed(one, candidates, names)))
        candidates = left
    return candidates, results


class _Removed(Mapping[str, str]):
    """Why a filter removed clusters: computed when it is read, which is rare."""

    def __init__(self, by: Filter, before: Sequence[Candidate], left: Sequence[str]) -> None:
        self._by = by
        self._before = before
        self._left = left
        self._known: dict[str, Candidate] | None = None

    def _candidates(self) -> dict[str, Candidate]:
        if self._known is None:
            left = set(self._left)
            self._known = {one.name: one for one in self._before if one.name not in left}
        return self._known

    def __getitem__(self, cluster: str) -> str:
        return self._by.reason(self._candidates()[cluster])

    def __iter__(self) -> Iterator[str]:
        return iter(self._candidates())

    def __len__(self) -> int:
        return len(self._before) - len(self._left)


def _built_in(weights: Weights, world: PlacementSnapshot) -> Iterator[tuple[Prioritizer, int]]:
    for name, weight in weights.built_in:
        if name in ALLOCATABLE:
            yield Allocatable(name, ALLOCATABLE[name]), weight
        else:
            yield Balance(world.others) if name == BALANCE else Steady(world.present), weight


def _prioritized(prioritizer: Prioritizer, weight: int, candidates: Sequence[Candidate], stopwatch: Stopwatch) -> Prioritized:
    with stopwatch.plugin("prioritizer", prioritizer.name):
        return Prioritized(prioritizer.name, weight, prioritizer.scores(candidates))


def _totals(candidates: Sequence[Candidate], prioritized: Sequence[Prioritized]) -> dict[str, int]:
    """In the order of the candidates."""
    names = tuple(map(_NAME, candidates))
    totals = [0] * len(names)
    for one in prioritized:
        scores = map(one.scores.get, names, repeat(0))
        totals = list(map(add, totals, map(mul, scores, repeat(one.weight))))
    return dict(zip(names, totals, strict=True))


def _must_spread(spec: PlacementSpec, left: int, wanted: int) -> bool:
    """If all clusters are selected, only DoNotSchedule terms matter."""
    terms = spec.spread_policy.spread_constraints
    return bool(terms) and (wanted < left or any(term.when_unsatisfiable == HARD for term in terms))


def _best(totals: Mapping[str, int], wanted: int) -> tuple[Chosen, ...]:
    """Candidates are sorted by name, and the sort is stable."""
    best = sorted(totals.items(), key=_SECOND, reverse=True)[:wanted] if wanted < len(totals) else totals.items()
    return tuple(map(_CHOSEN, best))


def _first(*moments: datetime | None) -> datetime | None:
    return min(filter(None, moments), default=None)
