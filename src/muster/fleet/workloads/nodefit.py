"""Whether a pod may run on a node: its node selector, its required node affinity, and its tolerations of the node's taints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from muster.fleet.workloads import podstate
from muster.kube.selectors import Selector, SelectorError, from_labels, new_requirement
from muster.machinery.objects import Object

_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": ">", "Lt": "<"}
NAME_FIELD: Final = "metadata.name"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_LIFECYCLE_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""The node lifecycle controller removes them once a node is ready; our clusters have no such controller."""


def is_selected(spec: Mapping[str, Any], node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    if not from_labels(spec.get("nodeSelector") or {}).matches(labels):
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    if not affinity:
        return True
    fields = {NAME_FIELD: node["metadata"].get("name", "")}
    return any(_matches(term, labels, fields) for term in affinity.get("nodeSelectorTerms") or ())


def _matches(term: Mapping[str, Any], labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    parts = [(term.get(name) or (), values) for name, values in (("matchExpressions", labels), ("matchFields", fields))]
    try:
        return any(wanted for wanted, _ in parts) and all(_selector(wanted).matches(values) for wanted, values in parts)
    except (SelectorError, KeyError):
        return False


def _selector(wanted: Iterable[Mapping[str, Any]]) -> Selector:
    found = (new_requirement(each["key"], _OPERATORS[each["operator"]], each.get("values") or ()) for each in wanted)
    return Selector(tuple(found))


def tolerates(tolerations: Iterable[Mapping[str, Any]], node: Object, effects: Collection[str]) -> bool:
    """Whether the tolerations cover every taint of the node with one of the effects."""
    return untolerated(tolerations, node, effects) is None


def untolerated(tolerations: Iterable[Mapping[str, Any]], node: Object, effects: Collection[str]) -> Object | None:
    """The first taint of the node with one of the effects that is not tolerated."""
    known, ready = list(tolerations), podstate.is_ready(node)
    for taint in (node.get("spec") or {}).get("taints") or ():
        if taint.get("effect") not in effects or (ready and taint.get("key") in _LIFECYCLE_TAINTS):
            continue
        if not any(_covers(each, taint) for each in known):
            found: Object = taint
            return found
    return None


def _covers(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
