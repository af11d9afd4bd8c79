"""The resources of manifests' kinds, from the hub's discovery."""

from __future__ import annotations

from collections.abc import Iterable

from muster.addon.framework.manifests import manifest_key, stays
from muster.machinery.clock import Clock
from muster.machinery.objects import Object
from muster.runtime.client import KubeClient, NoKindMatch, RESTMapper


class ServedResources:
    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._mapper = RESTMapper(client, clock=clock)

    async def plurals(self, manifests: Iterable[Object]) -> dict[tuple[str, str], str]:
        """By group and kind, for manifests that must be named by their resource. Raises KubeError if the hub is unreachable."""
        found: dict[tuple[str, str], str] = {}
        for manifest in manifests:
            key = manifest_key(manifest)
            if not stays(manifest) or (key.group, key.kind) in found:
                continue
            try:
                mapping = await self._mapper.mapping(str(manifest.get("apiVersion") or ""), key.kind)
            except NoKindMatch:
                continue
            found[key.group, key.kind] = mapping.plural
        return found
