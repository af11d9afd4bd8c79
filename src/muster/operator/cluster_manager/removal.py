"""Removes a hub completely, in any state.

Order: the gateway's APIServices, since an unavailable one blocks the deletion of every namespace → CRDs (addons, works, clusters,
replica sets, then the rest; each waits for its objects, so the controllers still run) → components → secrets → accounts, roles, and
leftovers of clusters → the namespace on a remote hub → webhook configurations → the namespace on this cluster. A reconcile takes
the steps that are possible, never waits, and returns what is left. Only objects with this ClusterManager's label are deleted.

It ends even without controllers for finalizers: configurations of unavailable webhooks are deleted first, finalizers of clusters
and replica sets are removed at once if their controller does not run, and those of agents after `removal_timeout`. Then the webhook
configurations are deleted too, since they may block the removal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from muster.api.crds import ACCOUNTS, HUB, Definition
from muster.api.work.v1 import GROUP as WORK_GROUP
from muster.gateway.apiservice import POSSIBLE_API_SERVICES
from muster.gateway.apiservice import SERVICE as GATEWAY_SERVICE
from muster.gateway.apiservice import SERVING_SECRET as GATEWAY_SECRET
from muster.machinery.clock import Clock
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object, ObjectKey
from muster.operator.applier import ObjectRef, object_refs, remove
from muster.operator.cluster_manager import exposure, manifests
from muster.operator.cluster_manager.components import (
    CA_BUNDLE,
    COMPONENTS,
    HUB_ACCOUNT_SECRETS,
    POSSIBLE_HOOKS,
    REGISTRATION_CONTROLLER,
    SERVERS,
    WEBHOOK_SECRETS,
    WORK_CONTROLLER,
    Component,
)
from muster.operator.cluster_manager.grpc_certificates import GRPC_SECRETS
from muster.operator.cluster_manager.plan import ClusterManagerPlan
from muster.operator.deployments import rollout
from muster.operator.names import CLUSTER_MANAGER_LABEL, PULL_SECRET
from muster.operator.target_cluster import TargetCluster
from muster.policy.addons.cluster_access import SELECTOR as CLUSTER_ACCESS
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import OURS
from muster.runtime.client import Conflict, NotFound
from muster.runtime.client.builtin import (
    API_SERVICES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from muster.runtime.webhook import Hook

log = get_logger("muster.operator.removal")

NAMED: Final = 3
"""How many objects of a kind are named in messages."""
CLUSTERS: Final = f"{MANAGED_CLUSTERS.plural}.{MANAGED_CLUSTERS.group}"
FINALIZERS: Final = {CLUSTERS: REGISTRATION_CONTROLLER, f"manifestworkreplicasets.{WORK_GROUP}": WORK_CONTROLLER}
"""CRDs whose objects have finalizers of one of our components only: without it their finalizers are removed at once."""


@dataclass(frozen=True)
class Removal:
    """`hub` is None if it is unreachable: then its objects are left."""

    plan: ClusterManagerPlan
    here: TargetCluster
    hub: TargetCluster | None
    clock: Clock
    removal_timeout: timedelta

    async def run(self) -> list[str]:
        """What is left; empty if everything is removed. Raises KubeError."""
        if self.hub is not None:
            if left := await self._remove(self.hub, [ObjectRef(API_SERVICES, name) for name in POSSIBLE_API_SERVICES]):
                return left
            await self._silent_webhooks(self.hub)
            if left := await self._definitions(self.hub):
                return left
        if left := await self._components():
            return left
        if self.hub is not None and (left := await self._permissions(self.hub) or await self._rest(self.hub)):
            return left
        # Last, since it contains the kubeconfig of a hosted hub.
        return await self._remove(self.here, [ObjectRef(NAMESPACES, self.plan.namespace)])

    @property
    def overdue(self) -> bool:
        """Whether the removal has exceeded its timeout."""
        since = self.plan.manager.metadata.deletion_timestamp
        return bool(since) and self.clock.now() - parse_time(since) >= self.removal_timeout

    async def _silent_webhooks(self, hub: TargetCluster) -> None:
        """Deletes webhook configurations whose server is not available, since they would refuse every write."""
        for component, webhooks in SERVERS:
            if self.overdue or not await self._answers(component):
                await self._remove(hub, _hook_refs(webhooks.possible))

    async def _answers(self, component: Component) -> bool:
        try:
            found = await self.here.client.get(DEPLOYMENTS, component.deployment(self.plan), self.plan.namespace)
        except NotFound:
            return False
        return rollout(found).available > 0

    async def _remove(self, cluster: TargetCluster, objects: list[ObjectRef]) -> list[str]:
        return [str(ref) for ref in await remove(cluster.client, objects, keep=self._foreign, clock=self.clock)]

    def _foreign(self, obj: Object) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return labels.get(CLUSTER_MANAGER_LABEL) != self.plan.name

    async def _definitions(self, hub: TargetCluster) -> list[str]:
        kinds = {kind.name: kind for kind in (*HUB, *ACCOUNTS)}
        for name in manifests.definitions_in_order_of_removal():
            ref = ObjectRef(CRDS, name)
            if not await remove(hub.client, [ref], keep=self._foreign, clock=self.clock):
                continue
            held = await self._empty(hub, kinds[name])
            if await remove(hub.client, [ref], keep=self._foreign, clock=self.clock):
                return [f"{ref}" + (f", for {held}" if held else "")]
        return []

    async def _empty(self, hub: TargetCluster, kind: Definition) -> str:
        """Removes finalizers whose controllers are gone; returns the objects that still block the removal."""
        resource = GVR(
            f"{kind.resource.group}/{kind.stored}", kind.resource.plural, kind.resource.kind, kind.resource.scope == "Namespaced"
        )
        try:
            objects = (await hub.client.list(resource)).items
        except NotFound:
            return ""
        finalizer = FINALIZERS.get(kind.name)
        orphaned = bool(objects) and finalizer is not None and not await self._answers(finalizer)
        if objects and (orphaned or await self._removal_timed_out(hub, kind.name)):
            for obj in objects:
                await _let_go(hub, resource, obj)
            return ""
        named = ", ".join(str(ObjectKey(o["metadata"].get("namespace") or "", o["metadata"]["name"])) for o in objects[:NAMED])
        return f"{len(objects)} {resource.kind}: {named}{' …' if len(objects) > NAMED else ''}" if objects else ""

    async def _removal_timed_out(self, hub: TargetCluster, definition: str) -> bool:
        try:
            found = await hub.client.get(CRDS, definition)
        except NotFound:
            return False
        since = found["metadata"].get("deletionTimestamp")
        return bool(since) and self.clock.now() - parse_time(since) >= self.removal_timeout

    async def _components(self) -> list[str]:
        namespace = self.plan.namespace
        names = [component.deployment(self.plan) for component in COMPONENTS]
        deployments = [ObjectRef(DEPLOYMENTS, name, namespace) for name in names]
        left = await remove(self.here.client, deployments, keep=self._foreign, propagation="Foreground")
        if left:
            return [str(ref) for ref in left]
        others = [ObjectRef(SERVICES, webhooks.service, namespace) for _, webhooks in SERVERS]
        named = (exposure.service_name(self.plan), manifests.debug_service_name(self.plan), GATEWAY_SERVICE)
        others += [*(ObjectRef(SERVICES, name, namespace) for name in named), ObjectRef(CONFIG_MAPS, CA_BUNDLE, namespace)]
        others += [ObjectRef(SERVICE_ACCOUNTS, one.account, namespace) for one in COMPONENTS] if self.plan.hosted else []
        others += [ObjectRef(SECRETS, name, namespace) for name in (PULL_SECRET, *HUB_ACCOUNT_SECRETS)]
        left_over = await self._remove(self.here, others)
        if await self._mine(self.here, namespace):
            certificates = [ObjectRef(SECRETS, name, namespace) for name in (*WEBHOOK_SECRETS, *GRPC_SECRETS, GATEWAY_SECRET)]
            left_over += [str(one) for one in await remove(self.here.client, certificates)]
        return left_over

    async def _mine(self, cluster: TargetCluster, namespace: str) -> bool:
        try:
            return not self._foreign(await cluster.client.get(NAMESPACES, namespace))
        except NotFound:
            return False

    async def _permissions(self, hub: TargetCluster) -> list[str]:
        left = await self._remove(hub, object_refs(manifests.accounts_and_roles(self.plan)))
        left += await self._remove(hub, await self._driver_roles(hub))
        try:
            await hub.client.get(CRDS, CLUSTERS)
        except NotFound:
            left += await _remains_of_clusters(hub)
        return left

    async def _driver_roles(self, hub: TargetCluster) -> list[ObjectRef]:
        """In all namespaces: the drivers that were enabled before are not known."""
        ours = f"{CLUSTER_MANAGER_LABEL}={self.plan.name}"
        return [
            ObjectRef(resource, found["metadata"]["name"], found["metadata"]["namespace"])
            for resource in (ROLE_BINDINGS, ROLES)
            for found in (await hub.client.list(resource, label_selector=ours)).items
        ]

    async def _rest(self, hub: TargetCluster) -> list[str]:
        namespaces = [ObjectRef(NAMESPACES, self.plan.hub_namespace)] if self.plan.hosted else []
        return await self._remove(hub, namespaces) or await self._remove(hub, _hook_refs(POSSIBLE_HOOKS))


def _hook_refs(hooks: Iterable[Hook]) -> list[ObjectRef]:
    return [ObjectRef(hook.resource, hook.name) for hook in hooks]


async def _remains_of_clusters(hub: TargetCluster) -> list[str]:
    """Objects that a controller that is gone has left: permissions and leases of clusters. Their namespaces stay, since they may
    contain users' objects."""
    left = []
    registered = [(resource, OURS) for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, LEASES)]
    seen_by_addons = [(resource, CLUSTER_ACCESS) for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)]
    for resource, selector in (*registered, *seen_by_addons):
        for obj in (await hub.client.list(resource, label_selector=selector)).items:
            ref = ObjectRef(resource, obj["metadata"]["name"], obj["metadata"].get("namespace") or "")
            if await remove(hub.client, [ref]):
                await _let_go(hub, resource, obj)
                left += [str(one) for one in await remove(hub.client, [ref])]
    return left


async def _let_go(hub: TargetCluster, resource: GVR, obj: Object) -> None:
    metadata = obj["metadata"]
    namespace = metadata.get("namespace") or ""
    try:
        current = await hub.client.get(resource, metadata["name"], namespace)
        if not current["metadata"].get("finalizers") or current["metadata"]["uid"] != metadata["uid"]:
            return
        patch = {"metadata": {"uid": metadata["uid"], "finalizers": None}}
        await hub.client.patch(resource, metadata["name"], patch, namespace)
    except (NotFound, Conflict):
        return
    log.warning(
        "removed the finalizers of an object whose controller is gone",
        resource=str(resource),
        key=str(ObjectKey(namespace, metadata["name"])),
    )
