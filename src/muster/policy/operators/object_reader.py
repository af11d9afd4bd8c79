"""Reads objects of the managed cluster from a source that watches them, and resolves kinds by discovery."""

from __future__ import annotations

from dataclasses import dataclass

from muster.machinery.objects import GVR, Object
from muster.policy.resolver.interfaces import ObjectSource
from muster.runtime.cache import Selection


@dataclass(frozen=True)
class ObjectReader:
    """Returned objects are shared and must not be changed. Both methods raise NoKindMatch and KubeError."""

    source: ObjectSource

    async def objects(self, resource: GVR, namespace: str = "", *, selector: str = "") -> list[Object]:
        served = await self.source.mapping(resource.api_version, resource.kind)
        return list(await self.source.read(Selection(served, namespace, label_selector=selector)))

    async def object(self, resource: GVR, namespace: str, name: str) -> Object | None:
        served = await self.source.mapping(resource.api_version, resource.kind)
        return next(iter(await self.source.read(Selection(served, namespace, name=name))), None)
