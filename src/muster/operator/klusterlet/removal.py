"""Removes the agents of a managed cluster completely, in any state.

Order: agents → their credential and kubeconfigs → finalizers of AppliedManifestWorks (applied objects stay) → accounts, roles and
namespaces on the managed cluster → objects that all Klusterlets share, if this is the last one and they are not in use → the
agents' namespace. Objects are found by this Klusterlet's label, so those of its former specs are found too, and no others are
deleted. A reconcile takes the steps that are possible, never waits, and returns what is left. The hub is not notified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.api.addons import NAMESPACE_LABEL
from muster.api.work.v1 import AppliedManifestWork
from muster.machinery.objects import GVR, Object
from muster.operator.applier import ObjectRef, remove
from muster.operator.klusterlet.installation import OWNED
from muster.operator.klusterlet.manifests import MANAGED_SECRETS, SHARED, served_kinds
from muster.operator.klusterlet.plan import KlusterletPlan
from muster.operator.names import ADDON_NAMESPACE, KLUSTERLET_LABEL, PULL_SECRET
from muster.operator.target_cluster import TargetCluster
from muster.registration.names import HUB_SECRET, PENDING_SECRET
from muster.runtime.client import NotFound, served
from muster.runtime.client.builtin import CRDS, DEPLOYMENTS, NAMESPACES, SECRETS
from muster.runtime.controller import removal_patch

APPLIED_WORKS: Final = served(AppliedManifestWork)
APPLIED_WORK_FINALIZER: Final = "cluster.open-cluster-management.io/applied-manifest-work-cleanup"


@dataclass(frozen=True)
class Removal:
    """`last`: no other Klusterlet remains on the cluster."""

    plan: KlusterletPlan
    here: TargetCluster
    last: bool

    async def agents(self) -> list[ObjectRef]:
        """Delete the agents and the objects that only they used; returns what is left. Raises KubeError."""
        agents = await self._labelled(self.here, DEPLOYMENTS)
        return await remove(self.here.client, agents, propagation="Foreground") or await self._secrets()

    async def rights(self, managed: TargetCluster) -> list[ObjectRef]:
        """Delete the objects on the managed cluster; returns what is left. Raises KubeError."""
        await self._remove_work_finalizers(managed)
        return await self._own(managed) or await self._shared(managed)

    async def rest(self) -> list[ObjectRef]:
        """Delete the remaining objects on this cluster; returns what is left. Raises KubeError."""
        return await self._own(self.here)

    async def _labelled(self, cluster: TargetCluster, resource: GVR) -> list[ObjectRef]:
        found = await cluster.client.list(resource, label_selector=f"{KLUSTERLET_LABEL}={self.plan.name}")
        return [ObjectRef(resource, o["metadata"]["name"], o["metadata"].get("namespace") or "") for o in found.items]

    async def _secrets(self) -> list[ObjectRef]:
        """The agents' credential too, which is not labelled, if the namespace is this Klusterlet's."""
        namespace = self.plan.agent_namespace
        try:
            found = await self.here.client.get(NAMESPACES, namespace)
        except NotFound:
            return []
        if _label(found) != self.plan.name:
            return []
        names = (HUB_SECRET, PENDING_SECRET, PULL_SECRET, *(MANAGED_SECRETS if self.plan.hosted else ()))
        return await remove(self.here.client, [ObjectRef(SECRETS, name, namespace) for name in names])

    async def _remove_work_finalizers(self, cluster: TargetCluster) -> None:
        try:
            works = (await cluster.client.list(APPLIED_WORKS)).items
        except NotFound:
            return
        for work in works:
            mine = (work.get("spec") or {}).get("agentID") == self.plan.klusterlet.metadata.uid
            patch = removal_patch(work, APPLIED_WORK_FINALIZER) if mine else None
            if patch is not None:
                try:
                    await cluster.client.patch(APPLIED_WORKS, work["metadata"]["name"], patch)
                except NotFound:
                    continue

    async def _own(self, cluster: TargetCluster) -> list[ObjectRef]:
        """In the order of `OWNED`: a kind is deleted once the one before is gone.

        On another cluster the agents' namespace is kept: it may be this same cluster, and it contains the kubeconfig.
        """
        for resource in OWNED:
            found = await self._labelled(cluster, resource)
            if cluster is not self.here:
                found = [ref for ref in found if ref != ObjectRef(NAMESPACES, self.plan.agent_namespace)]
            if left := await remove(cluster.client, found):
                return left
        return []

    async def _shared(self, cluster: TargetCluster) -> list[ObjectRef]:
        if not self.last or await self._others(cluster):
            return []
        copies = [ObjectRef(SECRETS, PULL_SECRET, namespace) for namespace in await self._addon_namespaces(cluster)]
        objects = [*copies, ObjectRef(NAMESPACES, ADDON_NAMESPACE), *await self._empty_definitions(cluster)]
        return await remove(cluster.client, objects, keep=lambda found: _label(found) != SHARED)

    async def _addon_namespaces(self, cluster: TargetCluster) -> list[str]:
        """Namespaces of others that have addons."""
        found = (await cluster.client.list(NAMESPACES, label_selector=f"{NAMESPACE_LABEL}=true")).items
        return [name for one in found if (name := one["metadata"]["name"]) != ADDON_NAMESPACE]

    async def _others(self, cluster: TargetCluster) -> bool:
        """Whether another Klusterlet, on any cluster, has a namespace on the managed cluster."""
        found = (await cluster.client.list(NAMESPACES, label_selector=KLUSTERLET_LABEL)).items
        return any(_label(one) not in (self.plan.name, SHARED) for one in found)

    async def _empty_definitions(self, cluster: TargetCluster) -> list[ObjectRef]:
        """CRDs with existing claims or AppliedManifestWorks are kept."""
        empty = []
        for name, resource in served_kinds().items():
            try:
                used = bool((await cluster.client.list(resource)).items)
            except NotFound:
                used = False
            if not used:
                empty.append(ObjectRef(CRDS, name))
        return empty


def _label(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get(KLUSTERLET_LABEL, ""))
