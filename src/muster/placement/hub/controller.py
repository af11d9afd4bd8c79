"""Reconciles placements: calls `schedule` with an inventory of the caches, and writes the decisions and the status.

`inventory` determines which placements a change triggers: those that depend on the changed data, and no others. A placement's own
decisions and status trigger it if they differ from what its last reconcile wrote, so its own writes trigger nothing and edits of
others are reverted. Timers trigger it when a toleration or a score expires, and when scores may be written again.

A reconcile is: schedule → compute the desired decisions → write them, in an order in which no cluster that stays selected is ever
missing → update the status, in one patch. While other placements wait for their decisions, these come first and the status is
updated by a separate reconcile, which schedules again only if the placement was triggered in between. A failed write ends the
reconcile; the status then describes what is written, and the reconcile is retried. A misconfigured placement keeps its decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

import msgspec

from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1alpha1 import AddOnPlacementScore
from muster.api.cluster.v1beta1 import PLACEMENT_LABEL, SATISFIED, Placement, PlacementDecision, PlacementStatus
from muster.api.cluster.v1beta2 import ManagedClusterSet, ManagedClusterSetBinding
from muster.api.meta import Condition
from muster.api.resource import TypedObject
from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectKey
from muster.placement.candidates import candidate_of
from muster.placement.choice import Choice
from muster.placement.hub.decision_plan import (
    Decision,
    Write,
    clusters_of,
    free_names,
    is_as_wanted,
    plan_writes,
)
from muster.placement.hub.decision_writer import DecisionWriter, NotWritten, scores_note
from muster.placement.hub.desired_status import BY_SCORE, is_unnameable, kept_decisions, status_of, waits_until, wanted_decisions
from muster.placement.hub.inventory import Inventory
from muster.placement.hub.measurements import Measurements
from muster.placement.names import DISABLED
from muster.placement.scheduler import schedule
from muster.runtime.cache import Informer, MutationCache
from muster.runtime.client import patch_object
from muster.runtime.controller import ControllerContext

log = get_logger("muster.placement.hub.controller")

R = TypeVar("R", bound=TypedObject)
NAME: Final = "placements"
STATUS_WITHIN: Final = 2.0
"""Seconds for which a status update may wait for the decisions of other placements."""
JUST_AFTER: Final = 0.01
"""Seconds that are added to a deadline, so that it has passed when a reconcile begins."""


@dataclass(frozen=True)
class _Left:
    """What the last reconcile wrote for a placement."""

    decisions: Mapping[str, Decision]
    status: PlacementStatus
    foreign: tuple[str, ...]
    """Decisions that had its label and another owner."""


@dataclass(frozen=True)
class _Unsaid:
    """A pending status update; the decisions are current until their placement is triggered."""

    conditions: tuple[Condition, Condition]
    decisions: frozenset[str]
    """The names of the decisions."""
    again: datetime | None
    """When the result may change without an event."""

    def holds(self, present: Mapping[str, Decision], now: datetime) -> bool:
        return present.keys() == self.decisions and (self.again is None or now < self.again)


class Placements:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.inventory = Inventory(context.clock)
        self._left: dict[ObjectKey, _Left] = {}
        self._unsaid: dict[ObjectKey, _Unsaid] = {}
        self._running: set[ObjectKey] = set()
        self._controller = context.controller(NAME, self.reconcile)
        # Events wait for decisions, so that these are not delayed.
        context.events.yield_to(lambda: self._controller.crowded)
        self._writer = DecisionWriter(context.client, context.events, self.inventory.decisions)
        self.measurements = Measurements(context.metrics, context.clock)
        inventory = self.inventory
        self._follow(
            ManagedCluster, lambda one: inventory.put_cluster(candidate_of(one)), lambda key: inventory.drop_cluster(key.name)
        )
        self._follow(ManagedClusterSet, inventory.put_set, lambda key: inventory.drop_set(key.name))
        self._follow(ManagedClusterSetBinding, lambda one: inventory.put_binding(_key(one)), inventory.drop_binding)
        self._follow(AddOnPlacementScore, inventory.put_score, inventory.drop_score)
        self._decisions = context.informers.of(PlacementDecision)
        self._placements = context.informers.of(Placement)
        self._latest: MutationCache[Placement] = MutationCache(self._placements, clock=context.clock)
        self._controller.depend(self._decisions)
        self._controller.depend(self._placements)
        self._decisions.on_change(self._decision_changed)
        self._placements.on_change(self._placement_changed)

    def _follow(
        self, kind: type[R], put: Callable[[R], Iterable[ObjectKey]], drop: Callable[[ObjectKey], Iterable[ObjectKey]]
    ) -> None:
        """Update the inventory with every change, and enqueue the affected placements."""

        def changed(old: R | None, new: R | None) -> None:
            if new is not None:
                concerned = put(new)
            else:
                assert old is not None, "something changed"
                concerned = drop(_key(old))
            for key in concerned:
                self._wake(key)

        informer: Informer[R] = self._context.informers.of(kind)
        self._controller.depend(informer)
        informer.on_change(changed)

    async def run(self) -> None:
        await self._controller.run()

    def find(self, key: ObjectKey) -> Placement | None:
        return self._latest.get(key)

    # Watches, besides those of the inventory

    def _placement_changed(self, old: Placement | None, new: Placement | None) -> None:
        if new is None:
            assert old is not None, "something changed"
            self.inventory.drop_placement(_key(old))
            self._forget(_key(old))
            return
        key = _key(new)
        if old is None or old.spec != new.spec:
            self.inventory.put_placement(new)
        if old is None or _wanted_state(old) != _wanted_state(new):
            self._wake(key)
        else:
            self._wake_unless_left_so(key)

    def _decision_changed(self, old: PlacementDecision | None, new: PlacementDecision | None) -> None:
        index = self.inventory.decisions
        if new is None:
            assert old is not None, "something changed"
            news = index.observe_deletion(old)
        else:
            news = index.observe(new)
        if not news:
            return
        for side in (old, new):
            if side is not None:
                for key in _placements_of(side):
                    self._wake_unless_left_so(key)

    def _wake(self, key: ObjectKey) -> None:
        self._unsaid.pop(key, None)
        self._controller.enqueue(key)

    def _wake_unless_left_so(self, key: ObjectKey) -> None:
        """A reconcile under way checks again when it ends."""
        placement = self._latest.get(key)
        if placement is not None and not self._is_left_so(key, placement):
            if key in self._running:
                self._unsaid.pop(key, None)
            else:
                self._wake(key)

    def _forget(self, key: ObjectKey) -> None:
        self._left.pop(key, None)
        self._unsaid.pop(key, None)

    def _is_left_so(self, key: ObjectKey, placement: Placement) -> bool:
        """Whether status and decisions are as the last reconcile wrote them."""
        left = self._left.get(key)
        if left is None or left.status != placement.status or left.foreign != self._foreign(key, placement):
            return False
        present = self._present(placement)
        return present.keys() == left.decisions.keys() and all(
            is_as_wanted(present[name], wanted) for name, wanted in left.decisions.items()
        )

    def _present(self, placement: Placement) -> dict[str, Decision]:
        return {name: one.content for name, one in self.inventory.decisions.owned_by(placement.metadata.uid).items()}

    # Reconcile

    async def reconcile(self, key: ObjectKey) -> float | None:
        # Scheduling never suspends: other tasks get their turn here.
        await asyncio.sleep(0)
        placement = self._latest.get(key)
        if placement is None or placement.metadata.deletion_timestamp or placement.metadata.annotations.get(DISABLED) == "true":
            self._forget(key)
            return None
        self._running.add(key)
        try:
            return await self._schedule(key, placement)
        finally:
            self._running.discard(key)

    async def _schedule(self, key: ObjectKey, placement: Placement) -> float | None:
        now = self._context.clock.now()
        unsaid, present = self._unsaid.pop(key, None), self._present(placement)
        if unsaid is not None and unsaid.holds(present, now):
            return await self._finish(key, placement, present, unsaid, now)
        choice, is_taken = self._choose(placement, now), partial(self._is_taken, key, placement)
        wanted, until = self._wanted(placement, choice, present, is_taken, now)
        spare = free_names(placement.metadata.name, lambda name: name in present or name in wanted or is_taken(name))
        writes = plan_writes(present, wanted, spare)
        unsaid = self._unsaid[key] = _Unsaid(
            (choice.satisfied, choice.misconfigured), frozenset(wanted), _first(choice.again, until)
        )
        try:
            with self.inventory.decisions.expecting(key, clusters_of(wanted.values())):
                await self._write(placement, writes, choice)
        except NotWritten as error:
            self._forget(key)
            await self._report_failure(placement, choice, error)
            raise error.failure from error
        scored = bool(writes) and placement.spec.sort_by == BY_SCORE
        if writes and not scored and self._controller.crowded:
            self._left.pop(key, None)
            self._controller.enqueue_when_idle(key, STATUS_WITHIN)
            return None
        self._unsaid.pop(key, None)
        return await self._finish(key, placement, wanted, unsaid, now, scored=scored)

    async def _finish(
        self,
        key: ObjectKey,
        placement: Placement,
        decisions: Mapping[str, Decision],
        unsaid: _Unsaid,
        now: datetime,
        *,
        scored: bool = False,
    ) -> float | None:
        """Update the status; returns the seconds until the next reconcile."""
        status = status_of(placement, decisions, unsaid.conditions, now, scored=scored)
        self._left[key] = _Left(decisions, status, self._name_foreign(key, placement))
        await self._report(placement, status)
        if (newest := self._latest.get(key)) is not None and not self._is_left_so(key, newest):
            # Another client has written in between.
            self._wake(key)
        if unsaid.again is None:
            return None
        return max(0.0, (unsaid.again - self._context.clock.now()).total_seconds()) + JUST_AFTER

    def _choose(self, placement: Placement, now: datetime) -> Choice:
        with self.measurements.choice():
            return schedule(placement, self.inventory.world(placement, now), self.measurements)

    @staticmethod
    def _wanted(
        placement: Placement, choice: Choice, present: Mapping[str, Decision], is_taken: Callable[[str], bool], now: datetime
    ) -> tuple[Mapping[str, Decision], datetime | None]:
        """The desired decisions, and until when score changes must wait."""
        if choice.keeps_decisions or is_unnameable(placement):
            return kept_decisions(placement, present, is_taken), None
        wanted = wanted_decisions(placement, choice, is_taken)
        until = waits_until(placement, present, wanted, now)
        return (present if until else wanted), until

    async def _write(self, placement: Placement, writes: Sequence[Write], choice: Choice) -> None:
        if not writes:
            return
        with self.measurements.binding():
            await self._writer.write(placement, writes, choice.warnings)
        if choice.totals:
            note = scores_note(choice.totals)
            self._context.events.event(placement.document(), "Normal", "ScoreUpdate", note, action="ScoreUpdated")

    # Decisions of other owners

    def _is_taken(self, key: ObjectKey, placement: Placement, name: str) -> bool:
        """Whether the name of a decision is in use by another owner. Decisions of a deleted placement of the same name do not
        count."""
        found = self.inventory.decisions.get(ObjectKey(key.namespace, name))
        return found is not None and placement.metadata.uid not in found.owners and not found.is_garbage_of(key)

    def _foreign(self, key: ObjectKey, placement: Placement) -> tuple[str, ...]:
        """Decisions that have the placement's label and another owner."""
        labelled = self.inventory.decisions.labelled(key)
        return tuple(sorted(one.key.name for one in labelled if self._is_taken(key, placement, one.key.name)))

    def _name_foreign(self, key: ObjectKey, placement: Placement) -> tuple[str, ...]:
        """They are reported once, and not changed: consumers that read decisions by label take them for this placement's."""
        foreign, known = self._foreign(key, placement), self._left.get(key)
        if foreign and (known is None or known.foreign != foreign):
            names = ", ".join(foreign)
            log.warning("decisions of others are labelled with this placement", placement=str(key), decisions=names)
            note = (
                f"These PlacementDecisions carry the label of this placement and are not its own; delete or relabel them: {names}"
            )
            self._context.events.event(placement.document(), "Warning", "ForeignDecision", note, action="Schedule")
        return foreign

    # Status

    async def _report_failure(self, placement: Placement, choice: Choice, error: NotWritten) -> None:
        """The status has what is written, and the error."""
        if error.ordinary:
            return
        message = f"PlacementDecision {error.name} could not be written: {error.cause}"
        satisfied = Condition(type=SATISFIED, status="False", reason="NotAllDecisionsScheduled", message=message)
        now = self._context.clock.now()
        status = status_of(placement, self._present(placement), (satisfied, choice.misconfigured), now, scored=False)
        await self._report(placement, status)

    async def _report(self, placement: Placement, status: PlacementStatus) -> None:
        answer = await patch_object(self._context.client, placement, msgspec.structs.replace(placement, status=status), status=True)
        if answer is not None:
            self._latest.record_write(answer)


def _first(*moments: datetime | None) -> datetime | None:
    return min(filter(None, moments), default=None)


def _key(obj: TypedObject) -> ObjectKey:
    return ObjectKey(obj.metadata.namespace, obj.metadata.name)


def _placements_of(decision: PlacementDecision) -> Iterable[ObjectKey]:
    """The owner, and the placement in its label."""
    metadata = decision.metadata
    names = [
        owner_reference.name for owner_reference in metadata.owner_references if owner_reference.kind == Placement.resource.kind
    ]
    return [
        ObjectKey(metadata.namespace, name) for name in dict.fromkeys((*names, metadata.labels.get(PLACEMENT_LABEL, ""))) if name
    ]


def _wanted_state(placement: Placement) -> tuple[object, ...]:
    """The fields of a placement that users write."""
    metadata = placement.metadata
    return metadata.uid, placement.spec, metadata.annotations.get(DISABLED), bool(metadata.deletion_timestamp)
