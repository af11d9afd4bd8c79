"""Cells of Pods and workload kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.apiserver.builtin.cells.formats import (
    NONE,
    UNSET,
    Cell,
    Live,
    at,
    has_condition,
    instant,
    labels_text,
    selector_text,
    since,
    spec,
    status,
    template_cells,
)
from muster.machinery.objects import Object


class _PodSummary:
    """Readiness, status and restarts of a pod, as in its first columns."""

    __slots__ = ("last_restart", "ready", "reason", "restarts", "total")

    def __init__(self, pod: Object) -> None:
        pod_spec, pod_status = spec(pod), status(pod)
        conditions = pod_status.get("conditions") or ()
        self.reason: str = pod_status.get("reason") or pod_status.get("phase") or ""
        if any(c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in conditions):
            self.reason = "SchedulingGated"
        init = pod_spec.get("initContainers") or []
        sidecars = {c.get("name") for c in init if c.get("restartPolicy") == "Always"}
        self.total = len(pod_spec.get("containers") or ()) + len(sidecars)
        self.ready = self.restarts = 0
        self.last_restart = ""
        sidecar_restarts, sidecar_last = 0, ""
        initializing = False
        for index, container in enumerate(pod_status.get("initContainerStatuses") or ()):
            self._count_restarts(container)
            if container.get("name") in sidecars:
                sidecar_restarts += container.get("restartCount") or 0
                sidecar_last = max(sidecar_last, _finished(container))
            outcome = _init_reason(container, container.get("name") in sidecars, index, len(init))
            if outcome is None:
                continue
            if outcome == "started":
                self.ready += bool(container.get("ready"))
                continue
            self.reason, initializing = outcome, True
            break
        if not initializing or has_condition(conditions, "Initialized"):
            self.restarts, self.last_restart = sidecar_restarts, sidecar_last
            self._running(pod_status.get("containerStatuses") or (), conditions)
        if pod["metadata"].get("deletionTimestamp"):
            if pod_status.get("reason") == "NodeLost":
                self.reason = "Unknown"
            elif pod_status.get("phase") not in ("Failed", "Succeeded"):
                self.reason = "Terminating"

    def _count_restarts(self, container: Object) -> None:
        self.restarts += container.get("restartCount") or 0
        self.last_restart = max(self.last_restart, _finished(container))

    def _running(self, containers: Any, conditions: Any) -> None:
        running = False
        failure = ""
        for container in reversed(containers):
            self._count_restarts(container)
            state = container.get("state") or {}
            terminated = state.get("terminated")
            waiting = (state.get("waiting") or {}).get("reason")
            if waiting:
                self.reason = waiting
            elif terminated is not None:
                self.reason = _terminated_reason(terminated)
                if terminated.get("exitCode"):
                    failure = self.reason
            elif container.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and has_condition(conditions, "Ready"):
                self.reason = "Running"
            elif failure:
                self.reason = failure
            elif running:
                self.reason = "NotReady"


def _finished(container: Object) -> str:
    return ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""


def _terminated_reason(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _init_reason(container: Object, sidecar: bool, index: int, total: int) -> str | None:
    """None if the init container has completed, `started` for a running sidecar, else the status of the pod."""
    state = container.get("state") or {}
    terminated = state.get("terminated")
    if terminated is not None and not terminated.get("exitCode"):
        return None
    if sidecar and container.get("started"):
        return "started"
    if terminated is not None:
        return "Init:" + _terminated_reason(terminated)
    waiting = (state.get("waiting") or {}).get("reason")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{total}"


def _pod_ready(pod: Object) -> str:
    summary = _PodSummary(pod)
    return f"{summary.ready}/{summary.total}"


def _pod_restarts(pod: Object) -> str | Live:
    summary = _PodSummary(pod)
    if summary.restarts and summary.last_restart:
        return since(summary.last_restart, f"{summary.restarts} ({{}} ago)")
    return str(summary.restarts)


def _pod_ip(pod: Object) -> str:
    ips = status(pod).get("podIPs") or ()
    return (ips[0].get("ip") if ips else "") or NONE


def _readiness_gates(pod: Object) -> str:
    gates = spec(pod).get("readinessGates") or ()
    if not gates:
        return NONE
    conditions = status(pod).get("conditions")
    return f"{sum(has_condition(conditions, gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"


_JOB_STATES = (("Complete", "Complete"), ("Failed", "Failed"))
_JOB_LATER_STATES = (("Suspended", "Suspended"), ("FailureTarget", "FailureTarget"), ("SuccessCriteriaMet", "SuccessCriteriaMet"))


def _job_status(job: Object) -> str:
    conditions = status(job).get("conditions")
    for kind, text in _JOB_STATES:
        if has_condition(conditions, kind):
            return text
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((text for kind, text in _JOB_LATER_STATES if has_condition(conditions, kind)), "Running")


def _job_completions(job: Object) -> str:
    succeeded = status(job).get("succeeded", 0)
    completions = spec(job).get("completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = spec(job).get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Object) -> str | Live:
    start, end = status(job).get("startTime"), status(job).get("completionTime")
    if not start:
        return ""
    began, ended = instant(start), instant(end) if end else None
    if began is not None and ended is not None:
        return Live(began).text(ended)
    return since(start)


def _cron_suspend(cron: Object) -> str:
    suspend = spec(cron).get("suspend")
    return UNSET if suspend is None else "True" if suspend else "False"


def _ready_of_desired(obj: Object) -> str:
    return f"{status(obj).get('readyReplicas', 0)}/{spec(obj).get('replicas', 0)}"


def _selector(obj: Object) -> str:
    return selector_text(spec(obj).get("selector"))


_REPLICAS: Mapping[str, Cell] = {
    "Desired": at("spec", "replicas", absent=0),
    "Current": at("status", "replicas", absent=0),
    "Ready": at("status", "readyReplicas", absent=0),
    **template_cells("spec", "template", "spec"),
}


def _revision_controller(revision: Object) -> str:
    owner = next((o for o in revision["metadata"].get("ownerReferences") or () if o.get("controller")), None)
    if owner is None:
        return NONE
    group = owner.get("apiVersion", "").rpartition("/")[0]
    return f"{owner['kind']}.{group}".rstrip(".").lower() + f"/{owner.get('name', '')}"


CELLS: Mapping[str, Mapping[str, Cell]] = {
    "Pod": {
        "Ready": _pod_ready,
        "Status": lambda pod: _PodSummary(pod).reason,
        "Restarts": _pod_restarts,
        "IP": _pod_ip,
        "Node": lambda pod: spec(pod).get("nodeName") or NONE,
        "Nominated Node": lambda pod: status(pod).get("nominatedNodeName") or NONE,
        "Readiness Gates": _readiness_gates,
    },
    "PodTemplate": {
        **template_cells("template", "spec"),
        "Pod Labels": lambda obj: labels_text(at("template", "metadata", "labels", absent=None)(obj)),
    },
    "ReplicationController": {**_REPLICAS, "Selector": lambda obj: labels_text(spec(obj).get("selector"))},
    "ReplicaSet": {**_REPLICAS, "Selector": _selector},
    "DaemonSet": {
        "Desired": at("status", "desiredNumberScheduled", absent=0),
        "Current": at("status", "currentNumberScheduled", absent=0),
        "Ready": at("status", "numberReady", absent=0),
        "Up-to-date": at("status", "updatedNumberScheduled", absent=0),
        "Available": at("status", "numberAvailable", absent=0),
        "Node Selector": lambda obj: labels_text(at("spec", "template", "spec", "nodeSelector", absent=None)(obj)),
        **template_cells("spec", "template", "spec"),
        "Selector": _selector,
    },
    "StatefulSet": {"Ready": _ready_of_desired, **template_cells("spec", "template", "spec")},
    "Deployment": {
        "Ready": _ready_of_desired,
        "Up-to-date": at("status", "updatedReplicas", absent=0),
        "Available": at("status", "availableReplicas", absent=0),
        **template_cells("spec", "template", "spec"),
        "Selector": lambda obj: selector_text(spec(obj).get("selector"), empty="", broken="<invalid>", nothing=""),
    },
    "Job": {
        "Status": _job_status,
        "Completions": _job_completions,
        "Duration": _job_duration,
        **template_cells("spec", "template", "spec"),
        "Selector": _selector,
    },
    "CronJob": {
        "Schedule": at("spec", "schedule"),
        "Timezone": at("spec", "timeZone", absent=NONE),
        "Suspend": _cron_suspend,
        "Active": lambda obj: len(status(obj).get("active") or ()),
        "Last Schedule": lambda obj: since(status(obj).get("lastScheduleTime"), absent=NONE),
        **template_cells("spec", "jobTemplate", "spec", "template", "spec"),
        "Selector": lambda obj: selector_text(at("spec", "jobTemplate", "spec", "selector", absent=None)(obj)),
    },
    "ControllerRevision": {"Controller": _revision_controller, "Revision": at("revision", absent=0)},
    "PodDisruptionBudget": {
        "Min Available": lambda obj: str(at("spec", "minAvailable", absent="N/A")(obj)),
        "Max Unavailable": lambda obj: str(at("spec", "maxUnavailable", absent="N/A")(obj)),
        "Allowed Disruptions": at("status", "disruptionsAllowed", absent=0),
    },
}
