"""Cells of autoscaling, admission, flow control and API extension kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.apiserver.builtin.cells.formats import NONE, UNKNOWN, UNSET, Cell, at, count, selector_text, spec, status
from muster.machinery.objects import Object


def _metrics(hpa: Object) -> str:
    if "metrics" not in spec(hpa) and "targetCPUUtilizationPercentage" in spec(hpa):
        current = status(hpa).get("currentCPUUtilizationPercentage")
        return f"cpu: {UNKNOWN if current is None else f'{current}%'}/{spec(hpa)['targetCPUUtilizationPercentage']}%"
    metrics = spec(hpa).get("metrics") or []
    if not metrics:
        return NONE
    statuses = status(hpa).get("currentMetrics") or []
    texts = [_metric(metric, statuses[i] if i < len(statuses) else {}) for i, metric in enumerate(metrics)]
    return ", ".join(texts[:2]) + (f" + {len(texts) - 2} more..." if len(texts) > 2 else "")


_SOURCES = {
    "External": ("external", True, False),
    "Pods": ("pods", False, False),
    "Object": ("object", True, False),
    "Resource": ("resource", False, True),
    "ContainerResource": ("containerResource", False, True),
}


def _metric(metric: Object, seen: Object) -> str:
    source = _SOURCES.get(metric.get("type", ""))
    if source is None:
        return "<unknown type>"
    key, marks_average, utilization = source
    target: Object = (metric.get(key) or {}).get("target") or {}
    current: Any = (seen.get(key) or {}).get("current")
    if "averageValue" in target or key == "pods":
        text = (
            f"{(current or {}).get('averageValue', UNKNOWN)}/{target.get('averageValue', '0')}{' (avg)' if marks_average else ''}"
        )
    elif utilization:
        now, target_value = (current or {}).get("averageUtilization"), target.get("averageUtilization")
        text = f"{UNKNOWN if now is None else f'{now}%'}/{'<auto>' if target_value is None else f'{target_value}%'}"
    else:
        text = f"{UNKNOWN if current is None else current.get('value', '0')}/{target.get('value', '0')}"
    return f"{metric[key].get('name', '')}: {text}" if utilization else text


def _param_kind(policy: Object) -> str:
    kind = spec(policy).get("paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param_ref(binding: Object) -> str:
    reference = spec(binding).get("paramRef")
    if reference is None:
        return UNSET
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return selector_text(reference.get("selector"), nothing=UNSET)


def _service(api: Object) -> str:
    service = spec(api).get("service")
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available(api: Object) -> str:
    condition = next((c for c in status(api).get("conditions") or () if c.get("type") == "Available"), None)
    if condition is None:
        return "Unknown"
    state = str(condition.get("status", ""))
    return state if state == "True" or not condition.get("reason") else f"{state} ({condition['reason']})"


def _dangling(schema: Object) -> str:
    return next((c.get("status", "") for c in status(schema).get("conditions") or () if c.get("type") == "Dangling"), "?")


def _limited(*keys: str) -> Cell:
    return at("spec", "limited", *keys, absent=NONE)


CELLS: Mapping[str, Mapping[str, Cell]] = {
    "HorizontalPodAutoscaler": {
        "Reference": lambda hpa: "{kind}/{name}".format(**{"kind": "", "name": "", **(spec(hpa).get("scaleTargetRef") or {})}),
        "Targets": _metrics,
        "MinPods": lambda hpa: str(at("spec", "minReplicas", absent=UNSET)(hpa)),
        "MaxPods": at("spec", "maxReplicas", absent=0),
        "Replicas": at("status", "currentReplicas", absent=0),
    },
    "MutatingWebhookConfiguration": {"Webhooks": count("webhooks")},
    "ValidatingWebhookConfiguration": {"Webhooks": count("webhooks")},
    "ValidatingAdmissionPolicy": {"Validations": count("spec", "validations"), "ParamKind": _param_kind},
    "ValidatingAdmissionPolicyBinding": {"PolicyName": at("spec", "policyName"), "ParamRef": _param_ref},
    "APIService": {"Service": _service, "Available": _available},
    "FlowSchema": {
        "PriorityLevel": at("spec", "priorityLevelConfiguration", "name"),
        "MatchingPrecedence": at("spec", "matchingPrecedence", absent=0),
        "DistinguisherMethod": at("spec", "distinguisherMethod", "type", absent=NONE),
        "MissingPL": _dangling,
    },
    "PriorityLevelConfiguration": {
        "Type": at("spec", "type"),
        "NominalConcurrencyShares": _limited("nominalConcurrencyShares"),
        "Queues": _limited("limitResponse", "queuing", "queues"),
        "HandSize": _limited("limitResponse", "queuing", "handSize"),
        "QueueLengthLimit": _limited("limitResponse", "queuing", "queueLengthLimit"),
    },
}
