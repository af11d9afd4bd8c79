"""AddOnPlacementScores for one scheduling run.

Scores are valid until the object's `validUntil`; after that the object counts as missing, for prioritizers and for expressions. The
earliest expiration of the objects that were read is recorded, so that the placement is scheduled again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

from muster.api.cluster.v1alpha1 import Score
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import parse_time
from muster.placement.snapshot import PlacementSnapshot

_INSTANT: Final = timedelta(microseconds=1)
_LAST: Final = datetime(9999, 12, 31, tzinfo=UTC)
"""The latest possible time."""


class NoScores(Enum):
    """Why a cluster has no scores of a name."""

    MISSING = "missing"
    EXPIRED = "expired"


class ScoreReader:
    def __init__(self, world: PlacementSnapshot) -> None:
        self._world = world
        self.again: datetime | None = None
        """The earliest expiration of those that were read."""

    def read(self, cluster: str, resource: str) -> Sequence[Score] | NoScores:
        found = self._world.score(cluster, resource)
        if found is None:
            return NoScores.MISSING
        text = found.status.valid_until
        if text:
            try:
                until = parse_time(text)
            except GoError:
                return NoScores.MISSING
            if self._world.now > until:
                return NoScores.EXPIRED
            if until < _LAST and (self.again is None or until < self.again):
                # They are still valid at that very instant.
                self.again = until + _INSTANT
        return found.status.scores
