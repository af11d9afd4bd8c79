"""The usage that an object charges to ResourceQuotas, and the quotas that it is charged to.

Follows the evaluators of `k8s.io/kubernetes/pkg/quota/v1`: pods count by their requests and limits until they finish, Services by
type, claims by size and storage class. Every kind counts as `count/<resource>.<group>`, a few also by their plain name. The
functions are pure: admission calls them for one object, the controller for all objects of a namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from muster.apiserver.admission.pod_resources import (
    LIMITS,
    REQUESTS,
    Amounts,
    add,
    amounts,
    container_amounts,
    containers,
    pod_amounts,
)
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.golang.quantities import NANO, Quantity
from muster.machinery.objects import Object

PODS: Final = "/pods"
SERVICES: Final = "/services"
CLAIMS: Final = "/persistentvolumeclaims"
QUOTAS: Final = "/resourcequotas"
NOT_COUNTED: Final = frozenset({"/events", "events.k8s.io/events", "/bindings"})
ONE: Final = Quantity(NANO)
ZERO: Final = Quantity(0)
_COUNT: Final = "count/"
_PLAIN_NAMES: Final = frozenset({"/configmaps", "/replicationcontrollers", "/resourcequotas", "/secrets"})
_CLASS_SUFFIX: Final = ".storageclass.storage.k8s.io/"
_CLAIM_NAMES: Final = ("persistentvolumeclaims", "requests.storage")
_SERVICE_NAMES: Final = frozenset({"services", "services.loadbalancers", "services.nodeports"})
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES: Final = frozenset({"pods", *(f"{kind}{name}" for kind in ("", "requests.", "limits.") for name in _COMPUTE)})
_REQUIRED: Final = frozenset(f"{kind}{name}" for kind in ("", "requests.", "limits.") for name in ("cpu", "memory"))
"""Resources that every container must specify if a quota limits them; Kubernetes keeps this rule for these alone."""
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


def count_name(resource: ServedResource) -> str:
    return f"{_COUNT}{resource.group_resource}"


def matching_resources(resource: ServedResource, names: Iterable[str]) -> list[str]:
    """The resources of a quota that objects of this kind are charged to, in order (`Evaluator.MatchingResources`)."""
    return sorted(name for name in names if _counts(resource, name))


def _counts(resource: ServedResource, name: str) -> bool:
    if name == count_name(resource):
        return True
    if resource.storage == PODS:
        return name in _POD_NAMES or name.startswith(("hugepages-", "requests.hugepages-")) or _is_extended(name)
    if resource.storage == SERVICES:
        return name in _SERVICE_NAMES
    if resource.storage == CLAIMS:
        return name in _CLAIM_NAMES or name.endswith(tuple(_CLASS_SUFFIX + each for each in _CLAIM_NAMES))
    return resource.storage in _PLAIN_NAMES and name == resource.plural


def _is_extended(name: str) -> bool:
    return name.startswith("requests.") and "/" in name and "kubernetes.io/" not in name


def handles(resource: ServedResource, operation: str, subresource: str, new: Object, old: Object | None) -> bool:
    """Whether a write may change the usage (`Evaluator.Handles`)."""
    if resource.storage in NOT_COUNTED or not resource.namespaced:
        return False
    if resource.storage == CLAIMS:
        if subresource == "status" and old is not None:
            return _claim_status(new) != _claim_status(old)
        return not subresource and operation in ("CREATE", "UPDATE")
    if subresource:
        return False
    if resource.storage == SERVICES:
        return operation in ("CREATE", "UPDATE")
    if resource.storage == PODS and operation == "UPDATE" and old is not None:
        return _has_deadline(new) != _has_deadline(old)
    return operation == "CREATE"


def _claim_status(claim: Object) -> tuple[Any, set[str]]:
    return ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage"), _attributes_classes(claim)


def usage(resource: ServedResource, obj: Object, now: datetime) -> Amounts:
    """The usage of one object (`Evaluator.Usage`)."""
    counted: Amounts = {count_name(resource): ONE}
    if resource.storage == PODS:
        if not is_finished(obj, now):
            add(counted, _compute(*_pod_sums(obj["spec"])))
            counted["pods"] = ONE
    elif resource.storage == SERVICES:
        counted |= _service(obj["spec"])
    elif resource.storage == CLAIMS:
        counted |= _claim(obj)
    elif resource.storage in _PLAIN_NAMES:
        counted[resource.plural] = ONE
    return counted


def is_finished(pod: Object, now: datetime) -> bool:
    """Whether a pod has finished, or its grace period has passed: a pod on a lost node is not counted any longer."""
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return True
    deleted, grace = pod["metadata"].get("deletionTimestamp"), pod["metadata"].get("deletionGracePeriodSeconds")
    return bool(deleted) and grace is not None and now > datetime.fromisoformat(deleted) + timedelta(seconds=grace)


def _pod_sums(spec: Object) -> tuple[Amounts, Amounts]:
    requests, limits = pod_amounts(spec, REQUESTS), pod_amounts(spec, LIMITS)
    overhead = amounts(spec.get("overhead"))
    add(requests, overhead)
    add(limits, {name: amount for name, amount in overhead.items() if name in limits})
    return requests, limits


def _compute(requests: Amounts, limits: Amounts) -> Amounts:
    counted: Amounts = {}
    for name in _COMPUTE:
        if name in requests:
            counted[name] = counted[f"requests.{name}"] = requests[name]
        if name in limits:
            counted[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith("hugepages-"):
            counted[name] = counted[f"requests.{name}"] = amount
        elif "/" in name and "kubernetes.io/" not in name:
            counted[f"requests.{name}"] = amount
    return counted


def _service(spec: Object) -> Amounts:
    kind, ports = spec.get("type"), spec.get("ports") or ()
    open_ports = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        open_ports = sum(1 for port in ports if port.get("nodePort"))
    return {
        "services": ONE,
        "services.loadbalancers": ONE if kind == "LoadBalancer" else ZERO,
        "services.nodeports": Quantity(open_ports * NANO),
    }


def _claim(claim: Object) -> Amounts:
    counted: Amounts = {"persistentvolumeclaims": ONE}
    storage = amounts((claim["spec"].get("resources") or {}).get(REQUESTS)).get("storage")
    allocated = amounts((claim.get("status") or {}).get("allocatedResources")).get("storage")
    if storage is not None:
        storage = storage if allocated is None or allocated <= storage else allocated
        counted["requests.storage"] = Quantity(storage.value * NANO, storage.format)
    named = (claim["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION) or claim["spec"].get("storageClassName")
    if named:
        counted |= {f"{named}{_CLASS_SUFFIX}{name}": amount for name, amount in counted.items()}
    return counted


def missing_constraints(resource: ServedResource, obj: Object, limited: Iterable[str]) -> str:
    """The resources that containers of a pod must specify and do not, as the error shows them (`Evaluator.Constraints`)."""
    needed = _REQUIRED.intersection(limited) if resource.storage == PODS else frozenset()
    if not needed or _has_pod_resources(obj["spec"]):
        return ""
    missing: dict[str, set[str]] = {}
    for container in containers(obj["spec"]):
        constrained = _compute(container_amounts(container, REQUESTS), container_amounts(container, LIMITS))
        for name in needed.difference(constrained):
            missing.setdefault(name, set()).add(container.get("name", ""))
    return "; ".join(f"{name} for: {','.join(sorted(found))}" for name, found in sorted(missing.items()))


def _has_pod_resources(spec: Object) -> bool:
    own = spec.get("resources") or {}
    names = {*(own.get(REQUESTS) or {}), *(own.get(LIMITS) or {})}
    return any(name in ("cpu", "memory") or name.startswith("hugepages-") for name in names)


def matches_scopes(resource: ServedResource, obj: Object, quota: Object) -> bool:
    """Whether an object is in all scopes of a quota; a quota without scopes counts all objects."""
    spec = quota.get("spec") or {}
    selectors: list[Object] = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    selectors += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(_is_selected(resource, obj, selector) for selector in selectors)


def _is_selected(resource: ServedResource, obj: Object, selector: Object) -> bool:
    scope = selector.get("scopeName", "")
    if resource.storage == PODS and scope in _POD_SCOPES:
        return _POD_SCOPES[scope](obj)
    if resource.storage == PODS and scope == "PriorityClass":
        name = obj["spec"].get("priorityClassName")
        return _selects(selector, [name] if name else [])
    if resource.storage == CLAIMS and scope == "VolumeAttributesClass":
        return _selects(selector, sorted(_attributes_classes(obj)))
    return False


def _selects(selector: Object, names: Sequence[str]) -> bool:
    operator, values = selector.get("operator"), selector.get("values") or ()
    if operator == "Exists":
        return bool(names)
    if operator == "DoesNotExist":
        return not names
    if operator == "In":
        return any(name in values for name in names)
    return not names or any(name not in values for name in names)


def _has_deadline(pod: Object) -> bool:
    return (pod["spec"].get("activeDeadlineSeconds") or -1) >= 0


def _is_best_effort(pod: Object) -> bool:
    return (pod.get("status") or {}).get("qosClass") == "BestEffort"


def _reaches_other_namespaces(pod: Object) -> bool:
    affinity = pod["spec"].get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        preferred = (
            rule.get("podAffinityTerm") or {} for rule in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        )
        for term in (*(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()), *preferred):
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False


_POD_SCOPES: Final[Mapping[str, Callable[[Object], bool]]] = {
    "Terminating": _has_deadline,
    "NotTerminating": lambda pod: not _has_deadline(pod),
    "BestEffort": _is_best_effort,
    "NotBestEffort": lambda pod: not _is_best_effort(pod),
    "CrossNamespacePodAffinity": _reaches_other_namespaces,
}


def _attributes_classes(claim: Object) -> set[str]:
    status = claim.get("status") or {}
    named = (
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return {name for name in named if name}
