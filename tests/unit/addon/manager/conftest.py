"""`site`: the addon manager's controllers on an API server in this process, with their own rights only; the test plays placements,
clusters, and whoever writes the status of ManagedClusterAddOns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from muster.addon.config_objects import WatchedConfigObjects
from muster.addon.manager import manager_controllers
from muster.addon.manager.rules import RULES
from muster.addon.plans import Planned, Plans
from muster.api.addon.v1alpha1 import AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.crds import HUB, definitions
from muster.apiserver.server import ApiServer
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import CRDS
from muster.runtime.client.errors import AlreadyExists, NotFound
from muster.runtime.client.typed import served
from muster.runtime.controller import ControllerContext, Manager
from muster.runtime.install import READ, account_permissions, apply_all, await_definitions, ensure_namespace, rule
from tests.support.addon_world import addon_document
from tests.support.choosing import CLUSTERS, DECISIONS, GROUP, NS, PLACEMENTS, Chooser
from tests.support.mortal_hub import Life, MortalHub, hub_server, running

ADDONS, MANAGED = served(ClusterManagementAddOn), served(ManagedClusterAddOn)
CONFIGS, TEMPLATES = served(AddOnDeploymentConfig), served(AddOnTemplate)
NEEDED = (ADDONS, MANAGED, CONFIGS, TEMPLATES, CLUSTERS, PLACEMENTS, DECISIONS)
KINDS = tuple(kind for kind in HUB if kind.resource.plural in {one.plural for one in NEEDED})
ACCOUNT = "addon-manager-controller-sa"
ADDON = "hello"


class Site(MortalHub, Chooser):
    account = ACCOUNT
    step = 0.1

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.plans = Plans()

    @asynccontextmanager
    async def manager(self, life: Life | None = None) -> AsyncIterator[Life]:
        """The controllers as one process has them: its plans go with it."""
        self.life, self.plans = life or Life(), Plans()
        client = self.own(self.life)
        manager = Manager()
        context = ControllerContext.of(client, "addon-manager", clock=self.clock, random=lambda: 0.0)
        configs = WatchedConfigObjects(client, clock=self.clock)
        manager.add_context(context)
        manager.add("configurations", configs)
        manager.add_controllers(manager_controllers(context, self.plans, configs))
        async with running(manager, synced=False):
            if life is None:
                await self.until(self._synced(manager), "the caches to be complete")
            yield self.life

    @staticmethod
    def _synced(manager: Manager) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return manager.ready

        return look

    async def quiet(self, looks: int = 30) -> None:
        """Time for what should not happen."""
        for _ in range(looks):
            await self.clock.advance(0.1)
            await asyncio.sleep(0.002)

    # What people do

    async def managed_cluster(self, *names: str, **annotations: str) -> None:
        for name in names:
            await self.namespace(name)
            metadata = {"name": name, "annotations": annotations}
            await self.admin.create(CLUSTERS, {**_typed(CLUSTERS), "metadata": metadata, "spec": {"hubAcceptsClient": True}})

    async def decide(self, placement: str, *clusters: str, group: tuple[str, int] = ("", 0)) -> None:
        """A placement that has chosen these."""
        if await self.find(PLACEMENTS, placement, NS) is None:
            await self.place(placement)
        name = f"{placement}-decision-{group[1] + 1}"
        labels = {
            f"{GROUP}/placement": placement,
            f"{GROUP}/decision-group-name": group[0],
            f"{GROUP}/decision-group-index": str(group[1]),
        }
        with suppress(AlreadyExists):
            body = {**_typed(DECISIONS), "metadata": {"name": name, "namespace": NS, "labels": labels}}
            await self.admin.create(DECISIONS, body)
        chosen = [{"clusterName": cluster, "reason": ""} for cluster in clusters]
        await self.admin.patch(DECISIONS, name, {"status": {"decisions": chosen}}, NS, subresource="status")

    async def offer(self, *placements: Object, name: str = ADDON, **more: Any) -> Object:
        document = addon_document(*placements, name=name, **more)
        del document["metadata"]["uid"]
        return await self.admin.create(ADDONS, document)

    async def deployment_config(self, name: str, value: str = "1") -> None:
        spec = {"customizedVariables": [{"name": "V", "value": value}]}
        await self.admin.apply(CONFIGS, {"metadata": {"name": name, "namespace": "config"}, "spec": spec}, manager="test")

    async def enable(self, cluster: str, name: str = ADDON, configs: Sequence[Object] = (), annotation: str = "") -> None:
        metadata = {"name": name, "namespace": cluster, "annotations": {annotation: "true"} if annotation else {}}
        await self.admin.create(MANAGED, {**_typed(MANAGED), "metadata": metadata, "spec": {"configs": list(configs)}})

    async def let_read(self, group: str, resource: str) -> None:
        """An administrator's leave for one more kind of configuration."""
        rules = [rule(group, [resource], READ)]
        await apply_all(self.admin, account_permissions(ACCOUNT, HUB_NAMESPACE, f"{ACCOUNT}:{resource}", rules), "test")

    async def make(self, resource: Any, document: Object) -> Object | None:
        """None while its kind is not served."""
        try:
            return await self.admin.create(resource, {**_typed(resource), **document})
        except NotFound:
            return None

    # What came of it

    async def installed(self, name: str = ADDON) -> dict[str, Object]:
        found = await self.admin.list(MANAGED)
        return {one["metadata"]["namespace"]: one for one in found.items if one["metadata"]["name"] == name}

    async def until_installed(self, *clusters: str, name: str = ADDON) -> dict[str, Object]:
        async def look() -> dict[str, Object] | None:
            found = await self.installed(name)
            return found or {"none": {}} if set(found) == set(clusters) else None

        found: dict[str, Object] = await self.until(look, f"{name} on {clusters}")
        return found

    def planned(self, cluster: str, name: str = ADDON) -> Planned | None:
        plan = self.plans.of(name)
        return plan.clusters.get(cluster) if plan else None

    def released(self, name: str = ADDON) -> str:
        plan = self.plans.of(name)
        return "".join(sorted(cluster for cluster, one in plan.clusters.items() if one.released)) if plan else ""

    async def until_released(self, clusters: str, name: str = ADDON) -> None:
        async def look() -> bool:
            return self.released(name) == clusters

        await self.until(look, f"{clusters} to be released, not {self.released(name)}")

    async def status(self, name: str = ADDON) -> Object:
        found: Object = (await self.admin.get(ADDONS, name)).get("status") or {}
        return found

    async def until_progression(self, reason: str, message: str = "", index: int = 0, name: str = ADDON) -> Object:
        async def look() -> Object | None:
            progressions = (await self.status(name)).get("installProgressions") or []
            conditions = progressions[index].get("conditions") or [] if len(progressions) > index else []
            said = bool(conditions) and conditions[0]["reason"] == reason and message in conditions[0]["message"]
            return progressions[index] if said else None

        found: Object = await self.until(look, f"{name} to say {reason} {message}")
        return found

    # What the framework does

    async def configure(self, *clusters: str, complete: bool = True, name: str = ADDON) -> None:
        """Give clusters what is planned for them, and report that it is applied."""
        for cluster in clusters:
            planned = self.planned(cluster, name)
            assert planned is not None, cluster
            assert planned.released, cluster
            references = []
            for one in planned.configs:
                desired = {"name": one.config.name, "namespace": one.config.namespace, "specHash": one.config.spec_hash}
                applied = {"lastAppliedConfig": desired} if complete else {}
                kind = {"group": one.group, "resource": one.resource, "name": one.config.name}
                references.append({**kind, "lastObservedGeneration": 1, "desiredConfig": desired, **applied})
            since = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            said = {"reason": "Completed" if complete else "Progressing", "message": "", "lastTransitionTime": since}
            status = {"configReferences": references, "conditions": [{"type": "Progressing", "status": "False", **said}]}
            await self.admin.patch(MANAGED, name, {"status": status}, cluster, subresource="status")

    async def fail(self, cluster: str, name: str = ADDON) -> None:
        said = {"reason": "Failed", "message": "", "lastTransitionTime": self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
        status = {"conditions": [{"type": "Progressing", "status": "True", **said}]}
        await self.admin.patch(MANAGED, name, {"status": status}, cluster, subresource="status")


def _typed(resource: Any) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind}


@asynccontextmanager
async def hub() -> AsyncIterator[Site]:
    async with hub_server() as server:
        site = Site(server)
        await apply_all(site.admin, [(CRDS, document) for document in definitions(KINDS)], "test")
        await await_definitions(site.admin, [kind.name for kind in KINDS], SYSTEM)
        for namespace in (HUB_NAMESPACE, NS, "config"):
            await ensure_namespace(site.admin, namespace)
        await apply_all(site.admin, account_permissions(ACCOUNT, HUB_NAMESPACE, ACCOUNT, RULES), "test")
        yield site


@pytest.fixture
async def bare() -> AsyncIterator[Site]:
    """Without controllers."""
    async with hub() as site:
        yield site


@pytest.fixture
async def site(bare: Site) -> AsyncIterator[Site]:
    async with bare.manager():
        yield bare
