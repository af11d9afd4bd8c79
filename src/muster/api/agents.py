"""Who an agent is, and the names by which hubs, agents and what carries words between them know each other. All are OCM's.

An agent's identity is written once, here, and read back once, here: `AgentIdentity` turns a cluster's and an agent's name into the
common name and organizations of a certificate, and `parse_common_name` does the reverse strictly, so that no name that merely
begins like another's is ever taken for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from muster.kube.names import dns1123_label

CLUSTER_LABEL: Final = "open-cluster-management.io/cluster-name"
"""On every object that the hub keeps for a cluster; its value is the cluster's name."""
PREFIX: Final = "system:open-cluster-management:"
ALL_CLUSTERS_GROUP: Final = f"{PREFIX}managed-clusters"
GRPC_SERVER_ACCOUNT: Final = "grpc-server-sa"
"""Of the hub's gRPC server, in the hub's namespace."""
GRPC_SIGNER: Final = "open-cluster-management.io/grpc"
"""Signs the certificates of agents that reach their hub over gRPC."""
GRPC_DRIVER: Final = "grpc"
"""The registration driver of those agents."""
CSR_USER: Final = "open-cluster-management.io/csr-user"
"""Annotation of signing requests that a gRPC server has made, and counts on those alone: who asked, as the credential proves."""

CLUSTER_SET_LABEL: Final = "cluster.open-cluster-management.io/clusterset"
AGENT_ANNOTATIONS: Final = "agent.open-cluster-management.io"
"""Prefix of the annotations an agent may put on its ManagedCluster."""
DRIVER_ANNOTATION: Final = f"{AGENT_ANNOTATIONS}/registration-driver"
"""Which driver a cluster registers by; a cluster that no driver has marked is the default driver's."""
EKS_ARN_ANNOTATION: Final = "eks-managed-cluster-arn"
"""What EKS calls a cluster that registers by its AWS identity."""
AWS_ARN_ANNOTATION: Final = f"{AGENT_ANNOTATIONS}/managed-cluster-arn"
"""The same, as upstream's agents write it."""
AWS_ARN_ANNOTATIONS: Final = (EKS_ARN_ANNOTATION, AWS_ARN_ANNOTATION)
AWS_ROLE_ANNOTATION: Final = f"{AGENT_ANNOTATIONS}/managed-cluster-iam-role-suffix"
PINNED_ANNOTATIONS: Final = frozenset((*AWS_ARN_ANNOTATIONS, AWS_ROLE_ANNOTATION))
"""By which a cluster names an identity outside the hub: once it is accepted, nobody changes them who could not accept it."""
REGISTER_GROUP: Final = "register.open-cluster-management.io"
LEASE: Final = "managed-cluster-lease"
WORK_FINALIZER: Final = "cluster.open-cluster-management.io/manifest-work-cleanup"
"""Of a work that an agent has begun to apply."""

_AGENT_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def cluster_group(cluster: str) -> str:
    """The group of a cluster's agents when they prove themselves by certificate."""
    return PREFIX + cluster


def external_group(cluster: str) -> str:
    """The group of a cluster's agents where an identity provider forbids groups that begin with `system:`."""
    return f"open-cluster-management:{cluster}"


def agent_groups(cluster: str) -> frozenset[str]:
    """The groups by which a request is known to be that of an agent of this cluster."""
    return frozenset((cluster_group(cluster), external_group(cluster)))


def is_cluster_name(name: str) -> bool:
    """Whether a cluster may be called so: it names a namespace on the hub, and its group must not be the group of all clusters."""
    return not dns1123_label(name) and cluster_group(name) != ALL_CLUSTERS_GROUP


@dataclass(frozen=True)
class AgentIdentity:
    cluster: str
    agent: str

    @property
    def common_name(self) -> str:
        return f"{PREFIX}{self.cluster}:{self.agent}"

    @property
    def organizations(self) -> frozenset[str]:
        return frozenset((cluster_group(self.cluster), ALL_CLUSTERS_GROUP))


def parse_common_name(name: str) -> AgentIdentity | None:
    """Whose certificate has this common name; None when it is no agent's."""
    if not name.startswith(PREFIX):
        return None
    cluster, separator, agent = name.removeprefix(PREFIX).partition(":")
    if not separator or not is_cluster_name(cluster) or not _AGENT_NAME.fullmatch(agent):
        return None
    return AgentIdentity(cluster, agent)
