"""cluster.open-cluster-management.io/v1: ManagedCluster, a cluster as the hub knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from muster.api.markers import NULLABLE, Base64, DnsLabel, Int32, QualifiedName, Quantity, Time, keyed_by, length, one_of
from muster.api.meta import Conditions
from muster.api.resource import AGE, Column, Record, ResourceType, TypedObject, condition_column

GROUP: Final = "cluster.open-cluster-management.io"
ACCEPTED: Final = "HubAcceptedManagedCluster"
JOINED: Final = "ManagedClusterJoined"
AVAILABLE: Final = "ManagedClusterConditionAvailable"
CLOCK_SYNCED: Final = "ManagedClusterConditionClockSynced"

TaintEffect = Annotated[str, one_of("NoSelect", "PreferNoSelect", "NoSelectIfNew")]


class ClientConfig(Record):
    """An endpoint of the managed cluster's API server."""

    url: str
    ca_bundle: Base64 = ""


class Taint(Record):
    """Prevents the selection of the cluster by placements that do not tolerate it."""

    key: QualifiedName
    effect: TaintEffect
    value: Annotated[str, length(maximum=1024)] = ""
    time_added: Annotated[Time, NULLABLE] = ""


class ManagedClusterSpec(Record):
    """The desired state of the cluster on the hub, and how to reach the cluster."""

    managed_cluster_client_configs: tuple[ClientConfig, ...] = ()
    hub_accepts_client: bool = False
    lease_duration_seconds: Int32 = 60
    taints: tuple[Taint, ...] = ()


class ManagedClusterVersion(Record):
    """The version of the managed cluster."""

    kubernetes: str = ""


class ManagedClusterClaim(Record):
    """A fact about the managed cluster that its agent reports."""

    name: Annotated[str, length(1, 253)] = ""
    value: Annotated[str, length(1, 1024)] = ""


class ClusterSetManagedNamespace(Record):
    """A namespace that a cluster set maintains on this cluster, and the result."""

    cluster_set: str
    name: DnsLabel
    conditions: Conditions = ()


class ManagedClusterStatus(Record):
    """What hub and agent observed."""

    conditions: Conditions = ()
    capacity: Mapping[str, Quantity] = {}
    allocatable: Mapping[str, Quantity] = {}
    version: ManagedClusterVersion = ManagedClusterVersion()
    cluster_claims: tuple[ManagedClusterClaim, ...] = ()
    managed_namespaces: Annotated[tuple[ClusterSetManagedNamespace, ...], keyed_by("clusterSet", "name")] = ()


class ManagedCluster(TypedObject):
    """A cluster that the hub manages once an administrator of the hub accepts it."""

    # Its agent may write all but its acceptance: whatever that is, the hub must be able to read the rest and to put it out.
    tolerant = ("spec", "status")
    resource = ResourceType(
        GROUP,
        "v1",
        "ManagedCluster",
        "managedclusters",
        "Cluster",
        short_names=("mcl", "mcls"),
        columns=(
            Column("Hub Accepted", ".spec.hubAcceptsClient", "boolean"),
            Column("Managed Cluster URLs", ".spec.managedClusterClientConfigs[*].url"),
            condition_column("Joined", JOINED),
            condition_column("Available", AVAILABLE),
            AGE,
        ),
    )

    spec: ManagedClusterSpec = ManagedClusterSpec()
    status: ManagedClusterStatus = ManagedClusterStatus()
