"""ConfigMap, Secret, Namespace, ServiceAccount, quotas, Events, Leases and Nodes."""

from __future__ import annotations

import base64
import json
import re
from typing import Final

from muster.apiserver.builtin.kinds.checks import (
    NOT_NEGATIVE,
    Errors,
    immutable,
    named_like,
    not_negative,
    one_of,
    qualified,
    require,
    spec_of,
)
from muster.apiserver.registry.strategy import HookContext
from muster.kube import names
from muster.kube.fielderrors import duplicate, forbidden, invalid, required, too_long
from muster.machinery.golang.quantities import parse_quantity
from muster.machinery.objects import Object

_SIZE_LIMIT: Final = 1024 * 1024
_FROZEN: Final = "field is immutable when `immutable` is set"
_TOKEN_ANNOTATION: Final = "kubernetes.io/service-account.name"
_REQUIRED_KEYS: Final = {
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_DOCKER_KEYS: Final = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


def _frozen(new: Object, old: Object, fields: tuple[str, ...]) -> Errors:
    """Errors of an update of an object that is immutable."""
    if not old.get("immutable"):
        return []
    found = [] if new.get("immutable") else [forbidden("immutable", _FROZEN)]
    return found + [forbidden(field, _FROZEN) for field in fields if (new.get(field) or {}) != (old.get(field) or {})]


_plain_key = re.compile(r"(?!\.\.)[-._a-zA-Z0-9]{2,253}|[-_a-zA-Z0-9]", re.ASCII).fullmatch


def _config_keys(data: Object | None, path: str) -> Errors:
    return [error for key in data or {} if not _plain_key(key) for error in named_like(names.config_key, key, f"{path}[{key}]")]


def _decoded_size(encoded: str | None) -> int:
    return 0 if not encoded else len(encoded) // 4 * 3 - encoded.count("=", -2)


_QUOTA_RESOURCES: Final = frozenset(
    {"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "persistentvolumeclaims", "configmaps"}
    | {"services.nodeports", "services.loadbalancers", "requests.storage"}
    | {f"{kind}{name}" for kind in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")}
)


def validate_config_map(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    errors: Errors = []
    for key in data:
        if not _plain_key(key):
            errors += named_like(names.config_key, key, f"data[{key}]")
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    errors += _config_keys(binary, "binaryData")
    size = sum(map(len, data.values())) + sum(map(_decoded_size, binary.values()))
    if size * 4 > _SIZE_LIMIT:
        size = sum(len(value.encode()) for value in data.values()) + sum(map(_decoded_size, binary.values()))
    if size > _SIZE_LIMIT:
        errors.append(too_long("[]", _SIZE_LIMIT))
    return errors if old is None else _frozen(obj, old, ("data", "binaryData")) + errors


def validate_secret(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    data: Object = obj.get("data") or {}
    errors = _config_keys(data, "data")
    if sum(_decoded_size(value) for value in data.values()) > _SIZE_LIMIT:
        errors.append(too_long("data", _SIZE_LIMIT))
    errors += _secret_type(obj, data)
    if old is None:
        return errors
    return immutable(obj.get("type", ""), old.get("type", ""), "type") + _frozen(obj, old, ("data",)) + errors


def _secret_type(obj: Object, data: Object) -> Errors:
    kind = obj.get("type", "")
    if kind == "kubernetes.io/service-account-token":
        annotations = obj["metadata"].get("annotations") or {}
        return [] if annotations.get(_TOKEN_ANNOTATION) else [required(f"metadata.annotations[{_TOKEN_ANNOTATION}]")]
    if kind == "kubernetes.io/basic-auth":
        if "username" in data or "password" in data:
            return []
        return [required("data[username]"), required("data[password]")]
    if kind in _DOCKER_KEYS:
        return _docker_config(data, _DOCKER_KEYS[kind])
    return [required(f"data[{key}]") for key in _REQUIRED_KEYS.get(kind, ()) if key not in data]


def _docker_config(data: Object, key: str) -> Errors:
    if key not in data:
        return [required(f"data[{key}]")]
    try:
        parsed = json.loads(base64.b64decode(data[key] or ""))
    except ValueError as error:
        text = base64.b64decode(data[key] or "").decode("utf-8", "replace")
        position = getattr(error, "pos", 0)
        problem = (
            f"invalid character '{text[position]}' looking for beginning of value"
            if position < len(text)
            else "unexpected end of JSON input"
        )
        return [invalid(f"data[{key}]", "<secret contents redacted>", problem)]
    if not isinstance(parsed, dict):
        return [invalid(f"data[{key}]", "<secret contents redacted>", "json: cannot unmarshal the value into a map")]
    return []


def prepare_namespace(ctx: HookContext, obj: Object, old: Object | None) -> None:
    """Every namespace has the `kubernetes` finalizer until the namespace controller removes it through /finalize."""
    spec = obj.get("spec")
    if spec is None:
        spec = obj["spec"] = {}
    if old is None:
        obj["status"] = {"phase": "Active"}
        finalizers = spec.get("finalizers") or []
        if "kubernetes" not in finalizers:
            spec["finalizers"] = [*finalizers, "kubernetes"]
    elif ctx.subresource == "finalize":
        obj["status"] = old.get("status") or {}
    else:
        obj["spec"] = old.get("spec") or {}


def delete_namespace(ctx: HookContext, marked: Object) -> None:
    marked.setdefault("status", {})["phase"] = "Terminating"


def validate_namespace(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    errors: Errors = []
    path = "spec.finalizers"
    for name in spec_of(obj).get("finalizers") or ():
        errors += qualified(name, path)
        if not errors and "/" not in name and name not in ("kubernetes", "orphan", "foregroundDeletion"):
            errors.append(invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))
    if ctx.subresource == "status" and old is not None:
        phase = (obj.get("status") or {}).get("phase", "")
        deleting = bool(obj["metadata"].get("deletionTimestamp"))
        if deleting and phase != "Terminating":
            errors.append(invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"))
        elif not deleting and phase != "Active":
            errors.append(invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty"))
    return errors


def prepare_service_account(ctx: HookContext, obj: Object, old: Object | None) -> None:
    """Drop all fields of secret references but the name."""
    secrets = obj.get("secrets")
    if secrets:
        obj["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in secrets]


def validate_limit_range(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, limit in enumerate(spec_of(obj).get("limits") or ()):
        path = f"spec.limits[{index}]"
        kind = limit.get("type", "")
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        errors += qualified(kind, f"{path}.type")
        if kind == "Pod":
            if limit.get("default"):
                errors.append(forbidden(f"{path}.default", "may not be specified when `type` is 'Pod'"))
            if limit.get("defaultRequest"):
                errors.append(forbidden(f"{path}.defaultRequest", "may not be specified when `type` is 'Pod'"))
        if kind == "PersistentVolumeClaim" and not any("storage" in (limit.get(bound) or {}) for bound in ("min", "max")):
            reason = "either minimum or maximum storage value is required, but neither was provided"
            errors.append(required(f"{path}.limits", reason))
        errors += _limits_in_order(limit, kind, path)
    return errors


_ORDER: Final = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value {} is greater than max value {}"),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)
"""(smaller field, greater field, field of the error, quoted field, message)"""


def _limits_in_order(limit: Object, kind: str, path: str) -> Errors:
    bounds = {bound: limit.get(bound) or {} for bound in ("min", "max", "default", "defaultRequest")}
    if kind == "Pod":
        bounds |= {"default": {}, "defaultRequest": {}}
    errors: Errors = []
    for name in sorted({name for amounts in bounds.values() for name in amounts}):
        for lower, upper, field, quoted, text in _ORDER:
            low, high = bounds[lower].get(name), bounds[upper].get(name)
            if low is not None and high is not None and parse_quantity(str(low)) > parse_quantity(str(high)):
                errors.append(invalid(f"{path}.{field}[{name}]", bounds[quoted][name], text.format(low, high)))
    return errors


def validate_resource_quota(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    errors: Errors = []
    for name, amount in (spec_of(obj).get("hard") or {}).items():
        path = f"spec.hard[{name}]"
        errors += qualified(name, path)
        if "/" not in name and name not in _QUOTA_RESOURCES and not name.startswith(("hugepages-", "requests.hugepages-")):
            errors.append(invalid(path, name, "must be a standard resource for quota"))
        if str(amount).startswith("-"):
            errors.append(invalid(path, amount, NOT_NEGATIVE))
    scopes = list(spec_of(obj).get("scopes") or ())
    allowed = ["BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating"]
    allowed.append("VolumeAttributesClass")
    errors += [invalid("spec.scopes", scopes, "unsupported scope") for scope in scopes if scope not in allowed]
    if old is not None and ctx.subresource == "" and list(spec_of(old).get("scopes") or ()) != scopes:
        errors += [invalid("spec.scopes", scopes, "field is immutable")]
    return errors


def validate_event(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    """Validate both Event kinds. The namespace is that of the involved object, `default` for cluster-scoped ones; events with an
    eventTime need reporting controller, action and reason, as those of events.k8s.io always do."""
    newer = obj.get("apiVersion", "").startswith("events")
    about, reporter = ("regarding", "reportingController") if newer else ("involvedObject", "reportingComponent")
    namespace, event_namespace = (obj.get(about) or {}).get("namespace", ""), obj["metadata"].get("namespace", "")
    mismatch = [invalid("involvedObject.namespace", namespace, "does not match event.namespace")]
    if not obj.get("eventTime"):
        allowed_namespaces = {event_namespace} if event_namespace != "default" else {"", "default"}
        errors = [] if namespace in allowed_namespaces else mismatch
    else:
        errors = mismatch if not namespace and event_namespace not in ("default", "kube-system") else []
        errors += require(obj, reporter, "") + qualified(obj.get(reporter, ""), reporter)
        for field, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128)):
            errors += require(obj, field, "")
            if len((obj.get(field) or "").encode()) > limit:
                errors.append(invalid(field, "", f"can have at most {limit} characters"))
        if len((obj.get("note" if newer else "message") or "").encode()) > 1024:
            errors.append(invalid("message", "", "can have at most 1024 characters"))
    return errors + (_newer_event(obj) if newer and old is None else [])


def _newer_event(obj: Object) -> Errors:
    errors = require(obj, "eventTime", "")
    if obj.get("type") not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {obj.get('type', '')}"))
    for field, shown in (
        ("FirstTimestamp", "firstTimestamp"),
        ("LastTimestamp", "lastTimestamp"),
        ("Count", "count"),
        ("Source", "source"),
    ):
        if obj.get(f"deprecated{field}"):
            errors.append(invalid(shown, "", "needs to be unset"))
    return errors


def prepare_lease(ctx: HookContext, obj: Object, old: Object | None) -> None:
    """Drop the fields of coordinated leader election, which is not supported."""
    for field in ("strategy", "preferredHolder"):
        spec_of(obj).pop(field, None)


def validate_lease(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    spec = spec_of(obj)
    errors: Errors = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    errors += not_negative(spec.get("leaseTransitions"), "spec.leaseTransitions")
    return errors


def validate_node(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    errors: Errors = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec_of(obj).get("taints") or ()):
        path = f"metadata.taints[{index}]"
        errors += qualified(taint.get("key", ""), f"{path}.key") + named_like(
            names.label_value, taint.get("value", ""), f"{path}.value"
        )
        errors += one_of(taint.get("effect"), ["NoSchedule", "PreferNoSchedule", "NoExecute"], f"{path}.effect")
        identity = (taint.get("key", ""), taint.get("effect", ""))
        if identity in seen:
            errors.append(duplicate(f"metadata.taints[{index}]", taint))
        seen.add(identity)
    return errors
