"""Which pending pods the one node takes: what a scheduler decides, reduced to one node.

Honoured are scheduling gates, another scheduler's name, node selectors, required node affinity by labels, cordoning, and the number
of pods and of containers in one. Requests for CPU and memory are not counted: tasks of one process share what it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.kube.selectors import Selector, SelectorError, from_labels, new_requirement
from muster.machinery.objects import Object

SCHEDULER = "default-scheduler"
MOST_CONTAINERS = 32


def is_waiting(pod: Object) -> bool:
    """Whether it wants a node from us at all."""
    spec, status = pod["spec"], pod.get("status") or {}
    return bool(
        not spec.get("nodeName")
        and not pod["metadata"].get("deletionTimestamp")
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", SCHEDULER) == SCHEDULER
        and status.get("phase", "Pending") == "Pending"
    )


def obstacle(pod: Object, node: Object | None, bound: int, most: int) -> str:
    """Why the pod cannot run on the node, in a scheduler's words; empty if it can."""
    if node is None:
        return "no nodes available to schedule pods"
    if (node.get("spec") or {}).get("unschedulable"):
        return "0/1 nodes are available: 1 node(s) were unschedulable."
    if not _selected(pod["spec"], node["metadata"].get("labels") or {}):
        return "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    if bound >= most:
        return "0/1 nodes are available: 1 Too many pods."
    return excess(pod)


def excess(pod: Object) -> str:
    """What a pod wants too much of, if anything: nothing else here bounds the tasks that one object begins."""
    containers = sum(len(pod["spec"].get(kind) or ()) for kind in ("initContainers", "containers"))
    return (
        f"{containers} containers are more than the {MOST_CONTAINERS} that a pod may have here"
        if containers > MOST_CONTAINERS
        else ""
    )


def _selected(spec: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if not from_labels(spec.get("nodeSelector") or {}).matches(labels):
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if not affinity:
        return True
    return any(_term(term, labels) for term in affinity.get("nodeSelectorTerms") or ())


def _term(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    try:
        wanted = [
            new_requirement(each["key"], _OPERATORS[each["operator"]], each.get("values") or ())
            for each in term.get("matchExpressions") or ()
        ]
    except (SelectorError, KeyError):
        return False
    return bool(wanted) and Selector(tuple(wanted)).matches(labels)


_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": ">", "Lt": "<"}
