"""Containers that end are started again, later and later; what does not listen is left; what was cut off is taken up again."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.fleet.node import PodEnvironment
from muster.runtime.client.errors import BadRequest
from tests.support.fake_clock import FakeClock
from tests.support.stage import PODS, Stage, open_stage
from tests.unit.fleet.node.conftest import PROGRAMS


@pytest.fixture
async def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=[False, True], ids=["embedded", "remote"])
async def stage(tmp_path: Path, clock: FakeClock, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    async with open_stage(PROGRAMS, tmp_path / "node", clock, remote=request.param) as opened:
        yield opened


def waits(stage: Stage, name: str) -> dict[str, Any]:
    return dict((stage.container(name).get("state") or {}).get("waiting") or {})


async def backed_off(stage: Stage, name: str, restarts: int) -> str:
    """Until it waits after so many restarts; the message says for how long."""
    await stage.until(
        lambda: waits(stage, name).get("reason") == "CrashLoopBackOff" and stage.container(name)["restartCount"] == restarts,
        f"{name} backs off after {restarts} restarts",
    )
    return str(waits(stage, name)["message"])


async def test_a_failing_program_is_restarted_at_once_and_then_later_and_later(stage: Stage, clock: FakeClock) -> None:
    await stage.pod("bad", "exit", "7")
    pauses = [
        (1, "10s", 10),
        (2, "20s", 20),
        (3, "40s", 40),
        (4, "1m20s", 80),
        (5, "2m40s", 160),
        (6, "5m0s", 300),
        (7, "5m0s", 300),
    ]
    for restarts, shown, seconds in pauses:
        message = await backed_off(stage, "bad", restarts)
        assert message.startswith(f"back-off {shown} restarting failed container=main pod=bad_default(")
        assert stage.container("bad")["lastState"]["terminated"]["exitCode"] == 7
        assert stage.status("bad")["phase"] == "Running"
        await clock.advance(seconds - 1)
        assert stage.container("bad")["restartCount"] == restarts
        await clock.advance(1)
    await stage.until(lambda: "BackOff" in dict(stage.events("bad")), "an event tells")


async def test_failures_are_forgiven_after_ten_good_minutes(stage: Stage, clock: FakeClock) -> None:
    fails = asyncio.Event()

    async def sometimes(args: Sequence[str], env: PodEnvironment) -> int:
        await fails.wait()
        fails.clear()
        return 1

    stage.programs[("sometimes",)] = sometimes
    await stage.pod("moody", "sometimes")
    await stage.ready("moody")
    fails.set()
    await stage.until(lambda: stage.container("moody")["restartCount"] == 1, "the first restart comes at once")
    await clock.advance(601)
    fails.set()
    await stage.until(lambda: stage.container("moody")["restartCount"] == 2, "so does the first after a long time")
    fails.set()
    assert (await backed_off(stage, "moody", 2)).startswith("back-off 10s")


async def test_the_log_of_the_attempt_before_is_kept(stage: Stage, clock: FakeClock) -> None:
    await stage.pod("bad", "exit", "7")
    await backed_off(stage, "bad", 1)
    assert await stage.log("bad") == "leaving with 7\n"
    assert await stage.log("bad", previous="true") == "leaving with 7\n"
    await stage.pod("good", "serve")
    await stage.ready("good")
    with pytest.raises(BadRequest, match='previous terminated container "main" in pod "good" not found'):
        await stage.log("good", previous="true")


async def test_a_program_that_succeeds_is_restarted_only_if_the_policy_says_always(stage: Stage) -> None:
    await stage.pod("once", "exit", "0", restartPolicy="OnFailure")
    await stage.pod("again", "exit", "0")
    await stage.phase("once", "Succeeded")
    await backed_off(stage, "again", 1)


async def test_a_program_that_does_not_listen_is_ended_when_its_grace_is_over(stage: Stage, clock: FakeClock) -> None:
    await stage.pod("deaf", "stubborn", terminationGracePeriodSeconds=30)
    await stage.ready("deaf")
    await stage.client.delete(PODS, "deaf", "default")
    await stage.until(lambda: stage.read("deaf")["metadata"].get("deletionTimestamp"), "it is asked to end")
    await clock.advance(29)
    assert stage.read("deaf")
    await clock.advance(2)
    await stage.gone("deaf")


async def test_a_program_that_never_ends_is_left_behind_and_reported(tmp_path: Path, clock: FakeClock) -> None:
    released = asyncio.Event()

    async def immortal(args: Sequence[str], env: PodEnvironment) -> int:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return 0

    async with open_stage({("immortal",): immortal}, tmp_path / "node", clock) as stage:
        await stage.pod("undead", "immortal", terminationGracePeriodSeconds=1)
        await stage.ready("undead")
        await stage.client.delete(PODS, "undead", "default")
        await stage.until(lambda: stage.read("undead")["metadata"].get("deletionTimestamp"), "it is asked to end")
        await clock.advance(2)
        await clock.advance(3)
        await stage.gone("undead")
        await stage.until(lambda: "FailedKillPod" in dict(stage.events("undead")), "an event tells")
        released.set()


async def test_pods_go_on_after_the_runtime_was_stopped(stage: Stage) -> None:
    await stage.pod("web", "serve")
    before = await stage.ready("web")
    await stage.pod("done", "exit", "0", restartPolicy="Never")
    await stage.phase("done", "Succeeded")
    await stage.stop()
    assert stage.container("web")["state"]["terminated"]["exitCode"] == 143
    await stage.start()
    await stage.until(lambda: "running" in stage.container("web")["state"], "it runs again")
    assert stage.container("web")["restartCount"] == 1
    assert stage.status("web")["podIP"] == before["podIP"]
    assert "serving" in await stage.log("web", previous="true")
    assert stage.container("done")["restartCount"] == 0
    assert await stage.log("done") == "leaving with 0\n"


async def test_what_ran_when_the_process_was_killed_is_said_to_have_ended_unseen(stage: Stage) -> None:
    await stage.pod("web", "serve")
    await stage.ready("web")
    running = stage.status("web")
    await stage.stop()
    # What a killed process leaves: a status that says that everything is well.
    await stage.client.patch(PODS, "web", {"status": running}, "default", subresource="status")
    await stage.start()
    await stage.until(lambda: stage.container("web")["restartCount"] == 1, "it is restarted")
    last = stage.container("web")["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (255, "Unknown")
    assert len(list(stage.cluster.scan("/pods"))) == 1


async def test_a_pod_deleted_while_the_runtime_was_away_goes_when_it_is_back(stage: Stage, tmp_path: Path) -> None:
    await stage.pod("web", "serve")
    await stage.ready("web")
    await stage.pod("other", "serve")
    await stage.ready("other")
    homes = tmp_path / "node" / "default" / "pods"
    assert len(list(homes.iterdir())) == 2
    await stage.stop()
    await stage.client.delete(PODS, "web", "default")
    await stage.client.delete(PODS, "other", "default", grace=0)
    assert stage.read("web")
    await stage.start()
    await stage.gone("web")
    await stage.until(lambda: not list(homes.iterdir()), "the files of both are gone")
