"""Our admission plugins run in the order in which kube-apiserver runs its own; the lists are what 1.35 logs when it starts."""

from collections.abc import Iterable

from muster.apiserver.admission.chain import AdmissionChain
from muster.apiserver.admission.plugins import ResourcePlugins
from muster.apiserver.server import ApiServer

MUTATING = [
    "NamespaceLifecycle",
    "LimitRanger",
    "ServiceAccount",
    "TaintNodesByCondition",
    "Priority",
    "DefaultTolerationSeconds",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "RuntimeClass",
    "DefaultIngressClass",
    "PodTopologyLabels",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
]
VALIDATING = [
    "LimitRanger",
    "ServiceAccount",
    "PodSecurity",
    "Priority",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "NodeDeclaredFeatureValidator",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
]
OURS = {
    "MutatingWebhooks": "MutatingAdmissionWebhook",
    "SignerPermissions": "CertificateApproval",
    "ValidatingPolicies": "ValidatingAdmissionPolicy",
    "ValidatingWebhooks": "ValidatingAdmissionWebhook",
}


BESIDES = "StorageQuotas"
"""A bound of our own, which the real server has not."""


def names(steps: Iterable[object]) -> list[str]:
    found: list[str] = []
    for step in steps:
        for plugin in step.plugins if isinstance(step, ResourcePlugins) else (step,):
            name = type(plugin).__name__
            if name != BESIDES:
                found.append(OURS.get(name, name))
    return found


async def test_plugins_run_in_the_real_servers_order(server: ApiServer) -> None:
    chain = server.clusters["default"].part(AdmissionChain)
    for ours, real in ((names(chain.mutators), MUTATING), (names(chain.validators), VALIDATING)):
        assert ours == [name for name in real if name in ours]
        assert len(ours) > 3
