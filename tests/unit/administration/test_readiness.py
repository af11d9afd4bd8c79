"""Waiting says what for and why, goes on while a server is away, and ends in time; progress is shown once for each reason."""

from __future__ import annotations

import asyncio
import re

import pytest

from muster.administration.errors import TookTooLong
from muster.administration.progress import wait
from muster.administration.readiness import cluster_problem, deployment_problem, hub_problem
from muster.api.cluster.v1 import ManagedCluster
from muster.api.operator.v1 import ClusterManager
from muster.cli.progress import ConsoleProgress
from muster.runtime.client.errors import Forbidden, KubeError, NoCredential, ServerFailure, Unreachable
from tests.support.fake_clock import FakeClock
from tests.unit.cli.clusteradm.conftest import AVAILABLE, Told, condition


class Looks:
    """Answers one after the other, the last one for ever."""

    def __init__(self, *answers: str | KubeError) -> None:
        self.answers = list(answers)

    async def __call__(self) -> str:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, KubeError):
            raise answer
        return answer


async def waited(looks: Looks, told: Told, seconds: float = 10.0) -> None:
    clock = FakeClock()
    task = asyncio.create_task(wait("the thing", looks, within=seconds, progress=told, clock=clock))
    while not task.done():
        await asyncio.sleep(0)
        await clock.advance(0.25)
    await task


async def test_reasons_are_told_until_there_is_none() -> None:
    told = Told()
    await waited(Looks("not yet", "almost", ""), told)
    assert told.lines == ["the thing: not yet", "the thing: almost"]


async def test_the_last_reason_is_in_the_error() -> None:
    with pytest.raises(TookTooLong, match="the thing: not so after 10 s: never") as raised:
        await waited(Looks("never"), Told())
    assert raised.value.reason == "never"


async def test_a_server_that_is_away_for_a_moment_is_one_more_reason() -> None:
    told = Told()
    await waited(Looks(Unreachable("https://hub", "refused"), ServerFailure(503, message="busy"), ""), told)
    assert told.lines == ["the thing: https://hub: refused", "the thing: busy"]


@pytest.mark.parametrize("error", [Forbidden(403, message="no"), NoCredential("https://hub", "no token")])
async def test_what_will_not_change_ends_the_wait(error: KubeError) -> None:
    with pytest.raises(type(error)):
        await waited(Looks(error), Told())


def deployment(**status: object) -> dict[str, object]:
    metadata = {"name": "d", "namespace": "n", "generation": 2}
    return {"metadata": metadata, "spec": {"replicas": 2}, "status": {"observedGeneration": 2, **status}}


def test_a_deployment_runs_when_all_its_new_pods_do() -> None:
    assert deployment_problem(deployment(updatedReplicas=2, availableReplicas=2)) == ""
    assert "1 of 2 pods" in deployment_problem(deployment(updatedReplicas=1, availableReplicas=2))
    both = deployment(replicas=3, updatedReplicas=2, availableReplicas=2)
    assert "version before are still there: 1" in deployment_problem(both), "an old one may be among the available"
    assert "not rolled out yet" in deployment_problem(deployment(observedGeneration=1, updatedReplicas=2, availableReplicas=2))
    failed = [{"type": "ReplicaFailure", "status": "True", "message": "quota"}]
    assert deployment_problem(deployment(conditions=failed)).endswith("pods are available: quota")


WELL = [condition("Applied", "True"), condition("HubRegistrationDegraded", "False"), condition("Progressing", "False")]


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"observedGeneration": 2, "conditions": WELL}, ""),
        ({"observedGeneration": 1, "conditions": WELL}, "the operator has not seen the ClusterManager yet"),
        ({"observedGeneration": 2}, "ClusterManager has no condition Applied yet"),
        (
            {
                "observedGeneration": 2,
                "conditions": [*WELL, condition("HubPlacementDegraded", "True", "UnavailablePlacementPod", "x")],
            },
            "HubPlacementDegraded is True: UnavailablePlacementPod: x",
        ),
        (
            {"observedGeneration": 2, "conditions": [condition("Applied", "False", "CRDApplyFailed", "x")]},
            "Applied is False: CRDApplyFailed: x",
        ),
    ],
)
def test_a_hub_works_when_its_cluster_manager_says_so(status: dict[str, object], problem: str) -> None:
    found = ClusterManager.decode({"metadata": {"name": "cm", "generation": 2}, "spec": {}, "status": status})
    assert hub_problem(found) == problem


@pytest.mark.parametrize(
    ("accepts", "conditions", "problem"),
    [
        (False, [], "it is not accepted"),
        (True, [], "the hub's controller has not dealt with it yet"),
        (True, [condition("HubAcceptedManagedCluster", "False", "Error", "x")], "the hub could not accept it: Error: x"),
        (True, AVAILABLE[:1], "its agent has not come back with its certificate yet"),
        (True, AVAILABLE[:2], "its agent has not reported yet"),
        (True, [*AVAILABLE[:2], condition("ManagedClusterConditionAvailable", "Unknown", "Gone", "x")], "Gone: x"),
        (True, AVAILABLE, ""),
    ],
)
def test_a_cluster_is_available_after_all_steps(accepts: bool, conditions: list[dict[str, object]], problem: str) -> None:
    document = {"metadata": {"name": "c"}, "spec": {"hubAcceptsClient": accepts}, "status": {"conditions": conditions}}
    assert cluster_problem(ManagedCluster.decode(document)) == problem


def test_off_a_terminal_each_new_reason_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ConsoleProgress()
    for why in ("a", "a", "b"):
        progress.waiting("hub", why)
    progress.info("done")
    shown = capsys.readouterr()
    assert shown.err == "waiting: hub: a\nwaiting: hub: b\n"
    assert shown.out == "done\n"


def test_on_a_terminal_one_line_follows_the_reason(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = ConsoleProgress()
    progress.waiting("hub", "a\nlong " + "reason " * 100)
    progress.waiting("hub", "b")
    progress.done()
    shown = capsys.readouterr().err
    assert "\n" not in shown
    assert max(map(len, re.split(r"\r", shown))) < 100
    assert shown.endswith("\r\x1b[2K")


def test_for_programs_nothing_but_the_result_is_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ConsoleProgress(machine=True)
    progress.info("said")
    progress.note("noted")
    progress.warn("warned")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "said\nnoted\nwarning: warned\n"
