"""Reading the managed cluster: through a source that follows what is read, and that says when the cluster has no such kind."""

from __future__ import annotations

from dataclasses import dataclass

from muster.machinery.objects import GVR, Object
from muster.policy.resolver.interfaces import ObjectSource
from muster.runtime.cache import Selection


@dataclass(frozen=True)
class Reader:
    """Objects are shared: nobody may change one. All raise NoKindMatch, and KubeError."""

    source: ObjectSource

    async def objects(self, resource: GVR, namespace: str = "", *, selector: str = "") -> list[Object]:
        served = await self.source.mapping(resource.api_version, resource.kind)
        return list(await self.source.read(Selection(served, namespace, label_selector=selector)))

    async def object(self, resource: GVR, namespace: str, name: str) -> Object | None:
        served = await self.source.mapping(resource.api_version, resource.kind)
        return next(iter(await self.source.read(Selection(served, namespace, name=name))), None)
