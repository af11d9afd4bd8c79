"""The desired objects of a scheduling result: decisions, and the placement's status. Pure functions.

Scores are written only if a placement sorts by them (`sortBy: Score`): otherwise a result with the same clusters causes no write,
whatever their scores. Decisions that differ in scores only are rate limited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import repeat
from operator import attrgetter
from typing import Final

import msgspec

from muster.api.cluster.v1beta1 import (
    DECISION_GROUP_INDEX_LABEL,
    DECISION_GROUP_NAME_LABEL,
    PLACEMENT_LABEL,
    DecisionGroupStatus,
    Placement,
    PlacementStatus,
)
from muster.api.meta import Condition, with_condition
from muster.kube.names import label_value
from muster.machinery.golang.durations import parse_duration
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import format_time, parse_time
from muster.placement.choice import Choice, Chosen, ChosenGroup
from muster.placement.decisions import group_of
from muster.placement.hub.decision_plan import Decision, free_names, in_batches

_CLUSTER: Final[Callable[[Chosen], str]] = attrgetter("cluster")
BY_SCORE: Final = "Score"
SCORE_RATE_LIMIT: Final = timedelta(minutes=1)
NO_GROUPS: Final = (ChosenGroup("", ()),)
"""One group without clusters: a placement without selected clusters has one empty decision."""
_NUMBER: Final = re.compile(r"-decision-([0-9]{1,9})$")


def wanted_decisions(placement: Placement, choice: Choice, is_taken: Callable[[str], bool]) -> dict[str, Decision]:
    """In order, by name; names in use by others are skipped."""
    return _decisions(placement, choice.groups or NO_GROUPS, is_taken)


def kept_decisions(placement: Placement, present: Mapping[str, Decision], is_taken: Callable[[str], bool]) -> dict[str, Decision]:
    """For a misconfigured placement: the existing decisions, or an empty one if there is none."""
    if present or is_unnameable(placement):
        return dict(present)
    return _decisions(placement, NO_GROUPS, is_taken)


def is_unnameable(placement: Placement) -> bool:
    """Whether its name is no valid label value, so that it cannot have decisions: its conditions report that."""
    return bool(label_value(placement.metadata.name))


def _decisions(placement: Placement, groups: Iterable[ChosenGroup], is_taken: Callable[[str], bool]) -> dict[str, Decision]:
    scored = placement.spec.sort_by == BY_SCORE
    names = free_names(placement.metadata.name, is_taken)
    wanted: dict[str, Decision] = {}
    for index, group in enumerate(groups):
        labels = {
            PLACEMENT_LABEL: placement.metadata.name,
            DECISION_GROUP_INDEX_LABEL: str(index),
            DECISION_GROUP_NAME_LABEL: group.name,
        }
        for clusters in in_batches(group.clusters) or [()]:
            content = (
                tuple((cluster.cluster, cluster.score) for cluster in clusters)
                if scored
                else tuple(zip(map(_CLUSTER, clusters), repeat(0), strict=False))
            )
            wanted[next(names)] = Decision(labels, content)
    return wanted


def waits_until(
    placement: Placement, present: Mapping[str, Decision], wanted: Mapping[str, Decision], now: datetime
) -> datetime | None:
    """When decisions that differ in scores only may be written; None if now."""
    if placement.spec.sort_by != BY_SCORE or not present or _shape(present) != _shape(wanted):
        return None
    try:
        # The time may be in the future, by another clock or an edit.
        last = min(parse_time(placement.status.last_score_update_time), now)
        until = last + _rate_limit(placement.spec.score_rate_limit)
    except (GoError, OverflowError):
        return None
    return until if now < until else None


def _rate_limit(text: str) -> timedelta:
    try:
        return timedelta(microseconds=parse_duration(text) / 1000)
    except GoError:
        return SCORE_RATE_LIMIT


def _shape(decisions: Mapping[str, Decision]) -> tuple[object, ...]:
    """Everything but scores, and the order that follows from them."""
    groups = {cluster: group_of(decision.labels)[1] for decision in decisions.values() for cluster in decision.names}
    return groups, {name: (group_of(one.labels), len(one.clusters)) for name, one in decisions.items()}


def status_of(
    placement: Placement, decisions: Mapping[str, Decision], conditions: Iterable[Condition], now: datetime, *, scored: bool
) -> PlacementStatus:
    """For the written decisions. `scored`: scores were written just now."""
    time = format_time(now)
    former = placement.status.conditions
    for condition in conditions:
        former = with_condition(former, msgspec.structs.replace(condition, observed_generation=placement.metadata.generation), time)
    return PlacementStatus(
        number_of_selected_clusters=len({cluster for decision in decisions.values() for cluster, _ in decision.clusters}),
        decision_groups=_groups(decisions),
        conditions=former,
        last_score_update_time=time if scored else placement.status.last_score_update_time,
    )


def _groups(decisions: Mapping[str, Decision]) -> tuple[DecisionGroupStatus, ...]:
    found: dict[tuple[int, str], list[str]] = {}
    for name in sorted(decisions, key=_number):
        found.setdefault(group_of(decisions[name].labels), []).append(name)
    return tuple(
        DecisionGroupStatus(
            decision_group_index=index,
            decision_group_name=group,
            decisions=tuple(names),
            cluster_count=sum(len(decisions[name].clusters) for name in names),
        )
        for (index, group), names in sorted(found.items())
    )


def _number(name: str) -> tuple[int, str]:
    found = _NUMBER.search(name)
    return (int(found[1]) if found else 0, name)
