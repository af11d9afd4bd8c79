"""Decides which pods of a DaemonSet are deleted and which nodes get one: first one pod per node, then the rolling update.

Pure functions. Without surge, an old pod is deleted and then replaced, at most maxUnavailable at a time; with surge, a new pod is
created beside the old one, which is deleted once the new one is available.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.fleet.workloads import podstate
from muster.fleet.workloads.daemonsets.nodes import is_updated, should_run
from muster.fleet.workloads.rollout import scaled
from muster.machinery.objects import Object

PodsByNode = Mapping[str, Sequence[Object]]
Available = Callable[[Object], bool]


@dataclass(slots=True)
class Step:
    create: list[str] = field(default_factory=list)
    """Names of nodes."""
    delete: list[Object] = field(default_factory=list)
    ended: list[tuple[str, Object]] = field(default_factory=list)
    """Nodes with their pods that have ended."""

    def __bool__(self) -> bool:
        return bool(self.create or self.delete)


def surge_of(found: Object, nodes: int) -> int:
    strategy = found["spec"].get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    return scaled(rolling.get("maxSurge", 0), nodes, up=True) if strategy.get("type") == "RollingUpdate" else 0


def keep_one_each(found: Object, nodes: Sequence[Object], pods: PodsByNode, suffix: str, available: Available) -> Step:
    """Every eligible node gets one pod, every other none."""
    step = Step()
    for node in nodes:
        _keep_one(step, found, node, pods.get(node["metadata"]["name"]), suffix, available)
    known = {node["metadata"]["name"] for node in nodes}
    for name, there in pods.items():
        step.delete += [pod for pod in there if name not in known and not pod["spec"].get("nodeName")]
    return step


def _keep_one(step: Step, found: Object, node: Object, there: Sequence[Object] | None, suffix: str, available: Available) -> None:
    name, (run, stay) = node["metadata"]["name"], should_run(found, node)
    staying = [pod for pod in there or () if not pod["metadata"].get("deletionTimestamp")]
    if run and there is None:
        step.create.append(name)
        return
    if not stay:
        step.delete += staying
        return
    step.ended += [(name, pod) for pod in staying if (pod.get("status") or {}).get("phase") in podstate.FINISHED]
    running = [pod for pod in staying if (pod.get("status") or {}).get("phase") not in podstate.FINISHED]
    if not surge_of(found, 1):
        step.delete += running[1:]
        return
    if not running and run:
        step.create.append(name)
        return
    new, old = _old_and_new(found, running, suffix)
    step.delete += [*new[1:], *old[1:]]
    if new and old and (not podstate.is_ready(old[0]) or available(new[0])):
        step.delete.append(old[0])


def _old_and_new(found: Object, pods: Sequence[Object], suffix: str) -> tuple[list[Object], list[Object]]:
    new = [pod for pod in pods if is_updated(found, pod, suffix)]
    return new, [pod for pod in pods if pod not in new]


def roll(found: Object, nodes: Sequence[Object], pods: PodsByNode, suffix: str, available: Available) -> Step:
    """The next step of a rolling update."""
    wanted = [node["metadata"]["name"] for node in nodes if should_run(found, node)[0]]
    rolling = (found["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    surge, unavailable = surge_of(found, len(wanted)), scaled(rolling.get("maxUnavailable", 1), len(wanted), up=True)
    everywhere = {**dict.fromkeys(wanted, ()), **pods}
    if surge:
        return _with_surge(found, set(wanted), everywhere, suffix, available, surge)
    return _without_surge(found, everywhere, suffix, available, unavailable or 1)


def _pair(found: Object, there: Sequence[Object], suffix: str) -> tuple[Object | None, Object | None] | None:
    """The new and the old pod of a node; None if there are more, which is not corrected here."""
    staying = [pod for pod in there if not pod["metadata"].get("deletionTimestamp")]
    new, old = _old_and_new(found, staying, suffix)
    return None if len(new) > 1 or len(old) > 1 else (next(iter(new), None), next(iter(old), None))


def _without_surge(found: Object, pods: PodsByNode, suffix: str, available: Available, limit: int) -> Step:
    missing, broken, candidates = 0, [], []
    for there in pods.values():
        new, old = _pair(found, there, suffix) or (None, None)
        if (new is None) == (old is None):
            missing += 1
        elif new is not None:
            missing += not available(new)
        elif old is not None and not available(old):
            broken.append(old)
            missing += 1
        elif old is not None:
            candidates.append(old)
    return Step(delete=[*broken, *candidates[: max(limit - missing, 0)]])


def _with_surge(found: Object, wanted: set[str], pods: PodsByNode, suffix: str, available: Available, limit: int) -> Step:
    step, surging, working = Step(), 0, 0
    candidates: list[str] = []
    misplaced: list[Object] = []
    for name, there in pods.items():
        pair = _pair(found, there, suffix)
        if pair is None:
            surging += 1
            continue
        new, old = pair
        working += any(available(pod) for pod in (old or new,) if pod is not None)
        if old is None:
            continue
        if new is not None:
            if available(new):
                step.delete.append(old)
            else:
                surging += 1
        elif name not in wanted:
            (misplaced if available(old) else step.delete).append(old)
        elif available(old):
            candidates.append(name)
        else:
            step.create.append(name)
    # Pods on nodes where none belongs any more are deleted only when enough others are available.
    step.delete += misplaced[: max(working - len(wanted), 0)]
    step.create += candidates[: max(limit - surging, 0)]
    return step
