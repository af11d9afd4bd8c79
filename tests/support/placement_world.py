"""Worlds for choosing, put together in memory, and placements that choose from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1alpha1 import AddOnPlacementScore
from muster.api.cluster.v1beta1 import Placement
from muster.placement.candidates import candidate_of
from muster.placement.choice import Choice
from muster.placement.scheduler import schedule
from muster.placement.snapshot import Candidate, PlacementSnapshot

NOW: Final = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def placement(name: str = "p", **spec: Any) -> Placement:
    """Fields of the spec as on the wire."""
    return Placement.decode({"metadata": {"name": name, "namespace": "apps", "uid": name}, "spec": spec})


def cluster(
    name: str,
    labels: Mapping[str, str] | None = None,
    claims: Mapping[str, str] | None = None,
    taints: Iterable[Mapping[str, Any]] = (),
    deleting: bool = False,
    status: Mapping[str, Any] | None = None,
    **resources: Any,
) -> Candidate:
    """`resources` are both allocatable and the capacity."""
    document: dict[str, Any] = {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"hubAcceptsClient": True, "taints": list(taints)},
        "status": {
            "clusterClaims": [{"name": key, "value": value} for key, value in (claims or {}).items()],
            "allocatable": resources,
            "capacity": resources,
            **(status or {}),
        },
    }
    if deleting:
        document["metadata"]["deletionTimestamp"] = "2026-11-16T11:00:00Z"
    return candidate_of(ManagedCluster.decode(document))


def scores(values: Mapping[str, int], until: str = "") -> AddOnPlacementScore:
    listed = [{"name": name, "value": value} for name, value in values.items()]
    return AddOnPlacementScore.decode({"status": {"scores": listed, **({"validUntil": until} if until else {})}})


@dataclass
class Site:
    """What one placement sees; by default one set, bound, with all clusters."""

    clusters: Iterable[Candidate]
    present: Iterable[str] = ()
    others: Mapping[str, int] = field(default_factory=dict)
    scores: Mapping[tuple[str, str], AddOnPlacementScore] = field(default_factory=dict)
    """By cluster and name."""
    members: Mapping[str, Iterable[str]] | None = None
    """By set."""
    bound: Iterable[str] | None = None
    now: datetime = NOW

    def world(self) -> PlacementSnapshot:
        known = {one.name: one for one in self.clusters}
        members = {"all": list(known)} if self.members is None else {name: list(some) for name, some in self.members.items()}
        return PlacementSnapshot(
            clusters=known,
            sets=members,
            members=lambda name: members[name],
            bound=list(members) if self.bound is None else list(self.bound),
            score=lambda of, name: self.scores.get((of, name)),
            present=dict.fromkeys(self.present, 0),
            others=self.others,
            now=self.now,
        )

    def choose(self, asked: Placement | None = None, **spec: Any) -> Choice:
        return schedule(asked or placement(**spec), self.world())


def named(*names: str) -> list[Candidate]:
    return [cluster(name) for name in names]


def selector(expressions: Iterable[str] = (), **labels: str) -> dict[str, Any]:
    """A predicate."""
    wanted: dict[str, Any] = {}
    if labels:
        wanted["labelSelector"] = {"matchLabels": labels}
    if expressions:
        wanted["celSelector"] = {"celExpressions": list(expressions)}
    return {"requiredClusterSelector": wanted}


def built_in(name: str, weight: int = 1) -> dict[str, Any]:
    return {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight}


def addon(resource: str, score: str, weight: int = 1) -> dict[str, Any]:
    return {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": resource, "scoreName": score}}, "weight": weight}


def policy(*configurations: dict[str, Any], mode: str = "Additive") -> dict[str, Any]:
    return {"mode": mode, "configurations": list(configurations)}


def chosen(choice: Choice) -> list[str]:
    """By score, then by name."""
    found = [one for group in choice.groups for one in group.clusters]
    return [one.cluster for one in sorted(found, key=lambda one: (-one.score, one.cluster))]
