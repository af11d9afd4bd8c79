"""The indexed inputs of scheduling: clusters, sets and their members, bindings, scores, decisions, and the placements' interests.

Its feeder (a controller with caches, a tool with lists) reports every change and gets the affected placements: those with the
cluster in a set bound to their namespace, and that depend on the changed data. `world` is the snapshot for one placement; it costs
one pass over the selected clusters, and nothing else.

A decision of one placement changes the Balance scores of the others, but does not trigger them: they count again at their next
reconcile. Otherwise every decision would trigger all other placements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from muster.api.cluster.v1alpha1 import AddOnPlacementScore
from muster.api.cluster.v1beta1 import Placement
from muster.api.cluster.v1beta2 import ClusterSetSelector, ManagedClusterSet
from muster.kube.selectors import Selector
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import ObjectKey
from muster.placement.hub.decision_index import DecisionIndex
from muster.placement.hub.interests import Interests, interests_of, touches
from muster.placement.snapshot import Candidate, PlacementSnapshot
from muster.registration.hub.sets.members import selector_of

_NO_SETS: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Seeker:
    """A placement, by its interests."""

    key: ObjectKey
    cluster_sets: frozenset[str]
    """The cluster sets of its spec; empty: all bound ones."""
    interests: Interests

    def admits(self, cluster_set: str) -> bool:
        return not self.cluster_sets or cluster_set in self.cluster_sets


@dataclass
class _Set:
    chosen_by: ClusterSetSelector
    selector: Selector
    members: dict[str, None]


class Inventory:
    def __init__(self, clock: Clock = SYSTEM) -> None:
        self.clusters: dict[str, Candidate] = {}
        self.decisions = DecisionIndex(clock)
        self._sets: dict[str, _Set] = {}
        self._sets_of: dict[str, frozenset[str]] = {}
        self._bound: dict[str, dict[str, None]] = {}
        """Names of bindings, by namespace."""
        self._namespaces: dict[str, dict[str, None]] = {}
        """The namespaces with a binding of a name."""
        self._scores: dict[tuple[str, str], AddOnPlacementScore] = {}
        self._seekers: dict[str, dict[ObjectKey, _Seeker]] = {}

    def world(self, placement: Placement, now: datetime) -> PlacementSnapshot:
        metadata = placement.metadata
        own = self.decisions.owned_by(metadata.uid).values()
        present = dict(chain.from_iterable(one.content.clusters for one in own))
        return PlacementSnapshot(
            clusters=self.clusters,
            sets=self._sets,
            members=self._members,
            bound=self._bound.get(metadata.namespace, ()),
            score=self._score,
            present=present,
            others=self.decisions.chosen_by_others(ObjectKey(metadata.namespace, metadata.name)),
            now=now,
        )

    def _members(self, cluster_set: str) -> Collection[str]:
        found = self._sets.get(cluster_set)
        return () if found is None else found.members

    def _score(self, cluster: str, name: str) -> AddOnPlacementScore | None:
        return self._scores.get((cluster, name))

    # Changes. All but those of placements return the affected placements.

    def put_placement(self, placement: Placement) -> None:
        key = ObjectKey(placement.metadata.namespace, placement.metadata.name)
        seeker = _Seeker(key, frozenset(placement.spec.cluster_sets), interests_of(placement.spec))
        self._seekers.setdefault(key.namespace, {})[key] = seeker

    def drop_placement(self, key: ObjectKey) -> None:
        here = self._seekers.get(key.namespace, {})
        here.pop(key, None)
        if not here:
            self._seekers.pop(key.namespace, None)

    def put_cluster(self, candidate: Candidate) -> list[ObjectKey]:
        old = self.clusters.get(candidate.name)
        self.clusters[candidate.name] = candidate
        before = self._sets_of.get(candidate.name, _NO_SETS)
        if old is None or old.labels != candidate.labels:
            after = frozenset(name for name, one in self._sets.items() if one.selector.matches(candidate.labels))
            self._move(candidate.name, before, after)
        else:
            after = before
        return list(self._touched(before, after, old, candidate))

    def drop_cluster(self, name: str) -> list[ObjectKey]:
        old = self.clusters.pop(name, None)
        before = self._sets_of.get(name, _NO_SETS)
        self._move(name, before, _NO_SETS)
        return [] if old is None else list(self._touched(before, _NO_SETS, old, None))

    def _move(self, cluster: str, before: frozenset[str], after: frozenset[str]) -> None:
        for name in before - after:
            self._sets[name].members.pop(cluster, None)
        for name in after - before:
            self._sets[name].members[cluster] = None
        if after:
            self._sets_of[cluster] = after
        else:
            self._sets_of.pop(cluster, None)

    def _touched(
        self, before: frozenset[str], after: frozenset[str], old: Candidate | None, new: Candidate | None
    ) -> Iterator[ObjectKey]:
        for seeker in self._seeing(before | after):
            was, is_now = old if self._sees(seeker, before) else None, new if self._sees(seeker, after) else None
            if touches(seeker.interests, was, is_now):
                yield seeker.key

    def put_set(self, cluster_set: ManagedClusterSet) -> list[ObjectKey]:
        name, chosen_by = cluster_set.metadata.name, cluster_set.spec.cluster_selector
        known = self._sets.get(name)
        if known is not None and known.chosen_by == chosen_by:
            return []
        selector = selector_of(cluster_set)
        members = dict.fromkeys(one.name for one in self.clusters.values() if selector.matches(one.labels))
        self._sets[name] = _Set(chosen_by, selector, members)
        for cluster in known.members if known else ():
            if cluster not in members:
                self._sets_of[cluster] -= {name}
        for cluster in members:
            self._sets_of[cluster] = self._sets_of.get(cluster, _NO_SETS) | {name}
        return self._bound_in(self._namespaces.get(name, ())) if known is None else [one.key for one in self._seeing((name,))]

    def drop_set(self, name: str) -> list[ObjectKey]:
        known = self._sets.pop(name, None)
        if known is None:
            return []
        for cluster in known.members:
            self._sets_of[cluster] -= {name}
        return self._bound_in(self._namespaces.get(name, ()))

    def put_binding(self, key: ObjectKey) -> list[ObjectKey]:
        here = self._bound.setdefault(key.namespace, {})
        if key.name in here:
            return []
        here[key.name] = None
        self._namespaces.setdefault(key.name, {})[key.namespace] = None
        return self._bound_in((key.namespace,))

    def drop_binding(self, key: ObjectKey) -> list[ObjectKey]:
        if key.name not in self._bound.get(key.namespace, ()):
            return []
        del self._bound[key.namespace][key.name]
        del self._namespaces[key.name][key.namespace]
        return self._bound_in((key.namespace,))

    def _bound_in(self, namespaces: Iterable[str]) -> list[ObjectKey]:
        """All placements there: whether any set is bound also affects those that select from others."""
        return [seeker.key for namespace in namespaces for seeker in self._here(namespace)]

    def put_score(self, score: AddOnPlacementScore) -> list[ObjectKey]:
        cluster, name = score.metadata.namespace, score.metadata.name
        known = self._scores.get((cluster, name))
        self._scores[cluster, name] = score
        same = known is not None and (known.status.scores, known.status.valid_until) == (
            score.status.scores,
            score.status.valid_until,
        )
        return [] if same else self._scored(cluster, name)

    def drop_score(self, key: ObjectKey) -> list[ObjectKey]:
        return [] if self._scores.pop((key.namespace, key.name), None) is None else self._scored(key.namespace, key.name)

    def _scored(self, cluster: str, name: str) -> list[ObjectKey]:
        sets = self._sets_of.get(cluster, _NO_SETS)
        return [one.key for one in self._seeing(sets) if one.interests.reads_score(name) and self._sees(one, sets)]

    # Lookups

    def _here(self, namespace: str) -> Iterable[_Seeker]:
        return self._seekers.get(namespace, {}).values()

    def _seeing(self, cluster_sets: Iterable[str]) -> Iterator[_Seeker]:
        """The placements that select from one of these sets, if it exists."""
        names = tuple(cluster_sets)
        for namespace in dict.fromkeys(namespace for name in names for namespace in self._namespaces.get(name, ())):
            for seeker in self._here(namespace):
                if any(seeker.admits(name) and name in self._bound[namespace] for name in names):
                    yield seeker

    def _sees(self, seeker: _Seeker, cluster_sets: frozenset[str]) -> bool:
        bound = self._bound.get(seeker.key.namespace, ())
        return any(seeker.admits(name) and name in bound for name in cluster_sets)
