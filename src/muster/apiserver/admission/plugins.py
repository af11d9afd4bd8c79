"""The admission chain of a cluster, in the order of kube-apiserver's recommended plugins.

The order is that of `AllOrderedPlugins` in Kubernetes 1.35. Plugins that set defaults precede webhooks, so that webhooks see what
the server adds. Quotas come last, when no other plugin can reject the object any more. `StorageQuotas`, which is ours, precedes
ResourceQuota, because ResourceQuota charges what it admits. `SignerPermissions` combines CertificateApproval, CertificateSigning
and CertificateSubjectRestriction.
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
        """Names of the stored resources that the plugin handles."""


class ResourcePlugins:
    """Plugins in order, each of which handles some resources; an operation on any other resource costs one lookup."""

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


def mutating_plugins() -> Mutator:
    """The in-process plugins that set defaults."""
    return ResourcePlugins(
        LimitRanger(), ServiceAccount(), Priority(), DefaultTolerationSeconds(), StorageObjectInUseProtection(), RuntimeClass()
    )


def admission_chain(cluster: Cluster) -> AdmissionChain:
    return AdmissionChain(
        [NamespaceLifecycle(), mutating_plugins(), MutatingWebhooks(cluster)],
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
