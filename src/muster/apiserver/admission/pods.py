"""What the plugins that concern pods ask of an operation."""

from __future__ import annotations

from typing import Final

from muster.apiserver.admission.chain import Operation
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.objects import Object

PODS: Final = frozenset({"/pods"})


def concerns_pod(ctx: Context, resource: ServedResource) -> bool:
    """Whether a pod itself is written, and not one of its subresources."""
    return resource.storage in PODS and not ctx.subresource


def is_new_pod(ctx: Context, resource: ServedResource, operation: Operation) -> bool:
    return operation.name == "CREATE" and concerns_pod(ctx, resource)


def shown_name(pod: Object) -> str:
    """A pod that has no name yet is called by what its name will begin with."""
    return str(pod["metadata"].get("name") or pod["metadata"].get("generateName", ""))
