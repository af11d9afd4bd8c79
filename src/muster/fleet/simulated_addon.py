"""The addon of `muster sim --addon`: made of a template, and installed on every cluster by a placement on the global set.

Its agent has a credential of its own on the hub and one role there; it does nothing. `AddonObserver` watches its
ManagedClusterAddOns and measures what users see: it is Available on a cluster once its certificate is signed and stored, its works
are applied and its Deployment has reported back (`simulated_pods`).
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Final

from muster.api.addon.v1alpha1 import (
    DEFAULT_NAMESPACE,
    GROUP,
    AddOnDeploymentConfig,
    AddOnTemplate,
    ClusterManagementAddOn,
    ManagedClusterAddOn,
)
from muster.api.addons import AGGREGATION_LABEL, LIFECYCLE_ANNOTATION, LIFECYCLE_MANAGED, agent_name
from muster.api.cluster.v1beta1 import Placement
from muster.api.cluster.v1beta2 import ManagedClusterSetBinding
from muster.api.meta import is_true
from muster.fleet.availability import Availability
from muster.machinery.objects import GVR, Object
from muster.runtime.cache import Informer
from muster.runtime.client import AlreadyExists, KubeClient, served
from muster.runtime.client.builtin import CLUSTER_ROLES, NAMESPACES

NAME: Final = "simulated"
NAMESPACE: Final = "muster-simulation"
"""The namespace of the placement."""
_SET: Final = "global"
_ROLE: Final = "open-cluster-management:muster-simulation:agent"
_INSTALLED: Final = served(ManagedClusterAddOn)


class AddonObserver:
    """Enables the addon once, and watches it from then on."""

    def __init__(self, client: KubeClient, clusters: int) -> None:
        self.availability = Availability(clusters)
        self.writes = 0
        """Observed versions of ManagedClusterAddOns until it was Available on all clusters."""
        self._client = client
        self._enabled_at: float | None = None
        self._informer = Informer(client, _INSTALLED, decode=ManagedClusterAddOn.decode)
        self._informer.on_change(self._saw)
        self._following: asyncio.Task[None] | None = None

    async def enable(self) -> None:
        if self._following is None:
            self._following = asyncio.create_task(self._informer.run(), name="observer of addons")
            await self._informer.synced()
            self._enabled_at = time.monotonic()
            await enable(self._client)

    async def aclose(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})

    def _saw(self, old: ManagedClusterAddOn | None, new: ManagedClusterAddOn | None) -> None:
        if new is not None:
            self.writes += self.availability.complete_at is None
            self.availability.saw(new.metadata.namespace, is_true(new.status.conditions, "Available"), time.monotonic())
        elif old is not None:
            self.availability.gone(old.metadata.namespace)

    @property
    def available_after(self) -> float | None:
        """Seconds from enabling it until it was first Available on all clusters."""
        complete = self.availability.complete_at
        return None if complete is None or self._enabled_at is None else complete - self._enabled_at

    def line(self) -> str:
        state = self.availability
        return f", addon Available on {state.available} of {state.known}" if self._enabled_at is not None else ""


async def enable(client: KubeClient) -> None:
    """Needs an administrator's permissions; once it returns, the hub installs the addon."""
    for resource, body in _objects():
        with suppress(AlreadyExists):
            await client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body})


def _objects() -> list[tuple[GVR, Object]]:
    tolerant = {"tolerations": [{"operator": "Exists"}]}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
    placements = [{"namespace": NAMESPACE, "name": NAME}]
    supported = [
        {"group": GROUP, "resource": served(AddOnTemplate).plural, "defaultConfig": {"name": NAME}},
        {"group": GROUP, "resource": served(AddOnDeploymentConfig).plural},
    ]
    offer = {"supportedConfigs": supported, "installStrategy": {"type": "Placements", "placements": placements}}
    metadata = {"name": NAME, "annotations": {LIFECYCLE_ANNOTATION: LIFECYCLE_MANAGED}}
    return [
        (NAMESPACES, {"metadata": {"name": NAMESPACE}}),
        (served(ManagedClusterSetBinding), {"metadata": {"name": _SET, "namespace": NAMESPACE}, "spec": {"clusterSet": _SET}}),
        (served(Placement), {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": tolerant}),
        (CLUSTER_ROLES, {"metadata": {"name": _ROLE, "labels": {AGGREGATION_LABEL: "true"}}, "rules": [rule]}),
        (served(AddOnTemplate), {"metadata": {"name": NAME}, "spec": _template()}),
        (served(ClusterManagementAddOn), {"metadata": metadata, "spec": offer}),
    ]


def _template() -> Object:
    labels, metadata = {"app": NAME}, {"name": agent_name(NAME), "namespace": DEFAULT_NAMESPACE}
    container = {"name": "agent", "image": "registry.example/simulated-agent:v1", "args": ["--cluster={{CLUSTER_NAME}}"]}
    pod = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": agent_name(NAME), "containers": [container]}}
    manifests: list[Object] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod},
        },
    ]
    permission = {"type": "CurrentCluster", "currentCluster": {"clusterRoleName": _ROLE}}
    registration = {"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}}
    return {"addonName": NAME, "agentSpec": {"workload": {"manifests": manifests}}, "registration": [registration]}
