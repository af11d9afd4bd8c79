"""The Priority plugin: sets priority and preemption policy of a pod from its PriorityClass, and keeps them on update."""

from __future__ import annotations

from typing import Final

from muster.apiserver import errors
from muster.apiserver.admission.chain import Operation
from muster.apiserver.admission.pods import PODS, display_name, is_pod_write
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.objects import Object

_CLASSES: Final = "scheduling.k8s.io/priorityclasses"
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_CARRIED_OVER: Final = ("priority", "preemptionPolicy")


class Priority:
    resources: Final = PODS

    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        pod = operation.new
        if pod is not None and is_pod_write(ctx, resource):
            if operation.old is not None:
                _carry_over(pod["spec"], operation.old["spec"])
            elif operation.name == "CREATE":
                _set_priority(ctx, pod)
        return pod


def _carry_over(spec: Object, old: Object) -> None:
    """Restore fields that an update omits; validation rejects changed ones."""
    for field in _CARRIED_OVER:
        if spec.get(field) is None and old.get(field) is not None:
            spec[field] = old[field]


def _set_priority(ctx: Context, pod: Object) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName") or ""
    found = ctx.read(_CLASSES, name) if name else None
    if found is None and name and name not in _SYSTEM_PRIORITIES:
        raise errors.forbidden("", "pods", display_name(pod), f"no PriorityClass with name {name} was found")
    computed = int(found.get("value", 0)) if found is not None else _SYSTEM_PRIORITIES.get(name, 0)
    if spec.get("priority") not in (None, computed):
        text = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {computed} from the given PriorityClass name"
        )
        raise errors.forbidden("", "pods", display_name(pod), text)
    spec["priority"] = computed
    policy = found.get("preemptionPolicy") if found is not None else None
    spec["preemptionPolicy"] = policy or spec.get("preemptionPolicy") or "PreemptLowerPriority"
