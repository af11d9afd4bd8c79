"""CronJobs on an embedded cluster make the Jobs that are due, and no others."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster.fleet.workloads.cronjobs import SCHEDULED, last_due, next_reconcile
from muster.kube.cron import parse_schedule
from muster.runtime.client.builtin import CRON_JOBS, JOBS
from tests.support.stage import Stage, condition
from tests.unit.fleet.workloads.test_jobs import job, told

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)


def cron_job(*args: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "sum"}}, "spec": job("", *args)["spec"]}
    wanted = {"schedule": "* * * * *", "jobTemplate": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "sum", "namespace": "default"}, "spec": wanted}


def found(stage: Stage) -> dict[str, Any]:
    return stage.read("sum", "batch/cronjobs")


def status(stage: Stage) -> dict[str, Any]:
    return found(stage).get("status") or {}


def jobs(stage: Stage) -> list[dict[str, Any]]:
    return list(stage.cluster.scan("batch/jobs"))


def minutes_ago(minutes: int) -> str:
    return (datetime.now(UTC) - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


async def due(stage: Stage, wanted: dict[str, Any], **status: Any) -> None:
    """Make it as if it had been there for some minutes."""
    await stage.client.create(CRON_JOBS, {**wanted, "spec": {**wanted["spec"], "suspend": True}})
    past = {"status": {"lastScheduleTime": minutes_ago(3), **status}}
    await stage.client.patch(CRON_JOBS, "sum", past, "default", subresource="status")
    await stage.client.patch(CRON_JOBS, "sum", {"spec": {"suspend": False}}, "default")


async def test_the_job_that_is_due_is_made_once_and_its_end_is_noted(stage: Stage) -> None:
    await due(stage, cron_job("exit", "0", timeZone="Asia/Kathmandu"))
    await stage.until(lambda: jobs(stage), "there is one")
    made = jobs(stage)[0]["metadata"]
    scheduled = datetime.fromisoformat(made["annotations"][SCHEDULED])
    assert scheduled.utcoffset() == timedelta(hours=5, minutes=45)
    assert made["name"] == f"sum-{int(scheduled.timestamp()) // 60}"
    assert (made["labels"]["app"], made["ownerReferences"][0]["kind"]) == ("sum", "CronJob")
    await stage.until(lambda: status(stage).get("lastSuccessfulTime"), "it has succeeded")
    assert "active" not in status(stage)
    assert datetime.fromisoformat(status(stage)["lastScheduleTime"]) >= scheduled
    assert await told(stage, "sum", "SuccessfulCreate") == f"Created job {made['name']}"
    assert await told(stage, "sum", "SawCompletedJob") == f"Saw completed job: {made['name']}, condition: Complete"


async def test_what_runs_is_listed_and_missed_when_it_goes(stage: Stage) -> None:
    await due(stage, cron_job("serve"))
    (active,) = await stage.until(lambda: status(stage).get("active"), "one is active")
    assert (active["kind"], active["name"]) == ("Job", jobs(stage)[0]["metadata"]["name"])
    await stage.client.delete(JOBS, active["name"], "default", propagation="Background")
    assert await told(stage, "sum", "MissingJob") == f"Active job went missing: {active['name']}"


@pytest.mark.parametrize("policy", ["Forbid", "Replace", "Allow"])
async def test_a_job_that_still_runs_is_waited_for_replaced_or_let_alone(stage: Stage, policy: str) -> None:
    await due(stage, cron_job("serve", concurrencyPolicy=policy))
    (first,) = await stage.until(lambda: status(stage).get("active"), "one is active")
    again = {"status": {"lastScheduleTime": minutes_ago(3), "active": [{**first, "name": "older"}]}}
    await stage.client.delete(JOBS, first["name"], "default", propagation="Background")
    await stage.until(lambda: not jobs(stage), "it is gone")
    older = await stage.client.create(JOBS, owned_job("older", found(stage), "serve"))
    again["status"]["active"] = [{**first, "name": "older", "uid": older["metadata"]["uid"]}]
    await stage.client.patch(CRON_JOBS, "sum", again, "default", subresource="status")
    if policy == "Forbid":
        await told(stage, "sum", "JobAlreadyActive")
    else:
        await stage.until(lambda: first["name"] in names(stage), "the next one runs")
    expected = {"Forbid": {"older"}, "Replace": {first["name"]}, "Allow": {"older", first["name"]}}[policy]
    await stage.until(lambda: names(stage) == {each["name"] for each in status(stage)["active"]} == expected, f"{expected} run")


def names(stage: Stage) -> set[str]:
    return {each["metadata"]["name"] for each in jobs(stage)}


def owned_job(name: str, owner: dict[str, Any], *args: str, **spec: Any) -> dict[str, Any]:
    made, uid = job(name, *args, **spec), owner["metadata"]["uid"]
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "CronJob", "name": "sum", "uid": uid, "controller": True}
    ]
    return made


async def test_only_so_many_jobs_that_are_over_are_kept(stage: Stage) -> None:
    limits = {"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0}
    made = await stage.client.create(CRON_JOBS, cron_job("exit", "0", schedule="0 0 1 1 *", **limits))
    for number, code in enumerate(("0", "0", "1", "0")):
        await stage.client.create(JOBS, owned_job(f"past-{number}", made, "exit", code, backoffLimit=0))
    await stage.until(lambda: [condition(each, "Complete") for each in jobs(stage)] == ["True"], "one is left, which succeeded")
    assert jobs(stage)[0]["metadata"]["name"] == "past-3"


async def test_another_schedule_counts_from_its_next_time_on(stage: Stage) -> None:
    await due(stage, cron_job("exit", "0", timeZone="Atlantis/Center"), lastScheduleTime=minutes_ago(180))
    await told(stage, "sum", "UnknownTimeZone")
    minute = (datetime.now(UTC) - timedelta(minutes=10)).minute
    await stage.client.patch(CRON_JOBS, "sum", {"spec": {"schedule": f"{minute} * * * *", "timeZone": None}}, "default")
    await due_nothing(stage)


async def due_nothing(stage: Stage) -> None:
    """Nothing of it, by the time that a later CronJob's Job is there."""
    other = cron_job("exit", "0")
    other["metadata"] = {**other["metadata"], "name": "later"}
    await stage.client.create(CRON_JOBS, {**other, "spec": {**other["spec"], "suspend": True}})
    past = {"status": {"lastScheduleTime": minutes_ago(3)}}
    await stage.client.patch(CRON_JOBS, "later", past, "default", subresource="status")
    await stage.client.patch(CRON_JOBS, "later", {"spec": {"suspend": False}}, "default")
    await stage.until(lambda: jobs(stage), "the later one's")
    assert not any(each["metadata"]["name"].startswith("sum-") for each in jobs(stage))


async def test_an_unknown_time_zone_is_told_and_holds_up_nobody(stage: Stage) -> None:
    await due(stage, cron_job("exit", "0", timeZone="Atlantis/Center"))
    await told(stage, "sum", "UnknownTimeZone")
    await due_nothing(stage)


def seen(schedule: str, last: datetime, **spec: Any) -> tuple[datetime | None, float | None]:
    obj = {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}, "spec": spec}
    status = {"lastScheduleTime": last.strftime("%Y-%m-%dT%H:%M:%SZ")}
    parsed = parse_schedule(schedule)
    found, _ = last_due(obj, status, NOW, parsed, UTC, within_deadline=True)
    return found, next_reconcile(obj, status, NOW, parsed, UTC)


def test_of_times_that_were_missed_the_last_counts() -> None:
    assert seen("* * * * *", NOW - timedelta(minutes=7)) == (NOW.replace(second=0), 30.1)
    assert seen("30 6-16/4 * * 1-5", NOW - timedelta(days=9))[0] == NOW.replace(hour=10, minute=30, second=0)
    assert seen("* * * * *", NOW - timedelta(days=3000))[0] == NOW.replace(second=0)


def test_times_before_the_deadline_are_forgotten() -> None:
    assert seen("0 * * * *", NOW - timedelta(hours=2), startingDeadlineSeconds=10)[0] is None
    assert seen("0 * * * *", NOW - timedelta(hours=2), startingDeadlineSeconds=40)[0] == NOW.replace(second=0)
