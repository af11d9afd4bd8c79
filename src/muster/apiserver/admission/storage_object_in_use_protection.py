"""The StorageObjectInUseProtection plugin: a finalizer on every new claim, volume and attributes class keeps what is in use."""

from __future__ import annotations

from typing import Final

from muster.apiserver.admission.chain import Operation
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.objects import Object

_FINALIZERS: Final = {
    "/persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "/persistentvolumes": "kubernetes.io/pv-protection",
    "storage.k8s.io/volumeattributesclasses": "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection:
    resources: Final = frozenset(_FINALIZERS)

    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        obj = operation.new
        finalizer = _FINALIZERS.get(resource.storage)
        if finalizer is not None and obj is not None and operation.name == "CREATE" and not ctx.subresource:
            finalizers = obj["metadata"].get("finalizers") or []
            if finalizer not in finalizers:
                obj["metadata"]["finalizers"] = [*finalizers, finalizer]
        return obj
