"""The admission chain of a cluster, in the order of kube-apiserver's recommended plugins."""

from __future__ import annotations

from muster.apiserver.admission.chain import AdmissionChain
from muster.apiserver.admission.lifecycle import NamespaceLifecycle
from muster.apiserver.admission.podreferences import PodReferences
from muster.apiserver.admission.policies import ValidatingPolicies
from muster.apiserver.admission.quotas import StorageQuotas
from muster.apiserver.admission.signers import SignerPermissions
from muster.apiserver.admission.webhooks import MutatingWebhooks, ValidatingWebhooks
from muster.apiserver.cluster import Cluster


def admission_chain(cluster: Cluster) -> AdmissionChain:
    return AdmissionChain(
        [NamespaceLifecycle(), PodReferences(), MutatingWebhooks(cluster)],
        [StorageQuotas(cluster), SignerPermissions(), ValidatingPolicies(cluster), ValidatingWebhooks(cluster)],
    )
