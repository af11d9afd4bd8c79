"""A template addon of many clusters, as a hub's administrator makes and follows it, over whichever client.

There are no agents and no placement controller: decisions are written here, a hundred clusters each, and works are reported as work
agents would, so that what is seen is the addon manager's doing alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from muster.api.addon.v1alpha1 import GROUP as ADDON_GROUP
from muster.api.addon.v1alpha1 import AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.addons import ADDON_LABEL, AGGREGATION_LABEL, LIFECYCLE_ANNOTATION, LIFECYCLE_MANAGED
from muster.api.meta import is_true
from muster.machinery.objects import Object
from muster.placement.hub.decision_plan import LIMIT
from muster.runtime.cache.informer import Informer
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CLUSTER_ROLES
from muster.runtime.client.errors import AlreadyExists, NotFound
from muster.runtime.client.typed import served
from muster.work.kinds import MANIFEST_WORKS
from tests.support.choosing import CLUSTERS, DECISIONS, GROUP, Chooser

NAMESPACE = "addons"
"""Of placements and configurations."""
ROLE = "followed-addon-agent"
TEMPLATES, CONFIGS, OFFERS = served(AddOnTemplate), served(AddOnDeploymentConfig), served(ClusterManagementAddOn)
INSTALLED = served(ManagedClusterAddOn)
AGGREGATED = {AGGREGATION_LABEL: "true"}
ALL: Object = {"type": "All"}
REPORTERS = 16
NO_HASH = ""


def progressive(at_once: int) -> Object:
    return {"type": "Progressive", "progressive": {"maxConcurrency": at_once}}


def settings(greeting: str) -> Object:
    return {"customizedVariables": [{"name": "GREETING", "value": greeting}]}


class Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    labels: dict[str, str] = {}


class Work(msgspec.Struct):
    """As little of one as has to be known."""

    metadata: Metadata


decode_work = msgspec.json.Decoder(Work).decode


@dataclass(kw_only=True)
class FollowedAddon(Chooser):
    admin: KubeClient
    addon: str
    ns: str = NAMESPACE
    clusters: Sequence[str] = ()
    configured: set[str] = field(default_factory=set)
    """Clusters whose ManagedClusterAddOn says that it is Configured."""
    deployed: set[str] = field(default_factory=set)
    """Clusters for which there is a work."""
    settings: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By cluster, the hashes of the AddOnDeploymentConfig that it is to have and that it has."""
    most_at_once: int = 0
    """During a rollout: the most clusters at any time that were to have the new settings and had them not yet."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    _old: str | None = None
    """The hash of the settings that are being replaced."""
    _under_way: set[str] = field(default_factory=set)
    _unreported: dict[tuple[str, str], int] = field(default_factory=dict)
    """Works by namespace and name, and the generation that nobody has reported yet."""
    _reporting: asyncio.Event = field(default_factory=asyncio.Event)

    # What there is

    async def make_cluster(self, name: str) -> None:
        await self.namespace(name)
        await self._create(CLUSTERS, {"metadata": {"name": name}, "spec": {"hubAcceptsClient": True}})

    async def offer(self, clusters: Iterable[str], rollout: Object = ALL) -> None:
        """Template, settings and decisions, and an addon that is installed by them."""
        self.clusters = sorted(clusters)
        await self.namespace(NAMESPACE)
        await self._decide()
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
        with suppress(AlreadyExists):
            await self._create(CLUSTER_ROLES, {"metadata": {"name": ROLE, "labels": AGGREGATED}, "rules": [rule]})
        permission = {"type": "CurrentCluster", "currentCluster": {"clusterRoleName": ROLE}}
        registration = {"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}}
        spec = {"addonName": self.addon, "agentSpec": {"workload": {"manifests": self.manifests()}}, "registration": [registration]}
        await self._create(TEMPLATES, {"metadata": {"name": self.addon}, "spec": spec})
        await self._create(CONFIGS, {"metadata": {"name": self.addon, "namespace": NAMESPACE}, "spec": settings("hello")})
        supported = [{**_kind(TEMPLATES), "defaultConfig": {"name": self.addon}}, _kind(CONFIGS)]
        metadata = {"name": self.addon, "annotations": {LIFECYCLE_ANNOTATION: LIFECYCLE_MANAGED}}
        spec = {"supportedConfigs": supported, "installStrategy": self._strategy(rollout)}
        await self._create(OFFERS, {"metadata": metadata, "spec": spec})

    def manifests(self) -> list[Object]:
        labels, metadata = {"app": self.addon}, {"name": self.addon, "namespace": "open-cluster-management-agent-addon"}
        arguments = ["--cluster={{CLUSTER_NAME}}", "--say={{GREETING}}"]
        pod = {
            "serviceAccountName": self.addon,
            "containers": [{"name": "agent", "image": "quay.io/example/agent:v1", "args": arguments}],
        }
        deployment = {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
        return [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"greeting": "{{GREETING}}"}},
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment},
        ]

    async def _decide(self) -> None:
        placement = await self.place(self.addon)
        owner = {
            "apiVersion": placement["apiVersion"],
            "kind": "Placement",
            "name": self.addon,
            "uid": placement["metadata"]["uid"],
        }
        labels = {f"{GROUP}/placement": self.addon, f"{GROUP}/decision-group-index": "0", f"{GROUP}/decision-group-name": ""}
        for start in range(0, len(self.clusters), LIMIT):
            name = f"{self.addon}-decision-{start // LIMIT + 1}"
            metadata = {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]}
            await self._create(DECISIONS, {"metadata": metadata})
            chosen = [{"clusterName": cluster, "reason": ""} for cluster in self.clusters[start : start + LIMIT]]
            await self.admin.patch(DECISIONS, name, {"status": {"decisions": chosen}}, NAMESPACE, subresource="status")

    async def _create(self, resource: Any, body: Object) -> None:
        await self.admin.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body})

    def _strategy(self, rollout: Object) -> Object:
        config = {**_kind(CONFIGS), "namespace": NAMESPACE, "name": self.addon}
        placement = {"namespace": NAMESPACE, "name": self.addon, "configs": [config], "rolloutStrategy": rollout}
        return {"type": "Placements", "placements": [placement]}

    async def roll_out(self, rollout: Object) -> None:
        await self.admin.patch(OFFERS, self.addon, {"spec": {"installStrategy": self._strategy(rollout)}})

    async def configure(self, greeting: str) -> str:
        """New settings; gives the hash of those so far, which all clusters have."""
        (self._old,) = {desired for desired, _ in self.settings.values()}
        await self.change_settings(greeting)
        return self._old

    async def change_settings(self, greeting: str) -> None:
        await self.admin.patch(CONFIGS, self.addon, {"spec": settings(greeting)}, NAMESPACE)

    # What came of it

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        addons = Informer(self.admin, INSTALLED, decode=ManagedClusterAddOn.decode)
        works = Informer(self.admin, MANIFEST_WORKS, decode=decode_work, reduce=lambda raw: msgspec.json.encode(decode_work(raw)))
        addons.on_change(self._addon_changed)
        works.on_change(self._work_changed)
        following = [asyncio.create_task(one.run()) for one in (addons, works)]
        try:
            yield
        finally:
            await _ended(following)

    def _addon_changed(self, old: ManagedClusterAddOn | None, new: ManagedClusterAddOn | None) -> None:
        if new is None or new.metadata.name != self.addon:
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

    def _work_changed(self, old: Work | None, new: Work | None) -> None:
        if new is None or new.metadata.labels.get(ADDON_LABEL) != self.addon:
            return
        self.deployed.add(new.metadata.namespace)
        if old is None or old.metadata.generation != new.metadata.generation:
            self._unreported[new.metadata.namespace, new.metadata.name] = new.metadata.generation
        self.news.set()
        self._reporting.set()

    @property
    def is_installed(self) -> bool:
        """Whether it is Configured on every cluster, and has a work there."""
        return len(self.configured) == len(self.deployed) == len(self.clusters)

    def is_applied(self, besides: str = NO_HASH) -> bool:
        """Whether all clusters have the settings that they are to have, and none has those `besides`."""
        have = sum(desired == applied and desired not in (NO_HASH, besides) for desired, applied in self.settings.values())
        return have == len(self.clusters)

    def has_new(self, cluster: str, old: str) -> bool:
        """Whether the cluster has other settings than those."""
        desired, applied = self.settings.get(cluster, (NO_HASH, NO_HASH))
        return desired == applied and desired not in (NO_HASH, old)

    # Work agents

    @asynccontextmanager
    async def reported(self) -> AsyncIterator[None]:
        """Meanwhile every work is Applied and Available as soon as it is there or is changed."""
        tasks = [asyncio.create_task(self._report()) for _ in range(REPORTERS)]
        try:
            yield
        finally:
            await _ended(tasks)

    async def _report(self) -> None:
        while True:
            while self._unreported:
                (namespace, name), generation = self._unreported.popitem()
                body = {"status": {"conditions": _good(generation), "resourceStatus": {"manifests": []}}}
                with suppress(NotFound):
                    await self.admin.patch(MANIFEST_WORKS, name, body, namespace, subresource="status")
            self._reporting.clear()
            await self._reporting.wait()


def _kind(resource: Any) -> Object:
    return {"group": ADDON_GROUP, "resource": resource.plural}


def _good(generation: int) -> list[Object]:
    said = {"status": "True", "reason": "Reported", "message": "", "observedGeneration": generation}
    return [{**said, "type": kind, "lastTransitionTime": "2026-01-01T00:00:00Z"} for kind in ("Applied", "Available")]


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
