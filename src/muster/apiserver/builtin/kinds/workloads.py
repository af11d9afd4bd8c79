"""Workload controllers: selectors must match the template and are immutable; update strategies are validated."""

from __future__ import annotations

from typing import Any, Final

from muster.apiserver.builtin.defaults import TEMPLATE_GENERATION
from muster.apiserver.builtin.kinds.checks import (
    Errors,
    amount_of,
    immutable,
    int_or_percent,
    is_empty_selector,
    label_selector,
    named_like,
    none_negative,
    not_negative,
    one_of,
    selects,
    spec_of,
    struct_error,
)
from muster.apiserver.builtin.kinds.pods import pod_template
from muster.apiserver.registry.strategy import HookContext
from muster.kube import names
from muster.kube.fielderrors import INVALID, NOT_SUPPORTED, FieldError, forbidden, invalid, not_supported, required
from muster.machinery.objects import Object

_MISMATCH: Final = "`selector` does not match template `labels`"


def _selector_and_template(spec: Object, kind: str, extra_volumes: list[str] | None = None) -> Errors:
    """Validate selector and template. A missing selector does not match the template; an empty one is invalid itself."""
    errors: Errors = []
    selector, template = spec.get("selector"), spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    if selector is None and kind != "daemonset":
        errors.append(required("spec.selector"))
    elif selector is not None:
        errors += label_selector(selector, "spec.selector")
    empty = [] if selector is None or not is_empty_selector(selector) else [_empty_selector(selector, kind)]
    mismatch: Errors = []
    if selector is None or selects(selector, labels) is False:
        mismatch.append(invalid("spec.template.metadata.labels", labels, _MISMATCH))
    if kind == "daemonset":
        return errors + mismatch + empty + pod_template(template, "spec.template")
    errors += empty
    if selector is not None and selects(selector, labels) is None:
        return [*errors, invalid("spec.selector", selector, "invalid label selector" if kind == "deployment" else "")]
    return errors + mismatch + pod_template(template, "spec.template", extra_volumes or ())


def _empty_selector(selector: Object, kind: str) -> FieldError:
    return invalid("spec.selector", selector, f"empty selector is invalid for {kind}")


def _always_running(spec: Object, owner: str) -> Errors:
    pod: Object = (spec.get("template") or {}).get("spec") or {}
    errors: Errors = []
    if pod.get("restartPolicy") != "Always":
        errors.append(not_supported("spec.template.spec.restartPolicy", pod.get("restartPolicy", ""), ["Always"]))
    if pod.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {owner} is not Supported"
        errors.append(forbidden("spec.template.spec.activeDeadlineSeconds", text))
    return errors


def validate_deployment(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    errors = not_negative(spec.get("replicas"), "spec.replicas")
    errors += _selector_and_template(spec, "deployment") + _always_running(spec, "ReplicaSet")
    errors += _deployment_strategy(spec.get("strategy") or {})
    errors += none_negative(spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), "spec")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors if old is None else errors + immutable(spec.get("selector"), spec_of(old).get("selector"), "spec.selector")


def _deployment_strategy(strategy: Object) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [forbidden("spec.strategy.rollingUpdate", text)]
    if kind != "RollingUpdate":
        return [_unsupported_strategy("spec.strategy", strategy, ["Recreate", "RollingUpdate"])]
    return _rolling(rolling or {}, "spec.strategy.rollingUpdate", "may not be 0 when `maxSurge` is 0")


def _unsupported_strategy(path: str, strategy: Object, supported: list[str]) -> FieldError:
    shown = {"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")}
    return struct_error(NOT_SUPPORTED, path, shown, "supported values: " + ", ".join(f'"{kind}"' for kind in supported))


def _rolling(rolling: Object, path: str, both_zero: str) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = int_or_percent(unavailable, f"{path}.maxUnavailable") + int_or_percent(surge, f"{path}.maxSurge")
    if amount_of(unavailable) == 0 and amount_of(surge) == 0:
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, both_zero))
    if isinstance(unavailable, str) and amount_of(unavailable) > 100:
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, "must not be greater than 100%"))
    return errors


def validate_replica_set(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    errors = none_negative(spec, ("replicas", "minReadySeconds"), "spec")
    errors += _selector_and_template(spec, "deployment") + _always_running(spec, "ReplicaSet")
    return errors if old is None else errors + immutable(spec.get("selector"), spec_of(old).get("selector"), "spec.selector")


def validate_replication_controller(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    errors = none_negative(spec, ("minReadySeconds", "replicas"), "spec")
    selector, template = spec.get("selector") or {}, spec.get("template")
    if not selector:
        errors.append(required("spec.selector"))
    if template is None:
        return [*errors, required("spec.template")]
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector and any(labels.get(key) != value for key, value in selector.items()):
        errors.append(invalid("spec.template.metadata.labels", labels or None, _MISMATCH))
    return errors + pod_template(template, "spec.template") + _always_running(spec, "ReplicationController")


def prepare_daemon_set(ctx: HookContext, obj: Object, old: Object | None) -> None:
    """Maintain the deprecated annotation with the generation of the template."""
    key = TEMPLATE_GENERATION
    annotations = obj["metadata"].get("annotations")
    if annotations is None:
        annotations = obj["metadata"]["annotations"] = {}
    before = ((old or {}).get("metadata", {}).get("annotations") or {}).get(key, "")
    if old is None:
        annotations[key] = "1"
    elif before.isdigit():
        changed = spec_of(old).get("template") != spec_of(obj).get("template")
        annotations[key] = str(int(before) + changed)


def validate_daemon_set(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    errors = _selector_and_template(spec, "daemonset") + _always_running(spec, "DaemonSet")
    errors += none_negative(spec, ("minReadySeconds", "revisionHistoryLimit"), "spec")
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        unavailable, surge = amount_of(rolling.get("maxUnavailable", 0)), amount_of(rolling.get("maxSurge", 0))
        path = "spec.updateStrategy.rollingUpdate"
        errors += int_or_percent(rolling.get("maxUnavailable", 0), f"{path}.maxUnavailable", True)
        errors += int_or_percent(rolling.get("maxSurge", 0), f"{path}.maxSurge", True)
        if unavailable and surge:
            text = "may not be set when maxUnavailable is non-zero"
            errors.append(invalid(f"{path}.maxSurge", rolling.get("maxSurge"), text))
        elif not unavailable and not surge:
            errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    elif strategy.get("type") != "OnDelete":
        errors.append(_unsupported_strategy("spec.updateStrategy", strategy, ["RollingUpdate", "OnDelete"]))
    return errors if old is None else errors + immutable(spec.get("selector"), spec_of(old).get("selector"), "spec.selector")


_STATEFUL_MUTABLE: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)  # fmt: skip


def validate_stateful_set(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    errors: Errors = []
    policy = spec.get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        errors.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        shown = {"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")}
        errors.append(struct_error(INVALID, "spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'"))
    elif strategy["type"] == "OnDelete" and strategy.get("rollingUpdate") is not None:
        text = "only allowed for updateStrategy 'RollingUpdate'"
        errors.append(invalid("spec.updateStrategy.rollingUpdate", strategy["rollingUpdate"], text))
    else:
        partition = (strategy.get("rollingUpdate") or {}).get("partition")
        errors += not_negative(partition, "spec.updateStrategy.rollingUpdate.partition")
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        errors += one_of(retention.get(field), ["Retain", "Delete"], f"spec.persistentVolumeClaimRetentionPolicy.{field}", True)
    errors += none_negative(spec, ("replicas", "minReadySeconds"), "spec")
    if old is None and spec.get("serviceName"):
        errors += named_like(names.dns1123_label, spec["serviceName"], "spec.serviceName")
    claims = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    errors += _selector_and_template(spec, "statefulset", claims) + _always_running(spec, "StatefulSet")
    if old is not None and _without(spec, _STATEFUL_MUTABLE) != _without(spec_of(old), _STATEFUL_MUTABLE):
        text = (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
            "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        )
        errors.append(forbidden("spec", text))
    return errors


def _without(spec: Object, fields: tuple[str, ...]) -> Object:
    return {key: value for key, value in spec.items() if key not in fields}


def validate_controller_revision(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    errors = not_negative(obj.get("revision"), "revision")
    if obj.get("data") is None:
        errors.append(required("data", "data is mandatory"))
    return errors if old is None else errors + immutable(obj.get("data"), old.get("data"), "data")


_BUDGET_FIELDS: Final = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")


def validate_disruption_budget(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    errors: Errors = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        shown = {name[:1].upper() + name[1:]: spec.get(name) for name in _BUDGET_FIELDS}
        errors.append(struct_error(INVALID, "spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for field in ("minAvailable", "maxUnavailable"):
        if spec.get(field) is not None:
            errors += int_or_percent(spec[field], f"spec.{field}", at_most_100=True)
    errors += label_selector(spec.get("selector"), "spec.selector")
    policies = ["AlwaysAllow", "IfHealthyBudget"]
    return errors + one_of(spec.get("unhealthyPodEvictionPolicy"), policies, "spec.unhealthyPodEvictionPolicy", optional=True)


def validate_autoscaler(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    low: Any = spec.get("minReplicas")
    high: int = spec.get("maxReplicas", 0)
    errors: Errors = []
    if low is not None and low < 1:
        errors.append(invalid("spec.minReplicas", low, "must be greater than or equal to 1"))
    if high < 1:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than 0"))
    if low is not None and high < low:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`"))
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        if not target.get(field):
            errors.append(required(f"spec.scaleTargetRef.{field}"))
        else:
            errors += named_like(names.path_segment, target[field], f"spec.scaleTargetRef.{field}")
    version = target.get("apiVersion", "")
    if "/" not in version:
        errors.append(invalid("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group"))
    if low == 0 and not any(metric.get("type") in ("Object", "External") for metric in spec.get("metrics") or ()):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", text))
    return errors
