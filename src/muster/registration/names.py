"""The names that hub and agent share: labels, annotations, finalizers, identities, roles, well-known objects. All are OCM's.

The identities of agents are in `muster.api.agents`, because the transport needs them too.
"""

from __future__ import annotations

from typing import Final

from muster.api.addons import ADDON_LABEL as ADDON_LABEL
from muster.api.agents import AGENT_ANNOTATIONS as AGENT_ANNOTATIONS
from muster.api.agents import ALL_CLUSTERS_GROUP as ALL_CLUSTERS_GROUP
from muster.api.agents import CLUSTER_LABEL as CLUSTER_LABEL
from muster.api.agents import CLUSTER_SET_LABEL as CLUSTER_SET_LABEL
from muster.api.agents import DRIVER_ANNOTATION as DRIVER_ANNOTATION
from muster.api.agents import LEASE as LEASE
from muster.api.agents import PREFIX as PREFIX
from muster.api.agents import REGISTER_GROUP as REGISTER_GROUP
from muster.api.agents import WORK_FINALIZER
from muster.api.agents import AgentIdentity as AgentIdentity
from muster.api.agents import agent_groups as agent_groups
from muster.api.agents import cluster_group as cluster_group
from muster.api.agents import external_group as external_group
from muster.api.agents import is_cluster_name as is_cluster_name
from muster.api.agents import parse_common_name as parse_common_name

CLUSTER_UID: Final = "cluster.open-cluster-management.io/muster-cluster-uid"
"""On a cluster's ClusterRoleBinding: the uid of the ManagedCluster under which the users in it got credentials."""
OURS: Final = f"{CLUSTER_LABEL},!{ADDON_LABEL}"
"""Selects objects that the hub itself creates for clusters, without those of addons."""
SPOKE_ONLY_LABEL: Final = "open-cluster-management.io/spoke-only"

AUTO_ACCEPTED: Final = "open-cluster-management.io/automatically-accepted-on"
CLEANUP_PRIORITY: Final = "open-cluster-management.io/cleanup-priority"
SKIP_CLOCK_CHECK: Final = "registration.open-cluster-management.io/skip-clock-sync-check"
AUTO_UPDATE: Final = "cluster.open-cluster-management.io/autoupdate"

RESOURCE_CLEANUP: Final = "cluster.open-cluster-management.io/api-resource-cleanup"
"""Finalizer of the acceptance controller, while permissions exist."""
COLLECTION_CLEANUP: Final = "cluster.open-cluster-management.io/resource-cleanup"
"""Finalizer of the collection controller, while addons and works exist."""
WORK_CLEANUP: Final = WORK_FINALIZER
"""Finalizer of the binding through which an agent can still remove its works."""

GRPC_SIGNER_SECRET: Final = "signer-secret"
"""The Secret in which a hub stores the authority that signs the certificates of gRPC agents."""
CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"

HUB_LOCK: Final = "registration-controller-lock"
"""Lease of the leading instance of the hub's controllers."""
LEASE_PERIODS: Final = 5
"""The number of lease durations without renewal after which a cluster is unreachable."""
DEFAULT_LEASE_SECONDS: Final = 60

REGISTRATION_ROLE: Final = "open-cluster-management:managedcluster:registration"
WORK_ROLE: Final = "open-cluster-management:managedcluster:work"
BOOTSTRAP_ROLE: Final = "open-cluster-management:bootstrap"

HUB_NAMESPACE: Final = "open-cluster-management-hub"
AGENT_NAMESPACE: Final = "open-cluster-management-agent"
BOOTSTRAP_NAMESPACE: Final = "open-cluster-management"
BOOTSTRAP_ACCOUNT: Final = "agent-registration-bootstrap"
BOUND_LABEL: Final = "open-cluster-management.io/bootstraps-cluster"
"""On a service account, a role and a binding that permit introducing only the cluster of this name."""
BOOTSTRAP_SECRET: Final = "bootstrap-hub-kubeconfig"
HUB_SECRET: Final = "hub-kubeconfig-secret"
PENDING_SUFFIX: Final = "-pending"
"""Suffix of the Secret beside a credential's Secret that has the pending entries."""
PENDING_SECRET: Final = HUB_SECRET + PENDING_SUFFIX

AGENT_RESTRICTION: Final = "ManagedClusterAgentRestriction"
"""A feature gate of ours: agents and bootstrap identities may not write the fields by which clusters are selected."""
HUB_GATES: Final = ("DefaultClusterSet", "ManagedClusterAutoApproval", "ResourceCleanup", AGENT_RESTRICTION)
HUB_UNSUPPORTED_GATES: Final = ("ClusterImporter", "ClusterProfile", "V1beta1CSRAPICompatibility")
"""Feature gates of upstream's hub that can only be off here."""
ADDON_MANAGEMENT: Final = "AddonManagement"
AGENT_GATES: Final = (ADDON_MANAGEMENT, "ClusterClaim", "ClusterProperty", "MultipleHubs")
AGENT_UNSUPPORTED_GATES: Final = ("V1beta1CSRAPICompatibility",)

UNAVAILABLE_TAINT: Final = "cluster.open-cluster-management.io/unavailable"
UNREACHABLE_TAINT: Final = "cluster.open-cluster-management.io/unreachable"

RESERVED_PREFIXES: Final = ("kube-", "open-cluster-management")
"""Prefixes of namespaces that belong to Kubernetes and OCM."""


def cluster_role(cluster: str) -> str:
    """The name of a cluster's ClusterRole and of its binding."""
    return f"open-cluster-management:managedcluster:{cluster}"


def registration_binding(cluster: str) -> str:
    return f"{cluster_role(cluster)}:registration"


def work_binding(cluster: str) -> str:
    return f"{cluster_role(cluster)}:work"


def reserved_name_problem(cluster: str) -> str:
    """Why no new cluster may have this name; empty if it may.

    An agent may write in the namespace of its cluster's name, so that must not be one that Kubernetes or OCM uses. Existing
    clusters of such names, from before this check, stay as they are.
    """
    if cluster == "default" or cluster.startswith(RESERVED_PREFIXES):
        return f"{cluster!r} cannot name a cluster: Kubernetes or the hub has a namespace of this name; join under another one"
    return ""
