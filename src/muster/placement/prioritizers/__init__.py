"""Prioritizers: how good every cluster is for a placement, by one measure each, from -100 to 100.

A prioritizer is made for one pass and scores all clusters that passed the filters together, since some scores are relative. The
total of a cluster is the sum of its scores by their weights (`weights`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from muster.placement.snapshot import Candidate


class Prioritizer(Protocol):
    @property
    def name(self) -> str: ...

    def scores(self, candidates: Sequence[Candidate]) -> Mapping[str, int]:
        """By cluster; one that is missing has 0."""
        ...
