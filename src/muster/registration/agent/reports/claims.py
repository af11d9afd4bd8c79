"""The claims that are reported to the hub: all reserved ones, and of the others as many as fit, by name.

A ClusterClaim with the label `open-cluster-management.io/spoke-only` is not reported. A ClusterProperty, if enabled, takes
precedence over a claim of the same name. Values that the hub would refuse (empty or too long) are omitted: one invalid claim must
not prevent the whole status from being written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from muster.api.cluster.v1 import ManagedClusterClaim
from muster.api.cluster.v1alpha1 import ClusterClaim
from muster.machinery.objects import GVR
from muster.registration.names import SPOKE_ONLY_LABEL
from muster.runtime.cache import Snapshot

PROPERTIES: Final = GVR("about.k8s.io/v1alpha1", "clusterproperties", "ClusterProperty", namespaced=False)
TRUNCATED: Final = "CustomClusterClaimsTruncated"
RESERVED: Final = frozenset(
    (
        "id.k8s.io",
        "kubeversion.open-cluster-management.io",
        "platform.open-cluster-management.io",
        "product.open-cluster-management.io",
    )
)
LONGEST_NAME, LONGEST_VALUE = 253, 1024


class Exposed(NamedTuple):
    claims: tuple[ManagedClusterClaim, ...]
    custom: int
    """How many claims are not reserved."""
    hidden: int
    """How many of these did not fit."""


def values_of(claims: Iterable[ClusterClaim], properties: Iterable[Snapshot] = ()) -> dict[str, str]:
    """What the cluster says about itself, by name."""
    found = {claim.metadata.name: claim.spec.value for claim in claims if SPOKE_ONLY_LABEL not in claim.metadata.labels}
    for item in properties:
        if SPOKE_ONLY_LABEL not in item.labels:
            found[item.name] = str((item.data.get("spec") or {}).get("value") or "")
    return found


def exposed(values: dict[str, str], limit: int, suffixes: Sequence[str] = ()) -> Exposed:
    reported = [
        (name, value) for name, value in sorted(values.items()) if 0 < len(value) <= LONGEST_VALUE and len(name) <= LONGEST_NAME
    ]
    reserved = [pair for pair in reported if _is_reserved(pair[0], suffixes)]
    custom = [pair for pair in reported if not _is_reserved(pair[0], suffixes)]
    claims = tuple(ManagedClusterClaim(name=name, value=value) for name, value in (*reserved, *custom[:limit]))
    return Exposed(claims, len(custom), max(0, len(custom) - limit))


def _is_reserved(name: str, suffixes: Sequence[str]) -> bool:
    return name in RESERVED or name.endswith(tuple(suffixes))
