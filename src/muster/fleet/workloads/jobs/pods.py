"""Properties of a Job's pods, and the objects of new ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from muster.fleet.attached import Attached
from muster.fleet.workloads.jobs.spec import FailurePolicy, FailureRule, JobSpec
from muster.fleet.workloads.podcontrol import pod_from_template
from muster.fleet.workloads.podstate import condition
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.objects import Object
from muster.runtime.client import NotFound
from muster.runtime.client.builtin import JOBS, PODS

TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer that keeps a pod until the Job has counted it."""
INDEX: Final = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX: Final = 58
"""Of a generated name, to which the server adds five characters."""


def is_tracked(pod: Object) -> bool:
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def is_succeeded(pod: Object) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Succeeded")


def is_failed(pod: Object, spec: JobSpec) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    if phase == "Failed" or spec.replaces_only_failed:
        return bool(phase == "Failed")
    return bool(pod["metadata"].get("deletionTimestamp")) and phase != "Succeeded"


def completion_index(pod: Object, spec: JobSpec) -> int | None:
    """Its index, if the Job has that index."""
    number = _count(pod, INDEX, default=-1)
    return number if 0 <= number < spec.indexes else None


def index_failures(pod: Object) -> int:
    return _count(pod, INDEX_FAILURES)


def all_index_failures(pod: Object) -> int:
    return index_failures(pod) + _count(pod, INDEX_IGNORED_FAILURES)


def _count(pod: Object, annotation: str, default: int = 0) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default


def finished_at(pod: Object) -> datetime:
    """When its last container ended, as far as the status has it."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    sidecars = {each["name"] for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always"}
    lasting = (each for each in status.get("initContainerStatuses") or () if each.get("name") in sidecars)
    ends = [_ended_at(each) for each in (*(status.get("containerStatuses") or ()), *lasting)]
    known = [end for end in ends if end is not None]
    if ends and len(known) == len(ends):
        return max(known)
    ready = condition(pod, "Ready") or {}
    if ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    if metadata.get("deletionTimestamp"):
        grace = metadata.get("deletionGracePeriodSeconds") or 0
        return parse_time(metadata["deletionTimestamp"]) - timedelta(seconds=grace)
    return parse_time(metadata["creationTimestamp"])


def _ended_at(container: Object) -> datetime | None:
    text = ((container.get("state") or {}).get("terminated") or {}).get("finishedAt")
    return parse_time(text) if text else None


def failure_rule(policy: FailurePolicy | None, pod: Object) -> tuple[FailureRule | None, str]:
    """The first rule that matches a failed pod, and the message if its action fails the Job."""
    status, name = pod.get("status") or {}, f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for number, rule in enumerate(policy.rules if policy is not None else ()):
        text = f"matching {rule.action} rule at index {number}"
        if rule.on_exit_codes is not None:
            for container in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
                code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
                if code and _matches(rule, container["name"], code):
                    return rule, f"Container {container['name']} for pod {name} failed with exit code {code} {text}"
        for found in status.get("conditions") or () if rule.on_exit_codes is None else ():
            if any((found["type"], found["status"]) == (each.type, each.status) for each in rule.on_pod_conditions):
                return rule, f"Pod {name} has condition {found['type']} {text}"
    return None, ""


def _matches(rule: FailureRule, container: str, code: int) -> bool:
    wanted = rule.on_exit_codes
    if wanted is None or wanted.container_name not in (None, container):
        return False
    return (code in wanted.values) is (wanted.operator == "In")


def counts_as_failure(spec: JobSpec, pod: Object) -> bool:
    rule, _ = failure_rule(spec.pod_failure_policy, pod)
    return rule is None or rule.action != "Ignore"


def new_pod(job: Object, spec: JobSpec, index: int | None, replaced: Object | None) -> Object:
    """The next pod; one for an index continues the failure count of the pod that it replaces."""
    pod = pod_from_template(job, JOBS, spec.template)
    metadata, name = pod["metadata"], job["metadata"]["name"]
    metadata["finalizers"] = [*dict.fromkeys((*metadata.get("finalizers", ()), TRACKING))]
    if index is None:
        return pod
    metadata["labels"] = {**metadata.get("labels", {}), INDEX: str(index)}
    notes = {**metadata.get("annotations", {}), INDEX: str(index)}
    if spec.backoff_limit_per_index is not None:
        failures, ignored = _failures_to_carry(spec, replaced)
        notes[INDEX_FAILURES] = str(failures)
        if ignored:
            notes[INDEX_IGNORED_FAILURES] = str(ignored)
    suffix = f"-{index}-"
    metadata["annotations"] = notes
    metadata["generateName"] = name[: _LONGEST_PREFIX - len(suffix)] + suffix
    pod["spec"] = _with_index_variable({**pod["spec"], "hostname": f"{name}-{index}"})
    return pod


def _failures_to_carry(spec: JobSpec, replaced: Object | None) -> tuple[int, int]:
    if replaced is None:
        return 0, 0
    failures, ignored = index_failures(replaced), _count(replaced, INDEX_IGNORED_FAILURES)
    return (failures + 1, ignored) if counts_as_failure(spec, replaced) else (failures, ignored + 1)


def _with_index_variable(spec: Object) -> Object:
    variable = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}

    def container(found: Any) -> Any:
        present = found.get("env") or []
        known = any(each.get("name") == INDEX_VARIABLE for each in present)
        return found if known else {**found, "env": [*present, variable]}

    lists = {field: [container(each) for each in spec[field]] for field in ("initContainers", "containers") if spec.get(field)}
    return {**spec, **lists}


async def untrack(attached: Attached, pods: Iterable[Object]) -> None:
    """Remove the finalizer of pods that were counted, or never will be."""
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}}
    for pod in pods:
        metadata = pod["metadata"]
        with contextlib.suppress(NotFound):
            await attached.controllers.patch(PODS, metadata["name"], patch, metadata["namespace"], kind="strategic")
