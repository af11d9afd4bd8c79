"""Pods on an embedded node: run, end, start again, wait, and go."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from muster.runtime.client.builtin import NODES
from muster.runtime.client.errors import BadRequest
from tests.support.stage import IMAGE, PODS, Stage, condition


def waiting(stage: Stage, name: str) -> str:
    return str(((stage.container(name).get("state") or {}).get("waiting") or {}).get("reason", ""))


def ended(stage: Stage, name: str) -> dict[str, Any]:
    return dict((stage.container(name).get("state") or {}).get("terminated") or {})


async def test_a_pod_of_our_image_runs_and_becomes_ready(stage: Stage) -> None:
    await stage.pod("web", "serve", "--fast")
    status = await stage.ready("web")
    assert status["phase"] == "Running"
    assert status["podIP"].startswith("127.")
    assert stage.read("web")["spec"]["nodeName"] == "default-node"
    assert stage.container("web")["state"]["running"]["startedAt"]
    kinds = {each["type"]: each["status"] for each in status["conditions"]}
    assert kinds == dict.fromkeys(("PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"), "True")
    text = await stage.log("web")
    assert text.startswith("serving with --fast\n")
    assert "hello from the program" in text


async def test_a_pod_that_is_deleted_ends_goes_and_leaves_no_files(stage: Stage, tmp_path: Path) -> None:
    await stage.pod("web", "serve")
    await stage.ready("web")
    uid = stage.read("web")["metadata"]["uid"]
    home = tmp_path / "node" / "default" / "pods" / uid
    assert home.stat().st_mode & 0o077 == 0
    await stage.client.delete(PODS, "web", "default")
    await stage.gone("web")
    await stage.until(lambda: not home.exists(), "its files are gone")
    assert stage.node.running == 0


async def test_a_pod_deleted_by_force_is_stopped_all_the_same(stage: Stage) -> None:
    await stage.pod("web", "serve")
    await stage.ready("web")
    await stage.client.delete(PODS, "web", "default", grace=0)
    assert not stage.read("web")
    await stage.until(lambda: stage.node.running == 0, "nothing runs any more")


async def test_another_image_stays_pending_and_says_why_until_it_is_ours(stage: Stage) -> None:
    await stage.pod("web", "serve", image="nginx:1.27")
    await stage.until(lambda: waiting(stage, "web") == "ImageNotRunnable", "it waits")
    assert stage.status("web")["phase"] == "Pending"
    assert condition(stage.read("web"), "Ready") == "False"
    await stage.until(lambda: "ImageNotRunnable" in dict(stage.events("web")), "an event tells")
    with pytest.raises(BadRequest, match="is waiting to start: ImageNotRunnable"):
        await stage.log("web")
    patch = {"spec": {"containers": [{"name": "main", "image": IMAGE}]}}
    await stage.client.patch(PODS, "web", patch, "default", kind="strategic")
    await stage.ready("web")


async def test_a_pod_that_is_never_restarted_ends_with_its_exit_code(stage: Stage) -> None:
    await stage.pod("good", "exit", "0", restartPolicy="Never")
    await stage.pod("bad", "exit", "7", restartPolicy="Never")
    await stage.phase("good", "Succeeded")
    await stage.phase("bad", "Failed")
    assert (ended(stage, "good")["reason"], ended(stage, "good")["exitCode"]) == ("Completed", 0)
    assert (ended(stage, "bad")["reason"], ended(stage, "bad")["exitCode"]) == ("Error", 7)
    assert await stage.log("bad") == "leaving with 7\n"


async def test_what_a_program_raises_ends_in_its_log_and_nowhere_else(stage: Stage) -> None:
    await stage.pod("hot", "crash", restartPolicy="Never", container={"terminationMessagePolicy": "FallbackToLogsOnError"})
    await stage.pod("out", "leave", restartPolicy="Never")
    await stage.phase("hot", "Failed")
    await stage.phase("out", "Failed")
    assert "RuntimeError: boiled over" in await stage.log("hot")
    assert "boiled over" in ended(stage, "hot")["message"]
    assert ended(stage, "out")["exitCode"] == 3
    await stage.pod("calm", "serve")
    await stage.ready("calm")


async def test_a_program_the_image_does_not_have_is_an_error_that_lists_what_there_is(stage: Stage) -> None:
    await stage.pod("odd", "dance", restartPolicy="Never")
    await stage.phase("odd", "Failed")
    assert ended(stage, "odd")["reason"] == "StartError"
    assert "no program 'dance' in this image; there are crash, exit, leave, list namespaces" in ended(stage, "odd")["message"]


async def test_initial_containers_run_one_after_the_other_before_the_rest(stage: Stage) -> None:
    first = {"name": "first", "image": IMAGE, "args": ["exit", "0"]}
    beside = {"name": "beside", "image": IMAGE, "args": ["serve"], "restartPolicy": "Always"}
    await stage.pod("web", "serve", initContainers=[first, beside])
    status = await stage.ready("web")
    assert [each["name"] for each in status["initContainerStatuses"]] == ["first", "beside"]
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert "running" in status["initContainerStatuses"][1]["state"]
    assert await stage.log("web", container="first") == "leaving with 0\n"
    await stage.pod("stuck", "serve", initContainers=[{**first, "args": ["exit", "1"]}], restartPolicy="Never")
    await stage.phase("stuck", "Failed")
    assert waiting(stage, "stuck") == "PodInitializing"


async def test_one_foreign_image_keeps_the_whole_pod_waiting_and_is_the_one_that_says_so(stage: Stage) -> None:
    first = {"name": "first", "image": IMAGE, "args": ["exit", "0"]}
    await stage.pod("web", image="nginx", initContainers=[first])
    await stage.until(lambda: waiting(stage, "web") == "ImageNotRunnable", "it waits")
    assert "waiting" in stage.status("web")["initContainerStatuses"][0]["state"]


async def test_a_program_has_its_grace_to_tidy_up(stage: Stage) -> None:
    await stage.pod("web", "serve")
    await stage.ready("web")
    pod, following = stage.read("web"), asyncio.Event()
    lines = []

    async def follow() -> None:
        async for line in stage.client.lines(f"{PODS.path('default', 'web')}/log", {"follow": "true"}, None, None):
            lines.append(line)
            following.set()

    reader = asyncio.create_task(follow())
    await following.wait()
    await stage.client.delete(PODS, "web", "default", uid=pod["metadata"]["uid"])
    await stage.gone("web")
    await asyncio.wait_for(reader, 30)
    assert lines[-1] == b"tidied up"


async def test_a_pod_held_by_a_finalizer_ends_but_stays_until_it_is_let_go(stage: Stage) -> None:
    await stage.pod("web", "serve")
    await stage.ready("web")
    await stage.client.patch(PODS, "web", {"metadata": {"finalizers": ["example.com/hold"]}}, "default")
    await stage.client.delete(PODS, "web", "default")
    await stage.until(lambda: stage.node.running == 0, "nothing runs")
    assert stage.read("web")["metadata"]["deletionTimestamp"]
    await stage.client.patch(PODS, "web", {"metadata": {"annotations": {"touched": "yes"}}}, "default")
    assert stage.container("web")["restartCount"] == 0
    await stage.client.patch(PODS, "web", {"metadata": {"finalizers": None}}, "default")
    await stage.gone("web")


async def test_a_pod_keeps_its_place_while_another_of_its_name_ends(stage: Stage) -> None:
    await stage.pod("web", "serve", "one")
    await stage.ready("web")
    await stage.client.delete(PODS, "web", "default", grace=0)
    await stage.pod("web", "serve", "two")
    await stage.ready("web")
    assert "serving with two" in await stage.log("web")


async def test_a_pod_for_another_scheduler_or_node_is_left_alone(stage: Stage) -> None:
    await stage.pod("theirs", "serve", schedulerName="other")
    await stage.pod("elsewhere", "serve", nodeSelector={"disk": "ssd"})
    await stage.until(lambda: condition(stage.read("elsewhere"), "PodScheduled") == "False", "it is refused")
    await stage.until(lambda: "FailedScheduling" in dict(stage.events("elsewhere")), "an event tells")
    assert not stage.read("theirs")["spec"].get("nodeName")
    await stage.client.patch(NODES, "default-node", {"metadata": {"labels": {"disk": "ssd"}}})
    await stage.ready("elsewhere")


async def test_fifty_pods_run_side_by_side_each_with_an_address_of_its_own(stage: Stage) -> None:
    await asyncio.gather(*(stage.pod(f"p{number}", "listen", "8080") for number in range(50)))
    for number in range(50):
        await stage.ready(f"p{number}")
    assert len({stage.status(f"p{number}")["podIP"] for number in range(50)}) == 50
    await asyncio.gather(*(stage.client.delete(PODS, f"p{number}", "default") for number in range(50)))
    for number in range(50):
        await stage.gone(f"p{number}")
    assert stage.node.running == 0


async def test_files_that_are_written_during_the_removal_go_too(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.pod("web", "serve")
    await stage.ready("web")
    home = tmp_path / "node" / "default" / "pods" / stage.read("web")["metadata"]["uid"]
    remove, late = shutil.rmtree, [home / "volumes"]

    def removing(path: Path, ignore_errors: bool = False) -> None:
        remove(path, ignore_errors)
        if path == home and late:
            late.pop().mkdir(parents=True)

    monkeypatch.setattr(shutil, "rmtree", removing)
    await stage.client.delete(PODS, "web", "default")
    await stage.gone("web")
    await stage.until(lambda: not late and not home.exists(), "its files are gone")
