"""Who an agent is: the names by which hubs know managed clusters and their agents. All are OCM's.

An agent's identity is written once, here, and read back once, here: `AgentIdentity` turns a cluster's and an agent's name into
the common name and organizations of a certificate, and `parse_common_name` does the reverse strictly, so that no name that merely
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
GRPC_SIGNER: Final = "open-cluster-management.io/grpc"
"""Signs the certificates of agents that reach their hub over gRPC."""
CSR_USER: Final = "open-cluster-management.io/csr-user"
"""Annotation by which the hub's gRPC server says for whom it made a signing request. On a request that anybody else made it says
nothing."""
GRPC_SERVER_ACCOUNT: Final = "grpc-server-sa"
"""The service account of the hub's gRPC server."""

_AGENT_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def cluster_group(cluster: str) -> str:
    """The group of a cluster's agents when they prove themselves by certificate."""
    return PREFIX + cluster


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
