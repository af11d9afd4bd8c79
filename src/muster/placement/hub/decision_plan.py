"""From the decisions that are written to those that are wanted, as an ordered list of writes: a pure plan.

Invariant: whoever reads the decisions between two of these writes finds every cluster that was chosen and stays chosen in at least
one of them, and never more than `LIMIT` clusters in one. Consumers take clusters away from what they no longer find, so a cluster
that only moves from one decision to another must not be missing for a moment.

A decision that loses a cluster to another one is therefore written after that one; new decisions come first and surplus ones go
last. Where decisions lose clusters to each other in a circle, those in question are put into a decision of their own (`transit`)
for as long as that takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from operator import itemgetter
from typing import Final, TypeVar

T = TypeVar("T")
_CLUSTER: Final[Callable[[tuple[str, int]], str]] = itemgetter(0)
LIMIT: Final = 100
"""Clusters in one decision."""


@dataclass(frozen=True)
class Decision:
    """The content of a PlacementDecision: clusters in order, each with the score that is written of it (0: none is)."""

    labels: Mapping[str, str]
    clusters: tuple[tuple[str, int], ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return clusters_of((self,))


def clusters_of(decisions: Iterable[Decision]) -> frozenset[str]:
    return frozenset(map(_CLUSTER, chain.from_iterable(decision.clusters for decision in decisions)))


@dataclass(frozen=True)
class Create:
    name: str
    decision: Decision


@dataclass(frozen=True)
class Change:
    """`labels`, `clusters`: which of both differ from what is there."""

    name: str
    decision: Decision
    labels: bool
    clusters: bool


@dataclass(frozen=True)
class Delete:
    name: str


Write = Create | Change | Delete


def plan_writes(
    present: Mapping[str, Decision], wanted: Mapping[str, Decision], spare: Iterable[str], limit: int = LIMIT
) -> list[Write]:
    """`spare` are names for decisions in transit, which nobody has; `limit` is how many clusters such a one may have."""
    return _DecisionPlan(present, wanted, spare, limit).writes


class _DecisionPlan:
    def __init__(self, present: Mapping[str, Decision], wanted: Mapping[str, Decision], spare: Iterable[str], limit: int) -> None:
        self._present = present
        self._wanted = wanted
        self._spare = iter(spare)
        self._limit = limit
        self._held: Counter[str] = Counter()
        """By cluster, how many decisions have it; filled where some cluster leaves one."""
        self.writes: list[Write] = []
        for name, decision in wanted.items():
            if name not in present:
                self._create(name, decision)
        transits = self._change([name for name in wanted if name in present])
        self.writes += [Delete(name) for name in (*transits, *(name for name in present if name not in wanted))]

    def _create(self, name: str, decision: Decision) -> None:
        self.writes.append(Create(name, decision))
        self._held.update(decision.names)

    def _change(self, names: Sequence[str]) -> list[str]:
        """Gives the decisions in transit that were needed."""
        changed = [name for name in names if not is_as_wanted(self._present[name], self._wanted[name])]
        moving = {name: self._present[name].names - self._wanted[name].names for name in changed}
        if any(moving.values()):
            staying = frozenset(cluster for one in self._wanted.values() for cluster, _ in one.clusters)
            moving = {name: clusters & staying for name, clusters in moving.items()}
            self._held.update(cluster for one in self._present.values() for cluster in one.names)
        transits: list[str] = []
        while moving:
            # Those that hold up nobody first, and these from the last: clusters mostly move one decision on.
            name = min(reversed(moving), key=lambda one: len(self._lost(moving[one])))
            for clusters in in_batches(sorted(self._lost(moving.pop(name))), self._limit):
                transits.append(next(self._spare))
                content = tuple((cluster, 0) for cluster in clusters)
                self._create(transits[-1], Decision(self._wanted[name].labels, content))
            self._write(name)
        return transits

    def _lost(self, moving: Iterable[str]) -> list[str]:
        """Of clusters that a decision has no longer, those that are in no other yet."""
        return [cluster for cluster in moving if self._held[cluster] < 2]

    def _write(self, name: str) -> None:
        before, after = self._present[name], self._wanted[name]
        self._held.subtract(before.names)
        self._held.update(after.names)
        relabelled = not carries(before.labels, after.labels)
        self.writes.append(Change(name, after, relabelled, before.clusters != after.clusters))


def is_as_wanted(present: Decision, wanted: Decision) -> bool:
    return present.clusters == wanted.clusters and carries(present.labels, wanted.labels)


def carries(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Labels of others may be there beside those that are wanted."""
    return all(labels.get(label) == value for label, value in wanted.items())


def in_batches(clusters: Sequence[T], limit: int = LIMIT) -> list[Sequence[T]]:
    return [clusters[start : start + limit] for start in range(0, len(clusters), limit)]


def free_names(placement: str, is_taken: Callable[[str], bool]) -> Iterator[str]:
    """Names of decisions of a placement, in order, without those that are taken."""
    return (name for number in count(1) if not is_taken(name := f"{placement}-decision-{number}"))
