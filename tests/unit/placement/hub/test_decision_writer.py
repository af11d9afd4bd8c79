"""What a pass fails with when a decision cannot be written."""

from __future__ import annotations

import pytest

from muster.placement.hub.decision_writer import NotWritten
from muster.runtime.client import AlreadyExists, Conflict, Forbidden, KubeError, NotFound, Unreachable


@pytest.mark.parametrize("cause", [NotFound(404), AlreadyExists(409), Conflict(409)])
def test_who_was_overtaken_has_lost_a_race_and_nothing_is_wrong(cause: KubeError) -> None:
    """The decisions of a placement go with it, and the watch tells of both in any order."""
    problem = NotWritten("p-decision-1", cause)
    assert problem.ordinary
    assert isinstance(problem.failure, Conflict)


@pytest.mark.parametrize(("cause", "ordinary"), [(Unreachable("hub", "away"), True), (Forbidden(403), False)])
def test_other_failures_are_what_they_are(cause: KubeError, ordinary: bool) -> None:
    problem = NotWritten("p-decision-1", cause)
    assert problem.ordinary == ordinary
    assert problem.failure is cause
