"""What choosing answers: the groups of chosen clusters, the conditions, how every filter and every prioritizer judged, and when
time alone may change the answer.

A choice of a misconfigured placement names nobody: whoever writes it down keeps the decisions there are (`keeps_decisions`), and
makes the one empty decision only where there has been none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from muster.api.meta import Condition


class Chosen(NamedTuple):
    cluster: str
    score: int
    """Of all prioritizers, by their weights."""


@dataclass(frozen=True)
class ChosenGroup:
    """A decision group; its index is its place in the choice."""

    name: str
    clusters: tuple[Chosen, ...]


@dataclass(frozen=True)
class Filtered:
    """What one filter left, and why it removed the others."""

    name: str
    left: tuple[str, ...]
    removed: Mapping[str, str] = field(default_factory=dict)
    """By cluster, the reason; worked out when it is read."""


@dataclass(frozen=True)
class Prioritized:
    name: str
    weight: int
    scores: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    groups: tuple[ChosenGroup, ...]
    satisfied: Condition
    misconfigured: Condition
    filters: tuple[Filtered, ...] = ()
    prioritizers: tuple[Prioritized, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    """By cluster that passed the filters, the sum of its scores by their weights; the score of spreading only those have that were
    chosen by it."""
    unscheduled: int = 0
    warnings: tuple[str, ...] = ()
    """For events: scores that have expired."""
    again: datetime | None = None
    """When time alone may change the answer: the nearest end of a toleration or of a score."""

    available: int = 0
    """How many clusters the placement sees at all: those of its sets, without those being deleted."""

    @property
    def keeps_decisions(self) -> bool:
        """Whether nobody was chosen because the spec makes no sense; where no cluster can be seen at all, that is the reason."""
        return self.misconfigured.status == "True" and self.available > 0

    @property
    def clusters(self) -> frozenset[str]:
        return frozenset(cluster.cluster for group in self.groups for cluster in group.clusters)
