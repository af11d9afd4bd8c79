"""CronJobs: a Job for each time of a schedule, named by the minute, so that none is created twice.

A pass reads the results of the existing Jobs, deletes those beyond the history limits, and creates the one that is due. Of missed
times only the last one counts. Follows Kubernetes' pkg/controller/cronjob.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import format_datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from muster.fleet.attached import Attached, Change, owner_keys, reference
from muster.fleet.workloads.jobs.conditions import COMPLETE, FAILED, finished_condition
from muster.fleet.workloads.podcontrol import is_namespace_terminating, owned
from muster.kube.cron import Schedule, ScheduleError, parse_schedule
from muster.machinery.golang.timestamps import format_time, parse_time
from muster.machinery.objects import Object
from muster.runtime.client import AlreadyExists, NotFound, StatusError, patch_status
from muster.runtime.client.builtin import CRON_JOBS, JOBS

SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
PADDING: Final = 0.1
"""Seconds after a time of the schedule at which the CronJob is reconciled."""
MANY: Final = 100


class UnknownTimeZone(ValueError):
    pass


class CronJobs:
    name = "cronjobs"
    resources = (CRON_JOBS, JOBS)

    def __init__(self) -> None:
        self._schedules: dict[tuple[str, str], tuple[str, str, str]] = {}
        """By cluster and key: uid, schedule and time zone at the last pass."""

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        return (change.key,) if change.resource == CRON_JOBS else owner_keys(change, "CronJob")

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        found = attached.view.read(CRON_JOBS, key)
        if found is None:
            self._schedules.pop((attached.name, key), None)
            return None
        jobs = [job for job in attached.view.scan(JOBS, found["metadata"]["namespace"]) if owned(job, found)]
        status = dict(found.get("status") or {})
        status["active"] = list(status.get("active") or ())
        await _clean_up(attached, found, status, jobs)
        _read_off(attached, found, status, jobs)
        again, problem = None, None
        if not found["metadata"].get("deletionTimestamp"):
            try:
                again = await self._start_due(attached, key, found, status)
            except StatusError as error:
                problem = error
        await _write(attached, found, status)
        if problem is not None:
            raise problem
        return again

    async def _start_due(self, attached: Attached, key: str, found: Object, status: Object) -> float | None:
        """Create the Job that is due, if any; returns the seconds until the next one."""
        spec, now = found["spec"], attached.now()
        rescheduled = self._is_rescheduled(attached, key, found)
        try:
            zone = _zone(spec.get("timeZone"))
            schedule = parse_schedule(spec["schedule"])
        except UnknownTimeZone as problem:
            attached.events.event(found, "Warning", "UnknownTimeZone", f'invalid timeZone: "{spec["timeZone"]}": {problem}')
            return None
        except ScheduleError as problem:
            text = f'unparseable schedule: "{spec["schedule"]}" : {problem}'
            attached.events.event(found, "Warning", "UnparseableSchedule", text)
            return None
        if spec.get("suspend"):
            return None
        if not rescheduled:
            due, missed = last_due(found, status, now, schedule, zone, within_deadline=True)
            if due is not None:
                if missed > MANY:
                    text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
                    attached.events.event(found, "Warning", "TooManyMissedTimes", text)
                await _start(attached, found, status, due, zone)
        return next_reconcile(found, status, now, schedule, zone)

    def _is_rescheduled(self, attached: Attached, key: str, found: Object) -> bool:
        """Whether the schedule has changed since the last pass: then it counts from its next time on."""
        spec = found["spec"]
        now = (found["metadata"]["uid"], spec["schedule"], spec.get("timeZone") or "")
        before = self._schedules.get((attached.name, key))
        self._schedules[attached.name, key] = now
        return before is not None and before[0] == now[0] and before != now


def _zone(name: str | None) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UnknownTimeZone(f"unknown time zone {name}") from None


def last_due(
    found: Object, status: Object, now: datetime, schedule: Schedule, zone: tzinfo, *, within_deadline: bool
) -> tuple[datetime | None, int]:
    """The last time of the schedule since the last Job, and approximately how many there were."""
    earliest = parse_time(status.get("lastScheduleTime") or found["metadata"]["creationTimestamp"])
    deadline = found["spec"].get("startingDeadlineSeconds")
    if within_deadline and deadline is not None:
        earliest = max(earliest, now - timedelta(seconds=min(deadline, _LONGEST_DEADLINE)))
    first = schedule.next(earliest, zone)
    if first is None or first > now:
        return None, 0
    second = schedule.next(first, zone)
    if second is None or second > now:
        return first, 0
    # Most schedules are regular: going back two of their steps from the present finds the last time without counting all.
    step = second - first
    missed = (now - first) // step + 1
    due = None
    coming = schedule.next(first + (missed - 2) * step, zone)
    while coming is not None and coming <= now:
        due, coming = coming, schedule.next(coming, zone)
    return due, missed


_LONGEST_DEADLINE: Final = 100 * 365 * 86400


def next_reconcile(found: Object, status: Object, now: datetime, schedule: Schedule, zone: tzinfo) -> float | None:
    due, missed = last_due(found, status, now, schedule, zone, within_deadline=False)
    if due is None:
        began = parse_time(status.get("lastScheduleTime") or found["metadata"]["creationTimestamp"])
        due = now if missed else began
    coming = schedule.next(due, zone)
    return None if coming is None else max((coming - now).total_seconds(), 0.0) + PADDING


def job_name(found: Object, due: datetime) -> str:
    return f"{found['metadata']['name']}-{int(due.timestamp()) // 60}"


async def _start(attached: Attached, found: Object, status: Object, due: datetime, zone: tzinfo) -> None:
    spec, name = found["spec"], job_name(found, due)
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None and due + timedelta(seconds=min(deadline, _LONGEST_DEADLINE)) < attached.now():
        text = f"Missed scheduled time to start a job: {format_datetime(due)}"
        attached.events.event(found, "Warning", "MissSchedule", text)
        return
    if any(each.get("name") == name for each in status["active"]) or status.get("lastScheduleTime") == format_time(due):
        return
    policy = spec.get("concurrencyPolicy")
    if policy == "Forbid" and status["active"]:
        text = "Not starting job because prior execution is running and concurrency policy is Forbid"
        attached.events.event(found, "Normal", "JobAlreadyActive", text)
        return
    for active in list(status["active"]) if policy == "Replace" else ():
        await _delete(attached, found, status, active["name"], active["uid"])
    made = await _create(attached, found, name, due, zone)
    if made is None or any(each.get("uid") == made["metadata"]["uid"] for each in status["active"]):
        return
    status["active"].append(_reference_to(made))
    status["lastScheduleTime"] = format_time(due)


async def _create(attached: Attached, found: Object, name: str, due: datetime, zone: tzinfo) -> Object | None:
    """The Job of that time, which an earlier pass may have created; None if the name is another owner's, or nothing can be created
    any more.
    """
    template, namespace = found["spec"]["jobTemplate"], found["metadata"]["namespace"]
    metadata = template.get("metadata") or {}
    scheduled = due.astimezone(zone).isoformat().replace("+00:00", "Z")
    job = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": name,
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {**(metadata.get("annotations") or {}), SCHEDULED: scheduled},
            "ownerReferences": [reference(found, CRON_JOBS.api_version, CRON_JOBS.kind)],
        },
        "spec": template["spec"],
    }
    try:
        made = await attached.controllers.create(JOBS, job, namespace)
    except AlreadyExists:
        there = attached.view.read(JOBS, f"{namespace}/{name}")
        return there if there is not None and owned(there, found) else None
    except StatusError as problem:
        if is_namespace_terminating(problem):
            return None
        attached.events.event(found, "Warning", "FailedCreate", f"Error creating job: {problem}")
        raise
    attached.events.event(found, "Normal", "SuccessfulCreate", f"Created job {name}")
    return made


def _reference_to(job: Object) -> Object:
    metadata = job["metadata"]
    kept = {field: metadata[field] for field in ("namespace", "name", "uid", "resourceVersion")}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, **kept}


async def _delete(attached: Attached, found: Object, status: Object, name: str, uid: str) -> None:
    try:
        await attached.controllers.delete(JOBS, name, found["metadata"]["namespace"], uid=uid, propagation="Background")
    except NotFound:
        pass
    except StatusError as problem:
        attached.events.event(found, "Warning", "FailedDelete", f"Deleted job: {problem}")
        raise
    status["active"] = [each for each in status["active"] if each.get("uid") != uid]
    attached.events.event(found, "Normal", "SuccessfulDelete", f"Deleted job {name}")


async def _clean_up(attached: Attached, found: Object, status: Object, jobs: Sequence[Object]) -> None:
    """Delete the oldest finished Jobs beyond the limits."""
    for kind, limit in ((COMPLETE, "successfulJobsHistoryLimit"), (FAILED, "failedJobsHistoryLimit")):
        keep = found["spec"].get(limit)
        over = [job for job in jobs if (finished_condition(job) or {}).get("type") == kind]
        over.sort(key=lambda job: (_started(job) or "9", job["metadata"]["name"]))
        for job in over[: max(len(over) - keep, 0)] if keep is not None else ():
            if job["metadata"].get("deletionTimestamp"):
                continue
            try:
                await _delete(attached, found, status, job["metadata"]["name"], job["metadata"]["uid"])
            except StatusError:
                continue  # reported by an Event; the next pass retries


def _started(job: Object) -> str:
    return str((job.get("status") or {}).get("startTime") or "")


def _read_off(attached: Attached, found: Object, status: Object, jobs: Sequence[Object]) -> None:
    """Update the status by the results of the Jobs, and by those that were deleted."""
    for job in jobs:
        uid, over = job["metadata"]["uid"], finished_condition(job)
        listed = any(each.get("uid") == uid for each in status["active"])
        if over is None:
            if not listed and not job["metadata"].get("deletionTimestamp"):
                text = f"Saw a job that the controller did not create or forgot: {job['metadata']['name']}"
                attached.events.event(found, "Warning", "UnexpectedJob", text)
            continue
        if listed:
            status["active"] = [each for each in status["active"] if each.get("uid") != uid]
            text = f"Saw completed job: {job['metadata']['name']}, condition: {over['type']}"
            attached.events.event(found, "Normal", "SawCompletedJob", text)
        completed = (job.get("status") or {}).get("completionTime")
        if over["type"] == COMPLETE and completed and completed > (status.get("lastSuccessfulTime") or ""):
            status["lastSuccessfulTime"] = completed
    known = {job["metadata"]["uid"] for job in jobs}
    for each in [each for each in status["active"] if each.get("uid") not in known]:
        status["active"].remove(each)
        attached.events.event(found, "Normal", "MissingJob", f"Active job went missing: {each.get('name')}")


async def _write(attached: Attached, found: Object, status: Object) -> None:
    wanted = {name: value for name, value in status.items() if value}
    try:
        await patch_status(attached.controllers, CRON_JOBS, found, wanted)
    except NotFound:
        return
