"""Jobs on an embedded cluster run their pods to completion, and say of it what clients of a real cluster read."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster.fleet.workloads.jobs.backoff import Failures
from muster.fleet.workloads.jobs.indexes import Indexes
from muster.fleet.workloads.jobs.pods import TRACKING
from muster.runtime.client.builtin import JOBS
from tests.support.stage import IMAGE, PODS, Stage, condition

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(name: str, *args: str, policy: str = "Never", pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": IMAGE, "args": list(args)}
    pod_spec = {"containers": [container], "restartPolicy": policy, "terminationGracePeriodSeconds": 1, **(pod or {})}
    wanted = {"template": {"spec": pod_spec}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": wanted}


def found(stage: Stage, name: str = "sum") -> dict[str, Any]:
    return stage.read(name, "batch/jobs")


def status(stage: Stage, name: str = "sum") -> dict[str, Any]:
    return found(stage, name).get("status") or {}


def pods(stage: Stage) -> list[dict[str, Any]]:
    return list(stage.cluster.scan("/pods"))


def reasons(stage: Stage, name: str = "sum") -> dict[str, str]:
    return {each["type"]: each["reason"] for each in status(stage, name).get("conditions") or () if each["status"] == "True"}


async def finished(stage: Stage, kind: str, name: str = "sum") -> dict[str, Any]:
    await stage.until(lambda: condition(found(stage, name), kind) == "True", f"{name} is {kind}")
    return status(stage, name)


async def told(stage: Stage, name: str, reason: str) -> str:
    return str(await stage.until(lambda: next((text for why, text in stage.events(name) if why == reason), None), reason))


async def test_a_job_is_complete_once_so_many_pods_have_succeeded(stage: Stage) -> None:
    await stage.client.create(JOBS, job("sum", "exit", "0", completions=3, parallelism=2))
    seen = await finished(stage, "Complete")
    assert (seen["succeeded"], seen["ready"], seen["terminating"], seen["uncountedTerminatedPods"]) == (3, 0, 0, {})
    assert "active" not in seen
    assert "failed" not in seen
    assert seen["startTime"] <= seen["completionTime"]
    assert reasons(stage) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
    assert [pod["status"]["phase"] for pod in pods(stage)] == ["Succeeded"] * 3
    assert not any(pod["metadata"].get("finalizers") for pod in pods(stage))
    assert await told(stage, "sum", "Completed") == "Job completed"
    assert (await told(stage, "sum", "SuccessfulCreate")).startswith("Created pod: sum-")


async def test_no_more_pods_run_at_once_than_parallelism_says_and_each_is_held_until_it_is_counted(stage: Stage) -> None:
    await stage.client.create(JOBS, job("sum", "serve", completions=5, parallelism=2))
    await stage.until(lambda: status(stage).get("ready") == 2, "two are ready")
    assert (status(stage)["active"], len(pods(stage))) == (2, 2)
    assert all(pod["metadata"]["finalizers"] == [TRACKING] for pod in pods(stage))
    await stage.client.patch(JOBS, "sum", {"spec": {"parallelism": 1}}, "default")
    await stage.until(lambda: status(stage).get("active") == 1 and len(pods(stage)) == 1, "one went")


async def test_a_job_that_fails_too_often_is_failed(stage: Stage) -> None:
    await stage.client.create(JOBS, job("sum", "exit", "1", backoffLimit=0))
    seen = await finished(stage, "Failed")
    assert (seen["failed"], seen["uncountedTerminatedPods"]) == (1, {})
    assert reasons(stage) == dict.fromkeys(("FailureTarget", "Failed"), "BackoffLimitExceeded")
    assert await told(stage, "sum", "BackoffLimitExceeded") == "Job has reached the specified backoff limit"


async def test_where_containers_are_restarted_in_their_pod_restarts_count(stage: Stage) -> None:
    await stage.client.create(JOBS, job("sum", "exit", "1", policy="OnFailure", backoffLimit=1))
    await finished(stage, "Failed")
    assert reasons(stage)["Failed"] == "BackoffLimitExceeded"


async def test_a_job_that_takes_too_long_is_ended(stage: Stage) -> None:
    await stage.client.create(JOBS, job("sum", "serve", activeDeadlineSeconds=1))
    seen = await finished(stage, "Failed")
    assert reasons(stage)["Failed"] == "DeadlineExceeded"
    assert seen["failed"] == 1
    await stage.until(lambda: not pods(stage), "its pod is gone")


async def test_a_suspended_job_has_no_pods_until_it_is_resumed(stage: Stage) -> None:
    await stage.client.create(JOBS, job("sum", "serve", suspend=True))
    await stage.until(lambda: condition(found(stage), "Suspended") == "True", "it says so")
    assert (pods(stage), status(stage).get("startTime")) == ([], None)
    await stage.client.patch(JOBS, "sum", {"spec": {"suspend": False}}, "default")
    await stage.until(lambda: status(stage).get("ready") == 1, "it runs")
    assert condition(found(stage), "Suspended") == "False"
    await stage.client.patch(JOBS, "sum", {"spec": {"suspend": True}}, "default")
    await stage.until(lambda: not pods(stage), "it rests")
    assert status(stage).get("failed") is None
    for reason in ("Suspended", "Resumed"):
        assert await told(stage, "sum", reason)


async def test_each_index_of_an_indexed_job_succeeds_once(stage: Stage) -> None:
    container = {"name": "main", "image": IMAGE, "args": ["exit", "0"]}
    wanted = job("sum", completionMode="Indexed", completions=4, parallelism=4, pod={"containers": [container]})
    await stage.client.create(JOBS, wanted)
    seen = await finished(stage, "Complete")
    assert (seen["completedIndexes"], seen["succeeded"]) == ("0-3", 4)
    names = sorted((pod["metadata"]["generateName"], pod["spec"]["hostname"]) for pod in pods(stage))
    assert names == [(f"sum-{index}-", f"sum-{index}") for index in range(4)]
    variables = {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in pods(stage)[0]["spec"]["containers"][0]["env"]
    }
    assert variables == {"JOB_COMPLETION_INDEX": "metadata.labels['batch.kubernetes.io/job-completion-index']"}


async def test_indexes_fail_one_by_one_where_each_has_a_limit(stage: Stage) -> None:
    wanted = job("sum", "exit", "1", completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=0)
    await stage.client.create(JOBS, wanted)
    seen = await finished(stage, "Failed")
    assert (seen["failedIndexes"], seen["failed"], reasons(stage)["Failed"]) == ("0,1", 2, "FailedIndexes")


async def test_a_success_policy_ends_the_job_before_every_index_is_done(stage: Stage) -> None:
    rules = [{"succeededIndexes": "0"}]
    wanted = job("sum", "exit", "0", completionMode="Indexed", completions=3, parallelism=1, successPolicy={"rules": rules})
    await stage.client.create(JOBS, wanted)
    seen = await finished(stage, "Complete")
    assert reasons(stage)["Complete"] == "SuccessPolicy"
    assert seen["completedIndexes"] == "0"


@pytest.mark.parametrize(("action", "kind"), [("FailJob", "Failed"), ("Ignore", "")])
async def test_a_pod_failure_policy_judges_exit_codes(stage: Stage, action: str, kind: str) -> None:
    rule = {"action": action, "onExitCodes": {"operator": "In", "values": [42]}}
    await stage.client.create(JOBS, job("sum", "exit", "42", backoffLimit=0, podFailurePolicy={"rules": [rule]}))
    if kind:
        await finished(stage, kind)
        assert reasons(stage)["Failed"] == "PodFailurePolicy"
        assert "failed with exit code 42 matching FailJob rule at index 0" in await told(stage, "sum", "PodFailurePolicy")
    else:
        await stage.until(lambda: pods(stage) and not pods(stage)[0]["metadata"].get("finalizers"), "its end was seen")
        assert (reasons(stage), status(stage).get("failed")) == ({}, None)


async def test_a_finished_job_is_deleted_after_its_time_to_live_with_its_pods(stage: Stage) -> None:
    await stage.client.create(JOBS, job("sum", "exit", "0", ttlSecondsAfterFinished=1))
    await stage.until(lambda: pods(stage), "it has a pod")
    await stage.until(lambda: not found(stage) and not pods(stage), "both are gone")


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_pods_of_a_deleted_job_are_let_go(stage: Stage, propagation: str) -> None:
    await stage.client.create(JOBS, job("sum", "serve", completions=2, parallelism=2))
    await stage.until(lambda: status(stage).get("ready") == 2, "it runs")
    await stage.client.delete(JOBS, "sum", "default", propagation=propagation)
    if propagation == "Orphan":
        await stage.until(lambda: not any(pod["metadata"].get("finalizers") for pod in pods(stage)), "nothing holds them")
        assert len(pods(stage)) == 2
    else:
        await stage.until(lambda: not found(stage) and not pods(stage), "all of it is gone")


async def test_a_pod_that_is_deleted_counts_as_failed_and_is_replaced_later(stage: Stage) -> None:
    await stage.client.create(JOBS, job("sum", "serve", backoffLimit=3))
    await stage.until(lambda: status(stage).get("ready") == 1, "it runs")
    await stage.client.delete(PODS, pods(stage)[0]["metadata"]["name"], "default")
    await stage.until(lambda: status(stage).get("failed") == 1, "it is counted")
    await stage.until(lambda: not pods(stage), "it went, and its successor waits")


async def test_another_controllers_job_is_left_alone_and_one_that_cannot_be_read_holds_up_nobody(stage: Stage) -> None:
    await stage.client.create(JOBS, job("theirs", "exit", "0", managedBy="example.com/other"))
    refused = job("refused", "exit", "0", pod={"serviceAccountName": "nobody"})
    await stage.client.create(JOBS, refused)
    await stage.client.create(JOBS, job("sum", "exit", "0"))
    await finished(stage, "Complete")
    assert status(stage, "theirs") == {}
    assert "error looking up service account default/nobody" in await told(stage, "refused", "FailedCreate")


def test_failures_are_waited_for_longer_and_longer_until_a_pod_succeeds() -> None:
    def ended(seconds: int) -> dict[str, Any]:
        moment = (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        state = {"terminated": {"exitCode": 1, "finishedAt": moment}}
        return {
            "metadata": {"creationTimestamp": moment},
            "spec": {},
            "status": {"containerStatuses": [{"name": "a", "state": state}]},
        }

    once = Failures().after([], [ended(0)])
    assert once.remaining(NOW + timedelta(seconds=4)) == 6
    often = once.after([], [ended(20), ended(10)])
    assert (often.count, often.remaining(NOW + timedelta(seconds=20))) == (3, 40)
    assert Failures(30, NOW).remaining(NOW) == 600
    assert often.after([ended(30)], []) == Failures()
    assert often.after([ended(30)], [ended(25), ended(40)]).count == 1


def test_indexes_are_written_as_intervals() -> None:
    some = Indexes.of([5, 1, 2, 3, 8, 9])
    assert (str(some), len(some), 2 in some, 4 in some) == ("1-3,5,8,9", 6, True, False)
    assert Indexes.parse("1-3,5,8,9,nonsense,7-x", 9) == Indexes.of([1, 2, 3, 5, 8])
    assert list(some.missing(11)) == [0, 4, 6, 7, 10]
    assert str(some | Indexes.of([4, 0])) == "0-5,8,9"
