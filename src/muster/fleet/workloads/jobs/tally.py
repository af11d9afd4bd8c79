"""Evaluates a Job's pods: counts and decisions, without writes.

A pod is counted once: while it has the finalizer it is counted from the pod, and from then on from the status. In between its uid
is in `uncountedTerminatedPods`, so that a controller that is interrupted neither loses it nor counts it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from muster.fleet.workloads import podstate
from muster.fleet.workloads.jobs.backoff import remaining_delay
from muster.fleet.workloads.jobs.conditions import REACHED, JobOutcome, recorded_outcome
from muster.fleet.workloads.jobs.indexes import Indexes
from muster.fleet.workloads.jobs.pods import (
    all_index_failures,
    completion_index,
    counts_as_failure,
    failure_rule,
    finished_at,
    index_failures,
    is_failed,
    is_succeeded,
    is_tracked,
)
from muster.fleet.workloads.jobs.spec import JobSpec
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.objects import Object


@dataclass(slots=True)
class Tally:
    job: Object
    spec: JobSpec
    pods: Sequence[Object]
    active: list[Object]
    """Pods that run or are pending."""
    succeeded_now: list[Object]
    failed_now: list[Object]
    """Failed pods that are not in the status yet."""
    succeeded: int
    failed: int
    terminating: int
    ready: int
    completed_before: Indexes = field(default_factory=Indexes)
    completed: Indexes = field(default_factory=Indexes)
    failed_indexes: Indexes | None = None
    """None if there is no backoff limit per index."""
    awaiting_replacement: dict[int, Object] = field(default_factory=dict)
    """By index: the failed pod whose failure count the next one continues."""

    @property
    def status(self) -> Object:
        return self.job.get("status") or {}


def tally_of(job: Object, spec: JobSpec, pods: Sequence[Object]) -> Tally:
    status = job.get("status") or {}
    uncounted = status.get("uncountedTerminatedPods") or {}
    known = {kind: set(uncounted.get(kind) or ()) for kind in ("succeeded", "failed")}
    active = [pod for pod in pods if podstate.is_active(pod)]
    countable = [pod for pod in pods if is_tracked(pod) and (not spec.indexed or completion_index(pod, spec) is not None)]
    succeeded = [pod for pod in countable if is_succeeded(pod) and pod["metadata"]["uid"] not in known["succeeded"]]
    failed = [pod for pod in countable if is_failed(pod, spec) and pod["metadata"]["uid"] not in known["failed"]]
    tally = Tally(
        job,
        spec,
        pods,
        active,
        succeeded,
        failed,
        status.get("succeeded", 0) + len(succeeded) + len(known["succeeded"]),
        status.get("failed", 0) + sum(counts_as_failure(spec, pod) for pod in failed) + len(known["failed"]),
        sum(podstate.is_terminating(pod) for pod in pods),
        sum(podstate.is_ready(pod) for pod in active),
    )
    if spec.indexed:
        _count_indexes(tally)
    return tally


def _count_indexes(tally: Tally) -> None:
    spec, status = tally.spec, tally.status
    tracked = [pod for pod in tally.pods if is_tracked(pod)]
    tally.completed_before = Indexes.parse(status.get("completedIndexes"), spec.indexes)
    tally.completed = tally.completed_before | indexes_of((pod for pod in tracked if is_succeeded(pod)), spec)
    tally.succeeded = len(tally.completed)
    if spec.backoff_limit_per_index is None:
        return
    before = Indexes.parse(status.get("failedIndexes"), spec.indexes)
    tally.failed_indexes = before | indexes_of((pod for pod in tracked if _fails_its_index(pod, spec)), spec)
    settled = tally.completed | tally.failed_indexes | indexes_of(tally.active, spec)
    for pod in sorted(
        (each for each in tracked if is_failed(each, spec)), key=lambda each: (all_index_failures(each), finished_at(each))
    ):
        index = completion_index(pod, spec)
        if index is not None and index not in settled:
            tally.awaiting_replacement[index] = pod


def indexes_of(pods: Iterable[Object], spec: JobSpec) -> Indexes:
    found = (completion_index(pod, spec) for pod in pods)
    return Indexes.of(index for index in found if index is not None)


def _fails_its_index(pod: Object, spec: JobSpec) -> bool:
    if not is_failed(pod, spec):
        return False
    rule, _ = failure_rule(spec.pod_failure_policy, pod)
    if rule is not None and rule.action == "FailIndex":
        return True
    return counts_as_failure(spec, pod) and index_failures(pod) >= (spec.backoff_limit_per_index or 0)


def outcome_of(tally: Tally, now: datetime) -> JobOutcome | None:
    """The outcome by what is known before any pod is created or deleted. Failures take precedence."""
    spec = tally.spec
    recorded = recorded_outcome(tally.job)
    if recorded is not None:
        return recorded
    for pod in tally.pods if spec.pod_failure_policy is not None else ():
        rule, message = failure_rule(spec.pod_failure_policy, pod) if is_failed(pod, spec) else (None, "")
        if rule is not None and rule.action == "FailJob":
            return JobOutcome(False, "PodFailurePolicy", message)
    if tally.failed > spec.backoff_limit or _restarted_too_often(tally):
        return JobOutcome(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if deadline_in(tally.job, spec, now) == 0:
        return JobOutcome(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    return _outcome_by_indexes(tally) if spec.indexed else None


def _outcome_by_indexes(tally: Tally) -> JobOutcome | None:
    spec, lost = tally.spec, tally.failed_indexes
    if lost is not None and spec.max_failed_indexes is not None and len(lost) > spec.max_failed_indexes:
        text = "Job has exceeded the specified maximal number of failed indexes"
        return JobOutcome(False, "MaxFailedIndexesExceeded", text)
    if lost and len(lost) + len(tally.completed) >= spec.indexes:
        return JobOutcome(False, "FailedIndexes", "Job has failed indexes")
    for number, rule in enumerate(spec.success_policy.rules if spec.success_policy is not None else ()):
        wanted = Indexes.parse(rule.succeeded_indexes, spec.indexes) if rule.succeeded_indexes is not None else None
        reached = len(tally.completed) if wanted is None else wanted.count_within(tally.completed)
        enough = rule.succeeded_count if rule.succeeded_count is not None else len(wanted or ())
        if reached and reached >= enough:
            return JobOutcome(True, "SuccessPolicy", f"Matched rules at index {number}")
    return None


def _restarted_too_often(tally: Tally) -> bool:
    """With restartPolicy OnFailure, restarts of containers count as failures."""
    if tally.spec.template["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = 0
    for pod in tally.pods:
        status = pod.get("status") or {}
        if status.get("phase") in ("Running", "Pending"):
            listed = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
            restarts += sum(each.get("restartCount", 0) for each in listed)
    return restarts > 0 and restarts >= tally.spec.backoff_limit


def is_complete(tally: Tally, active: int) -> JobOutcome | None:
    """Success by the number of succeeded pods, once none is active."""
    wanted = tally.spec.completions
    done = tally.succeeded > 0 if wanted is None else tally.succeeded >= wanted
    return REACHED if done and not active else None


def deadline_in(job: Object, spec: JobSpec, now: datetime) -> float | None:
    """Seconds until activeDeadlineSeconds are over (0: they are); None without a running deadline."""
    began = (job.get("status") or {}).get("startTime")
    if spec.active_deadline_seconds is None or spec.suspend or not began:
        return None
    due = parse_time(began) + timedelta(seconds=spec.active_deadline_seconds)
    return max((due - now).total_seconds(), 0.0)


def wanted_active(tally: Tally) -> int:
    spec = tally.spec
    if spec.completions is None:
        # Once one pod has succeeded, running ones may finish, and no more are created.
        return len(tally.active) if tally.succeeded else spec.parallelism
    return max(min(spec.completions - tally.succeeded, spec.parallelism), 0)


def surplus(tally: Tally, at_least: int) -> list[Object]:
    """Active pods to delete: those without a valid index or with a duplicate one, and as many of the rest as needed, by deletion
    rank.
    """
    spec, ordered = tally.spec, sorted(tally.active, key=podstate.deletion_rank)
    extra: list[Object] = []
    if spec.indexed:
        taken: set[int] = set()
        for pod in reversed(ordered):
            index = completion_index(pod, spec)
            if index is None or index in taken:
                extra.append(pod)
            else:
                taken.add(index)
    rest = [pod for pod in ordered if pod not in extra]
    return [*extra, *rest[: max(at_least - len(extra), 0)]]


def next_indexes(tally: Tally, count: int, now: datetime) -> tuple[list[int], float]:
    """The indexes to create pods for now; if all are in backoff, the seconds until the first."""
    spec = tally.spec
    taken = tally.completed | indexes_of(tally.active, spec) | (tally.failed_indexes or Indexes())
    if spec.replaces_only_failed:
        taken |= indexes_of((pod for pod in tally.pods if podstate.is_terminating(pod)), spec)
    found: list[int] = []
    waits: list[float] = []
    for _, index in zip(range(count), taken.missing(spec.indexes), strict=False):
        failed = tally.awaiting_replacement.get(index)
        wait = remaining_delay(all_index_failures(failed) + 1, finished_at(failed), now) if failed is not None else 0.0
        if wait:
            waits.append(wait)
        else:
            found.append(index)
    return found, min(waits, default=0.0)
