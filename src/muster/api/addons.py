"""Who an addon's agent is, and the names by which hub, addon managers and agents know addons. All are OCM's.

An addon's agent on a cluster has an identity of its own on the hub, which follows from names alone: `AddonIdentity` is who proves
itself by a certificate, `token_user` by a service account's token. Whoever binds roles or approves requests computes it here from
the cluster and the addon; it is never taken from a status or a request, which agents write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from muster.api.addon.v1alpha1 import GROUP, ManagedClusterAddOnStatus
from muster.api.agents import PREFIX

ADDON_LABEL: Final = "open-cluster-management.io/addon-name"
"""On works, signing requests, bindings and Secrets of an addon."""
ADDON_NAMESPACE_LABEL: Final = "open-cluster-management.io/addon-namespace"
"""On works in a hosting cluster's namespace: the namespace of the ManagedClusterAddOn."""
TEMPLATE_LABEL: Final = "open-cluster-management.io/addon-template-name"
"""On what was made for an AddOnTemplate's permissions."""
CONFIG_HASH_ANNOTATION: Final = "open-cluster-management.io/config-spec-hash"
"""On a work: the configurations that it was rendered with."""

LIFECYCLE_ANNOTATION: Final = f"{GROUP}/lifecycle"
LIFECYCLE_MANAGED: Final = "addon-manager"
HOSTING_CLUSTER_ANNOTATION: Final = f"{GROUP}/hosting-cluster-name"
HOSTED_MANIFEST_LOCATION: Final = f"{GROUP}/hosted-manifest-location"
PRE_DELETE: Final = f"{GROUP}/addon-pre-delete"
"""Annotation or label of a hook's manifest, and finalizer of an addon that has one."""
HOSTING_PRE_DELETE_FINALIZER: Final = f"{GROUP}/hosting-addon-pre-delete"
HOSTING_CLEANUP_FINALIZER: Final = f"{GROUP}/hosting-manifests-cleanup"
DELETION_ORPHAN: Final = f"{GROUP}/deletion-orphan"
VALUES_ANNOTATION: Final = f"{GROUP}/values"
MANUAL_ANNOTATION: Final = f"{GROUP}/disable-automatic-installation"
"""On a ManagedClusterAddOn: no install strategy removes it."""
NAMESPACE_LABEL: Final = f"{GROUP}/namespace"
"""With the value "true" on namespaces of a managed cluster in which addons' credentials and leases are kept."""
TOKEN_INFRASTRUCTURE_LABEL: Final = f"{GROUP}/token-infrastructure"
NAME_LABEL: Final = f"{GROUP}/name"
FEATURE_LABEL_PREFIX: Final = "feature.open-cluster-management.io/addon-"

AGGREGATION_LABEL: Final = "open-cluster-management.io/aggregate-to-addon-manager"
"""With the value "true" on a ClusterRole: the addon manager holds it too, and may give it to addons' agents."""

CLUSTER_NAME_ENTRY: Final = "cluster-name"
"""In an addon's Secret: the cluster that it is for."""

CSR_DRIVER: Final = "csr"
TOKEN_DRIVER: Final = "token"
CERTIFICATE_ROTATED: Final = "ClusterCertificateRotated"
TOKEN_REFRESHED: Final = "TokenRefreshed"
CREDENTIAL_CONDITIONS: Final[Mapping[str, str]] = {CSR_DRIVER: CERTIFICATE_ROTATED, TOKEN_DRIVER: TOKEN_REFRESHED}
"""By driver, the condition by which an agent says that its credential is in the addon's Secret."""


def drivers_in_use(status: ManagedClusterAddOnStatus) -> tuple[str, ...]:
    """By which an addon's agent may prove itself now: the driver that its cluster's agent names, and until that one's credential is
    in the Secret the other one, if anything was said of its credential: one that could not be renewed may still be good.

    The status, which agents write, chooses between identities that are both the agent's own, and can name nobody else.
    """
    named, other = (TOKEN_DRIVER, CSR_DRIVER) if status.kube_client_driver == TOKEN_DRIVER else (CSR_DRIVER, TOKEN_DRIVER)
    said = {one.type: one.status for one in status.conditions}
    changing = said.get(CREDENTIAL_CONDITIONS[named]) != "True" and CREDENTIAL_CONDITIONS[other] in said
    return (named, other) if changing else (named,)


def addon_group(addon: str) -> str:
    """Of the addon's agents on all clusters; it is given no rights unless somebody asks for that by name."""
    return f"{PREFIX}addon:{addon}"


def cluster_addon_group(cluster: str, addon: str) -> str:
    """Of the addon's agents on one cluster."""
    return f"{PREFIX}cluster:{cluster}:addon:{addon}"


@dataclass(frozen=True)
class AddonIdentity:
    """An addon's agent that authenticates by a certificate of the Kubernetes client signer."""

    cluster: str
    addon: str
    agent: str

    @property
    def user(self) -> str:
        return f"{cluster_addon_group(self.cluster, self.addon)}:agent:{self.agent}"

    @property
    def groups(self) -> tuple[str, str]:
        return (cluster_addon_group(self.cluster, self.addon), addon_group(self.addon))


def agent_name(addon: str) -> str:
    """The agent of an addon that sets no other name."""
    return f"{addon}-agent"


def token_account(addon: str) -> str:
    """The service account in the cluster's namespace on the hub whose token the addon's agent uses."""
    return f"{addon}-agent"


def token_user(cluster: str, addon: str) -> str:
    return f"system:serviceaccount:{cluster}:{token_account(addon)}"


def hub_kubeconfig_secret(addon: str) -> str:
    return f"{addon}-hub-kubeconfig"


def signer_secret(addon: str, signer: str) -> str:
    """Where the certificate of a custom signer is kept on the managed cluster."""
    return f"{addon}-{signer.replace('/', '-')}-client-cert"


def request_prefix(cluster: str, addon: str) -> str:
    """Of the names of an addon's signing requests."""
    return f"addon-{cluster}-{addon}-"


def dns_name(addon: str) -> str:
    """The alternative name in an addon's signing requests."""
    return f"{addon}.addon.open-cluster-management.io"


def feature_label(addon: str) -> str:
    return f"{FEATURE_LABEL_PREFIX}{addon}"
