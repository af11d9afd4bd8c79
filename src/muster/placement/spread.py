"""Spread constraints: selects clusters one at a time so that they spread over topologies given by labels or claims.

Upstream has only the API so far (enhancement 70, whose rules these are). Terms are hierarchical: a topology of a later term lies
within one of the earlier terms, so two regions may have a zone of the same name, and topologies are compared with their siblings
only. Each cluster is selected as follows:

1. Clusters are excluded that would make a DoNotSchedule term's skew too large: the number selected in the topology minus the number
   in the sibling with the fewest, whether that has any left or not.
2. Every term scores from 0, for topologies with the most selections, to 63, with the fewest. The first term's score has the highest
   six bits, and the sum is scaled to -100..100 over the remaining clusters.
3. That score, with its weight, is added to the cluster's total of the prioritizers. The highest is selected, equal ones by name.

Clusters of one topology that lack a key are in a topology of their own. Clusters with the same topologies differ in their totals
only, so they share a queue of which only the first is compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster.api.cluster.v1beta1 import SpreadConstraint
from muster.placement.choice import Chosen
from muster.placement.snapshot import Candidate

_HIGHEST: Final = 63
_BITS: Final = 6
HARD: Final = "DoNotSchedule"
"""A term that must hold."""


@dataclass(frozen=True)
class Spread:
    chosen: tuple[Chosen, ...]
    scores: Mapping[str, int]
    """By selected cluster, its score at that time."""


def spread(
    candidates: Sequence[Candidate], totals: Mapping[str, int], terms: Sequence[SpreadConstraint], weight: int, wanted: int
) -> Spread:
    """Up to `wanted` of the candidates, fewer if DoNotSchedule requires that."""
    lines = _lines(candidates, totals, terms)
    chosen: list[Chosen] = []
    scores: dict[str, int] = {}
    while lines and len(chosen) < wanted:
        allowed = [line for line in lines if line.allowed()]
        if not allowed:
            break
        spreads = _normalized([line.score() for line in allowed])
        best, score = min(zip(allowed, spreads, strict=True), key=lambda pair: (-(pair[0].total + weight * pair[1]), pair[0].first))
        name, total = best.take()
        chosen.append(Chosen(name, total + weight * score))
        scores[name] = score
        if not best.waiting:
            lines.remove(best)
    return Spread(tuple(chosen), scores)


@dataclass(eq=False)
class _Siblings:
    """The topologies of one parent."""

    limit: int | None
    """The maximum skew, of a term that must hold."""
    levels: Counter[int] = field(default_factory=Counter)
    """The number of topologies by number of selections."""
    least: int = 0
    most: int = 0


@dataclass(eq=False)
class _Topology:
    siblings: _Siblings
    chosen: int = 0

    def count(self) -> None:
        levels = self.siblings.levels
        levels[self.chosen] -= 1
        self.chosen += 1
        levels[self.chosen] += 1
        self.siblings.most = max(self.siblings.most, self.chosen)
        if not levels[self.siblings.least]:
            # This was the last one with the fewest, and has one more now.
            self.siblings.least += 1

    def allows(self) -> bool:
        siblings = self.siblings
        # If it is the only one with the fewest, the minimum increases with it.
        least = siblings.least + (self.chosen == siblings.least and siblings.levels[self.chosen] == 1)
        return siblings.limit is None or self.chosen + 1 - least <= siblings.limit

    def score(self) -> int:
        span = self.siblings.most - self.siblings.least
        return _HIGHEST * (self.siblings.most - self.chosen) // span if span else 0


@dataclass(eq=False)
class _Line:
    """Clusters with the same topologies, the highest total last."""

    topologies: tuple[_Topology, ...]
    waiting: list[tuple[int, str]]
    """Totals, negated, and names."""

    @property
    def total(self) -> int:
        return -self.waiting[-1][0]

    @property
    def first(self) -> str:
        return self.waiting[-1][1]

    def allowed(self) -> bool:
        return all(topology.allows() for topology in self.topologies)

    def score(self) -> int:
        packed = 0
        for topology in self.topologies:
            packed = packed << _BITS | topology.score()
        return packed

    def take(self) -> tuple[str, int]:
        for topology in self.topologies:
            topology.count()
        less, name = self.waiting.pop()
        return name, -less


Path = tuple[str | None, ...]
"""The values of all terms' keys; None if a cluster has none."""


def _lines(candidates: Iterable[Candidate], totals: Mapping[str, int], terms: Sequence[SpreadConstraint]) -> list[_Line]:
    limits = [term.max_skew if term.when_unsatisfiable == HARD else None for term in terms]
    found: dict[Path, list[tuple[int, str]]] = {}
    for candidate in candidates:
        path = tuple(
            (candidate.claims if term.topology_key_type == "Claim" else candidate.labels).get(term.topology_key) for term in terms
        )
        found.setdefault(path, []).append((-totals[candidate.name], candidate.name))
    siblings: dict[Path, _Siblings] = {}
    topologies: dict[Path, _Topology] = {}
    for path in found:
        for depth, limit in enumerate(limits):
            if path[: depth + 1] not in topologies:
                here = siblings.setdefault(path[:depth], _Siblings(limit))
                here.levels[0] += 1
                topologies[path[: depth + 1]] = _Topology(here)
    return [
        _Line(tuple(topologies[path[: depth + 1]] for depth in range(len(path))), sorted(waiting, reverse=True))
        for path, waiting in found.items()
    ]


def _normalized(packed: Sequence[int]) -> list[int]:
    """From -100 for the lowest to 100 for the highest, truncated toward zero; 0 if all are equal."""
    least, span = min(packed), max(packed) - min(packed)
    if not span:
        return [0] * len(packed)
    return [_truncated(200 * (value - least) - 100 * span, span) for value in packed]


def _truncated(number: int, divisor: int) -> int:
    return number // divisor if number >= 0 else -(-number // divisor)
