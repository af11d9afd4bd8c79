"""Every differential case, on the embedded server against the real one.

Quick runs compare with the recorded answers; with MUSTER_E2E=kube a real kube-apiserver runs beside and the recorded
answers themselves are checked.
"""

import pytest

from tests.differential import golden
from tests.differential.comparing import differences, staleness
from tests.differential.dsl import Case
from tests.differential.runner import run, wait_until_gone
from tests.support.planes import ControlPlane

GROUPS = golden.groups()
RETRIES = 2
"""Some answers depend on how far the real server's own caches have come; what differs every time has changed."""
ALL = [pytest.param(group, case, id=f"{group}: {case.name}") for group, cases in GROUPS.items() for case in cases]


@pytest.mark.parametrize(("group", "case"), ALL)
def test_the_embedded_server_answers_like_the_real_one(group: str, case: Case, embedded_plane: ControlPlane) -> None:
    expected = golden.load(group).get(case.name)
    assert expected is not None, "no recorded answer: run `python -m tests.differential record`"
    report = differences(case, expected, run(case, embedded_plane.cluster))
    if report:
        pytest.fail(report, pytrace=False)


@pytest.mark.kube
@pytest.mark.parametrize(("group", "case"), ALL)
def test_the_recorded_answers_are_what_the_real_server_says(group: str, case: Case, kube_plane: ControlPlane) -> None:
    recorded = golden.load(group).get(case.name, [])
    report = staleness(recorded, run(case, kube_plane.cluster))
    for _ in range(RETRIES):
        if not report:
            break
        wait_until_gone(kube_plane.cluster, case)
        report = staleness(recorded, run(case, kube_plane.cluster))
    if report:
        pytest.fail(f"recorded answers are stale: run `python -m tests.differential record`\n{report}", pytrace=False)
