"""Pods and pod templates: validation of specs, mutable fields, and fields that the server sets on creation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson

from muster.apiserver.builtin.kinds.checks import (
    Errors,
    named_like,
    none_negative,
    one_of,
    port_name_problems,
    port_number,
    require,
    spec_of,
)
from muster.apiserver.registry.strategy import HookContext, WorkerStep
from muster.kube import names
from muster.kube.fielderrors import NOT_FOUND, duplicate, field_error, forbidden, invalid, not_supported, required
from muster.machinery.golang.quantities import QuantityError, parse_quantity
from muster.machinery.objects import Object

PROTOCOLS: Final = ["SCTP", "TCP", "UDP"]
_PULL: Final = ["Always", "IfNotPresent", "Never"]
_MESSAGE: Final = ["File", "FallbackToLogsOnError"]
_DNS: Final = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]
_PROBE_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_NUMBERS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_UPDATABLE: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)


def _ports(ports: Iterable[Object], path: str, seen: set[str]) -> Errors:
    errors: Errors = []
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        name = port.get("name")
        if name:
            problems = port_name_problems(name)
            errors += [invalid(f"{here}.name", name, text) for text in problems]
            if not problems and name in seen:
                errors.append(duplicate(f"{here}.name", name))
            seen.add(name)
        if not port.get("containerPort"):
            errors.append(required(f"{here}.containerPort"))
        else:
            errors += port_number(port["containerPort"], f"{here}.containerPort")
        if port.get("hostPort"):
            errors += port_number(port["hostPort"], f"{here}.hostPort")
        errors += one_of(port.get("protocol"), PROTOCOLS, f"{here}.protocol")
    return errors


def _environment(variables: Iterable[Object], path: str) -> Errors:
    errors: Errors = []
    for index, variable in enumerate(variables):
        here = f"{path}[{index}]"
        if not variable.get("name"):
            errors.append(required(f"{here}.name"))
        source = variable.get("valueFrom")
        if source is not None:
            if variable.get("value"):
                errors.append(invalid(f"{here}.valueFrom", "", "may not be specified when `value` is not empty"))
            elif not any(value is not None for value in source.values()):
                text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
                errors.append(invalid(f"{here}.valueFrom", "", text))
    return errors


def _mounts(mounts: Iterable[Object], volumes: set[str], path: str) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        here = f"{path}[{index}]"
        name, target = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{here}.name"))
        if name not in volumes:
            errors.append(field_error(NOT_FOUND, f"{here}.name", name))
        if not target:
            errors.append(required(f"{here}.mountPath"))
        if target in seen:
            errors.append(invalid(f"{here}.mountPath", target, "must be unique"))
        seen.add(target)
    return errors


def _quantity(text: Any) -> Any:
    try:
        return parse_quantity(str(text))
    except QuantityError:
        return None


def _resources(resources: Object, path: str) -> Errors:
    errors: Errors = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if str(amount).startswith("-"):
                errors.append(invalid(f"{path}.{field}[{name}]", amount, "must be greater than or equal to 0"))
    for name, amount in requests.items():
        request, limit = _quantity(amount), _quantity(limits.get(name))
        if name in limits and request is not None and limit is not None and request > limit:
            text = f"must be less than or equal to {name} limit of {limits[name]}"
            errors.append(invalid(f"{path}.requests", amount, text))
    return errors


def _handler(handler: Object, path: str) -> Errors:
    given = [kind for kind in _PROBE_HANDLERS if handler.get(kind) is not None]
    if not given:
        return [required(path, "must specify a handler type")]
    errors: Errors = []
    if given[0] == "exec" and not handler["exec"].get("command"):
        errors.append(required(f"{path}.exec.command"))
    return errors + [forbidden(f"{path}.{kind}", "may not specify more than 1 handler type") for kind in given[1:]]


def _container(container: Object, volumes: set[str], path: str) -> Errors:
    errors: Errors = []
    name = container.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        errors += named_like(names.dns1123_label, name, f"{path}.name")
    image = container.get("image", "")
    if not image:
        errors.append(required(f"{path}.image"))
    elif image != image.strip():
        errors.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    for handler in ("postStart", "preStop"):
        hook = (container.get("lifecycle") or {}).get(handler)
        if hook is not None:
            errors += _handler(hook, f"{path}.lifecycle.{handler}")
    for name_of_probe in _PROBES:
        probe = container.get(name_of_probe)
        if probe is not None:
            errors += _handler(probe, f"{path}.{name_of_probe}") + none_negative(probe, _PROBE_NUMBERS, f"{path}.{name_of_probe}")
    errors += one_of(container.get("terminationMessagePolicy"), _MESSAGE, f"{path}.terminationMessagePolicy")
    errors += _ports(container.get("ports") or (), f"{path}.ports", set())
    errors += _environment(container.get("env") or (), f"{path}.env")
    errors += _mounts(container.get("volumeMounts") or (), volumes, f"{path}.volumeMounts")
    errors += one_of(container.get("imagePullPolicy"), _PULL, f"{path}.imagePullPolicy")
    return errors + _resources(container.get("resources") or {}, f"{path}.resources")


_VOLUME_SOURCES = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
"""Volume sources in the order of validation: all but the first one found are errors."""


def _volumes(volumes: Iterable[Object], path: str) -> tuple[set[str], Errors]:
    seen: set[str] = set()
    errors: Errors = []
    for index, volume in enumerate(volumes):
        here = f"{path}[{index}]"
        name = volume.get("name", "")
        sources = [key for key in _VOLUME_SOURCES if volume.get(key) is not None]
        errors += [forbidden(f"{here}.{key}", "may not specify more than 1 volume type") for key in sources[1:]]
        errors += _volume_source(volume, here)
        if not name:
            errors.append(required(f"{here}.name"))
        else:
            errors += named_like(names.dns1123_label, name, f"{here}.name")
        if name in seen:
            errors.append(duplicate(f"{here}.name", name))
        seen.add(name)
    return seen, errors


_SOURCE_NEEDS: Final = {
    "secret": "secretName",
    "configMap": "name",
    "hostPath": "path",
    "persistentVolumeClaim": "claimName",
    "nfs": "server",
    "csi": "driver",
}


def _volume_source(volume: Object, path: str) -> Errors:
    return [
        required(f"{path}.{source}.{field}")
        for source, field in _SOURCE_NEEDS.items()
        if volume.get(source) is not None and not volume[source].get(field)
    ]


def pod_spec(spec: Object, path: str, extra_volumes: Iterable[str] = ()) -> Errors:
    """Validate the spec of a pod or template; `extra_volumes` are added later (claims of a StatefulSet)."""
    volumes, errors = _volumes(spec.get("volumes") or (), f"{path}.volumes")
    volumes.update(extra_volumes)
    containers = spec.get("containers") or []
    if not containers:
        errors.append(required(f"{path}.containers"))
    seen: set[str] = set()
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            here = f"{path}.{group}[{index}]"
            errors += _container(container, volumes, here)
            name = container.get("name", "")
            if name and name in seen:
                errors.append(duplicate(f"{here}.name", name))
            seen.add(name)
            if group == "containers" and container.get("restartPolicy") and path == "spec":
                errors += one_of(container["restartPolicy"], ["Always", "OnFailure", "Never"], f"{here}.restartPolicy")
    errors += one_of(spec.get("restartPolicy"), ["Always", "OnFailure", "Never"], f"{path}.restartPolicy")
    errors += one_of(spec.get("dnsPolicy"), _DNS, f"{path}.dnsPolicy")
    for field in ("serviceAccountName", "nodeName", "priorityClassName"):
        if spec.get(field):
            errors += named_like(names.dns1123_subdomain, spec[field], f"{path}.{field}")
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors += named_like(names.dns1123_label, spec[field], f"{path}.{field}")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive"))
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        errors += _toleration(toleration, f"{path}.tolerations[{index}]")
    return errors


def _toleration(toleration: Object, path: str) -> Errors:
    errors: Errors = []
    operator = toleration.get("operator") or "Equal"
    if toleration.get("key"):
        errors += named_like(names.qualified_name, toleration["key"], f"{path}.key")
    elif operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(f"{path}.operator", operator, text))
    if operator not in ("Equal", "Exists", "Lt", "Gt"):
        errors.append(not_supported(f"{path}.operator", operator, ["Equal", "Exists"]))
    if operator == "Exists" and toleration.get("value"):
        errors.append(invalid(f"{path}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'"))
    return errors + one_of(
        toleration.get("effect"), ["NoSchedule", "PreferNoSchedule", "NoExecute"], f"{path}.effect", optional=True
    )


def pod_template(template: Object | None, path: str, extra_volumes: Iterable[str] = ()) -> Errors:
    template = template or {}
    meta = template.get("metadata") or {}
    errors = names.check_labels(meta.get("labels") or {}, f"{path}.labels")
    errors += names.check_annotations(meta.get("annotations") or {}, f"{path}.annotations")
    errors += pod_spec(template.get("spec") or {}, f"{path}.spec", extra_volumes)
    if (template.get("spec") or {}).get("ephemeralContainers"):
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return errors


def validate_pod_template(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    return pod_template(obj.get("template"), "template")


def quality_of_service(spec: Object) -> str:
    """The QoS class. Guaranteed: all containers have limits for cpu and memory and equal requests; BestEffort: none has any."""
    has_requests = False
    guaranteed = True
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            resources = container.get("resources")
            if not resources:
                guaranteed = False
                continue
            limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
            for name in ("cpu", "memory"):
                limited = _positive(limits.get(name))
                has_requests = has_requests or limited or _positive(requests.get(name))
                if not limited or (name in requests and _quantity(requests[name]) != _quantity(limits[name])):
                    guaranteed = False
    return "BestEffort" if not has_requests else "Guaranteed" if guaranteed else "Burstable"


def _positive(amount: Any) -> bool:
    parsed = _quantity(amount) if amount is not None else None
    return parsed is not None and parsed.nanos > 0


def prepare_pod(ctx: HookContext, obj: Object, old: Object | None) -> WorkerStep | None:
    if old is not None:
        return None
    obj["status"] = {"phase": "Pending"}

    def rest() -> None:
        spec = spec_of(obj)
        obj["status"]["qosClass"] = quality_of_service(spec)
        if spec.get("schedulingGates"):
            condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": None}
            condition |= {"lastTransitionTime": None, "message": "Scheduling is blocked due to non-empty scheduling gates"}
            obj["status"]["conditions"] = [condition]

    return rest


def validate_pod(ctx: HookContext, obj: Object, old: Object | None) -> Errors:
    if old is None or ctx.subresource == "ephemeralcontainers":
        return pod_spec(spec_of(obj), "spec")
    if ctx.subresource in ("binding", "resize", "eviction"):
        return []
    errors: Errors = []
    new_spec, old_spec = spec_of(obj), spec_of(old)
    if len(new_spec.get("containers") or ()) != len(old_spec.get("containers") or ()):
        return [forbidden("spec.containers", "pod updates may not add or remove containers")]
    if len(new_spec.get("initContainers") or ()) != len(old_spec.get("initContainers") or ()):
        return [forbidden("spec.initContainers", "pod updates may not add or remove containers")]
    for group in ("containers", "initContainers"):
        for index, container in enumerate(new_spec.get(group) or ()):
            errors += require(container, "image", f"spec.{group}[{index}]")
    if _frozen_part(new_spec, old_spec) != old_spec:
        errors.append(forbidden("spec", f"pod updates may not change fields other than {','.join(_UPDATABLE)}\n"))
    return errors


def _frozen_part(new_spec: Object, old_spec: Object) -> Object:
    """The new spec with all mutable fields reset to the old values."""
    frozen = dict(new_spec)
    for group in ("containers", "initContainers"):
        if containers := new_spec.get(group):
            pairs = zip(containers, old_spec.get(group) or (), strict=True)
            frozen[group] = [{**container, "image": before.get("image", "")} for container, before in pairs]
    for field in ("activeDeadlineSeconds", "schedulingGates"):
        _put_back(frozen, old_spec, field)
    if old_spec.get("terminationGracePeriodSeconds", 0) < 0 and frozen.get("terminationGracePeriodSeconds") == 1:
        _put_back(frozen, old_spec, "terminationGracePeriodSeconds")
    if _encoded(old_spec.get("tolerations")) <= _encoded(frozen.get("tolerations")):
        _put_back(frozen, old_spec, "tolerations")
    return frozen


def _encoded(tolerations: Iterable[Object] | None) -> set[bytes]:
    return {orjson.dumps(toleration, option=orjson.OPT_SORT_KEYS) for toleration in tolerations or ()}


def _put_back(frozen: Object, old: Object, field: str) -> None:
    if field in old:
        frozen[field] = old[field]
    else:
        frozen.pop(field, None)
