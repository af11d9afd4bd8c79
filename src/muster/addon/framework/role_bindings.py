"""RoleBindings on the hub for an addon's agents: one for each role, cluster and namespace.

The subject is computed from the cluster and the addon, and never read from a status. The name contains everything that
distinguishes a binding, so no two clusters or permissions share an object. Labels have its owner: by them it is found again after a
restart, even if the ManagedClusterAddOn is gone.
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
"""The process that manages the binding (ours): others ignore it."""


class BindingSubject(Record):
    """A subject of a binding."""

    kind: str
    name: str
    api_group: str = ""
    namespace: str = ""


class RoleBinding(TypedObject):
    """Kubernetes' RoleBinding."""

    resource = ResourceType(RBAC_GROUP, "v1", "RoleBinding", "rolebindings", "Namespaced", status=False)

    role_ref: RoleRef
    subjects: tuple[BindingSubject, ...] = ()


def wanted_bindings(addon: ManagedClusterAddOn, agent: Agent, drivers: Sequence[str], process: str) -> dict[ObjectKey, RoleBinding]:
    """`drivers` are the agent's registration drivers: during a change of the driver, both identities are bound."""
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
    """As upstream's, with its apiVersion, which the server converts."""
    return OwnerReference(
        api_version=addon.resource.api_version,
        kind=addon.resource.kind,
        name=addon.metadata.name,
        uid=addon.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def owner_of(binding: RoleBinding) -> ObjectKey | None:
    """The ManagedClusterAddOn of a binding."""
    labels = binding.metadata.labels
    cluster, addon = labels.get(CLUSTER_LABEL, ""), labels.get(ADDON_LABEL, "")
    if not cluster or not addon or not binding.metadata.name.startswith(name_prefix(cluster, addon)):
        return None
    return ObjectKey(cluster, addon)
