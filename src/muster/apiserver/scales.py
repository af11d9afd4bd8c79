"""Conversion between the replicas of a workload and an `autoscaling/v1 Scale`."""

from __future__ import annotations

from typing import Any

from muster.apiserver.registry.resource import Scale
from muster.kube.selectors import SelectorError, from_label_selector_object, from_labels
from muster.machinery.objects import Object


def scale_of(scale: Scale, parent: Object) -> Object:
    meta = parent["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = _get(parent, scale.replicas) or 0
    status: Object = {"replicas": _get(parent, scale.status_replicas) or 0}
    selector = _selector_text(_get(parent, scale.selector)) if scale.selector else ""
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector_text(selector: Any) -> str:
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    try:
        if "matchLabels" in selector or "matchExpressions" in selector:
            return str(from_label_selector_object(selector))
        return str(from_labels(selector))
    except SelectorError:
        return ""


def _get(obj: Object, path: str) -> Any:
    value: Any = obj
    for step in path.strip(".").split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def set_replicas(scale: Scale, obj: Object, value: int) -> None:
    *parents, last = scale.replicas.strip(".").split(".")
    for step in parents:
        obj = obj.setdefault(step, {})
    obj[last] = value
