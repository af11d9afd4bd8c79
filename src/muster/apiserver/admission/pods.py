"""Predicates that several plugins for pods share."""

from __future__ import annotations

from typing import Final

from muster.apiserver.admission.chain import Operation
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.objects import Object

PODS: Final = frozenset({"/pods"})


def is_pod_write(ctx: Context, resource: ServedResource) -> bool:
    """Whether the pod itself is written, not one of its subresources."""
    return resource.storage in PODS and not ctx.subresource


def is_new_pod(ctx: Context, resource: ServedResource, operation: Operation) -> bool:
    return operation.name == "CREATE" and is_pod_write(ctx, resource)


def display_name(pod: Object) -> str:
    """The name in messages: a pod without a name yet is shown by its generateName."""
    return str(pod["metadata"].get("name") or pod["metadata"].get("generateName", ""))
