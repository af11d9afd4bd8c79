"""The roles on the hub that an addon's agent of one cluster is bound to: one RoleBinding for each role, cluster and namespace.

Whom a binding names is computed here, from the cluster and the addon, and never read from a status. The name says everything that
makes it different from others, so no two clusters and no two permissions ever write the same object. Labels say whose it is: that
is how it is found again when the ManagedClusterAddOn is gone, by a process that has been restarted since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from muster.addon.agent_addon import Agent, KubeClient, RoleBindingRequest
from muster.api.addon.v1alpha1 import ManagedClusterAddOn, RoleRef
from muster.api.addons import ADDON_LABEL, TOKEN_DRIVER, addon_group, token_user
from muster.api.agents import CLUSTER_LABEL
from muster.api.resource import ObjectMeta, OwnerReference, Record, ResourceType, TypedObject
from muster.machinery.objects import ObjectKey
from muster.runtime.install import RBAC_GROUP

MANAGED_BY_LABEL: Final = "addon.open-cluster-management.io/permissions-of"
"""Which process keeps the binding (ours): others leave it alone."""


class BindingSubject(Record):
    """Somebody whom a binding names."""

    kind: str
    name: str
    api_group: str = ""
    namespace: str = ""


class RoleBinding(TypedObject):
    """Binds somebody to a role in one namespace."""

    resource = ResourceType(RBAC_GROUP, "v1", "RoleBinding", "rolebindings", "Namespaced", status=False)

    role_ref: RoleRef
    subjects: tuple[BindingSubject, ...] = ()


def wanted_bindings(addon: ManagedClusterAddOn, agent: Agent, drivers: Sequence[str], process: str) -> dict[ObjectKey, RoleBinding]:
    """`drivers` are those by which the agent may prove itself: while one takes over from another, both identities count."""
    wanted = (_binding(addon, client, one, drivers, process) for client, one in _requests(agent))
    return {ObjectKey(one.metadata.namespace, one.metadata.name): one for one in wanted}


def _requests(agent: Agent) -> Iterator[tuple[KubeClient, RoleBindingRequest]]:
    for registration in agent.registrations:
        if isinstance(registration, KubeClient):
            for request in registration.permissions:
                yield registration, request


def _binding(
    addon: ManagedClusterAddOn, client: KubeClient, request: RoleBindingRequest, drivers: Sequence[str], process: str
) -> RoleBinding:
    cluster, name = addon.metadata.namespace, addon.metadata.name
    namespace = request.namespace or cluster
    metadata = ObjectMeta(
        name=f"{name_prefix(cluster, name)}{request.kind.lower()}:{request.role}:{'addon' if request.whole_addon else 'agent'}",
        namespace=namespace,
        labels={ADDON_LABEL: name, CLUSTER_LABEL: cluster, MANAGED_BY_LABEL: process},
        owner_references=(owner_reference(addon),) if namespace == cluster else (),
    )
    subjects = tuple(_subject(cluster, name, client, request, driver) for driver in drivers)
    return RoleBinding(
        metadata=metadata, role_ref=RoleRef(api_group=RBAC_GROUP, kind=request.kind, name=request.role), subjects=subjects
    )


def _subject(cluster: str, addon: str, client: KubeClient, request: RoleBindingRequest, driver: str) -> BindingSubject:
    if driver == TOKEN_DRIVER:
        # Service accounts are in no group of the addon.
        return BindingSubject(kind="User", name=token_user(cluster, addon), api_group=RBAC_GROUP)
    if request.whole_addon:
        return BindingSubject(kind="Group", name=addon_group(addon), api_group=RBAC_GROUP)
    return BindingSubject(kind="User", name=client.identity(cluster, addon).user, api_group=RBAC_GROUP)


def name_prefix(cluster: str, addon: str) -> str:
    return f"open-cluster-management:{addon}:{cluster}:"


def owner_reference(addon: ManagedClusterAddOn) -> OwnerReference:
    """As upstream's: the version that it works with is left to the server to convert."""
    return OwnerReference(
        api_version=addon.resource.api_version,
        kind=addon.resource.kind,
        name=addon.metadata.name,
        uid=addon.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def owner_of(binding: RoleBinding) -> ObjectKey | None:
    """Whose it is."""
    labels = binding.metadata.labels
    cluster, addon = labels.get(CLUSTER_LABEL, ""), labels.get(ADDON_LABEL, "")
    if not cluster or not addon or not binding.metadata.name.startswith(name_prefix(cluster, addon)):
        return None
    return ObjectKey(cluster, addon)
