"""Scores of addons, from AddOnPlacementScores.

A cluster without the object or without the score in it has 0, and so has one with expired scores, which causes a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from muster.api.cluster.v1beta1 import AddOnScore
from muster.placement.scores import NoScores, ScoreReader
from muster.placement.snapshot import Candidate

PREFIX: Final = "AddOn/"
"""The prefix of their names as plugins."""
_NAMED: Final = 10
"""The most clusters with expired scores that a warning names; the others are counted."""


class AddOn:
    def __init__(self, score: AddOnScore, reader: ScoreReader) -> None:
        self.name = f"{PREFIX}{score.resource_name}/{score.score_name}"
        self._score = score
        self._reader = reader
        self._expired: list[str] = []

    def scores(self, candidates: Sequence[Candidate]) -> Mapping[str, int]:
        return {candidate.name: self._of(candidate.name) for candidate in candidates}

    def _of(self, cluster: str) -> int:
        found = self._reader.read(cluster, self._score.resource_name)
        if isinstance(found, NoScores):
            if found is NoScores.EXPIRED:
                self._expired.append(f"{cluster}/{self._score.resource_name}")
            return 0
        value = 0
        for score in found:
            if score.name == self._score.score_name:
                value = score.value
        # The range of the API; otherwise the writer of a score could outweigh everything else.
        return max(-100, min(100, value))

    def warnings(self) -> Iterator[str]:
        if self._expired:
            more = len(self._expired) - _NAMED
            named = " ".join(sorted(self._expired)[:_NAMED]) + (f" and {more} more" if more > 0 else "")
            yield f"AddOnPlacementScores {named} expired in plugin {self.name}"
