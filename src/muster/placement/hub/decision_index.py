"""The PlacementDecisions of a hub, by the placement that owns them, and the number of placements that selected each cluster.

It is updated by the watch and by this process's own writes, whichever is first: an object is never replaced by an older version, so
the event of an own write changes nothing. An own write that the watch does not confirm is forgotten after `CONFIRMED_WITHIN`
seconds.

A decision belongs to the placement whose uid is its owner. For counting, a decision without owner counts for the placement in its
label. A placement with a cluster in two decisions, as during a move, counts once.

Invariant: `_chosen` is, for every cluster, the number of placements that selected it, written (`_counts`) or, for a placement whose
decisions are being written, expected (`_expected`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from muster.api.cluster.v1beta1 import PLACEMENT_LABEL, Placement, PlacementDecision
from muster.machinery.clock import Clock
from muster.machinery.objects import ObjectKey
from muster.placement.hub.decision_plan import Decision

K = TypeVar("K")
CONFIRMED_WITHIN: Final = 10.0
_KIND: Final = Placement.resource.kind


@dataclass(frozen=True)
class WrittenDecision:
    """The relevant fields of a PlacementDecision."""

    key: ObjectKey
    uid: str
    resource_version: str
    owners: frozenset[str]
    """The uids of its owners."""
    placement: ObjectKey
    """The placement that it counts for."""
    owned: bool
    """Whether it has a Placement as owner."""
    content: Decision

    @classmethod
    def of(cls, decision: PlacementDecision) -> WrittenDecision:
        metadata = decision.metadata
        owner = next((one for one in metadata.owner_references if one.kind == _KIND), None)
        named = owner.name if owner else metadata.labels.get(PLACEMENT_LABEL) or metadata.name
        return cls(
            ObjectKey(metadata.namespace, metadata.name),
            metadata.uid,
            metadata.resource_version,
            frozenset(owner_reference.uid for owner_reference in metadata.owner_references),
            ObjectKey(metadata.namespace, named),
            owner is not None,
            Decision(metadata.labels, tuple((one.cluster_name, one.score) for one in decision.status.decisions)),
        )

    def is_garbage_of(self, placement: ObjectKey) -> bool:
        """For a placement that does not own it: whether it belongs to a deleted one of the same name."""
        return self.owned and self.placement == placement

    @property
    def version(self) -> int:
        return int(self.resource_version) if self.resource_version.isdecimal() else 0


class DecisionIndex:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all: dict[ObjectKey, WrittenDecision] = {}
        self._by_owner: dict[str, dict[ObjectKey, None]] = {}
        self._by_label: dict[ObjectKey, dict[ObjectKey, None]] = {}
        self._counts: dict[ObjectKey, Counter[str]] = {}
        self._chosen: Counter[str] = Counter()
        self._expected: dict[ObjectKey, frozenset[str]] = {}
        """By placement, the selection that is being written."""
        self._unconfirmed: dict[ObjectKey, float] = {}
        self._deleted: dict[ObjectKey, str] = {}
        """Uids of decisions that this process has deleted, until the watch reports that."""

    def get(self, key: ObjectKey) -> WrittenDecision | None:
        return self._all.get(key)

    def owned_by(self, uid: str) -> dict[str, WrittenDecision]:
        """By name."""
        for key in list(self._by_owner.get(uid, ())):
            if self._unconfirmed.get(key, float("inf")) < self._clock.monotonic():
                self._remove(key)
        return {key.name: self._all[key] for key in self._by_owner.get(uid, ())}

    def labelled(self, placement: ObjectKey) -> list[WrittenDecision]:
        """Those with this placement in their label, of any owner."""
        return [self._all[key] for key in self._by_label.get(placement, ())]

    def chosen_by_others(self, placement: ObjectKey) -> dict[str, int]:
        """By cluster, how many other placements have selected it."""
        own = self._expected.get(placement, self._written(placement))
        return {cluster: others for cluster, count in self._chosen.items() if (others := count - (cluster in own))}

    @contextmanager
    def expecting(self, placement: ObjectKey, clusters: frozenset[str]) -> Iterator[None]:
        """While a selection is being written it counts as written: otherwise concurrent scheduling runs would all select the same
        clusters."""
        self._count(self._written(placement), clusters)
        self._expected[placement] = clusters
        try:
            yield
        finally:
            del self._expected[placement]
            self._count(clusters, self._written(placement))

    def _written(self, placement: ObjectKey) -> Set[str]:
        return self._counts.get(placement, {}).keys()

    def _count(self, before: Set[str], after: Set[str]) -> None:
        """The selection of a placement has changed."""
        for cluster in after - before:
            self._chosen[cluster] += 1
        for cluster in before - after:
            _decrease(self._chosen, cluster)

    def observe(self, decision: PlacementDecision) -> bool:
        """The watch has reported a version; returns False if it is known already."""
        written = WrittenDecision.of(decision)
        if self._deleted.get(written.key) == written.uid:
            return False
        known = self._all.get(written.key)
        if known is not None and written.version <= known.version:
            if written.version == known.version:
                self._unconfirmed.pop(written.key, None)
            return False
        self._unconfirmed.pop(written.key, None)
        self._put(written)
        return True

    def observe_deletion(self, decision: PlacementDecision) -> bool:
        """Returns False if this process has deleted it itself, or a new one has the name since."""
        key, uid = ObjectKey(decision.metadata.namespace, decision.metadata.name), decision.metadata.uid
        own = self._deleted.get(key) == uid and self._deleted.pop(key) == uid
        known = self._all.get(key)
        if known is None or known.uid != uid:
            return False
        self._remove(key)
        return not own

    def record_write(self, decision: PlacementDecision) -> WrittenDecision:
        """Record the response to an own write."""
        written = WrittenDecision.of(decision)
        known = self._all.get(written.key)
        if known is None or written.version > known.version:
            self._unconfirmed[written.key] = self._clock.monotonic() + CONFIRMED_WITHIN
            self._put(written)
        return written

    def record_delete(self, key: ObjectKey, uid: str) -> None:
        known = self._all.get(key)
        if known is not None and known.uid == uid:
            if key not in self._unconfirmed:
                self._deleted[key] = uid
            self._remove(key)

    def _put(self, written: WrittenDecision) -> None:
        self._remove(written.key, keeping=True)
        self._all[written.key] = written
        for owner in written.owners:
            self._by_owner.setdefault(owner, {})[written.key] = None
        if label := written.content.labels.get(PLACEMENT_LABEL):
            self._by_label.setdefault(ObjectKey(written.key.namespace, label), {})[written.key] = None
        counts = self._counts.setdefault(written.placement, Counter())
        counting = written.placement not in self._expected
        for cluster in written.content.names:
            counts[cluster] += 1
            if counting and counts[cluster] == 1:
                self._chosen[cluster] += 1

    def _remove(self, key: ObjectKey, *, keeping: bool = False) -> None:
        """`keeping`: a newer version follows."""
        if not keeping:
            self._unconfirmed.pop(key, None)
        written = self._all.pop(key, None)
        if written is None:
            return
        for owner in written.owners:
            _discard(self._by_owner, owner, key)
        if label := written.content.labels.get(PLACEMENT_LABEL):
            _discard(self._by_label, ObjectKey(key.namespace, label), key)
        counts = self._counts.pop(written.placement, Counter())
        counting = written.placement not in self._expected
        for cluster in written.content.names:
            _decrease(counts, cluster)
            if counting and cluster not in counts:
                _decrease(self._chosen, cluster)
        if counts:
            self._counts[written.placement] = counts


def _discard(index: dict[K, dict[ObjectKey, None]], value: K, key: ObjectKey) -> None:
    members = index[value]
    del members[key]
    if not members:
        del index[value]


def _decrease(counts: dict[str, int], cluster: str) -> None:
    counts[cluster] -= 1
    if not counts[cluster]:
        del counts[cluster]
