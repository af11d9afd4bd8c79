"""Addons' credentials on an API server in this process, kept with the addon manager's own rights."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from muster.addon.agent_addon import ConfigObject
from muster.addon.install import aggregated_binding, aggregated_role
from muster.addon.requests.controllers import request_controllers, token_controllers
from muster.addon.requests.registrations import RegistrationsOf, RenderedRegistrations
from muster.addon.requests.rules import RULES
from muster.addon.templates.registry import TemplateAddons
from muster.api.addon.v1alpha1 import GROUP, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.api.crds import HUB, definitions
from muster.apiserver.server import ApiServer
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import Object
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import AlreadyExists, NotFound, served
from muster.runtime.client.builtin import CRDS, EVENTS, NAMESPACES, SIGNING_REQUESTS
from muster.runtime.controller import ControllerContext, Manager
from muster.runtime.install import account_permissions, apply_all, await_definitions
from tests.support.addon_requests import ADDON, CLUSTER, agent_of, request_of
from tests.support.in_process import serving
from tests.support.mortal_hub import Life, MortalHub, running

ACCOUNT = "addon-manager-controller-sa"
ADDONS, OFFERED, CLUSTERS = served(ManagedClusterAddOn), served(ClusterManagementAddOn), served(ManagedCluster)
TEMPLATE = {"group": GROUP, "resource": AddOnTemplate.resource.plural}
KINDS = tuple(
    kind for kind in HUB if kind.resource.plural in ("managedclusters", "managedclusteraddons", "clustermanagementaddons")
)


class ListedConfigs:
    """Configurations of a test."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str, str], ConfigObject] = {}

    def put(self, config: ConfigObject) -> None:
        metadata = config.document["metadata"]
        self.objects[(config.group, config.resource, metadata.get("namespace", ""), metadata["name"])] = config

    def get(self, group: str, resource: str, namespace: str, name: str) -> ConfigObject | None:
        return self.objects.get((group, resource, namespace, name))

    def on_change(self, listener: Callable[[str, str, str, str], None]) -> None:
        return None


class AddonHub(MortalHub):
    account = ACCOUNT
    step = 0.05

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.configs = ListedConfigs()
        self.registry: TemplateAddons | None = None
        self.registrations: RegistrationsOf | None = None

    async def install(self) -> None:
        await apply_all(self.admin, [(CRDS, document) for document in definitions(KINDS)], "test")
        await self.namespace(HUB_NAMESPACE)
        await apply_all(self.admin, account_permissions(ACCOUNT, HUB_NAMESPACE, "manager", RULES), "test")
        await apply_all(self.admin, [aggregated_role(), aggregated_binding(HUB_NAMESPACE, "cluster-manager")], "test")
        await await_definitions(self.admin, [kind.name for kind in KINDS], SYSTEM)

    @asynccontextmanager
    async def running(self, life: Life | None = None) -> AsyncIterator[Life]:
        """For as long as `life` lasts, or the test."""
        life = life or Life()
        manager = Manager()
        context = ControllerContext.of(self.own(life), "addon-manager", clock=self.clock, random=lambda: 0.0)
        self.registry = TemplateAddons(context.informers)
        self.registrations = RenderedRegistrations(context.informers, self.registry, self.configs)
        manager.add_context(context)
        manager.add_controllers(request_controllers(context, self.registrations))
        manager.add_controllers(token_controllers(context))
        async with running(manager):
            yield life

    async def namespace(self, name: str) -> None:
        with suppress(AlreadyExists):
            await self.admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def cluster(self, name: str = CLUSTER, *, accepted: bool = True) -> None:
        await self.namespace(name)
        kind = {"apiVersion": CLUSTERS.api_version, "kind": CLUSTERS.kind}
        await self.admin.create(CLUSTERS, {**kind, "metadata": {"name": name}, "spec": {"hubAcceptsClient": accepted}})

    async def offer(self, name: str = ADDON, *templates: str, supports: bool = True) -> None:
        default = {"defaultConfig": {"name": templates[0]}} if templates else {}
        spec = {"supportedConfigs": [{**TEMPLATE, **default}] if supports else []}
        kind = {"apiVersion": OFFERED.api_version, "kind": OFFERED.kind}
        await self.admin.create(OFFERED, {**kind, "metadata": {"name": name}, "spec": spec})

    async def enable(self, cluster: str = CLUSTER, name: str = ADDON, template: str = "", **spec: Any) -> None:
        kind = {"apiVersion": ADDONS.api_version, "kind": ADDONS.kind}
        await self.admin.create(ADDONS, {**kind, "metadata": {"name": name, "namespace": cluster}, "spec": spec})
        if template:
            await self.refer(template, cluster, name)

    async def refer(self, template: str, cluster: str = CLUSTER, name: str = ADDON) -> None:
        """What the manager writes, and a cluster's agent may."""
        reference = {**TEMPLATE, "name": template, "desiredConfig": {"name": template, "specHash": "h"}}
        await self.status({"configReferences": [reference]}, cluster, name)

    async def status(self, status: Object, cluster: str = CLUSTER, name: str = ADDON) -> None:
        await self.admin.patch(ADDONS, name, {"status": status}, cluster, subresource="status")

    async def ask(self, name: str, user: UserInfo | None = None, pem: bytes | None = None, **request: Any) -> None:
        """As somebody with the right to make signing requests: groups let them."""
        who = user or agent_of()
        client = self.client(UserInfo(who.name, groups=(*who.groups, "system:masters")))
        await client.create(SIGNING_REQUESTS, request_of(pem, name=name, **request))

    async def verdict(self, name: str) -> str:
        csr = await self.admin.get(SIGNING_REQUESTS, name)
        return ",".join(condition["type"] for condition in (csr.get("status") or {}).get("conditions") or ())

    async def find(self, resource: Any, name: str, namespace: str = "") -> Object | None:
        try:
            return await self.admin.get(resource, name, namespace)
        except NotFound:
            return None

    async def notes(self, reason: str) -> list[str]:
        return [event["note"] for event in (await self.admin.list(EVENTS)).items if event["reason"] == reason]


@asynccontextmanager
async def addon_hub() -> AsyncIterator[AddonHub]:
    async with serving("hub") as server:
        hub = AddonHub(server)
        await hub.install()
        yield hub
