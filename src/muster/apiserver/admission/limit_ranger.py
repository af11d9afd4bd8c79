"""The LimitRanger plugin: LimitRanges set default requests and limits of new containers, and bound pods, containers and claims.

Defaults are set before webhooks run, bounds are checked after them. As in kube-apiserver, pods are checked only when they are
created, because their resources cannot be changed here; a claim is also checked on update, unless it is being deleted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from muster.apiserver import errors
from muster.apiserver.admission.chain import Operation
from muster.apiserver.admission.pod_resources import (
    LIMITS,
    REQUESTS,
    Amounts,
    amounts,
    container_amounts,
    containers,
    pod_amounts,
)
from muster.apiserver.admission.pods import display_name
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.kube.fielderrors import MOST
from muster.machinery.golang.quantities import NANO, Quantity
from muster.machinery.objects import Object

_PODS: Final = "/pods"
_CLAIMS: Final = "/persistentvolumeclaims"
_LIMIT_RANGES: Final = "/limitranges"
_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_MAX_MILLI: Final = (2**63 - 1) // 1000
"""Larger values are compared in whole units."""


class LimitRanger:
    resources: Final = frozenset({_PODS, _CLAIMS})

    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        pod = operation.new
        if pod is not None and resource.storage == _PODS and _supports(ctx, resource, operation):
            for limit_range in _limit_ranges(ctx):
                if ctx.is_large():
                    await ctx.run_in_worker(_set_defaults, pod, limit_range)
                else:
                    _set_defaults(pod, limit_range)
        return pod

    async def validate(self, ctx: Context, resource: ServedResource, operation: Operation) -> None:
        obj = operation.new
        if resource.storage not in self.resources or obj is None or not _supports(ctx, resource, operation):
            return
        for limit_range in _limit_ranges(ctx):
            large = ctx.is_large()
            problems = await ctx.run_in_worker(_all_problems, limit_range, obj) if large else _all_problems(limit_range, obj)
            if problems:
                raise errors.forbidden("", resource.plural, display_name(obj), errors.aggregated(problems))


def _limit_ranges(ctx: Context) -> list[Object]:
    return ctx.scan(_LIMIT_RANGES, ctx.namespace)


def _all_problems(limit_range: Object, obj: Object) -> list[str]:
    find = _claim_problems if obj["kind"] == "PersistentVolumeClaim" else _pod_problems
    found = (problem for limit in limit_range["spec"].get("limits") or () for problem in find(limit, obj))
    return list(itertools.islice(found, MOST))


def _supports(ctx: Context, resource: ServedResource, operation: Operation) -> bool:
    if ctx.subresource or operation.name not in ("CREATE", "UPDATE"):
        return False
    old = operation.old
    return old is None or (resource.storage == _CLAIMS and not old["metadata"].get("deletionTimestamp"))


def _set_defaults(pod: Object, limit_range: Object) -> None:
    defaults: dict[str, dict[str, Any]] = {LIMITS: {}, REQUESTS: {}}
    for limit in limit_range["spec"].get("limits") or ():
        if limit.get("type") == "Container":
            defaults[LIMITS] |= limit.get("default") or {}
            defaults[REQUESTS] |= limit.get("defaultRequest") or {}
    descriptions = [
        *(text for each in pod["spec"].get("containers") or () for text in _set_container_defaults(each, defaults, "container")),
        *(
            text
            for each in pod["spec"].get("initContainers") or ()
            for text in _set_container_defaults(each, defaults, "init container")
        ),
    ]
    if descriptions:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[_ANNOTATION] = "LimitRanger plugin set: " + "; ".join(descriptions)


def _set_container_defaults(container: Object, defaults: Mapping[str, Mapping[str, Any]], label: str) -> Iterator[str]:
    """Set the defaults of one container; yields descriptions of them for the annotation, requests first."""
    resources = container.get("resources") or {}
    for field in (REQUESTS, LIMITS):
        missing = {name: amount for name, amount in defaults[field].items() if name not in (resources.get(field) or {})}
        if missing:
            resources[field] = {**(resources.get(field) or {}), **missing}
            container["resources"] = resources
            yield f"{', '.join(sorted(missing))} {field.removesuffix('s')} for {label} {container.get('name', '')}"


def _pod_problems(limit: Object, pod: Object) -> Iterator[str]:
    if limit.get("type") == "Container":
        for container in containers(pod["spec"]):
            yield from _problems(limit, container_amounts(container, REQUESTS), container_amounts(container, LIMITS))
    elif limit.get("type") == "Pod":
        yield from _problems(limit, pod_amounts(pod["spec"], REQUESTS), pod_amounts(pod["spec"], LIMITS))


def _problems(limit: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for bound, check in _CHECKS:
        for name, enforced in sorted(amounts(limit.get(bound)).items()):
            problem = check(limit["type"], name, enforced, requests.get(name), limits.get(name))
            if problem is not None:
                yield problem


def _claim_problems(limit: Object, claim: Object) -> Iterator[str]:
    if limit.get("type") != "PersistentVolumeClaim":
        return
    requests = amounts((claim["spec"].get("resources") or {}).get(REQUESTS))
    for name, enforced in sorted(amounts(limit.get("min")).items()):
        problem = _below_min(limit["type"], name, enforced, requests.get(name), None)
        if problem is not None:
            yield problem
    for name, enforced in sorted(amounts(limit.get("max")).items()):
        request = requests.get(name)
        start = f"maximum {name} usage per {limit['type']} is {enforced}"
        if request is None:
            yield f"{start}.  No request is specified"
        elif _exceeds(request, enforced):
            yield f"{start}, but request is {request}"


def _exceeds(one: Quantity, other: Quantity) -> bool:
    """Whether a value is greater than another one, compared in thousandths if both fit into them."""
    if one.value <= _MAX_MILLI and other.value <= _MAX_MILLI:
        return one.milli_value > other.milli_value
    return one.value > other.value


def _below_min(kind: str, name: str, enforced: Quantity, request: Quantity | None, limit: Quantity | None) -> str | None:
    start = f"minimum {name} usage per {kind} is {enforced}"
    if request is None:
        return f"{start}.  No request is specified"
    if _exceeds(enforced, request):
        return f"{start}, but request is {request}"
    if limit is not None and _exceeds(enforced, limit):
        return f"{start}, but limit is {limit}"
    return None


def _above_max(kind: str, name: str, enforced: Quantity, request: Quantity | None, limit: Quantity | None) -> str | None:
    start = f"maximum {name} usage per {kind} is {enforced}"
    if limit is None:
        return f"{start}.  No limit is specified"
    if _exceeds(limit, enforced):
        return f"{start}, but limit is {limit}"
    if request is not None and _exceeds(request, enforced):
        return f"{start}, but request is {request}"
    return None


def _above_ratio(kind: str, name: str, enforced: Quantity, request: Quantity | None, limit: Quantity | None) -> str | None:
    start = f"{name} max limit to request ratio per {kind} is {enforced}"
    if request is None or not request.nanos:
        return f"{start}, but no request is specified or request is 0"
    if limit is None or not limit.nanos:
        return f"{start}, but no limit is specified or limit is 0"
    ratio = limit.nanos / request.nanos
    return f"{start}, but provided ratio is {ratio:f}" if ratio > enforced.nanos / NANO else None


_Check = Callable[[str, str, Quantity, Quantity | None, Quantity | None], str | None]
_CHECKS: Final[tuple[tuple[str, _Check], ...]] = (
    ("min", _below_min),
    ("max", _above_max),
    ("maxLimitRequestRatio", _above_ratio),
)
