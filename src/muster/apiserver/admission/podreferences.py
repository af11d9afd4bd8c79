"""What a new pod refers to must be there: its service account and its priority class.

A namespace's default account comes a moment after the namespace, so a pod that names no other waits a little for it. What follows
from the references (token volume, priority) is filled in when the pod is prepared, by `registry.kinds.podadmission`.
"""

from __future__ import annotations

import asyncio

from muster.apiserver import errors
from muster.apiserver.admission.chain import Operation
from muster.apiserver.context import Context
from muster.apiserver.objects import object_key
from muster.apiserver.registry.kinds.podadmission import priority_of
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.objects import Object

_PAUSE_SECONDS = 0.05
_TRIES = 20


class PodReferences:
    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        pod = operation.new
        if resource.storage == "/pods" and operation.name == "CREATE" and pod is not None and not ctx.subresource:
            await _find_account(ctx, pod)
            _check_priority(ctx, pod)
        return pod


async def _find_account(ctx: Context, pod: Object) -> None:
    name, namespace = pod["spec"].get("serviceAccountName") or "default", ctx.attributes.namespace
    for _ in range(_TRIES):
        if ctx.read("/serviceaccounts", object_key(namespace, name)) is not None:
            return
        if name != "default":
            break
        await asyncio.sleep(_PAUSE_SECONDS)
    text = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
    raise errors.forbidden("", "pods", _shown_name(pod), text)


def _shown_name(pod: Object) -> str:
    """A pod that has no name yet is called by what its name will begin with."""
    return str(pod["metadata"].get("name") or pod["metadata"].get("generateName", ""))


def _check_priority(ctx: Context, pod: Object) -> None:
    spec, name = pod["spec"], _shown_name(pod)
    computed = priority_of(ctx, spec)
    if computed is None:
        raise errors.forbidden("", "pods", name, f"no PriorityClass with name {spec['priorityClassName']} was found")
    if spec.get("priority") not in (None, computed):
        text = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {computed} from the given PriorityClass name"
        )
        raise errors.forbidden("", "pods", name, text)
