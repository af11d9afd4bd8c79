"""A hub in this process with the addon manager and the addons that Muster brings itself, these with their own account's rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

from muster.addon.hub_addon import ACCOUNT, hub_addon_manager, install
from muster.addon.install import install as install_addon_manager
from muster.addon.options import AddonOptions
from muster.addon.process import AddonManager
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.objects import GVR, Object
from muster.operator.hub_addons import HUB_ADDONS
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import AlreadyExists, NotFound, served
from muster.runtime.client.builtin import NAMESPACES
from muster.work.kinds import MANIFEST_WORKS
from tests.support.mortal_hub import Life, MortalHub, hub_server

OPTIONS = AddonOptions()
INSTALLED, CLUSTERS = served(ManagedClusterAddOn), served(ManagedCluster)


class OwnAddonsHub(MortalHub):
    account = ACCOUNT

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[Self]:
        """With everything installed; no manager runs yet."""
        async with hub_server() as server:
            found = cls(server)
            server.clusters["hub"].clock = found.clock.now
            await install_addon_manager(found.admin, OPTIONS)
            await install(found.admin, list(HUB_ADDONS.values()), HUB_NAMESPACE)
            yield found

    @asynccontextmanager
    async def managers(self, life: Life | None = None) -> AsyncIterator[Life]:
        """The hub's addon manager, and ours, until its life is over."""
        living = life or Life()
        planner = AddonManager(self.admin, OPTIONS, clock=self.clock)
        ours = hub_addon_manager(self.own(living), list(HUB_ADDONS.values()), "muster:test", OPTIONS, clock=self.clock)
        tasks = [asyncio.create_task(one.run()) for one in (planner, ours)]
        try:
            yield living
            assert living.over.is_set() or not any(task.done() for task in tasks), tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # What people and agents do.

    async def create(self, resource: GVR, name: str, namespace: str = "", **rest: Any) -> Object:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **rest}
        return await self.admin.create(resource, body, namespace)

    async def cluster(self, name: str, **metadata: Any) -> None:
        with suppress(AlreadyExists):
            await self.create(NAMESPACES, name)
        await self.create(CLUSTERS, name, spec={"hubAcceptsClient": True}, metadata=metadata)
        await self.admin.patch(CLUSTERS, name, conditions("ManagedClusterConditionAvailable"), subresource="status")

    async def enable(self, cluster: str, *names: str) -> None:
        for name in names:
            await self.create(INSTALLED, name, cluster, spec={})

    async def apply_works(self, cluster: str, addon: str) -> None:
        """As a work agent reports."""
        (work,) = await self.until(lambda: self.works(cluster, addon), f"the work of {addon}")
        body = conditions("Applied", "Available")
        for one in body["status"]["conditions"]:
            one["observedGeneration"] = work["metadata"]["generation"]
        await self.admin.patch(MANIFEST_WORKS, work["metadata"]["name"], body, cluster, subresource="status")

    # What there is.

    async def find(self, resource: GVR, name: str, namespace: str = "") -> Object | None:
        with suppress(NotFound):
            return await self.admin.get(resource, name, namespace)
        return None

    async def works(self, cluster: str, addon: str) -> list[Object]:
        found = (await self.admin.list(MANIFEST_WORKS, cluster)).items
        return [one for one in found if one["metadata"]["name"].startswith(f"addon-{addon}-deploy")]

    async def condition(self, cluster: str, addon: str, kind: str) -> Object:
        found = await self.admin.get(INSTALLED, addon, cluster)
        said = (found.get("status") or {}).get("conditions") or ()
        return next((one for one in said if one["type"] == kind), {})


def conditions(*types: str, status: str = "True", message: str = "x", reason: str = "R") -> Object:
    said = {"status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"status": {"conditions": [{"type": one, **said} for one in types]}}
