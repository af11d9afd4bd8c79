"""The filters of kube-scheduler, reduced to one node: which pending pods the node accepts.

Evaluated are scheduling gates, schedulerName, node selectors, required node affinity, cordoning and taints with tolerations, and
the number of pods and of containers in a pod. Requests for CPU and memory are not counted, because tasks of one process share its
resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.fleet.workloads.nodefit import is_selected, tolerates, untolerated
from muster.machinery.objects import Object

SCHEDULER = "default-scheduler"
MAX_CONTAINERS = 32


def is_waiting(pod: Object) -> bool:
    """Whether the pod is waiting for this scheduler."""
    spec, status = pod["spec"], pod.get("status") or {}
    return bool(
        not spec.get("nodeName")
        and not pod["metadata"].get("deletionTimestamp")
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", SCHEDULER) == SCHEDULER
        and status.get("phase", "Pending") == "Pending"
    )


def obstacle(pod: Object, node: Object | None, bound: int, most: int) -> str:
    """Why the pod does not fit on the node, in kube-scheduler's words; empty if it does."""
    if node is None:
        return "no nodes available to schedule pods"
    if (node.get("spec") or {}).get("unschedulable") and not _tolerates_cordon(pod["spec"]):
        return "0/1 nodes are available: 1 node(s) were unschedulable."
    taint = untolerated(pod["spec"].get("tolerations") or (), node, ("NoSchedule", "NoExecute"))
    if taint is not None:
        return f"0/1 nodes are available: 1 node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}."
    if not is_selected(pod["spec"], node):
        return "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    if bound >= most:
        return "0/1 nodes are available: 1 Too many pods."
    return excess(pod)


def _tolerates_cordon(spec: Mapping[str, Any]) -> bool:
    """Whether the pod tolerates a cordoned node, as those of DaemonSets do."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return tolerates(spec.get("tolerations") or (), {"spec": {"taints": [taint]}}, ("NoSchedule",))


def excess(pod: Object) -> str:
    """The limit that a pod exceeds, if any: nothing else limits the tasks that one object starts."""
    containers = sum(len(pod["spec"].get(kind) or ()) for kind in ("initContainers", "containers"))
    return (
        f"{containers} containers are more than the {MAX_CONTAINERS} that a pod may have here"
        if containers > MAX_CONTAINERS
        else ""
    )
