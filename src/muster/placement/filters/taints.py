"""The filter TaintToleration: taints exclude a cluster from placements that do not tolerate them.

The effect PreferNoSelect excludes nothing, NoSelectIfNew only placements that have not selected the cluster yet, NoSelect all. Of
the tolerations that match a taint the first that has not expired is used. One with `tolerationSeconds` expires that long after the
taint was added; a taint without that time was always there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Final

from muster.api.cluster.v1 import Taint
from muster.api.cluster.v1beta1 import ClusterToleration
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import ZERO, parse_time
from muster.placement.misconfiguration import Misconfigured
from muster.placement.snapshot import Candidate

NAME: Final = "TaintToleration"
NEVER_FILTERS: Final = "PreferNoSelect"
_IF_NEW: Final = "NoSelectIfNew"
_EXISTS: Final = "Exists"


class Taints:
    name: ClassVar[str] = NAME

    def __init__(self, tolerations: Sequence[ClusterToleration], present: Collection[str], now: datetime) -> None:
        """Raises Misconfigured."""
        for toleration in tolerations:
            _check(toleration)
        self._tolerations = tolerations
        self._present = present
        self._now = now
        self.again: datetime | None = None
        """When the first toleration expires by which a cluster passed."""

    def left(self, candidates: list[Candidate]) -> list[Candidate]:
        return [candidate for candidate in candidates if not candidate.taints or self._tolerates(candidate)]

    def _tolerates(self, candidate: Candidate) -> bool:
        ends: list[datetime] = []
        for taint in self._selecting(candidate):
            found = self._toleration(taint)
            if found is None:
                return False
            end = _end(taint, found)
            if end is not None:
                ends.append(end)
        if self.again is not None:
            ends.append(self.again)
        self.again = min(ends, default=None)
        return True

    def _selecting(self, candidate: Candidate) -> list[Taint]:
        """The taints that exclude placements without a toleration."""
        chosen = candidate.name in self._present
        return [taint for taint in candidate.taints if taint.effect != NEVER_FILTERS and not (taint.effect == _IF_NEW and chosen)]

    def _toleration(self, taint: Taint) -> ClusterToleration | None:
        return next(
            (toleration for toleration in self._tolerations if _matches(toleration, taint) and not self._ended(taint, toleration)),
            None,
        )

    def _ended(self, taint: Taint, toleration: ClusterToleration) -> bool:
        end = _end(taint, toleration)
        return end is not None and end <= self._now

    def reason(self, candidate: Candidate) -> str:
        for taint in self._selecting(candidate):
            if self._toleration(taint) is None:
                ended = next((toleration for toleration in self._tolerations if _matches(toleration, taint)), None)
                shown = f"taint {taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}"
                if ended is None:
                    return f"{shown} is not tolerated"
                return f"{shown} was tolerated for {ended.toleration_seconds} s from {taint.time_added or 'an unknown time'}"
        return ""


def _check(toleration: ClusterToleration) -> None:
    if not toleration.key and toleration.operator != _EXISTS:
        raise Misconfigured(NAME, "If the key is empty, operator must be Exists.")
    if toleration.operator == _EXISTS and toleration.value:
        raise Misconfigured(NAME, "If the operator is Exists, the value should be empty.")


def _matches(toleration: ClusterToleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == _EXISTS


def _end(taint: Taint, toleration: ClusterToleration) -> datetime | None:
    """When the toleration expires; None for never."""
    if toleration.toleration_seconds is None:
        return None
    try:
        added = parse_time(taint.time_added)
    except GoError:
        added = ZERO
    try:
        return added + timedelta(seconds=toleration.toleration_seconds)
    except OverflowError:
        return None if toleration.toleration_seconds > 0 else ZERO
