"""Conversion between served and stored versions: autoscaling/v1 ↔ v2, and events.k8s.io/v1 ↔ core/v1 Events.

autoscaling/v1 only has a cpu target; all other fields are in annotations, as upstream's conversion writes them.
"""

from __future__ import annotations

import json
from typing import Any, Final

from muster.apiserver.decode import DecodeError, typed
from muster.machinery.objects import Object

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = _PREFIX + "metrics"
_CURRENT: Final = _PREFIX + "current-metrics"
_CONDITIONS: Final = _PREFIX + "conditions"
_BEHAVIOR: Final = _PREFIX + "behavior"
_CARRIERS: Final = frozenset({_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR})
_DEFAULT_CPU: Final = 80


def _shaped(type_name: str, obj: Object) -> Object:
    """The object in the form of its type."""
    shaped: Object = typed.struct(f"io.k8s.api.{type_name}")(obj)
    return shaped


def _cpu_target(metric: Object) -> int | None:
    resource = metric.get("resource") or {}
    found = (resource.get("target") or {}).get("averageUtilization") if resource.get("name") == "cpu" else None
    return found if metric.get("type") == "Resource" else None


def _cpu_metric(percent: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


_NUMBERS: Final = (("Value", "value"), ("AverageValue", "averageValue"), ("AverageUtilization", "averageUtilization"))


def _old_metric(metric: Object, numbers: str) -> Object:
    """A v2 metric in v1 form; `numbers` is `target` in specs and `current` in statuses."""
    kind = metric.get("type", "")
    key = kind[:1].lower() + kind[1:]
    source = dict(metric.get(key) or {})
    amounts = source.pop(numbers, None) or {}
    named = source.pop("metric", None)
    old: Object = {}
    if key == "object":
        old["target"] = source.pop("describedObject", {})
    if named is not None:
        old["metricName"] = named.get("name", "")
        if named.get("selector") is not None:
            old["metricSelector" if key == "external" else "selector"] = named["selector"]
    old |= source
    for suffix, name in _NUMBERS:
        if amounts.get(name) is not None:
            old["averageValue" if key == "object" and name == "averageValue" else numbers + suffix] = amounts[name]
    if key == "object" and numbers + "Value" not in old:
        old[numbers + "Value"] = "0"
    return {"type": kind, key: old}


def _new_metric(metric: Object, numbers: str) -> Object:
    kind = metric.get("type", "")
    key = kind[:1].lower() + kind[1:]
    old = dict(metric.get(key) or {})
    new: Object = {}
    amounts: Object = {}
    for suffix, name in _NUMBERS:
        value = old.pop(numbers + suffix, None)
        if value is not None and not (key == "object" and name == "value" and value == "0"):
            amounts[name] = value
    if key == "object":
        if old.get("averageValue") is not None:
            amounts["averageValue"] = old.pop("averageValue")
        new["describedObject"] = old.pop("target", {})
    if "metricName" in old:
        new["metric"] = {"name": old.pop("metricName")}
        selector = old.pop("metricSelector", None) or old.pop("selector", None)
        if selector is not None:
            new["metric"]["selector"] = selector
    if numbers == "target":
        kinds = {"averageUtilization": "Utilization", "averageValue": "AverageValue", "value": "Value"}
        amounts = {"type": next((kinds[name] for name in kinds if name in amounts), "Value"), **amounts}
    return {"type": kind, key: {**new, **old, numbers: amounts}}


def _recased(value: Any, upper: bool) -> Any:
    """Change the case of the first letter of keys: those of the behavior annotation are capitalized."""
    if isinstance(value, dict):
        return {(key[:1].upper() if upper else key[:1].lower()) + key[1:]: _recased(item, upper) for key, item in value.items()}
    return [_recased(item, upper) for item in value] if isinstance(value, list) else value


_RULES: Final = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")


def _behavior_carrier(behavior: Object | None) -> Any:
    """The behavior annotation: the encoded internal struct with all fields in order, unset ones null."""
    if behavior is None:
        return None
    whole = {
        direction: {field: behavior[direction].get(field) for field in _RULES} if behavior.get(direction) is not None else None
        for direction in ("scaleUp", "scaleDown")
    }
    return _recased(whole, True)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _encoded(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _decoded(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def autoscaler_from_storage(stored: Object) -> Object:
    """autoscaling/v2 → v1."""
    spec, status = stored.get("spec") or {}, stored.get("status") or {}
    metrics = spec.get("metrics") or []
    meta = dict(stored["metadata"])
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key not in _CARRIERS}
    others = [_old_metric(metric, "target") for metric in metrics if _cpu_target(metric) is None]
    carried = {
        _METRICS: others,
        _CURRENT: [_old_metric(metric, "current") for metric in status.get("currentMetrics") or ()],
        _BEHAVIOR: _behavior_carrier(spec.get("behavior")),
        _CONDITIONS: status.get("conditions"),
    }
    annotations |= {key: _encoded(value) for key, value in carried.items() if value}
    _set_annotations(meta, annotations)
    new_spec = {key: spec[key] for key in ("scaleTargetRef", "minReplicas", "maxReplicas") if key in spec}
    target = next((percent for metric in metrics if (percent := _cpu_target(metric)) is not None), None)
    if target is not None:
        new_spec["targetCPUUtilizationPercentage"] = target
    new_status = {key: value for key, value in status.items() if key not in ("currentMetrics", "conditions")}
    for metric in status.get("currentMetrics") or ():
        resource = metric.get("resource") or {}
        percent = (resource.get("current") or {}).get("averageUtilization")
        if resource.get("name") == "cpu" and percent is not None:
            new_status["currentCPUUtilizationPercentage"] = percent
    converted = {**stored, "apiVersion": "autoscaling/v1", "metadata": meta, "spec": new_spec, "status": new_status}
    return _shaped("autoscaling.v1.HorizontalPodAutoscaler", converted)


def _set_annotations(meta: Object, annotations: Object) -> None:
    if annotations:
        meta["annotations"] = annotations
    else:
        meta.pop("annotations", None)


def autoscaler_to_storage(obj: Object) -> Object:
    """autoscaling/v1 → v2. Clients may write the annotations: their values are used only if they have the form of the types."""
    annotations = obj["metadata"].get("annotations") or {}
    try:
        return _to_storage(obj, annotations)
    except (DecodeError, typed.UnknownField, typed.WrongType, AttributeError, TypeError, RecursionError):
        return _to_storage(obj, {key: value for key, value in annotations.items() if key not in _CARRIERS})


def _to_storage(obj: Object, annotations: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    meta = dict(obj["metadata"])
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    status.pop("currentCPUUtilizationPercentage", None)
    metrics = [_new_metric(metric, "target") for metric in _decoded(annotations.get(_METRICS)) or ()]
    if percent is not None:
        metrics.append(_cpu_metric(percent))
    spec["metrics"] = metrics or [_cpu_metric(_DEFAULT_CPU)]
    behavior = _without_nulls(_recased(_decoded(annotations.get(_BEHAVIOR)), False))
    if behavior:
        spec["behavior"] = behavior
    current = _decoded(annotations.get(_CURRENT))
    status["currentMetrics"] = [_new_metric(metric, "current") for metric in current or ()]
    conditions = _decoded(annotations.get(_CONDITIONS))
    if conditions:
        status["conditions"] = conditions
    _set_annotations(meta, {key: value for key, value in annotations.items() if key not in _CARRIERS})
    converted = {**obj, "apiVersion": "autoscaling/v2", "metadata": meta, "spec": spec, "status": status}
    return _shaped("autoscaling.v2.HorizontalPodAutoscaler", converted)


_EVENT_FIELDS: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_OLD_EVENT_FIELDS: Final = {old: new for new, old in _EVENT_FIELDS.items()}


def event_to_storage(obj: Object) -> Object:
    """events.k8s.io/v1 → core/v1."""
    stored = {_EVENT_FIELDS.get(key, key): value for key, value in obj.items()}
    return _shaped("core.v1.Event", {**stored, "apiVersion": "v1"})


def event_from_storage(stored: Object) -> Object:
    """core/v1 → events.k8s.io/v1."""
    obj = {_OLD_EVENT_FIELDS.get(key, key): value for key, value in stored.items()}
    return _shaped("events.v1.Event", {**obj, "apiVersion": "events.k8s.io/v1"})
