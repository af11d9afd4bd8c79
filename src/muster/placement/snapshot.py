"""What a choice looks at: clusters, sets, bindings, scores, what is chosen so far, and the time. Nothing else decides.

A world is put together from caches and costs nothing to make: collections are views, and what only some placements look at is asked
for by functions. `Candidate` is the part of a ManagedCluster that placements can see; an agent has written some of it, so it is
read with doubt: what cannot be read is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from muster.api import Document
from muster.api.cluster.v1 import Taint
from muster.api.cluster.v1alpha1 import AddOnPlacementScore


@dataclass(frozen=True)
class Candidate:
    """A managed cluster, as a placement sees it."""

    name: str
    labels: Mapping[str, str]
    claims: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Mapping[str, str]
    capacity: Mapping[str, str]
    deleting: bool
    document: Callable[[], Document]
    """The whole object, for expressions."""


@dataclass(frozen=True)
class PlacementSnapshot:
    """As one placement sees it."""

    clusters: Mapping[str, Candidate]
    """All there are, by name."""
    sets: Collection[str]
    """Names of the cluster sets there are."""
    members: Callable[[str], Collection[str]]
    """Names of the clusters of a set, those being deleted included."""
    bound: Collection[str]
    """Names of the bindings in the placement's namespace."""
    score: Callable[[str, str], AddOnPlacementScore | None]
    """Of a cluster, by the name of the AddOnPlacementScore."""
    present: Mapping[str, int]
    """The clusters that this placement has chosen so far, and the scores that are written of them."""
    others: Mapping[str, int]
    """By cluster, how many other placements have chosen it; those that nobody chose may be missing."""
    now: datetime
