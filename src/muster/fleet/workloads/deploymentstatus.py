"""The status of a Deployment, computed from its ReplicaSets: counts, and the conditions that `kubectl rollout` reads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from muster.fleet.workloads.podstate import condition
from muster.fleet.workloads.rollout import RolloutSpec
from muster.machinery.golang.timestamps import format_time, parse_time
from muster.machinery.objects import Object

FOREVER = 2**31 - 1
"""The progress deadline that means none."""
COMPLETE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"


def counts(deployment: Object, new: Object | None, sets: Sequence[Object], spec: RolloutSpec) -> Object:
    statuses = [each.get("status") or {} for each in sets]
    available = sum(status.get("availableReplicas", 0) for status in statuses)
    wanted = sum(each["spec"].get("replicas", 0) for each in sets)
    status: Object = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": sum(status.get("replicas", 0) for status in statuses),
        "updatedReplicas": ((new or {}).get("status") or {}).get("replicas", 0),
        "readyReplicas": sum(status.get("readyReplicas", 0) for status in statuses),
        "availableReplicas": available,
        "unavailableReplicas": max(wanted - available, 0),
        "terminatingReplicas": sum(status.get("terminatingReplicas", 0) for status in statuses),
        "collisionCount": (deployment.get("status") or {}).get("collisionCount", 0),
    }
    always = ("observedGeneration", "terminatingReplicas")
    return {name: value for name, value in status.items() if value or name in always}


def status_of(
    deployment: Object, new: Object | None, sets: Sequence[Object], spec: RolloutSpec, now: datetime, created: bool = False
) -> Object:
    """The status to write; `created` is whether the new ReplicaSet was created in this pass."""
    status = counts(deployment, new, sets, spec)
    conditions = list((deployment.get("status") or {}).get("conditions") or ())
    conditions = _beginning(deployment, conditions, new, now, created)
    enough = status.get("availableReplicas", 0) >= spec.least_available
    if enough:
        availability = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        availability = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    conditions = with_condition(conditions, "Available", *availability, now)
    conditions = _progress(deployment, status, conditions, new, now)
    failures = [found for each in sets if (found := condition(each, "ReplicaFailure")) is not None]
    conditions = [each for each in conditions if each["type"] != "ReplicaFailure"] if not failures else conditions
    if failures:
        first = failures[0]
        conditions = with_condition(
            conditions, "ReplicaFailure", first["status"], first.get("reason", ""), first.get("message", ""), now
        )
    return {**status, "conditions": conditions}


def _beginning(deployment: Object, conditions: list[Object], new: Object | None, now: datetime, created: bool) -> list[Object]:
    """The conditions at the beginning of a pass, before its progress is computed."""
    if not _has_deadline(deployment):
        return conditions
    current = _find(conditions, "Progressing")
    if deployment["spec"].get("paused"):
        if (current or {}).get("reason") == TIMED_OUT:
            return conditions
        return with_condition(conditions, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now)
    if (current or {}).get("reason") == "DeploymentPaused":
        return with_condition(conditions, "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now)
    if created and new is not None:
        text = f'Created new replica set "{new["metadata"]["name"]}"'
        return with_condition(conditions, "Progressing", "True", "NewReplicaSetCreated", text, now)
    if current is None and new is not None:
        text = f'Found new replica set "{new["metadata"]["name"]}"'
        return with_condition(conditions, "Progressing", "True", "FoundNewReplicaSet", text, now)
    return conditions


def _progress(deployment: Object, status: Object, conditions: list[Object], new: Object | None, now: datetime) -> list[Object]:
    if not _has_deadline(deployment):
        return [each for each in conditions if each["type"] != "Progressing"]
    if deployment["spec"].get("paused"):
        return conditions
    current = _find(conditions, "Progressing")
    name = f'ReplicaSet "{new["metadata"]["name"]}"' if new is not None else f'Deployment "{deployment["metadata"]["name"]}"'
    updated = status.get("updatedReplicas", 0)
    if current is not None and current.get("reason") == COMPLETE and status.get("replicas", 0) == updated:
        return conditions
    if is_complete(deployment, status):
        return with_condition(conditions, "Progressing", "True", COMPLETE, f"{name} has successfully progressed.", now)
    if _advanced(deployment.get("status") or {}, status):
        since = current["lastTransitionTime"] if current is not None and current["status"] == "True" else format_time(now)
        progressing = _made("Progressing", "True", "ReplicaSetUpdated", f"{name} is progressing.", now)
        others = [each for each in conditions if each["type"] != "Progressing"]
        return [*others, {**progressing, "lastTransitionTime": since}]
    if deadline_in(deployment, conditions, now) == 0:
        return with_condition(conditions, "Progressing", "False", TIMED_OUT, f"{name} has timed out progressing.", now)
    return conditions


def is_complete(deployment: Object, status: Object) -> bool:
    wanted = deployment["spec"].get("replicas", 1)
    replicas, updated, available = (status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas"))
    observed = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    return bool(updated == wanted and replicas == wanted and available == wanted and observed)


def _advanced(before: Object, after: Object) -> bool:
    def old_pods(status: Object) -> int:
        return int(status.get("replicas", 0) - status.get("updatedReplicas", 0))

    grew = any(after.get(name, 0) > before.get(name, 0) for name in ("updatedReplicas", "readyReplicas", "availableReplicas"))
    return grew or old_pods(after) < old_pods(before)


def _has_deadline(deployment: Object) -> bool:
    return bool(deployment["spec"].get("progressDeadlineSeconds", FOREVER) != FOREVER)


def deadline_in(deployment: Object, conditions: Sequence[Object], now: datetime) -> float | None:
    """Seconds until the rollout exceeds its progress deadline (0: it has); None without a running deadline."""
    current = _find(conditions, "Progressing")
    if current is None or not _has_deadline(deployment) or current.get("reason") == COMPLETE or deployment["spec"].get("paused"):
        return None
    if current.get("reason") == TIMED_OUT:
        return None
    due = parse_time(current["lastUpdateTime"]) + timedelta(seconds=deployment["spec"]["progressDeadlineSeconds"])
    return max((due - now).total_seconds(), 0.0)


def with_condition(conditions: list[Object], kind: str, status: str, reason: str, message: str, now: datetime) -> list[Object]:
    """The conditions with this one set; nothing changes if status and reason stay the same."""
    current = _find(conditions, kind)
    if current is not None and current["status"] == status and current.get("reason") == reason:
        return conditions
    made = _made(kind, status, reason, message, now)
    if current is not None and current["status"] == status:
        made["lastTransitionTime"] = current["lastTransitionTime"]
    return [*(each for each in conditions if each["type"] != kind), made]


def _made(kind: str, status: str, reason: str, message: str, now: datetime) -> Object:
    moment = format_time(now)
    times = {"lastUpdateTime": moment, "lastTransitionTime": moment}
    return {"type": kind, "status": status, "reason": reason, "message": message, **times}


def _find(conditions: Sequence[Object], kind: str) -> Object | None:
    return next((each for each in conditions if each["type"] == kind), None)
