"""The states of containers and their form in a pod's status: pure data and pure functions.

Kinds of states, phases and conditions are Kubernetes'; times have whole seconds there, and so here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from muster.fleet.node.podspec import ContainerSpec, Pod
from muster.machinery.golang.timestamps import format_time, parse_time
from muster.machinery.objects import Object

CREATING = "ContainerCreating"
INITIALIZING = "PodInitializing"
CRASH_LOOP = "CrashLoopBackOff"
NOT_RUNNABLE = "ImageNotRunnable"
CONFIG_ERROR = "CreateContainerConfigError"
CREATE_ERROR = "CreateContainerError"
SCHEME = "muster://"


@dataclass(frozen=True, slots=True)
class Waiting:
    reason: str = CREATING
    message: str = ""

    def written(self) -> Object:
        return {"waiting": {"reason": self.reason, **({"message": self.message} if self.message else {})}}


@dataclass(frozen=True, slots=True)
class Running:
    started: datetime

    def written(self) -> Object:
        return {"running": {"startedAt": format_time(self.started)}}


@dataclass(frozen=True, slots=True)
class Terminated:
    exit_code: int
    reason: str
    message: str
    started: datetime
    finished: datetime
    container_id: str

    def written(self) -> Object:
        ended = {
            "exitCode": self.exit_code,
            "reason": self.reason,
            "message": self.message,
            "startedAt": format_time(self.started),
            "finishedAt": format_time(self.finished),
            "containerID": self.container_id,
        }
        return {"terminated": {name: value for name, value in ended.items() if value != "" or name == "exitCode"}}


State = Waiting | Running | Terminated


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """A container as in its pod's status."""

    state: State = Waiting()
    last: Terminated | None = None
    restarts: int = 0
    ready: bool = False
    started: bool = False
    container_id: str = ""

    @property
    def done(self) -> bool:
        return isinstance(self.state, Terminated)

    @property
    def succeeded(self) -> bool:
        return isinstance(self.state, Terminated) and self.state.exit_code == 0


def container_status(spec: ContainerSpec, container: ContainerStatus) -> Object:
    return {
        "name": spec.name,
        "image": spec.image,
        "imageID": spec.image if container.container_id else "",
        "containerID": container.container_id,
        "restartCount": container.restarts,
        "ready": container.ready,
        "started": container.started,
        "state": container.state.written(),
        "lastState": container.last.written() if container.last is not None else {},
    }


def remembered(written: Object | None, now: datetime) -> ContainerStatus:
    """The state from which a container continues after the process that ran it has ended: a program that ran then has ended with an
    unknown result.
    """
    if not written:
        return ContainerStatus()
    state, restarts = written.get("state") or {}, int(written.get("restartCount", 0))
    last = _ended((written.get("lastState") or {}).get("terminated"), now)
    identity = str(written.get("containerID") or "")
    if state.get("terminated"):
        return ContainerStatus(_ended(state["terminated"], now) or Waiting(), last, restarts, container_id=identity)
    if state.get("running"):
        began = parse_time(state["running"]["startedAt"])
        text = "the process that ran it ended before it was seen to end"
        return ContainerStatus(Terminated(255, "Unknown", text, began, now, identity), last, restarts, container_id=identity)
    return ContainerStatus(Waiting(), last, restarts, container_id=identity)


def _ended(written: Object | None, now: datetime) -> Terminated | None:
    if not written:
        return None
    times = [parse_time(written[name]) if written.get(name) else now for name in ("startedAt", "finishedAt")]
    code, reason = int(written.get("exitCode", 0)), str(written.get("reason") or "")
    return Terminated(code, reason, str(written.get("message") or ""), times[0], times[1], str(written.get("containerID") or ""))


def restarts_after(policy: str, exit_code: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def phase(policy: str, statuses: Sequence[ContainerStatus], initialized: bool, failed_init: bool) -> str:
    if failed_init:
        return "Failed"
    if not initialized:
        return "Pending"
    if any(isinstance(each.state, Waiting) and each.last is None for each in statuses):
        return "Pending"
    over = [each for each in statuses if each.done]
    if len(over) < len(statuses) or policy == "Always":
        return "Running"
    if all(each.succeeded for each in over):
        return "Succeeded"
    return "Running" if policy == "OnFailure" else "Failed"


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What the node knows of a pod beside its containers."""

    ip: str
    node_ip: str
    started: datetime
    mounted: bool
    initialized: bool
    failed_init: bool = False


def pod_status(
    pod: Pod,
    facts: PodFacts,
    initial: Mapping[str, ContainerStatus],
    main: Mapping[str, ContainerStatus],
    now: datetime,
    *,
    failure: tuple[str, str] | None = None,
) -> Object:
    """The status to write: the present one with the node's own parts replaced.

    `failure` is the reason and message with which the node has ended the pod, whatever its containers did.
    """
    present = pod.status
    stage = phase(pod.spec.restart_policy, list(main.values()), facts.initialized, facts.failed_init)
    if failure is not None:
        stage = "Failed"
        present = {**present, "reason": failure[0], "message": failure[1]}
    status = {
        **present,
        "phase": stage,
        "conditions": _conditions(pod, facts, initial, main, stage, now),
        "hostIP": facts.node_ip,
        "hostIPs": [{"ip": facts.node_ip}],
        "startTime": format_time(facts.started),
        "observedGeneration": pod.metadata.generation or None,
        "containerStatuses": [container_status(spec, main[spec.name]) for spec in pod.spec.containers],
    }
    if facts.mounted:
        status |= {"podIP": facts.ip, "podIPs": [{"ip": facts.ip}]}
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [container_status(spec, initial[spec.name]) for spec in pod.spec.init_containers]
    return {name: value for name, value in status.items() if value is not None}


def _conditions(
    pod: Pod,
    facts: PodFacts,
    initial: Mapping[str, ContainerStatus],
    main: Mapping[str, ContainerStatus],
    stage: str,
    now: datetime,
) -> list[Object]:
    incomplete = [name for name, each in initial.items() if not each.succeeded and not each.started]
    unready = [name for name, each in main.items() if not each.ready]
    over = stage in ("Succeeded", "Failed")
    wanted: list[tuple[str, bool, str, str]] = [("PodReadyToStartContainers", facts.mounted and not over, "", "")]
    if facts.initialized:
        wanted.append(("Initialized", True, "PodCompleted" if stage == "Succeeded" else "", ""))
    else:
        text = f"containers with incomplete status: [{' '.join(incomplete)}]"
        wanted.append(("Initialized", False, "ContainersNotInitialized", text))
    why, text = "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    if over:
        why, text = ("PodCompleted", "") if stage == "Succeeded" else ("PodFailed", "")
    ready = not unready and facts.initialized and not over
    closed = [gate.condition_type for gate in pod.spec.readiness_gates if not _is_true(pod.status, gate.condition_type)]
    if ready and closed:
        shown = [f'corresponding condition of pod readiness gate "{name}" does not exist or is not True.' for name in closed]
        wanted.append(("Ready", False, "ReadinessGatesNotReady", " ".join(shown)))
    else:
        wanted.append(("Ready", ready, "" if ready else why, "" if ready else text))
    wanted.append(("ContainersReady", ready, "" if ready else why, "" if ready else text))
    return merged(pod.status.get("conditions") or (), wanted, now)


def _is_true(status: Mapping[str, Object], kind: str) -> bool:
    conditions: Iterable[Object] = status.get("conditions") or ()  # type: ignore[assignment]  # a list in every status
    return any(each.get("type") == kind and each.get("status") == "True" for each in conditions)


def merged(present: Iterable[Object], wanted: Iterable[tuple[str, bool, str, str]], now: datetime) -> list[Object]:
    """The present conditions with the wanted ones set; others stay, and a transition time changes only with the status."""
    conditions = {each["type"]: each for each in present}
    for kind, holds, reason, message in wanted:
        before, status = conditions.get(kind) or {}, "True" if holds else "False"
        since = before.get("lastTransitionTime") if before.get("status") == status else None
        condition: Object = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": since or format_time(now)}
        condition |= {name: text for name, text in (("reason", reason), ("message", message)) if text}
        conditions[kind] = condition
    return list(conditions.values())
