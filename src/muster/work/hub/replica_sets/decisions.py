"""Which clusters a placement chose, by the groups that its decisions are labelled with.

A cluster that several placements of a set chose belongs to the first of them, and one that several groups of a placement name to
the first group: every cluster gets one work.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.api.cluster.v1beta1 import DECISION_GROUP_INDEX_LABEL, DECISION_GROUP_NAME_LABEL, PlacementDecision
from muster.work.hub.replica_sets.rollout import Group


def groups_of(decisions: Iterable[PlacementDecision], taken: frozenset[str]) -> list[Group]:
    """The groups, in order, without clusters that are `taken`."""
    found: dict[tuple[int, str], set[str]] = {}
    for decision in decisions:
        labels = decision.metadata.labels
        key = (_index(labels.get(DECISION_GROUP_INDEX_LABEL, "")), labels.get(DECISION_GROUP_NAME_LABEL, ""))
        found.setdefault(key, set()).update(one.cluster_name for one in decision.status.decisions if one.cluster_name)
    groups, seen = [], set(taken)
    for (index, name), clusters in sorted(found.items()):
        groups.append(Group(name, index, frozenset(clusters - seen)))
        seen |= clusters
    return groups


def _index(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0
