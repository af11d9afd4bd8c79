"""The clusters that placements selected, by decision group.

A cluster in several groups of a placement belongs to the first of them, and a cluster that several placements selected to one of
these: the first for replica sets, the last for addons, as upstream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from muster.api.cluster.v1beta1 import DECISION_GROUP_INDEX_LABEL, DECISION_GROUP_NAME_LABEL, PlacementDecision
from muster.placement.rollout import Group


class Precedence(Enum):
    """The placement of a cluster that several placements selected."""

    FIRST = "first"
    LAST = "last"


def divided_groups(placements: Sequence[Iterable[PlacementDecision]], precedence: Precedence) -> list[list[Group]]:
    """The groups of each placement's decisions, with every cluster in one group at most."""
    order = range(len(placements)) if precedence is Precedence.FIRST else reversed(range(len(placements)))
    divided: dict[int, list[Group]] = {}
    taken: frozenset[str] = frozenset()
    for index in order:
        divided[index] = groups_of(placements[index], taken)
        taken = taken.union(*(group.clusters for group in divided[index]))
    return [divided[index] for index in range(len(placements))]


def groups_of(decisions: Iterable[PlacementDecision], taken: frozenset[str]) -> list[Group]:
    """The groups, in order, without clusters in `taken`."""
    found: dict[tuple[int, str], set[str]] = {}
    for decision in decisions:
        group = group_of(decision.metadata.labels)
        found.setdefault(group, set()).update(one.cluster_name for one in decision.status.decisions if one.cluster_name)
    groups, seen = [], set(taken)
    for (index, name), clusters in sorted(found.items()):
        groups.append(Group(name, index, frozenset(clusters - seen)))
        seen |= clusters
    return groups


def group_of(labels: Mapping[str, str]) -> tuple[int, str]:
    """The index and the name of the group in a decision's labels."""
    return _index(labels.get(DECISION_GROUP_INDEX_LABEL, "")), labels.get(DECISION_GROUP_NAME_LABEL, "")


def _index(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0
