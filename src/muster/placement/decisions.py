"""Which clusters a placement chose, by the groups that its decisions are labelled with.

A cluster that several placements of a set chose belongs to the first of them, and one that several groups of a placement name to
the first group: every cluster gets one work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.api.cluster.v1beta1 import DECISION_GROUP_INDEX_LABEL, DECISION_GROUP_NAME_LABEL, PlacementDecision
from muster.placement.rollout import Group


def groups_of(decisions: Iterable[PlacementDecision], taken: frozenset[str]) -> list[Group]:
    """The groups, in order, without clusters that are `taken`."""
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
    """The index and the name of the group that a decision with these labels is of."""
    return _index(labels.get(DECISION_GROUP_INDEX_LABEL, "")), labels.get(DECISION_GROUP_NAME_LABEL, "")


def _index(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0
