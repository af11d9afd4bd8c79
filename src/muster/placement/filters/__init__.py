"""Filters: the clusters that a placement may select.

A filter is made for one scheduling run. It returns the clusters that pass, and then has the reason for each that does not. Filters
run in sequence, each on the result of the one before.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from muster.placement.snapshot import Candidate


class Filter(Protocol):
    name: ClassVar[str]

    def left(self, candidates: list[Candidate]) -> list[Candidate]: ...

    def reason(self, candidate: Candidate) -> str:
        """Why a cluster did not pass."""
        ...
