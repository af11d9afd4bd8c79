"""The data that a placement depends on, so that other changes do not trigger it.

`interests_of` is computed once per spec; `touches` is called for every change of a cluster that is in the placement's sets before
and after: set membership is checked elsewhere, and so are changes of scores, whose names are here.

Invariant: a change that could change the result touches the placement; the reverse need not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from muster.api.cluster.v1 import Taint
from muster.api.cluster.v1beta1 import PlacementSpec
from muster.api.meta import LabelSelector
from muster.placement.expressions import ExpressionError, ReferencedData, compiled, referenced_data
from muster.placement.filters.taints import NEVER_FILTERS
from muster.placement.misconfiguration import Misconfigured
from muster.placement.prioritizers.weights import ALLOCATABLE, weights_of
from muster.placement.snapshot import Candidate


@dataclass(frozen=True)
class Interests:
    labels: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    """Names of allocatable resources."""
    paths: frozenset[tuple[str, ...]] = frozenset()
    """Fields that expressions read, with everything below them; the empty path is all fields."""
    scores: frozenset[str] | None = frozenset()
    """Names of AddOnPlacementScores; None for all names."""

    def reads_score(self, name: str) -> bool:
        return self.scores is None or name in self.scores


def interests_of(spec: PlacementSpec) -> Interests:
    """For a misconfigured spec, nothing after its error: it is scheduled again when it changes."""
    selectors = [predicate.required_cluster_selector for predicate in spec.predicates]
    groups = [decision_group.group_cluster_selector for decision_group in spec.decision_strategy.group_strategy.decision_groups]
    by_labels = [*(one.label_selector for one in selectors), *(one.label_selector for one in groups)]
    by_claims = [*(one.claim_selector for one in selectors), *(group.claim_selector for group in groups)]
    labels = {key for by_label in by_labels for key in _label_keys(by_label)}
    claims = {requirement.key for by_claim in by_claims for requirement in by_claim.match_expressions}
    for term in spec.spread_policy.spread_constraints:
        (claims if term.topology_key_type == "Claim" else labels).add(term.topology_key)
    data = _referenced_data(text for selector in selectors for text in selector.cel_selector.cel_expressions)
    resources, scores = _of_policy(spec)
    data |= ReferencedData(scores=scores)
    return Interests(frozenset(labels), frozenset(claims), resources, data.paths, data.scores)


def _label_keys(selector: LabelSelector) -> Iterable[str]:
    return (*selector.match_labels, *(match_expression.key for match_expression in selector.match_expressions))


def _referenced_data(expressions: Iterable[str]) -> ReferencedData:
    data = ReferencedData()
    for text in expressions:
        try:
            data |= referenced_data(compiled(text))
        except ExpressionError:
            continue
    return data


def _of_policy(spec: PlacementSpec) -> tuple[frozenset[str], frozenset[str]]:
    """Resources and names of scores with a weight."""
    try:
        weights = weights_of(spec.prioritizer_policy)
    except Misconfigured:
        return frozenset(), frozenset()
    resources = frozenset(ALLOCATABLE[name] for name, _ in weights.built_in if name in ALLOCATABLE)
    return resources, frozenset(score.resource_name for score, _ in weights.addons)


def touches(interests: Interests, old: Candidate | None, new: Candidate | None) -> bool:
    """Whether the change, addition or removal of a cluster could change the result."""
    if old is None or new is None or old.deleting or new.deleting:
        return (old is None or old.deleting) != (new is None or new.deleting)
    return (
        _differ(old.labels, new.labels, interests.labels)
        or _differ(old.claims, new.claims, interests.claims)
        or _selecting(old.taints) != _selecting(new.taints)
        or _differ(old.allocatable, new.allocatable, interests.resources)
        or any((name in old.capacity) != (name in new.capacity) for name in interests.resources)
        or bool(interests.paths and _documents_differ(old, new, interests.paths))
    )


def _differ(old: Mapping[str, str], new: Mapping[str, str], keys: Iterable[str]) -> bool:
    return any(old.get(key) != new.get(key) for key in keys)


def _selecting(taints: Iterable[Taint]) -> list[Taint]:
    return [taint for taint in taints if taint.effect != NEVER_FILTERS]


def _documents_differ(old: Candidate, new: Candidate, paths: Iterable[tuple[str, ...]]) -> bool:
    before, after = old.document(), new.document()
    return any(_at(before, path) != _at(after, path) for path in paths)


def _at(value: Any, path: tuple[str, ...]) -> bytes:
    """The value as JSON, since expressions distinguish 1, 1.0 and true. Empty if there is none."""
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return b""
        value = value[step]
    return orjson.dumps(value)
