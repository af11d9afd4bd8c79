"""The nodes on which a DaemonSet's pods belong, and the affinity and tolerations that bind and keep them there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from muster.fleet.workloads.nodefit import NAME_FIELD, is_selected, tolerates
from muster.fleet.workloads.podcontrol import pod_from_template
from muster.fleet.workloads.podstate import FINISHED
from muster.fleet.workloads.revisions import HASH_LABEL
from muster.machinery.objects import Object
from muster.runtime.client.builtin import DAEMON_SETS

GENERATION: Final = "deprecated.daemonset.template.generation"
GENERATION_LABEL: Final = "pod-template-generation"
_TAINTS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK_TAINTS: Final = (("node.kubernetes.io/network-unavailable", "NoSchedule"),)


def tolerations_of(spec: Object) -> list[Object]:
    """The DaemonSet's tolerations, and those of all daemons."""
    known: list[Object] = list(spec.get("tolerations") or ())
    for key, effect in (*_TAINTS, *(_HOST_NETWORK_TAINTS if spec.get("hostNetwork") else ())):
        wanted = {"key": key, "operator": "Exists", "effect": effect}
        if wanted not in known:
            known.append(wanted)
    return known


def should_run(found: Object, node: Object) -> tuple[bool, bool]:
    """Whether a pod should be created on the node, and whether an existing one should continue."""
    spec, tolerations = found["spec"]["template"]["spec"], tolerations_of(found["spec"]["template"]["spec"])
    if spec.get("nodeName", node["metadata"]["name"]) != node["metadata"]["name"] or not is_selected(spec, node):
        return False, False
    return tolerates(tolerations, node, ("NoSchedule", "NoExecute")), tolerates(tolerations, node, ("NoExecute",))


def node_of(pod: Object) -> str:
    """The node to which it is bound or targeted."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    for term in _terms(pod["spec"]):
        for field in term.get("matchFields") or ():
            if (field.get("key"), field.get("operator")) == (NAME_FIELD, "In") and len(field.get("values") or ()) == 1:
                return str(field["values"][0])
    return ""


def _terms(spec: Object) -> Sequence[Any]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()


def by_node(pods: Iterable[Object]) -> dict[str, list[Object]]:
    """Without pods that have ended and are being deleted."""
    found: dict[str, list[Object]] = {}
    for pod in sorted(pods, key=_age):
        over = (pod.get("status") or {}).get("phase") in FINISHED and pod["metadata"].get("deletionTimestamp")
        if not over:
            found.setdefault(node_of(pod), []).append(pod)
    return found


def _age(pod: Object) -> tuple[bool, str, str]:
    """The sort key: pods that are bound come first, then the oldest."""
    return not pod["spec"].get("nodeName"), pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]


def new_pod(found: Object, node: str, suffix: str) -> Object:
    pod = pod_from_template(found, DAEMON_SETS, found["spec"]["template"])
    metadata, spec = pod["metadata"], pod["spec"]
    generation = (found["metadata"].get("annotations") or {}).get(GENERATION)
    extra = {GENERATION_LABEL: generation} if generation else {}
    metadata["labels"] = {**metadata.get("labels", {}), **extra, HASH_LABEL: suffix}
    return {**pod, "spec": {**spec, "tolerations": tolerations_of(spec), "affinity": _bound_to(spec.get("affinity") or {}, node)}}


def _bound_to(affinity: Object, node: str) -> Object:
    """The affinity with the node in place of the other required terms, which it matches."""
    term = {"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), **required}}


def is_updated(found: Object, pod: Object, suffix: str) -> bool:
    labels = pod["metadata"].get("labels") or {}
    generation = (found["metadata"].get("annotations") or {}).get(GENERATION)
    return labels.get(HASH_LABEL) == suffix or bool(generation and labels.get(GENERATION_LABEL) == generation)
