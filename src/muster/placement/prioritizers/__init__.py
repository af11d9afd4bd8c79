"""Prioritizers: scores of clusters for a placement, from -100 to 100.

A prioritizer is made for one scheduling run and scores all clusters that passed the filters together, since some scores are
relative. The total of a cluster is the weighted sum of its scores (`weights`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from muster.placement.snapshot import Candidate


class Prioritizer(Protocol):
    @property
    def name(self) -> str: ...

    def scores(self, candidates: Sequence[Candidate]) -> Mapping[str, int]:
        """By cluster; a missing one has 0."""
        ...
