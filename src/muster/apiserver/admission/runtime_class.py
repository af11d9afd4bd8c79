"""The RuntimeClass plugin: sets overhead and scheduling constraints of a new pod from its RuntimeClass, and rejects pods that
contradict them.
"""

from __future__ import annotations

from typing import Final

from muster.apiserver import errors
from muster.apiserver.admission.chain import Operation
from muster.apiserver.admission.pod_resources import amounts
from muster.apiserver.admission.pods import PODS, display_name, is_new_pod
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.objects import Object

_CLASSES: Final = "node.k8s.io/runtimeclasses"


class RuntimeClass:
    resources: Final = PODS

    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        pod = operation.new
        if pod is None or not is_new_pod(ctx, resource, operation):
            return pod
        found = _class_of(ctx, pod)
        overhead = _overhead(found)
        if overhead is not None:
            if pod["spec"].get("overhead") and amounts(pod["spec"]["overhead"]) != amounts(overhead):
                raise _rejected(pod, "Pod's Overhead doesn't match RuntimeClass's defined Overhead")
            pod["spec"]["overhead"] = dict(overhead)
        scheduling = (found or {}).get("scheduling")
        if scheduling is not None:
            _schedule(pod, scheduling)
        return pod

    async def validate(self, ctx: Context, resource: ServedResource, operation: Operation) -> None:
        pod = operation.new
        if pod is None or not is_new_pod(ctx, resource, operation):
            return
        overhead, given = _overhead(_class_of(ctx, pod)), pod["spec"].get("overhead")
        if overhead is not None and amounts(overhead) != amounts(given):
            raise _rejected(pod, "Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        if overhead is None and given is not None:
            raise _rejected(pod, "Pod Overhead set without corresponding RuntimeClass defined Overhead")


def _rejected(pod: Object, text: str) -> errors.ApiError:
    return errors.forbidden("", "pods", display_name(pod), f"pod rejected: {text}")


def _class_of(ctx: Context, pod: Object) -> Object | None:
    name = pod["spec"].get("runtimeClassName")
    if name is None:
        return None
    found = ctx.read(_CLASSES, name)
    if found is None:
        raise _rejected(pod, f'RuntimeClass "{name}" not found')
    return found


def _overhead(found: Object | None) -> Object | None:
    """The overhead that the class defines: empty if it has no `podFixed`, None if it has no `overhead`."""
    overhead = (found or {}).get("overhead")
    return None if overhead is None else overhead.get("podFixed") or {}


def _schedule(pod: Object, scheduling: Object) -> None:
    spec = pod["spec"]
    node_selector = scheduling.get("nodeSelector") or {}
    given = spec.get("nodeSelector") or {}
    for key, value in sorted(node_selector.items()):
        if given.get(key, value) != value:
            text = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {given[key]}"
            raise errors.forbidden("", "pods", display_name(pod), text)
    if node_selector:
        spec["nodeSelector"] = {**given, **node_selector}
    tolerations = _merged([*(spec.get("tolerations") or ()), *(scheduling.get("tolerations") or ())])
    if tolerations:
        spec["tolerations"] = tolerations


def _merged(tolerations: list[Object]) -> list[Object]:
    """The tolerations without those that another one covers; of equal ones the first."""
    merged: list[Object] = []
    for index, each in enumerate(tolerations):
        later = (other for other in tolerations[index + 1 :] if other != each)
        if not any(_covers(other, each) for other in (*merged, *later)):
            merged.append(dict(each))
    return merged


def _covers(outer: Object, inner: Object) -> bool:
    """Whether the outer toleration tolerates every taint that the inner one does."""
    if outer == inner:
        return True
    everything = not outer.get("key") and outer.get("operator") == "Exists"
    if inner.get("key", "") != outer.get("key", "") and not everything:
        return False
    if outer.get("effect") and inner.get("effect", "") != outer["effect"]:
        return False
    seconds = outer.get("tolerationSeconds")
    if outer.get("effect") == "NoExecute" and seconds is not None:
        own = inner.get("tolerationSeconds")
        if own is None or own > seconds:
            return False
    if (outer.get("operator") or "Equal") == "Equal":
        return inner.get("operator") == "Equal" and inner.get("value", "") == outer.get("value", "")
    return outer.get("operator") == "Exists"
