"""Explanations of scheduling results: in the format of OCM's debug service, and per cluster for users. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from muster.api import Document
from muster.api.cluster.v1beta1 import Placement
from muster.placement.choice import Choice
from muster.placement.snapshot import PlacementSnapshot

CHOSEN = "chosen"
NOT_CHOSEN = "not chosen"
FILTERED = "filtered"
UNSEEN = "not visible"


@dataclass(frozen=True)
class Verdict:
    """The result for one cluster. `score` is its total; None for clusters that were not scored."""

    cluster: str
    outcome: str
    reason: str
    score: int | None = None


def verdicts(placement: Placement, world: PlacementSnapshot, choice: Choice) -> list[Verdict]:
    """For every cluster, by name."""
    found = {name: Verdict(name, UNSEEN, _unseen(placement, world, name)) for name in world.clusters}
    for one in (*_filtered(choice), *_scored(choice)):
        found[one.cluster] = one
    return [found[name] for name in sorted(found)]


def _unseen(placement: Placement, world: PlacementSnapshot, cluster: str) -> str:
    if world.clusters[cluster].deleting:
        return "it is being deleted"
    sets = sorted(name for name in world.sets if cluster in world.members(name))
    if not sets:
        return "it is in no cluster set"
    bound = [name for name in sets if name in world.bound]
    if not bound:
        return f"no set that it is in ({', '.join(sets)}) is bound to namespace {placement.metadata.namespace}"
    wanted = placement.spec.cluster_sets
    if wanted and not set(wanted).intersection(bound):
        return f"spec.clusterSets has none of the bound sets that it is in ({', '.join(bound)})"
    # Only a misconfigured spec ends before the first filter.
    return "the placement is misconfigured: no cluster was evaluated"


def _filtered(choice: Choice) -> Iterator[Verdict]:
    for one in choice.filters:
        for cluster, reason in one.removed.items():
            yield Verdict(cluster, FILTERED, f"{one.name}: {reason}")


def _scored(choice: Choice) -> Iterator[Verdict]:
    chosen, parts = choice.clusters, [prioritizer for prioritizer in choice.prioritizers if prioritizer.weight]
    for cluster, total in choice.totals.items():
        scores = " ".join(f"{one.name}:{one.scores.get(cluster, 0)}x{one.weight}" for one in parts)
        yield Verdict(cluster, CHOSEN if cluster in chosen else NOT_CHOSEN, scores or "nothing is scored", total)


def debug_document(placement: Placement, choice: Choice) -> Document:
    """The response of OCM's debug service: the clusters after each filter, the scores of each prioritizer."""
    stages = accumulate((one.name for one in choice.filters), lambda before, name: f"{before},{name}")
    results: Document = {
        "placement": {**placement.document(), "apiVersion": placement.resource.api_version, "kind": placement.resource.kind},
        "filteredPipelineResults": [
            {"name": stage, "filteredClusters": list(one.left)} for stage, one in zip(stages, choice.filters, strict=True)
        ],
        "prioritizeResults": [
            {"name": prioritizer.name, "weight": prioritizer.weight, "scores": dict(prioritizer.scores)}
            for prioritizer in choice.prioritizers
        ],
        "aggregatedScores": [
            {"clusterName": cluster, "score": score}
            for cluster, score in sorted(choice.totals.items(), key=lambda pair: (-pair[1], pair[0]))
        ],
    }
    if choice.misconfigured.status == "True":
        results["error"] = choice.misconfigured.message
    return results
