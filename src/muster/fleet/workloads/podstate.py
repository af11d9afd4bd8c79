"""Properties of a pod that several controllers need, from the object alone."""

from __future__ import annotations

from datetime import datetime, timedelta

from muster.machinery.golang.timestamps import parse_time
from muster.machinery.objects import Object

FINISHED = ("Succeeded", "Failed")
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST = "controller.kubernetes.io/pod-deletion-cost"


def condition(obj: Object, kind: str) -> Object | None:
    found = (obj.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each.get("type") == kind), None)


def is_active(pod: Object) -> bool:
    """Neither finished nor being deleted: it counts as a replica."""
    return (pod.get("status") or {}).get("phase") not in FINISHED and not pod["metadata"].get("deletionTimestamp")


def is_terminating(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp")) and (pod.get("status") or {}).get("phase") not in FINISHED


def is_ready(pod: Object) -> bool:
    return (condition(pod, "Ready") or {}).get("status") == "True"


def available_in(pod: Object, least_seconds: int, now: datetime) -> float | None:
    """Seconds until a ready pod counts as available (0: it does); None while it is not ready."""
    found = condition(pod, "Ready")
    if found is None or found.get("status") != "True":
        return None
    if not least_seconds or not found.get("lastTransitionTime"):
        return 0.0
    due = parse_time(found["lastTransitionTime"]) + timedelta(seconds=least_seconds)
    return max((due - now).total_seconds(), 0.0)


def deletion_rank(pod: Object) -> tuple[object, ...]:
    """The order in which replicas are deleted: unbound, not ready, lowest deletion cost, youngest first."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    ready = condition(pod, "Ready") or {}
    restarts = max((each.get("restartCount", 0) for each in status.get("containerStatuses") or ()), default=0)
    return (
        bool(pod["spec"].get("nodeName")),
        _PHASES.get(status.get("phase", ""), 0),
        ready.get("status") == "True",
        _number((metadata.get("annotations") or {}).get(_COST)),
        _later_first(ready.get("lastTransitionTime")),
        -restarts,
        _later_first(metadata.get("creationTimestamp")),
    )


def _later_first(moment: str | None) -> float:
    return -parse_time(moment).timestamp() if moment else 0.0


def _number(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        return 0
