"""Filters: which clusters a placement may choose at all.

A filter is made for one pass. It keeps those of the clusters it is given that it lets through, and can say afterwards why it did
not let a cluster through. Filters come one after the other; each sees what the one before has left.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from muster.placement.snapshot import Candidate


class Filter(Protocol):
    name: ClassVar[str]

    def left(self, candidates: list[Candidate]) -> list[Candidate]: ...

    def reason(self, candidate: Candidate) -> str:
        """Why a cluster that was not let through was not."""
        ...
