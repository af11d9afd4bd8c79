"""Decision groups: the division of the selected clusters for consumers that process decisions group by group.

Named groups come first, in order: each has the selected clusters that match its selector and are in no group before. The others are
in groups without a name. Each is cut into pieces of equal length, ordered by name or by score. A named group without clusters is
omitted; without selected clusters there is one empty group.
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
    """A parsed decision strategy."""

    length: Callable[[int], int]
    """The length of a group, by the number of selected clusters."""
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
    """All in one group if the length is invalid."""
    return length if 0 < length <= chosen else max(chosen, 1)
