"""Eviction of records whose work is not on the hub: their objects are deleted after a grace period.

Nothing is evicted before the hub has listed its works. The period starts when the work was first missed, which is stored in the
record, so it continues over restarts; a work that comes back ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from muster.api.work.v1 import AppliedManifestWork
from muster.work.agent.options import NEVER


class EvictionStep(Enum):
    LEAVE = "leave"
    """As it is; look again after `wait`, if there is one."""
    BEGIN = "begin"
    """Note that the work is missing."""
    CLEAR = "clear"
    """The work is back."""
    EVICT = "evict"


@dataclass(frozen=True)
class EvictionDecision:
    step: EvictionStep
    wait: float | None = None


def decide(record: AppliedManifestWork, wanted: bool, now: datetime, grace: float) -> EvictionDecision:
    """`wanted`: whether the hub has the work."""
    since = record.status.eviction_start_time
    if wanted or grace >= NEVER:
        return EvictionDecision(EvictionStep.CLEAR if since else EvictionStep.LEAVE)
    if not since:
        return EvictionDecision(EvictionStep.EVICT) if grace <= 0 else EvictionDecision(EvictionStep.BEGIN, grace)
    left = grace - (now - _moment(since, now)).total_seconds()
    return EvictionDecision(EvictionStep.EVICT) if left <= 0 else EvictionDecision(EvictionStep.LEAVE, left)


def _moment(text: str, now: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        # Nobody knows since when: then since now.
        return now
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
