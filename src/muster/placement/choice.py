"""The result of scheduling: the groups of selected clusters, the conditions, the results of every filter and prioritizer, and when
it may change without an event.

A misconfigured placement selects no clusters: its existing decisions are kept (`keeps_decisions`), and an empty decision is created
only if there is none.
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
    """The weighted sum of all prioritizers."""


@dataclass(frozen=True)
class ChosenGroup:
    """A decision group; its index is its position."""

    name: str
    clusters: tuple[Chosen, ...]


@dataclass(frozen=True)
class Filtered:
    """The clusters that passed a filter, and why it removed the others."""

    name: str
    left: tuple[str, ...]
    removed: Mapping[str, str] = field(default_factory=dict)
    """By cluster, the reason; computed when it is read."""


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
    """By cluster that passed the filters, the weighted sum of its scores; only clusters selected by spreading include its score."""
    unscheduled: int = 0
    warnings: tuple[str, ...] = ()
    """For events: scores that have expired."""
    again: datetime | None = None
    """When the result may change without an event: the earliest end of a toleration or of a score."""

    available: int = 0
    """The number of clusters in the placement's sets, without those being deleted."""

    @property
    def keeps_decisions(self) -> bool:
        """Whether no cluster was selected because the spec is misconfigured; if there are no clusters at all, that is the
        reason."""
        return self.misconfigured.status == "True" and self.available > 0

    @property
    def clusters(self) -> frozenset[str]:
        return frozenset(cluster.cluster for group in self.groups for cluster in group.clusters)
