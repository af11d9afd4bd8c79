"""Records whose work the hub does not have: noted, waited for, and evicted; a work that is back ends it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from muster.api.work.v1 import AppliedManifestWork
from muster.work.agent.deletion.eviction import EvictionDecision, EvictionStep, decide
from muster.work.agent.options import NEVER

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def record(since: str = "") -> AppliedManifestWork:
    status = {"evictionStartTime": since} if since else {}
    spec = {"hubHash": "h", "manifestWorkName": "w", "agentID": "a"}
    return AppliedManifestWork.decode({"metadata": {"name": "h-w"}, "spec": spec, "status": status})


@pytest.mark.parametrize(
    ("since", "wanted", "grace", "expected"),
    [
        ("", True, 60, EvictionDecision(EvictionStep.LEAVE)),
        ("2026-01-01T11:00:00Z", True, 60, EvictionDecision(EvictionStep.CLEAR)),
        ("", False, 60, EvictionDecision(EvictionStep.BEGIN, 60)),
        ("2026-01-01T11:59:30Z", False, 60, EvictionDecision(EvictionStep.LEAVE, 30)),
        ("2026-01-01T11:59:00Z", False, 60, EvictionDecision(EvictionStep.EVICT)),
        ("", False, 0, EvictionDecision(EvictionStep.EVICT)),
        ("", False, NEVER, EvictionDecision(EvictionStep.LEAVE)),
        ("2020-01-01T00:00:00Z", False, NEVER, EvictionDecision(EvictionStep.CLEAR)),
        ("nonsense", False, 60, EvictionDecision(EvictionStep.LEAVE, 60)),
    ],
)
def test_a_record_is_treated_by_what_the_hub_has(since: str, wanted: bool, grace: float, expected: EvictionDecision) -> None:
    assert decide(record(since), wanted, NOW, grace) == expected


def test_a_clock_that_was_set_back_only_makes_it_later() -> None:
    later = (NOW + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert decide(record(later), False, NOW, 60) == EvictionDecision(EvictionStep.LEAVE, 3660)
