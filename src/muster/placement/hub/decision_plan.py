"""Computes an ordered list of writes from the current to the desired decisions: a pure function.

Invariant: between any two of these writes every cluster that was selected and stays selected is in at least one decision, and no
decision has more than `LIMIT` clusters. Consumers remove a cluster once they do not find it, so a cluster that only moves from one
decision to another must not be missing for a moment.

A decision that loses a cluster to another one is therefore written after that one; new decisions come first and surplus ones last.
If decisions lose clusters to each other in a cycle, these are put into a temporary decision (`transit`).
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
"""The most clusters in one decision."""


@dataclass(frozen=True)
class Decision:
    """The content of a PlacementDecision: clusters in order, each with its written score (0: none)."""

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
    """`labels`, `clusters`: which of them have changed."""

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
    """`spare` are unused names for temporary decisions; `limit` is their maximum number of clusters."""
    return _DecisionPlan(present, wanted, spare, limit).writes


class _DecisionPlan:
    def __init__(self, present: Mapping[str, Decision], wanted: Mapping[str, Decision], spare: Iterable[str], limit: int) -> None:
        self._present = present
        self._wanted = wanted
        self._spare = iter(spare)
        self._limit = limit
        self._held: Counter[str] = Counter()
        """By cluster, the number of decisions with it; computed if a cluster leaves one."""
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
        """Returns the temporary decisions that were needed."""
        changed = [name for name in names if not is_as_wanted(self._present[name], self._wanted[name])]
        moving = {name: self._present[name].names - self._wanted[name].names for name in changed}
        if any(moving.values()):
            staying = frozenset(cluster for one in self._wanted.values() for cluster, _ in one.clusters)
            moving = {name: clusters & staying for name, clusters in moving.items()}
            self._held.update(cluster for one in self._present.values() for cluster in one.names)
        transits: list[str] = []
        while moving:
            # Those that block no others first, and of these the last: clusters mostly move to the next decision.
            name = min(reversed(moving), key=lambda one: len(self._lost(moving[one])))
            for clusters in in_batches(sorted(self._lost(moving.pop(name))), self._limit):
                transits.append(next(self._spare))
                content = tuple((cluster, 0) for cluster in clusters)
                self._create(transits[-1], Decision(self._wanted[name].labels, content))
            self._write(name)
        return transits

    def _lost(self, moving: Iterable[str]) -> list[str]:
        """The clusters that a decision loses and that are in no other yet."""
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
    """Labels of others may exist besides the desired ones."""
    return all(labels.get(label) == value for label, value in wanted.items())


def in_batches(clusters: Sequence[T], limit: int = LIMIT) -> list[Sequence[T]]:
    return [clusters[start : start + limit] for start in range(0, len(clusters), limit)]


def free_names(placement: str, is_taken: Callable[[str], bool]) -> Iterator[str]:
    """Names of a placement's decisions, in order, without those in use."""
    return (name for number in count(1) if not is_taken(name := f"{placement}-decision-{number}"))
