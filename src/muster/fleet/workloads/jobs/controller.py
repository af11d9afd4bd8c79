"""Jobs: pods are created until enough have succeeded, or too many have failed.

A pass evaluates the pods (`tally`), creates or deletes some or decides the Job's outcome, and then counts those that have ended:
their uids are recorded in the status, their finalizers removed, the counts written; the Job is finished only when none is left. A
pass that is interrupted at any point is completed by the next one. A finished Job stays unchanged until its TTL is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from muster.fleet.attached import Attached, Change
from muster.fleet.workloads import podstate
from muster.fleet.workloads.claims import claim
from muster.fleet.workloads.jobs.backoff import Failures
from muster.fleet.workloads.jobs.conditions import (
    SUSPENDED,
    JobOutcome,
    finished_condition,
    has_condition,
    set_condition,
)
from muster.fleet.workloads.jobs.indexes import Indexes
from muster.fleet.workloads.jobs.pods import (
    TRACKING,
    completion_index,
    counts_as_failure,
    is_failed,
    is_succeeded,
    is_tracked,
    new_pod,
    untrack,
)
from muster.fleet.workloads.jobs.spec import is_ours, spec_of
from muster.fleet.workloads.jobs.tally import (
    Tally,
    deadline_in,
    is_complete,
    next_indexes,
    outcome_of,
    surplus,
    tally_of,
    wanted_active,
)
from muster.fleet.workloads.podcontrol import create_pod, delete_pod, keys_of_owned, selector_of
from muster.machinery.golang.timestamps import format_time, parse_time
from muster.machinery.objects import Object
from muster.runtime.client import Conflict, NotFound, StatusError, patch_status
from muster.runtime.client.builtin import JOBS, PODS

BURST = 500
"""Limit of pods created, deleted or counted in one pass."""


@dataclass(slots=True)
class _Pass:
    """The state of one pass: the Job as last written, the status to write, and counts of pods."""

    job: Object
    status: Object
    tally: Tally
    active: int
    ready: int
    terminating: int
    outcome: JobOutcome | None = None
    again: float | None = None
    problem: StatusError | None = None
    uncounted: dict[str, list[str]] = field(default_factory=dict)

    def come_back_in(self, seconds: float | None) -> None:
        if seconds is not None:
            self.again = seconds if self.again is None else min(self.again, seconds)


class Jobs:
    name = "jobs"
    resources = (JOBS, PODS)

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], tuple[str, Failures]] = {}
        """By cluster and key: the Job's uid, and its recent failures."""

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        return (change.key,) if change.resource == JOBS else keys_of_owned(attached, change, JOBS)

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        found = attached.view.read(JOBS, key)
        over = None if found is None else finished_condition(found)
        if found is None or over is not None:
            self._failures.pop((attached.name, key), None)
        if found is None or not is_ours(found):
            return None
        if over is not None:
            return await _expire(attached, found, over)
        return await self._run(attached, key, found)

    async def _run(self, attached: Attached, key: str, job: Object) -> float | None:
        spec, now = spec_of(job), attached.now()
        candidates = list(attached.view.scan(PODS, job["metadata"]["namespace"]))
        pods = await claim(attached.controllers, job, JOBS, PODS, selector_of(job), candidates, finalizer=TRACKING)
        tally = tally_of(job, spec, pods)
        status = dict(job.get("status") or {})
        if not spec.suspend:
            status.setdefault("startTime", format_time(now))
        step = _Pass(job, status, tally, len(tally.active), tally.ready, tally.terminating)
        failures = self._failures_of(attached, key, job).after(tally.succeeded_now, tally.failed_now)
        step.outcome = outcome_of(tally, now)
        step.come_back_in(deadline_in({"status": status}, spec, now) if step.outcome is None else None)
        if step.outcome is not None:
            await _end_pods(attached, step)
        else:
            if not job["metadata"].get("deletionTimestamp"):
                await _scale(attached, step, failures)
            step.outcome = is_complete(tally, step.active)
            if step.outcome is None and not job["metadata"].get("deletionTimestamp"):
                _record_suspended(attached, step, now)
        await self._count(attached, key, step, failures)
        if step.problem is not None:
            raise step.problem
        return step.again

    def _failures_of(self, attached: Attached, key: str, job: Object) -> Failures:
        uid, failures = self._failures.get((attached.name, key), ("", Failures()))
        return failures if uid == job["metadata"]["uid"] else Failures()

    async def _count(self, attached: Attached, key: str, step: _Pass, failures: Failures) -> None:
        """Record ended pods, remove their finalizers, count them; then finish the Job, if its outcome is decided."""
        now, status = attached.now(), step.status
        numbers = {"active": step.active, "ready": step.ready, "terminating": step.terminating}
        status |= numbers
        _settle_uncounted(step, {pod["metadata"]["uid"] for pod in step.tally.pods if is_tracked(pod)})
        leaving, all_seen = _leaving_pods(step)
        _write_down(step, leaving)
        if step.outcome is not None and not has_condition(step.job, step.outcome.interim):
            set_condition(status, step.outcome.interim, True, step.outcome.reason, step.outcome.message, now)
        if not await _write(attached, step):
            return
        self._failures[attached.name, key] = (step.job["metadata"]["uid"], failures)
        await untrack(attached, leaving)
        _settle_uncounted(step, {pod["metadata"]["uid"] for pod in step.tally.pods if is_tracked(pod)} - _uids(leaving))
        over = step.outcome is not None and all_seen and not step.terminating and not any(step.uncounted.values())
        if over and step.outcome is not None:
            set_condition(status, step.outcome.final, True, step.outcome.reason, step.outcome.message, now)
            if step.outcome.succeeded:
                status["completionTime"] = format_time(now)
        if await _write(attached, step) and over:
            _record_finished(attached, step)
        if not all_seen:
            step.come_back_in(0.0)


async def _end_pods(attached: Attached, step: _Pass) -> None:
    """Delete active pods. The outcome is not decided until all are deleted."""
    for pod in step.tally.active:
        try:
            await delete_pod(attached, step.job, pod)
        except StatusError as problem:
            step.problem, step.outcome = problem, None
            continue
        _pod_left(step, pod)


def _pod_left(step: _Pass, pod: Object) -> None:
    step.active -= 1
    step.terminating += 1
    step.ready -= podstate.is_ready(pod)


async def _scale(attached: Attached, step: _Pass, failures: Failures) -> None:
    """Delete surplus pods, or create missing ones; never both in one pass."""
    tally, spec = step.tally, step.tally.spec
    wanted = 0 if spec.suspend else wanted_active(tally)
    doomed = surplus(tally, max(step.active - wanted, 0))[:BURST]
    for pod in doomed:
        try:
            await untrack(attached, [pod] if is_tracked(pod) else [])
            if await delete_pod(attached, step.job, pod):
                step.terminating += 1
                step.ready -= podstate.is_ready(pod)
                step.active -= 1
        except StatusError as problem:
            step.problem = problem
    if doomed or spec.suspend:
        return
    missing = wanted - step.active - (step.terminating if spec.replaces_only_failed else 0)
    if missing > 0:
        await _create(attached, step, min(missing, BURST), failures)


async def _create(attached: Attached, step: _Pass, missing: int, failures: Failures) -> None:
    tally, spec, now = step.tally, step.tally.spec, attached.now()
    if spec.backoff_limit_per_index is None and (wait := failures.remaining(now)):
        step.come_back_in(wait)
        return
    indexes: Sequence[int | None] = [None] * missing
    if spec.indexed:
        indexes, wait = next_indexes(tally, missing, now)
        step.come_back_in(wait or None)
    try:
        for index in indexes:
            replaced = None if index is None else tally.awaiting_replacement.get(index)
            if await create_pod(attached, step.job, new_pod(step.job, spec, index, replaced)) is not None:
                step.active += 1
    except StatusError as problem:
        step.problem = problem


def _record_suspended(attached: Attached, step: _Pass, now: datetime) -> None:
    status = step.status
    if step.tally.spec.suspend:
        if set_condition(status, SUSPENDED, True, "JobSuspended", "Job suspended", now):
            attached.events.event(step.job, "Normal", "Suspended", "Job suspended")
    elif set_condition(status, SUSPENDED, False, "JobResumed", "Job resumed", now):
        attached.events.event(step.job, "Normal", "Resumed", "Job resumed")
        status["startTime"] = format_time(now)
        step.come_back_in(deadline_in({"status": status}, step.tally.spec, now))


def _uids(pods: Iterable[Object]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def _settle_uncounted(step: _Pass, tracked: set[str]) -> None:
    """Add recorded pods to the counts once their finalizer is removed."""
    noted = step.uncounted or dict(step.status.get("uncountedTerminatedPods") or {})
    step.uncounted = {}
    for kind in ("succeeded", "failed"):
        uids = list(noted.get(kind) or ())
        left = [uid for uid in uids if uid in tracked]
        if len(left) < len(uids):
            step.status[kind] = step.status.get(kind, 0) + len(uids) - len(left)
        step.uncounted[kind] = left
    step.status["uncountedTerminatedPods"] = {kind: uids for kind, uids in step.uncounted.items() if uids}


def _leaving_pods(step: _Pass) -> tuple[list[Object], bool]:
    """Pods whose end can be counted now, lower indexes first; and whether these are all."""
    tally, spec = step.tally, step.tally.spec
    doomed = bool(step.job["metadata"].get("deletionTimestamp")) or step.outcome is not None
    held = _uids(tally.awaiting_replacement.values())

    def may_go(pod: Object) -> bool:
        if doomed or is_succeeded(pod):
            return True
        return is_failed(pod, spec) and pod["metadata"]["uid"] not in held

    found = [pod for pod in tally.pods if is_tracked(pod) and may_go(pod)]
    if spec.indexed:
        found.sort(key=lambda pod: -1 if (index := completion_index(pod, spec)) is None else index)
    room = max(BURST - sum(map(len, step.uncounted.values())), 1)
    return found[:room], len(found) <= room


def _write_down(step: _Pass, leaving: Iterable[Object]) -> None:
    """Record the uids of pods that succeeded or failed; of an index that succeeded, the index is enough."""
    tally, spec = step.tally, step.tally.spec
    completed = []
    failing = step.outcome is not None and not step.outcome.succeeded
    for pod in leaving:
        uid, index = pod["metadata"]["uid"], completion_index(pod, spec)
        if spec.indexed and index is None:
            continue
        if is_succeeded(pod) and uid not in step.uncounted["failed"]:
            if index is not None:
                completed.append(index)
            elif uid not in step.uncounted["succeeded"]:
                step.uncounted["succeeded"].append(uid)
        elif (is_failed(pod, spec) or failing) and uid not in step.uncounted["failed"] and counts_as_failure(spec, pod):
            step.uncounted["failed"].append(uid)
    step.status["uncountedTerminatedPods"] = {kind: list(uids) for kind, uids in step.uncounted.items() if uids}
    if spec.indexed:
        reached = tally.completed_before | Indexes.of(completed)
        step.status |= {"succeeded": len(reached), "completedIndexes": str(reached)}
        if tally.failed_indexes is not None:
            step.status["failedIndexes"] = str(tally.failed_indexes)


_LEFT_OUT_WHEN_EMPTY = ("active", "succeeded", "failed", "completedIndexes")


async def _write(attached: Attached, step: _Pass) -> bool:
    """Write the status; returns whether the Job still exists."""
    wanted = {name: value for name, value in step.status.items() if value or name not in _LEFT_OUT_WHEN_EMPTY}
    try:
        written = await patch_status(attached.controllers, JOBS, step.job, wanted, optimistic=True)
    except NotFound:
        return False
    step.job = written or step.job
    return True


def _record_finished(attached: Attached, step: _Pass) -> None:
    job, outcome, spec = step.job, step.outcome, step.tally.spec
    if outcome is None:
        return
    if not outcome.succeeded:
        attached.events.event(job, "Warning", outcome.reason, outcome.message)
        return
    if spec.completions is not None and step.status.get("succeeded", 0) > spec.completions:
        text = "Too many succeeded pods running after completion count reached"
        attached.events.event(job, "Warning", "TooManySucceededPods", text)
    attached.events.event(job, "Normal", "Completed", "Job completed")


async def _expire(attached: Attached, job: Object, over: Object) -> float | None:
    """Delete a finished Job after its TTL."""
    keep = job["spec"].get("ttlSecondsAfterFinished")
    if keep is None or job["metadata"].get("deletionTimestamp"):
        return None
    left = (parse_time(over["lastTransitionTime"]) + timedelta(seconds=keep) - attached.now()).total_seconds()
    if left > 0:
        return left
    metadata = job["metadata"]
    try:
        await attached.controllers.delete(
            JOBS, metadata["name"], metadata["namespace"], uid=metadata["uid"], propagation="Foreground"
        )
    except (NotFound, Conflict):
        return None
    return None
