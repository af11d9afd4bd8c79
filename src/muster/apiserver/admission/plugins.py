"""The admission chain of a cluster, in the order of kube-apiserver's recommended plugins.

The order is that of `AllOrderedPlugins` in Kubernetes 1.35: plugins that fill objects come before webhooks, so that webhooks see
what the server adds, and quotas come last, when nothing else can refuse an object any more. `StorageQuotas`, which are ours, stand
before ResourceQuota, which books what it lets in; `SignerPermissions` is CertificateApproval, CertificateSigning and
CertificateSubjectRestriction in one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from muster.apiserver.admission.chain import AdmissionChain, Mutator, Operation
from muster.apiserver.admission.default_toleration_seconds import DefaultTolerationSeconds
from muster.apiserver.admission.lifecycle import NamespaceLifecycle
from muster.apiserver.admission.limit_ranger import LimitRanger
from muster.apiserver.admission.policies import ValidatingPolicies
from muster.apiserver.admission.priority import Priority
from muster.apiserver.admission.resource_quota import ResourceQuota
from muster.apiserver.admission.runtime_class import RuntimeClass
from muster.apiserver.admission.service_account import ServiceAccount
from muster.apiserver.admission.signers import SignerPermissions
from muster.apiserver.admission.storage_object_in_use_protection import StorageObjectInUseProtection
from muster.apiserver.admission.storage_quotas import StorageQuotas
from muster.apiserver.admission.webhooks import MutatingWebhooks, ValidatingWebhooks
from muster.apiserver.cluster import Cluster
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.machinery.objects import Object


class ResourcePlugin(Mutator, Protocol):
    @property
    def resources(self) -> Collection[str]:
        """The stored resources it concerns."""


class ResourcePlugins:
    """Plugins in order, each of which concerns some resources; an operation on any other costs one look-up."""

    def __init__(self, *plugins: ResourcePlugin) -> None:
        self.plugins = plugins
        self._by_resource: dict[str, list[ResourcePlugin]] = {}
        for plugin in plugins:
            for resource in plugin.resources:
                self._by_resource.setdefault(resource, []).append(plugin)

    async def mutate(self, ctx: Context, resource: ServedResource, operation: Operation) -> Object | None:
        for plugin in self._by_resource.get(resource.storage, ()):
            operation.new = await plugin.mutate(ctx, resource, operation)
        return operation.new


def filling_plugins() -> Mutator:
    """Those that fill objects."""
    return ResourcePlugins(
        LimitRanger(), ServiceAccount(), Priority(), DefaultTolerationSeconds(), StorageObjectInUseProtection(), RuntimeClass()
    )


def admission_chain(cluster: Cluster) -> AdmissionChain:
    return AdmissionChain(
        [NamespaceLifecycle(), filling_plugins(), MutatingWebhooks(cluster)],
        [
            LimitRanger(),
            RuntimeClass(),
            SignerPermissions(),
            ValidatingPolicies(cluster),
            ValidatingWebhooks(cluster),
            StorageQuotas(cluster),
            ResourceQuota(cluster),
        ],
    )
