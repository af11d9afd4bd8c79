"""`site`: the framework on an API server in this process, with its own rights only, a stub addon and a clock that stands still."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from muster.addon.agent_addon import Agent, ConfigObject, Installation
from muster.addon.framework import Framework
from muster.addon.framework.role_bindings import RoleBinding
from muster.addon.framework.rules import AGGREGATION_RULES, RULES
from muster.addon.install import aggregated_binding, aggregated_role
from muster.addon.plans import AddonPlans, Planned, PlannedConfig, Plans
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ConfigGroupResource, ConfigSpecHash, ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.api.crds import HUB, definitions
from muster.api.work.v1 import ManifestWork
from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.runtime.client.builtin import CRDS, NAMESPACES
from muster.runtime.client.errors import AlreadyExists, NotFound
from muster.runtime.client.typed import served
from muster.runtime.controller import ControllerContext, Manager
from muster.runtime.install import account_permissions, apply_all, await_definitions
from tests.support.mortal_hub import Life, MortalHub, hub_server, running

ADDON, CLUSTER, HOST = "hello", "c1", "host1"
CMAS, MCAS, CLUSTERS, WORKS, BINDINGS = (
    served(kind) for kind in (ClusterManagementAddOn, ManagedClusterAddOn, ManagedCluster, ManifestWork, RoleBinding)
)
ACCOUNT, NS = "addon-manager-controller-sa", "open-cluster-management-hub"
GROUP, ADC = "addon.open-cluster-management.io", "addondeploymentconfigs"
_KINDS = ("clustermanagementaddons", "managedclusteraddons", "managedclusters", "manifestworks")


def manifest(api_version: str, kind: str, name: str, spec: Object, **annotations: str) -> Object:
    """Annotations are the addon API's, with `_` for `-`."""
    marks = {f"{GROUP}/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": name, "namespace": "hello-ns", **({"annotations": marks} if marks else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **spec}


def config_map(name: str = "settings", **annotations: str) -> Object:
    return manifest("v1", "ConfigMap", name, {"data": {"a": "b"}}, **annotations)


def deployment(name: str = "agent", **annotations: str) -> Object:
    return manifest("apps/v1", "Deployment", name, {"spec": {"replicas": 1}}, **annotations)


def hook(name: str = "clean-up", **annotations: str) -> Object:
    return manifest("batch/v1", "Job", name, {"spec": {}}, addon_pre_delete="", **annotations)


@dataclass
class StubAddon:
    """Gives whatever a test puts into `make`."""

    make: Callable[[Installation], Agent] = lambda installation: Agent(manifests=(config_map(),))
    name: str = ADDON
    config_kinds: tuple[ConfigGroupResource, ...] = (ConfigGroupResource(group=GROUP, resource=ADC),)
    hosted: bool = True
    needs_configuration: bool = False
    neighbours: tuple[str, ...] = ()
    rendered: int = 0

    def agent(self, installation: Installation) -> Agent:
        self.rendered += 1
        return self.make(installation)


@dataclass
class StubRegistry:
    """Has the addon, unless a test says otherwise."""

    addon: StubAddon
    serves: bool = True

    def find(self, addon: str) -> StubAddon | None:
        return self.addon if self.serves and addon == self.addon.name else None


@dataclass
class FakeConfigs:
    """Configurations by group, resource, namespace and name."""

    objects: dict[tuple[str, str, str, str], ConfigObject] = field(default_factory=dict)
    listeners: list[Callable[[str, str, str, str], None]] = field(default_factory=list)

    def get(self, group: str, resource: str, namespace: str, name: str) -> ConfigObject | None:
        return self.objects.get((group, resource, namespace, name))

    def on_change(self, listener: Callable[[str, str, str, str], None]) -> None:
        self.listeners.append(listener)

    def put(self, name: str, generation: int = 1, **spec: Any) -> PlannedConfig:
        """Gives what a plan for it says."""
        digest = hashlib.sha256(orjson.dumps(spec)).hexdigest()
        document = {"metadata": {"name": name, "namespace": "configs", "generation": generation}, "spec": spec}
        place = (GROUP, ADC, "configs", name)
        self.objects[place] = ConfigObject(GROUP, ADC, document, digest)
        for listener in self.listeners:
            listener(*place)
        return PlannedConfig(GROUP, ADC, ConfigSpecHash(name=name, namespace="configs", spec_hash=digest))


class AddonSite(MortalHub):
    account = ACCOUNT

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.addon = StubAddon()
        self.registry = StubRegistry(self.addon)
        self.plans: Plans | None = Plans()
        self.configs = FakeConfigs()
        self.framework: Framework | None = None

    def user(self, name: str, *groups: str) -> InProcessClient:
        user = UserInfo(name, groups=(*groups, "system:authenticated"))
        return InProcessClient(self.server.client(self.server.clusters["hub"], user))

    @asynccontextmanager
    async def running(self, life: Life | None = None) -> AsyncIterator[Life]:
        living = life or Life()
        context = ControllerContext.of(
            self.own(living), "addon-manager", metrics=self.metrics, clock=self.clock, random=lambda: 0.0
        )
        self.configs.listeners.clear()
        if self.plans is not None:
            self.plans._listeners.clear()
        self.framework = Framework(context, self.registry, self.plans, self.configs)
        manager = Manager()
        manager.add_context(context)
        manager.add_controllers(self.framework.controllers)
        async with running(manager, synced=life is None):
            yield living

    async def described(self) -> str:
        return f"the addon's status is {orjson.dumps(await self.status(), option=orjson.OPT_INDENT_2).decode()}"

    async def settled(self) -> None:
        """Until the controller has nothing to do now."""
        assert self.framework is not None
        queue = self.framework._addons._controller.queue

        async def idle() -> bool:
            return not len(queue) and not queue.processing

        for _ in range(4):
            await self.until(idle, "the controller to be idle", moving=0.0)
            await asyncio.sleep(0.01)

    # What people and other controllers do

    async def namespace(self, name: str) -> None:
        with suppress(AlreadyExists):
            await self.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def cluster(self, name: str = CLUSTER, available: str = "True") -> None:
        await self.namespace(name)
        body = {
            "apiVersion": CLUSTERS.api_version,
            "kind": CLUSTERS.kind,
            "metadata": {"name": name},
            "spec": {"hubAcceptsClient": True},
        }
        await self.admin.create(CLUSTERS, body)
        await self.set_available(name, available)

    async def set_available(self, name: str, status: str) -> None:
        condition = _condition("ManagedClusterConditionAvailable", status)
        await self.admin.patch(CLUSTERS, name, {"status": {"conditions": [condition]}}, subresource="status")

    async def offer(self, name: str = ADDON, **annotations: str) -> str:
        """Annotations are the addon API's."""
        metadata = {"name": name, "annotations": {f"{GROUP}/{key}": value for key, value in annotations.items()}}
        body = {"apiVersion": CMAS.api_version, "kind": CMAS.kind, "metadata": metadata, "spec": {}}
        return str((await self.admin.create(CMAS, body))["metadata"]["uid"])

    async def enable(self, uid: str, cluster: str = CLUSTER, spec: Object | None = None, **metadata: Any) -> Object:
        owner = {"apiVersion": f"{GROUP}/v1beta1", "kind": CMAS.kind, "name": ADDON, "uid": uid, "controller": True}
        about = {"name": ADDON, "namespace": cluster, "ownerReferences": [owner], **metadata}
        body = {"apiVersion": MCAS.api_version, "kind": MCAS.kind, "metadata": about, "spec": spec or {}}
        return await self.admin.create(MCAS, body)

    def plan(self, uid: str, *configs: PlannedConfig, released: bool = True, clusters: tuple[str, ...] = (CLUSTER,)) -> None:
        assert self.plans is not None
        self.plans.put(ADDON, AddonPlans(uid, {cluster: Planned(configs, released) for cluster in clusters}))

    async def report(
        self, work: str = f"addon-{ADDON}-deploy-0", namespace: str = CLUSTER, *, applied: str = "True", **feedback: Any
    ) -> None:
        """As the work agent: applied and available, with these values for the first manifest."""
        found = await self.until(lambda: self.get(WORKS, work, namespace), f"work {work}")
        first = found["spec"]["workload"]["manifests"][0]
        group, _, version = first["apiVersion"].rpartition("/")
        place = {"name": first["metadata"]["name"], "namespace": first["metadata"]["namespace"]}
        kind = {"group": group, "version": version, "kind": first["kind"], "resource": f"{first['kind'].lower()}s"}
        values = [{"name": name, "fieldValue": _field_value(value)} for name, value in feedback.items()]
        manifest = {"resourceMeta": {"ordinal": 0, **kind, **place}, "conditions": [], "statusFeedback": {"values": values}}
        current = {"observedGeneration": found["metadata"]["generation"]}
        conditions = [{**_condition(one, applied), **current} for one in ("Applied", "Available")]
        status = {"conditions": conditions, "resourceStatus": {"manifests": [manifest]}}
        await self.admin.patch(WORKS, work, {"status": status}, namespace, subresource="status")

    # What is there

    async def get(self, resource: Any, name: str, namespace: str = "") -> Any:
        try:
            return await self.admin.get(resource, name, namespace)
        except NotFound:
            return None

    async def find(self, cluster: str = CLUSTER) -> Any:
        return await self.get(MCAS, ADDON, cluster)

    async def status(self, cluster: str = CLUSTER) -> Any:
        return (await self.find(cluster) or {}).get("status") or {}

    async def said(self, kind: str, cluster: str = CLUSTER) -> tuple[str, str, str] | None:
        """Status, reason and message of a condition."""
        conditions = (await self.status(cluster)).get("conditions") or ()
        return next(((one["status"], one["reason"], one["message"]) for one in conditions if one["type"] == kind), None)

    async def says(self, kind: str, status: str, reason: str, cluster: str = CLUSTER) -> str:
        """Wait for a condition; gives its message."""

        async def look() -> bool:
            found = await self.said(kind, cluster)
            return found is not None and found[:2] == (status, reason)

        await self.until(look, f"{kind} {status} {reason}")
        found = await self.said(kind, cluster)
        assert found is not None
        return found[2]

    async def works(self, namespace: str = CLUSTER) -> dict[str, list[str]]:
        found = await self.admin.list(WORKS, namespace)
        return {
            one["metadata"]["name"]: [manifest["metadata"]["name"] for manifest in one["spec"]["workload"]["manifests"]]
            for one in found.items
        }

    async def bindings(self, namespace: str = "") -> dict[tuple[str, str], str]:
        """By namespace and role, who is bound."""
        found = await self.admin.list(BINDINGS, namespace, label_selector="open-cluster-management.io/addon-name")
        return {
            (one["metadata"]["namespace"], one["roleRef"]["name"]): ",".join(subject["name"] for subject in one["subjects"])
            for one in found.items
        }


def _condition(kind: str, status: str) -> Object:
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"type": kind, "status": status, "reason": "Test", "message": f"said {status}", **since}


def _field_value(value: Any) -> Object:
    return {"type": "Integer", "integer": value} if isinstance(value, int) else {"type": "String", "string": value}


@asynccontextmanager
async def hub() -> AsyncIterator[AddonSite]:
    async with hub_server() as server:
        site = AddonSite(server)
        kinds = [kind for kind in HUB if kind.resource.plural in _KINDS]
        await apply_all(site.admin, [(CRDS, document) for document in definitions(kinds)], "test")
        await site.namespace(NS)
        await apply_all(site.admin, account_permissions(ACCOUNT, NS, "addon-manager", [*RULES, *AGGREGATION_RULES]), "test")
        await apply_all(site.admin, [aggregated_role(), aggregated_binding(NS, "cluster-manager")], "test")
        await await_definitions(site.admin, [kind.name for kind in kinds], SYSTEM)
        await site.cluster()
        yield site


@pytest.fixture
async def bare() -> AsyncIterator[AddonSite]:
    """Without a controller."""
    async with hub() as site:
        yield site


@pytest.fixture
async def site(bare: AddonSite) -> AsyncIterator[AddonSite]:
    async with bare.running():
        yield bare
