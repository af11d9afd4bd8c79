"""The addon of `bench addons`: made before the manager starts, followed on the hub, and its works reported as work agents would.

There are no agents and no placement controller: decisions are written here, a hundred clusters each, so that what is measured is
the manager's doing alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from tests.support.choosing import CLUSTERS, DECISIONS, GROUP, Chooser

from bench.hub_controllers import HubController, Onlooker, each
from muster.api.addon.v1alpha1 import AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.meta import is_true
from muster.machinery.objects import Object
from muster.placement.writing import LIMIT
from muster.runtime.cache.informer import Informer
from muster.runtime.client.builtin import CLUSTER_ROLES
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from muster.runtime.client.typed import served
from muster.work.kinds import MANIFEST_WORKS

NAMESPACE = "bench"
ADDON = "bench-addon"
PLACEMENT = "everywhere"
CONFIG = "settings"
ROLE = "bench-addon-agent"
ADDON_GROUP = "addon.open-cluster-management.io"
TEMPLATES, CONFIGS, OFFERS = served(AddOnTemplate), served(AddOnDeploymentConfig), served(ClusterManagementAddOn)
INSTALLED = served(ManagedClusterAddOn)
AGGREGATED = {"open-cluster-management.io/aggregate-to-addon-manager": "true"}
REPORTERS = 16
NO_HASH = ""


def cluster_name(number: int) -> str:
    return f"cluster{number:05d}"


def manifests() -> list[Object]:
    labels, place = {"app": ADDON}, "open-cluster-management-agent-addon"
    container = {"name": "agent", "image": "quay.io/example/agent:v1", "args": ["--cluster={{CLUSTER_NAME}}", "--say={{GREETING}}"]}
    template = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": ADDON, "containers": [container]}}
    metadata = {"name": ADDON, "namespace": place}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"greeting": "{{GREETING}}"}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        },
    ]


def settings(greeting: str) -> Object:
    return {"customizedVariables": [{"name": "GREETING", "value": greeting}]}


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0


class _Work(msgspec.Struct):
    metadata: _Metadata


_decode_work = msgspec.json.Decoder(_Work).decode


@dataclass(kw_only=True)
class Load(Chooser, Onlooker):
    """The hub as its administrator sees it."""

    admin: HttpClient
    ns: str = NAMESPACE
    configured: set[str] = field(default_factory=set)
    """Clusters whose ManagedClusterAddOn says that it is Configured."""
    deployed: set[str] = field(default_factory=set)
    """Clusters for which there is a work."""
    settings: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By cluster, the hashes of the AddOnDeploymentConfig that it is to have and that it has."""
    most_at_once: int = 0
    """During a rollout: the most clusters at any time that were to have the new settings and had them not yet."""
    _old: str | None = None
    """The hash of the settings that are being replaced."""
    _under_way: set[str] = field(default_factory=set)
    _unreported: dict[tuple[str, str], int] = field(default_factory=dict)
    """Works by namespace and name, and the generation that nobody has reported yet."""
    _reporting: asyncio.Event = field(default_factory=asyncio.Event)

    # What there is

    async def make(self, clusters: int) -> None:
        await self.namespace(NAMESPACE)
        await each(range(clusters), self._make_cluster)
        await self._decide(clusters)
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
        await self._create(CLUSTER_ROLES, {"metadata": {"name": ROLE, "labels": AGGREGATED}, "rules": [rule]})
        permission = {"type": "CurrentCluster", "currentCluster": {"clusterRoleName": ROLE}}
        registration = {"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}}
        spec = {"addonName": ADDON, "agentSpec": {"workload": {"manifests": manifests()}}, "registration": [registration]}
        await self._create(TEMPLATES, {"metadata": {"name": ADDON}, "spec": spec})
        await self._create(CONFIGS, {"metadata": {"name": CONFIG, "namespace": NAMESPACE}, "spec": settings("hello")})
        supported = [{**_kind(TEMPLATES), "defaultConfig": {"name": ADDON}}, _kind(CONFIGS)]
        strategy = self._strategy({"type": "All"})
        annotations = {f"{ADDON_GROUP}/lifecycle": "addon-manager"}
        spec = {"supportedConfigs": supported, "installStrategy": strategy}
        await self._create(OFFERS, {"metadata": {"name": ADDON, "annotations": annotations}, "spec": spec})

    async def _make_cluster(self, number: int) -> None:
        await self.namespace(cluster_name(number))
        await self._create(CLUSTERS, {"metadata": {"name": cluster_name(number)}, "spec": {"hubAcceptsClient": True}})

    async def _decide(self, clusters: int) -> None:
        placement = await self.place(PLACEMENT)
        owner = {"apiVersion": placement["apiVersion"], "kind": "Placement", "name": PLACEMENT, "uid": placement["metadata"]["uid"]}
        labels = {f"{GROUP}/placement": PLACEMENT, f"{GROUP}/decision-group-index": "0", f"{GROUP}/decision-group-name": ""}
        for start in range(0, clusters, LIMIT):
            name = f"{PLACEMENT}-decision-{start // LIMIT + 1}"
            metadata = {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]}
            await self._create(DECISIONS, {"metadata": metadata})
            chosen = [{"clusterName": cluster_name(one), "reason": ""} for one in range(start, min(start + LIMIT, clusters))]
            await self.admin.patch(DECISIONS, name, {"status": {"decisions": chosen}}, NAMESPACE, subresource="status")

    async def _create(self, resource: Any, body: Object) -> None:
        await self.admin.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body})

    @staticmethod
    def _strategy(rollout: Object) -> Object:
        config = {**_kind(CONFIGS), "namespace": NAMESPACE, "name": CONFIG}
        placement = {"namespace": NAMESPACE, "name": PLACEMENT, "configs": [config], "rolloutStrategy": rollout}
        return {"type": "Placements", "placements": [placement]}

    async def roll_out_by(self, at_once: int) -> None:
        rollout = {"type": "Progressive", "progressive": {"maxConcurrency": at_once}}
        await self.admin.patch(OFFERS, ADDON, {"spec": {"installStrategy": self._strategy(rollout)}})

    async def configure(self, greeting: str, instead_of: str) -> None:
        """`instead_of`: the hash of the settings so far."""
        self._old = instead_of
        await self.admin.patch(CONFIGS, CONFIG, {"spec": settings(greeting)}, NAMESPACE)

    # What came of it

    def addon_changed(self, old: ManagedClusterAddOn | None, new: ManagedClusterAddOn | None) -> None:
        if new is None:
            return
        cluster, status = new.metadata.namespace, new.status
        if is_true(status.conditions, "Configured"):
            self.configured.add(cluster)
        for one in status.config_references:
            if one.resource == CONFIGS.plural:
                desired, applied = one.desired_config, one.last_applied_config
                hashes = (desired.spec_hash if desired else NO_HASH, applied.spec_hash if applied else NO_HASH)
                self.settings[cluster] = hashes
                under_way = self._old is not None and hashes[0] not in (self._old, hashes[1])
                (self._under_way.add if under_way else self._under_way.discard)(cluster)
                self.most_at_once = max(self.most_at_once, len(self._under_way))
        self.news.set()

    def work_changed(self, old: _Work | None, new: _Work | None) -> None:
        if new is None:
            return
        self.deployed.add(new.metadata.namespace)
        if old is None or old.metadata.generation != new.metadata.generation:
            self._unreported[new.metadata.namespace, new.metadata.name] = new.metadata.generation
        self.news.set()
        self._reporting.set()

    def have_settings(self, clusters: int, besides: str = NO_HASH) -> bool:
        """Whether so many clusters have the settings that they are to have, and none has those `besides`."""
        have = sum(desired == applied and desired not in (NO_HASH, besides) for desired, applied in self.settings.values())
        return have == clusters

    # Work agents

    @asynccontextmanager
    async def reported(self) -> AsyncIterator[None]:
        """Meanwhile every work is Applied and Available as soon as it is there or is changed."""
        tasks = [asyncio.create_task(self._report()) for _ in range(REPORTERS)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _report(self) -> None:
        while True:
            while self._unreported:
                (namespace, name), generation = self._unreported.popitem()
                body = {"status": {"conditions": _good(generation), "resourceStatus": {"manifests": []}}}
                await self.admin.patch(MANIFEST_WORKS, name, body, namespace, subresource="status")
            self._reporting.clear()
            await self._reporting.wait()


def _kind(resource: Any) -> Object:
    return {"group": ADDON_GROUP, "resource": resource.plural}


def _good(generation: int) -> list[Object]:
    said = {"status": "True", "reason": "Reported", "message": "", "observedGeneration": generation}
    return [{**said, "type": kind, "lastTransitionTime": "2026-01-01T00:00:00Z"} for kind in ("Applied", "Available")]


@asynccontextmanager
async def loaded(manager: HubController) -> AsyncIterator[Load]:
    admin = HttpClient(load_kubeconfig(manager.plane.kubeconfig, environ={}), agent="bench")
    load = Load(controller=manager, admin=admin)
    addons = Informer(admin, INSTALLED, decode=ManagedClusterAddOn.decode)
    works = Informer(admin, MANIFEST_WORKS, decode=_decode_work, reduce=lambda raw: msgspec.json.encode(_decode_work(raw)))
    addons.on_change(load.addon_changed)
    works.on_change(load.work_changed)
    following = [asyncio.create_task(one.run()) for one in (addons, works)]
    try:
        yield load
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        await admin.close()
