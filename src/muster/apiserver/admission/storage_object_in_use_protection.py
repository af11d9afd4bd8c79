"""The StorageObjectInUseProtection plugin: adds the finalizer that keeps a claim, volume or volume attributes class while it is in
use.
"""

from __future__ import annotations

from typing import Final

from muster.apiserver.admission.chain import Operation
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.objects import Object

CLAIMS: Final = "/persistentvolumeclaims"
VOLUMES: Final = "/persistentvolumes"
ATTRIBUTES_CLASSES: Final = "storage.k8s.io/volumeattributesclasses"
FINALIZERS: Final = {
    CLAIMS: "kubernetes.io/pvc-protection",
    VOLUMES: "kubernetes.io/pv-protection",
    ATTRIBUTES_CLASSES: "kubernetes.io/vac-protection",
}
"""The finalizers by resource; `controllers.in_use_protection` removes them."""


class StorageObjectInUseProtection:
    resources: Final = frozenset(FINALIZERS)

    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        obj = operation.new
        finalizer = FINALIZERS.get(resource.storage)
        if finalizer is not None and obj is not None and operation.name == "CREATE" and not ctx.subresource:
            finalizers = obj["metadata"].get("finalizers") or []
            if finalizer not in finalizers:
                obj["metadata"]["finalizers"] = [*finalizers, finalizer]
        return obj
