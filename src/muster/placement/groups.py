"""Decision groups: how the chosen clusters are divided for those who follow decisions group by group.

Named groups come first, in their order: each takes those of the chosen that it selects and no group before it has. The others are
left to groups without a name. Each is cut into pieces of equal length, ordered by name or by score. A named group that nobody
belongs to is none; where nobody is chosen there is one group, empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from muster.api.cluster.v1beta1 import GroupStrategy, PlacementSpec
from muster.kube.names import label_value
from muster.kube.selectors import SelectorError
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.numbers import parse_float
from muster.placement.choice import Chosen, ChosenGroup
from muster.placement.misconfiguration import Misconfigured
from muster.placement.selection import Selection
from muster.placement.snapshot import Candidate

EMPTY = (ChosenGroup("", ()),)
_BY_NAME: Callable[[Chosen], str] = attrgetter("cluster")


@dataclass(frozen=True)
class Grouping:
    """A placement's decision strategy, read."""

    length: Callable[[int], int]
    """Of a group, by how many were chosen."""
    named: tuple[tuple[str, Callable[[Candidate], bool]], ...]
    by_score: bool

    @classmethod
    def of(cls, spec: PlacementSpec) -> Grouping:
        """Raises Misconfigured."""
        strategy = spec.decision_strategy.group_strategy
        length = _length(strategy.clusters_per_decision_group)
        return cls(length, tuple(_named(strategy)), spec.sort_by == "Score")

    def divide(self, chosen: Sequence[Chosen], candidates: Mapping[str, Candidate]) -> tuple[ChosenGroup, ...]:
        ordered = sorted(chosen, key=_by_score if self.by_score else _BY_NAME)
        length = self.length(len(ordered))
        groups: list[ChosenGroup] = []
        for name, selects in self.named:
            members = [one for one in ordered if selects(candidates[one.cluster])]
            if members:
                ordered = [one for one in ordered if not selects(candidates[one.cluster])]
                groups += _pieces(name, members, length)
        groups += _pieces("", ordered, length)
        return tuple(groups) or EMPTY


def _by_score(one: Chosen) -> tuple[int, str]:
    return -one.score, one.cluster


def _pieces(name: str, members: Sequence[Chosen], length: int) -> Iterable[ChosenGroup]:
    return (ChosenGroup(name, tuple(members[start : start + length])) for start in range(0, len(members), length))


def _named(strategy: GroupStrategy) -> Iterator[tuple[str, Callable[[Candidate], bool]]]:
    for group in strategy.decision_groups:
        if problems := label_value(group.group_name):
            raise Misconfigured("", f"decision group name {group.group_name!r} cannot label a decision: {'; '.join(problems)}")
        wanted = group.group_cluster_selector
        try:
            yield group.group_name, Selection.of(wanted.label_selector, wanted.claim_selector).compiled()
        except SelectorError as error:
            raise Misconfigured("", str(error)) from error


def _length(wanted: int | str) -> Callable[[int], int]:
    if isinstance(wanted, int):
        return lambda chosen: _within(wanted, chosen)
    try:
        if not wanted.endswith("%"):
            raise GoError(wanted)
        share = parse_float(wanted[:-1])
    except GoError as error:
        raise Misconfigured("", f"{wanted} invalid type: string is not a percentage") from error
    if not math.isfinite(share):
        return lambda chosen: _within(0, chosen)
    return lambda chosen: _within(math.ceil(share / 100 * chosen), chosen)


def _within(length: int, chosen: int) -> int:
    """All in one group where a length makes no sense."""
    return length if 0 < length <= chosen else max(chosen, 1)
