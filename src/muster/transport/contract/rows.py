"""The kinds of resources of the transport, one row each: all differences between kinds are data in this table.

A row has the Kubernetes resource of a data type, the meaning of its versions, the owner of its objects, the actions that agents may
request, and how these are authorized. Server, services, codecs and client use it, and none branches on a kind's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from muster.api.addon import v1alpha1, v1beta1
from muster.api.agents import CLUSTER_LABEL
from muster.api.cluster.v1 import ManagedCluster
from muster.api.work.v1 import ManifestWork
from muster.machinery.objects import GVR, Object
from muster.runtime.client import served
from muster.runtime.client.builtin import EVENTS, LEASES, SIGNING_REQUESTS
from muster.transport.contract.types import Action, DataType, Subresource


class Versioned(Enum):
    """The field that `resourceversion` has."""

    GENERATION = "an integer of 32 bits: the object's generation"
    RESOURCE_VERSION = "a text: the object's resourceVersion"


class Belongs(Enum):
    """How an object's cluster is determined."""

    NAMESPACE = "it is in the cluster's namespace"
    NAME = "it is called as the cluster"
    LABEL = f"its label {CLUSTER_LABEL}"

    def cluster_of(self, obj: Object) -> str:
        """Empty if the object has none."""
        metadata = obj.get("metadata") or {}
        return str(self.owner(metadata.get("name"), metadata.get("namespace"), metadata.get("labels")))

    def owner(self, name: str | None, namespace: str | None, labels: Mapping[str, str] | None) -> str:
        """The cluster of an object with such metadata; empty if there is none."""
        if self is Belongs.NAMESPACE:
            return namespace or ""
        if self is Belongs.NAME:
            return name or ""
        return (labels or {}).get(CLUSTER_LABEL) or ""


@dataclass(frozen=True)
class Row:
    data_type: DataType
    resource: GVR
    belongs: Belongs
    accepts: frozenset[tuple[Subresource, Action]]
    """From agents, besides resync requests."""
    versioned: Versioned = Versioned.RESOURCE_VERSION
    selector: str = ""
    """A label selector: the objects of the resource that are sent."""
    sends: bool = True
    """Whether changes are sent to agents, and resyncs are served."""
    bootstrap: bool = False
    """Whether a bootstrap identity may use it, for the cluster that it may create."""
    reviewed: tuple[str, str, str] | None = None
    """Group, resource and subresource for authorization, if they are not the resource's own."""
    named: bool = False
    """Whether authorization has the cluster's name as resource name too."""
    typed: bool = True
    """Whether objects have kind and apiVersion."""
    status_apart: bool = False
    """Whether objects are sent without the status that agents report: an agent that has just started must request it."""

    def __str__(self) -> str:
        return str(self.data_type)


def _accepting(*pairs: tuple[Subresource, Action]) -> frozenset[tuple[Subresource, Action]]:
    return frozenset(pairs)


_CREATE: Final = (Subresource.SPEC, Action.CREATE)
_UPDATE: Final = (Subresource.SPEC, Action.UPDATE)
_STATUS: Final = (Subresource.STATUS, Action.UPDATE)

TOKEN_REQUESTS: Final = GVR("authentication.k8s.io/v1", "tokenrequests", "TokenRequest")

WORKS: Final = Row(
    DataType("io.open-cluster-management.works", "v1alpha1", "manifestbundles"),
    served(ManifestWork),
    Belongs.NAMESPACE,
    _accepting(_STATUS),
    versioned=Versioned.GENERATION,
    status_apart=True,
)
CLUSTERS: Final = Row(
    DataType("cluster.open-cluster-management.io", "v1", "managedclusters"),
    served(ManagedCluster),
    Belongs.NAME,
    _accepting(_CREATE, _UPDATE, _STATUS),
    bootstrap=True,
    named=True,
)
SIGNING_REQUEST_ROW: Final = Row(
    DataType("certificates.k8s.io", "v1", "certificatesigningrequests"),
    SIGNING_REQUESTS,
    Belongs.LABEL,
    _accepting(_CREATE),
    selector=CLUSTER_LABEL,
    bootstrap=True,
)
ADDONS_ALPHA: Final = Row(
    DataType("addon.open-cluster-management.io", "v1alpha1", "managedclusteraddons"),
    served(v1alpha1.ManagedClusterAddOn),
    Belongs.NAMESPACE,
    _accepting(_UPDATE, _STATUS),
)
ADDONS_BETA: Final = Row(
    DataType("addon.open-cluster-management.io", "v1beta1", "managedclusteraddons"),
    served(v1beta1.ManagedClusterAddOn),
    Belongs.NAMESPACE,
    _accepting(_UPDATE, _STATUS),
)
LEASE_ROW: Final = Row(
    DataType("coordination.k8s.io", "v1", "leases"), LEASES, Belongs.NAMESPACE, _accepting(_UPDATE), selector=CLUSTER_LABEL
)
EVENT_ROW: Final = Row(
    DataType("events.k8s.io", "v1", "events"), EVENTS, Belongs.NAMESPACE, _accepting(_CREATE, _UPDATE), sends=False
)
TOKENS: Final = Row(
    DataType("authentication.k8s.io", "v1", "tokenrequests"),
    TOKEN_REQUESTS,
    Belongs.NAMESPACE,
    _accepting(_CREATE),
    sends=False,
    typed=False,
    reviewed=("", "serviceaccounts", "token"),
)

ROWS: Final[Mapping[DataType, Row]] = {
    row.data_type: row for row in (WORKS, CLUSTERS, SIGNING_REQUEST_ROW, ADDONS_ALPHA, ADDONS_BETA, LEASE_ROW, EVENT_ROW, TOKENS)
}
