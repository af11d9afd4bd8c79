"""Grants the user for hub templates read access to its own ManagedCluster, for the labels, and to no other.

ManagedClusters have no namespace, so this needs a ClusterRole with the cluster's name and a ClusterRoleBinding for each cluster
on which the addon is enabled. Both are found by their labels and deleted with the ManagedClusterAddOn, even if that was deleted
while this controller was not running. The subject of the binding follows from names alone: the group of the addon's agents on
this cluster or, if the cluster's agent uses tokens, one service account.

The process may read ManagedClusters itself and has neither `escalate` nor `bind` for these roles, so it cannot grant more.
"""

from __future__ import annotations

from typing import Final, TypeVar

from muster.addon.framework.owned import OwnedObjects
from muster.addon.framework.role_bindings import BindingSubject, name_prefix
from muster.api.addon.v1alpha1 import ManagedClusterAddOn, RoleRef
from muster.api.addons import ADDON_LABEL, TOKEN_DRIVER, cluster_addon_group, drivers_in_use, token_user
from muster.api.agents import CLUSTER_LABEL
from muster.api.cluster.v1 import GROUP as CLUSTER_GROUP
from muster.api.cluster.v1 import ManagedCluster
from muster.api.resource import ObjectMeta, Record, ResourceType, TypedObject
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.policy.names import STANDALONE_ADDON
from muster.runtime.controller import ControllerContext
from muster.runtime.install import RBAC_GROUP, READ, rule

log = get_logger("muster.policy.addons.cluster_access")

NAME: Final = "hub-template-rights"
VERBS: Final = ("list", "watch")
SELECTOR: Final = f"{CLUSTER_LABEL},{ADDON_LABEL}={STANDALONE_ADDON}"
RULES: Final = (rule(RBAC_GROUP, ["clusterroles", "clusterrolebindings"], [*READ, "create", "patch", "delete"]),)


class PolicyRule(Record):
    """One rule of a role."""

    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


class ClusterRole(TypedObject):
    """Permissions in all namespaces and for cluster-scoped objects."""

    resource = ResourceType(RBAC_GROUP, "v1", "ClusterRole", "clusterroles", "Cluster", status=False)

    rules: tuple[PolicyRule, ...] = ()


class ClusterRoleBinding(TypedObject):
    """Binds subjects to a ClusterRole."""

    resource = ResourceType(RBAC_GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", "Cluster", status=False)

    role_ref: RoleRef
    subjects: tuple[BindingSubject, ...] = ()


T = TypeVar("T", bound=TypedObject)


class ManagedClusterAccess:
    """One controller; its keys are ManagedClusterAddOns."""

    def __init__(self, context: ControllerContext) -> None:
        self._controller = context.controller(NAME, self.reconcile)
        self._addons = context.informers.of(ManagedClusterAddOn)
        self._controller.watch(
            self._addons,
            lambda one: [ObjectKey(one.metadata.namespace, one.metadata.name)] if one.metadata.name == STANDALONE_ADDON else [],
        )
        self._roles = self._owned(context, ClusterRole)
        self._bindings = self._owned(context, ClusterRoleBinding)

    def _owned(self, context: ControllerContext, kind: type[T]) -> OwnedObjects[T]:
        informer = context.informers.of(kind, label_selector=SELECTOR)
        self._controller.depend(informer)
        return OwnedObjects(context.client, kind, informer, owner_of, self._controller.enqueue, context.clock)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, key: ObjectKey) -> None:
        addon = self._addons.cache.get(key)
        if addon is None and key in self._addons.malformed:
            # An object that cannot be decoded still exists.
            return
        if addon is None or addon.metadata.deletion_timestamp:
            await self._remove(key)
            return
        await self._write(self._roles, key, role(key.namespace))
        await self._write(self._bindings, key, binding(addon))

    async def _write(self, owned: OwnedObjects[T], key: ObjectKey, wanted: T) -> None:
        there = next(iter(owned.of(key)), None) or await owned.create(key, wanted.document())
        if there is None:
            log.info("access to managed cluster granted", kind=wanted.resource.kind, cluster=key.namespace)
            return
        document, after = there.document(), wanted.document()
        if document.get("roleRef") != after.get("roleRef"):
            # The roleRef is immutable.
            await owned.delete(there)
            await owned.create(key, after)
        elif (changed := _merged(document, after)) != document:
            await owned.change(key, document, changed)

    async def _remove(self, key: ObjectKey) -> None:
        for one in self._bindings.of(key):
            await self._bindings.delete(one)
        for other in self._roles.of(key):
            await self._roles.delete(other)


def role_name(cluster: str) -> str:
    """The name of the role and of its binding."""
    return f"{name_prefix(cluster, STANDALONE_ADDON)}managedcluster"


def role(cluster: str) -> ClusterRole:
    own = PolicyRule(
        api_groups=(CLUSTER_GROUP,), resources=(ManagedCluster.resource.plural,), resource_names=(cluster,), verbs=VERBS
    )
    return ClusterRole(metadata=_metadata(cluster), rules=(own,))


def binding(addon: ManagedClusterAddOn) -> ClusterRoleBinding:
    cluster = addon.metadata.namespace
    subjects = tuple(_subject(cluster, driver) for driver in drivers_in_use(addon.status))
    reference = RoleRef(api_group=RBAC_GROUP, kind=ClusterRole.resource.kind, name=role_name(cluster))
    return ClusterRoleBinding(metadata=_metadata(cluster), role_ref=reference, subjects=subjects)


def _subject(cluster: str, driver: str) -> BindingSubject:
    if driver == TOKEN_DRIVER:
        return BindingSubject(kind="User", name=token_user(cluster, STANDALONE_ADDON), api_group=RBAC_GROUP)
    return BindingSubject(kind="Group", name=cluster_addon_group(cluster, STANDALONE_ADDON), api_group=RBAC_GROUP)


def _metadata(cluster: str) -> ObjectMeta:
    return ObjectMeta(name=role_name(cluster), labels={ADDON_LABEL: STANDALONE_ADDON, CLUSTER_LABEL: cluster})


def _merged(there: Object, wanted: Object) -> Object:
    """The existing object with the desired fields; labels and annotations of others stay."""
    metadata = there["metadata"]
    labels = {**(metadata.get("labels") or {}), **wanted["metadata"]["labels"]}
    content = {name: value for name, value in wanted.items() if name in ("rules", "subjects")}
    return {**there, "metadata": {**metadata, "labels": labels}, **content}


def owner_of(right: TypedObject) -> ObjectKey | None:
    """The key of the ManagedClusterAddOn that it belongs to."""
    cluster = right.metadata.labels.get(CLUSTER_LABEL, "")
    return ObjectKey(cluster, STANDALONE_ADDON) if cluster and right.metadata.name == role_name(cluster) else None
