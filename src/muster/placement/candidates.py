"""ManagedClusters as candidates: the few fields that placements can see, read from what agents have written.

The type reads a ManagedCluster with doubt already: what does not have the shape it should is left out. Of two claims of one name
the last counts. The whole object is not kept decoded: it is read from its bytes for the expressions that ask for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.api.cluster.v1 import ManagedCluster
from muster.placement.snapshot import Candidate


def candidate_of(cluster: ManagedCluster) -> Candidate:
    return Candidate(
        name=cluster.metadata.name,
        labels=cluster.metadata.labels,
        claims={claim.name: claim.value for claim in cluster.status.cluster_claims},
        taints=cluster.spec.taints,
        allocatable=_texts(cluster.status.allocatable),
        capacity=_texts(cluster.status.capacity),
        deleting=bool(cluster.metadata.deletion_timestamp),
        document=cluster.document,
    )


def _texts(quantities: Mapping[str, int | str]) -> dict[str, str]:
    """On the wire a quantity may be a number."""
    return {name: str(quantity) for name, quantity in quantities.items()}
