"""cluster.open-cluster-management.io/v1beta2: sets of managed clusters, and their bindings to namespaces."""

from __future__ import annotations

from typing import Annotated, Final

from muster.api.cluster.v1 import GROUP
from muster.api.markers import REQUIRED, DnsLabel, NonEmpty, default, keyed_by, one_of
from muster.api.meta import Condition, LabelSelector
from muster.api.resource import AGE, Record, ResourceType, TypedObject, condition_column

EMPTY: Final = "ClusterSetEmpty"
BOUND: Final = "Bound"
CLUSTER_SET_LABEL: Final = "cluster.open-cluster-management.io/clusterset"
EXCLUSIVE: Final = "ExclusiveClusterSetLabel"
BY_LABELS: Final = "LabelSelector"

_EXCLUSIVE_SELECTOR: Final = {"selectorType": EXCLUSIVE}


class ClusterSetSelector(Record):
    """How the clusters of a set are selected: by the set's exclusive label, or by any labels."""

    selector_type: Annotated[str, one_of(EXCLUSIVE, BY_LABELS), REQUIRED] = EXCLUSIVE
    label_selector: LabelSelector | None = None


class ManagedNamespace(Record):
    """A namespace that every cluster of the set must have."""

    name: DnsLabel


class ManagedClusterSetSpec(Record):
    """What belongs to the set."""

    cluster_selector: Annotated[ClusterSetSelector, default(_EXCLUSIVE_SELECTOR)] = ClusterSetSelector()
    managed_namespaces: Annotated[tuple[ManagedNamespace, ...], keyed_by("name")] = ()


class ManagedClusterSetStatus(Record):
    """What was observed of the set."""

    conditions: tuple[Condition, ...] = ()


class ManagedClusterSet(TypedObject):
    """A group of managed clusters to which access is granted as a whole."""

    resource = ResourceType(
        GROUP,
        "v1beta2",
        "ManagedClusterSet",
        "managedclustersets",
        "Cluster",
        short_names=("mclset", "mclsets"),
        columns=(condition_column("Empty", EMPTY), AGE),
    )

    spec: Annotated[ManagedClusterSetSpec, default({"clusterSelector": _EXCLUSIVE_SELECTOR})] = ManagedClusterSetSpec()
    status: ManagedClusterSetStatus = ManagedClusterSetStatus()


class ManagedClusterSetBindingSpec(Record):
    """The set that is bound; the binding has the set's name."""

    cluster_set: NonEmpty = ""


class ManagedClusterSetBindingStatus(Record):
    """Whether the set is bound."""

    conditions: tuple[Condition, ...] = ()


class ManagedClusterSetBinding(TypedObject):
    """Lets the placements of a namespace select from a cluster set."""

    resource = ResourceType(
        GROUP,
        "v1beta2",
        "ManagedClusterSetBinding",
        "managedclustersetbindings",
        "Namespaced",
        short_names=("mclsetbinding", "mclsetbindings"),
    )

    spec: ManagedClusterSetBindingSpec = ManagedClusterSetBindingSpec()
    status: ManagedClusterSetBindingStatus = ManagedClusterSetBindingStatus()
