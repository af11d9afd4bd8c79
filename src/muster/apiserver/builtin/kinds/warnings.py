"""Warnings about accepted objects: unsuitable names, ignored values, deprecated fields (`k8s.io/kubernetes/pkg/api/…/warnings.go`).

Only common warnings are implemented; their texts are upstream's.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from muster.apiserver.builtin.kinds.checks import spec_of
from muster.apiserver.registry.strategy import HookContext, Validate
from muster.kube import names
from muster.kube.fielderrors import FieldError
from muster.machinery.golang.quantities import QuantityError, parse_quantity
from muster.machinery.golang.quoting import quote
from muster.machinery.objects import Object

Warnings = Callable[[Object], Iterator[str]]

_OLD_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
}
_SURPRISE: Final = "which can result in surprising behavior; a DNS label is recommended"


def _unsuitable_name(obj: Object, use: str) -> Iterator[str]:
    problems = names.dns1123_label(obj["metadata"].get("name", ""))
    if problems:
        yield f"metadata.name: this is used in {use}, {_SURPRISE}: [{', '.join(problems)}]"


def _pod_spec(spec: Object, path: str) -> Iterator[str]:
    for label in spec.get("nodeSelector") or ():
        if label in _OLD_LABELS:
            yield f"{path}.nodeSelector[{label}]: {_OLD_LABELS[label]}"
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            yield from _container(container, f"{path}.{group}[{index}]")


def _container(container: Object, path: str) -> Iterator[str]:
    resources = container.get("resources") or {}
    for field in ("limits", "requests"):
        for name in ("memory", "ephemeral-storage"):
            amount = (resources.get(field) or {}).get(name)
            if amount is not None and _is_fractional(amount):
                yield f"{path}.resources.{field}[{name}]: fractional byte value {quote(amount)} is invalid, must be an integer"
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in seen:
            yield f"{path}.env[{index}]: hides previous definition of {quote(name)}, which may be dropped when using apply"
        seen.add(name)
    ports: dict[tuple[Any, ...], int] = {}
    for index, port in enumerate(container.get("ports") or ()):
        key = tuple(port.get(field) for field in ("containerPort", "hostPort", "hostIP", "protocol"))
        if key in ports:
            yield f"{path}.ports[{index}]: duplicate port definition with {path}.ports[{ports[key]}]"
        ports.setdefault(key, index)


def _is_fractional(amount: str) -> bool:
    try:
        return parse_quantity(amount).nanos % 10**9 != 0
    except QuantityError:
        return False


def _pod(obj: Object) -> Iterator[str]:
    yield from _unsuitable_name(obj, "the Pod's hostname")
    yield from _pod_spec(spec_of(obj), "spec")


def _workload(obj: Object) -> Iterator[str]:
    yield from _unsuitable_name(obj, "Pod names and hostnames")
    yield from _templated(obj)


def _templated(obj: Object) -> Iterator[str]:
    spec = spec_of(obj)
    history = spec.get("revisionHistoryLimit")
    if obj["kind"] == "StatefulSet" and history is not None and history < 0:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {text}"
    yield from _pod_spec((spec.get("template") or {}).get("spec") or {}, "spec.template.spec")


def _cron_job(obj: Object) -> Iterator[str]:
    yield from _unsuitable_name(obj, "Pod names and hostnames")
    template = ((spec_of(obj).get("jobTemplate") or {}).get("spec") or {}).get("template") or {}
    yield from _pod_spec(template.get("spec") or {}, "spec.jobTemplate.spec.template.spec")


def _service(obj: Object) -> Iterator[str]:
    spec = spec_of(obj)
    if (spec.get("clusterIPs") or [""])[0] != "None":
        return
    if spec.get("externalIPs"):
        yield "spec.externalIPs is ignored for headless services"
    if spec.get("sessionAffinity", "None") != "None":
        yield "spec.SessionAffinity is ignored for headless services"


def _ingress(obj: Object) -> Iterator[str]:
    if "kubernetes.io/ingress.class" in (obj["metadata"].get("annotations") or {}):
        yield "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"


def _secret(obj: Object) -> Iterator[str]:
    if obj.get("type") == "kubernetes.io/tls":
        certificate = base64.b64decode((obj.get("data") or {}).get("tls.crt") or "")
        if b"-----BEGIN " not in certificate:
            yield "tls: failed to find any PEM data in certificate input"


def _volume(obj: Object) -> Iterator[str]:
    if spec_of(obj).get("persistentVolumeReclaimPolicy") == "Recycle":
        text = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
        yield f"spec.persistentVolumeReclaimPolicy: {text}"


def _service_account(obj: Object) -> Iterator[str]:
    annotation = "kubernetes.io/enforce-mountable-secrets"
    if (obj["metadata"].get("annotations") or {}).get(annotation) == "true":
        text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        yield f"metadata.annotations[{annotation}]: {text}"


WARNINGS: Final[Mapping[tuple[str, str], Warnings]] = {
    ("", "persistentvolumes"): _volume,
    ("", "pods"): _pod,
    ("", "replicationcontrollers"): _workload,
    ("", "secrets"): _secret,
    ("", "serviceaccounts"): _service_account,
    ("", "services"): _service,
    ("apps", "daemonsets"): _templated,
    ("apps", "deployments"): _workload,
    ("apps", "replicasets"): _workload,
    ("apps", "statefulsets"): _templated,
    ("batch", "cronjobs"): _cron_job,
    ("batch", "jobs"): _workload,
    ("networking.k8s.io", "ingresses"): _ingress,
}
DEPRECATED: Final[Mapping[tuple[str, str], str]] = {
    ("", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
"""Deprecated resources, about which every request is warned."""


def warning(validate: Validate | None, warnings: Warnings | None) -> Validate | None:
    """A validation that adds warnings for valid objects."""
    if warnings is None:
        return validate

    def checked(ctx: HookContext, obj: Object, old: Object | None) -> list[FieldError]:
        errors = validate(ctx, obj, old) if validate is not None else []
        if not errors and ctx.subresource != "status":
            for text in warnings(obj):
                ctx.warn(text)
        return errors

    return checked
