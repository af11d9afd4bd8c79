"""A ClusterManager operator at work on a cluster, as an administrator sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from muster.machinery.objects import Object
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, bundle
from muster.operator.cluster_manager.components import HOOKS
from muster.operator.cluster_manager.controller import ClusterManagerOperator
from muster.operator.names import CLUSTER_MANAGERS
from muster.operator.options import OperatorOptions
from muster.registration.names import (
    HUB_NAMESPACE,
)
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CRDS, DEPLOYMENTS, NAMESPACES
from tests.unit.operator.conftest import Cluster, CountingClient, running

CM = "cluster-manager"
CONTROLLER, WEBHOOK = f"{CM}-registration-controller", f"{CM}-registration-webhook"
WORK_CONTROLLER, WORK_WEBHOOK = f"{CM}-work-controller", f"{CM}-work-webhook"
PLACEMENT = f"{CM}-placement-controller"
ADDON_MANAGER = f"{CM}-addon-manager-controller"
ALWAYS = (CONTROLLER, WEBHOOK, WORK_WEBHOOK, PLACEMENT, ADDON_MANAGER)
REPLICA_SETS_ON = {"featureGates": [{"feature": "ManifestWorkReplicaSet", "mode": "Enable"}]}
IMAGE = "example.com/muster:test"


@dataclass
class Hub:
    """An operator at work, and what an administrator sees of it."""

    place: Cluster
    client: CountingClient

    async def create(self, name: str = CM, **spec: Any) -> Object:
        document = {"apiVersion": CLUSTER_MANAGERS.api_version, "kind": "ClusterManager", "metadata": {"name": name}, "spec": spec}
        return await self.place.admin.create(CLUSTER_MANAGERS, document)

    async def change(self, spec: Object, name: str = CM) -> None:
        await self.place.admin.patch(CLUSTER_MANAGERS, name, {"spec": spec})

    async def says(self, kind: str, status: str, reason: str = "", name: str = CM) -> Object:
        return await self.place.until_condition(CLUSTER_MANAGERS, name, kind, status, reason)

    async def available(self, *more: str) -> None:
        for name in (*ALWAYS, *more):
            await self.place.set_available(name, HUB_NAMESPACE)

    async def up(self, **spec: Any) -> None:
        await self.create(**spec)
        await self.says("Applied", "True", "ClusterManagerApplied")
        await self.available()
        await self.says("Progressing", "False", "ClusterManagerUpToDate")
        for hook in HOOKS:
            await self.place.until_found(hook.resource, hook.name)

    async def deployment(self, name: str = CONTROLLER) -> Object:
        return await self.place.until_found(DEPLOYMENTS, name, HUB_NAMESPACE)

    async def container(self, name: str = CONTROLLER) -> Object:
        found: Object = (await self.deployment(name))["spec"]["template"]["spec"]["containers"][0]
        return found

    async def until_argument(self, argument: str) -> None:
        async def there() -> bool:
            return argument in (await self.container())["args"]

        await self.place.until(there, f"the controller is told {argument}")

    async def until_gone(self, name: str = CM) -> None:
        await self.place.until_gone(CLUSTER_MANAGERS, name)

    async def remains(self) -> list[str]:
        """What carries the operator's label, and what is known by name; not what is around the operator."""
        found = []
        around = {document["metadata"]["name"] for _, document in bundle(CLUSTER_MANAGER_OPERATOR)}
        for resource in (CRDS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, *{hook.resource for hook in HOOKS}):
            for obj in (await self.place.admin.list(resource)).items:
                name = obj["metadata"]["name"]
                if "open-cluster-management" in name and name not in around:
                    found.append(f"{resource}/{name}")
        if await self.place.find(NAMESPACES, HUB_NAMESPACE):
            found.append(f"namespaces/{HUB_NAMESPACE}")
        return found


@asynccontextmanager
async def operated(place: Cluster, **options: Any) -> AsyncIterator[Hub]:
    client = await place.operator(CLUSTER_MANAGER_OPERATOR)
    operator = ClusterManagerOperator(client, OperatorOptions(image=IMAGE, **options))
    async with running(operator.manager.run()):
        yield Hub(place, client)
