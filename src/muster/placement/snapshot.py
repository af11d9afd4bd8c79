"""The inputs of scheduling: clusters, sets, bindings, scores, existing selections, and the time.

A snapshot consists of views of caches and costs nothing to make; data that only some placements need are returned by functions.
`Candidate` has the fields of a ManagedCluster that placements use; agents have written some of them, so invalid values are left
out.
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
    """A managed cluster, as a candidate."""

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
    """The snapshot for one placement."""

    clusters: Mapping[str, Candidate]
    """All clusters, by name."""
    sets: Collection[str]
    """Names of the existing cluster sets."""
    members: Callable[[str], Collection[str]]
    """Names of the clusters of a set, including those being deleted."""
    bound: Collection[str]
    """Names of the bindings in the placement's namespace."""
    score: Callable[[str, str], AddOnPlacementScore | None]
    """By cluster and name of the AddOnPlacementScore."""
    present: Mapping[str, int]
    """The clusters that this placement has selected, with their written scores."""
    others: Mapping[str, int]
    """By cluster, how many other placements have selected it; may lack those with none."""
    now: datetime
