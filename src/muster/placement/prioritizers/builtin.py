"""The builtin prioritizers: keep selected clusters (Steady), balance the number of selections (Balance), prefer free resources.

Scores are integers, truncated toward zero. They are computed in doubles, operation by operation as upstream: with two of five
placements on a cluster that is 18, where exact arithmetic has 20. So both hubs have the same ranking.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from muster.machinery.golang.quantities import QuantityError, parse_notation
from muster.machinery.memo import memoized
from muster.placement.prioritizers.weights import BALANCE, STEADY
from muster.placement.snapshot import Candidate


@dataclass(frozen=True)
class Steady:
    """Prefers the clusters that the placement has already selected."""

    name: ClassVar[str] = STEADY
    present: Collection[str]

    def scores(self, candidates: Sequence[Candidate]) -> Mapping[str, int]:
        present = self.present
        return {candidate.name: 100 if candidate.name in present else 0 for candidate in candidates}


@dataclass(frozen=True)
class Balance:
    """Prefers clusters that few other placements have selected, relative to the cluster with the most."""

    name: ClassVar[str] = BALANCE
    others: Mapping[str, int]

    def scores(self, candidates: Sequence[Candidate]) -> Mapping[str, int]:
        others = self.others
        most = max(others.values(), default=0)
        by_count = {count: 2 * int(100 * (0.5 - count / most)) for count in set(others.values()) if count}
        by_count[0] = 100
        return {candidate.name: by_count[others.get(candidate.name, 0)] for candidate in candidates}


@dataclass(frozen=True)
class Allocatable:
    """Prefers clusters with much of a resource left; clusters that do not report it have no score."""

    name: str
    resource: str

    def scores(self, candidates: Sequence[Candidate]) -> Mapping[str, int]:
        amounts = {candidate.name: amount for candidate in candidates if (amount := self._amount(candidate)) is not None}
        if not amounts:
            return {}
        least, span = min(amounts.values()), max(amounts.values()) - min(amounts.values())
        return {name: _position(amount - least, span) for name, amount in amounts.items()}

    def _amount(self, candidate: Candidate) -> float | None:
        if self.resource not in candidate.capacity or self.resource not in candidate.allocatable:
            return None
        return _approximate(candidate.allocatable[self.resource])


def _position(above: float, span: float) -> int:
    if not span:
        return 100
    ratio = above / span
    return int((ratio - 0.5) * 2.0 * 100.0) if math.isfinite(ratio) else 0


@memoized(4096)
def _approximate(text: str) -> float | None:
    """Written by an agent: invalid numbers count as missing."""
    try:
        amount = parse_notation(text).approximate
    except (QuantityError, OverflowError):
        return None
    return amount if math.isfinite(amount) else None
