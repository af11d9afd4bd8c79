"""The admission chain of a cluster, in the order of kube-apiserver's recommended plugins.

The order is that of `AllOrderedPlugins` in Kubernetes 1.35: plugins that fill objects come before webhooks, so that webhooks see
what the server adds, and quotas come last, when nothing else can refuse an object any more. `StorageQuotas` stands where
ResourceQuota does; `SignerPermissions` is CertificateApproval, CertificateSigning and CertificateSubjectRestriction in one.
"""

from __future__ import annotations

from muster.apiserver.admission.chain import AdmissionChain, Mutator
from muster.apiserver.admission.default_toleration_seconds import DefaultTolerationSeconds
from muster.apiserver.admission.lifecycle import NamespaceLifecycle
from muster.apiserver.admission.policies import ValidatingPolicies
from muster.apiserver.admission.priority import Priority
from muster.apiserver.admission.quotas import StorageQuotas
from muster.apiserver.admission.service_account import ServiceAccount
from muster.apiserver.admission.signers import SignerPermissions
from muster.apiserver.admission.storage_object_in_use_protection import StorageObjectInUseProtection
from muster.apiserver.admission.webhooks import MutatingWebhooks, ValidatingWebhooks
from muster.apiserver.cluster import Cluster


def filling_plugins() -> list[Mutator]:
    """Those that fill objects and are the same for all clusters."""
    return [ServiceAccount(), Priority(), DefaultTolerationSeconds(), StorageObjectInUseProtection()]


def admission_chain(cluster: Cluster) -> AdmissionChain:
    return AdmissionChain(
        [NamespaceLifecycle(), *filling_plugins(), MutatingWebhooks(cluster)],
        [SignerPermissions(), ValidatingPolicies(cluster), ValidatingWebhooks(cluster), StorageQuotas(cluster)],
    )
