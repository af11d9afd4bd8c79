"""ManagedClusters as candidates: the few fields that placements use, decoded from what agents have written.

Invalid values of a ManagedCluster are left out when it is decoded. Of two claims of one name the last is used. The whole object is
not kept decoded: it is decoded again for the expressions that need it.
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
    """In JSON a quantity may be a number."""
    return {name: str(quantity) for name, quantity in quantities.items()}
