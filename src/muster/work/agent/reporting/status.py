"""The status of a work from the results of its manifests: one entry per manifest, in the order of the spec, and the conditions.

A new entry is merged into the former entry of the same resource, found by its whole identity or else, if that is unambiguous, by
its identity without the ordinal. What this pass does not know is kept: feedback and rule conditions of an object that is missing
or cannot be read. Transition times change as OCM's do: with the status of a condition, for a manifest's Applied also with the
generation, and for StatusFeedbackSynced also with the values.

Invariants: the same results give the same status; every condition has a reason; all texts together stay within what an API server
stores, since otherwise it would refuse the whole status.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import orjson

from muster.api.meta import Condition, Conditions, condition_of, with_condition
from muster.api.work.v1 import (
    FeedbackValue,
    ManifestCondition,
    ManifestResourceMeta,
    ManifestResourceStatus,
    ManifestWork,
    ManifestWorkStatus,
    StatusFeedback,
)
from muster.machinery.objects import Object
from muster.work.agent.interfaces import InvalidManifest, Manifest
from muster.work.agent.reporting.aggregate import aggregated
from muster.work.agent.reporting.feedback import LONGEST_RAW, Feedback, FeedbackReader
from muster.work.agent.reporting.manifest_result import ManifestResult
from muster.work.agent.reporting.room import fitting
from muster.work.agent.reporting.rules import comes_from_rule, evaluate
from muster.work.names import APPLIED, AVAILABLE, DELETING, FEEDBACK_SYNCED

LONGEST_MESSAGE: Final = 32768
"""What Kubernetes allows for a condition."""
_ALL_MESSAGES: Final = 512 * 1024
_SHORTEST_LIMIT: Final = 512
_PENDING_NAMED: Final = 10


@dataclass(frozen=True)
class Reporter:
    """Makes statuses. `raw_json` is OCM's feature RawFeedbackJsonString."""

    raw_json: bool = False
    max_json_raw_length: int = LONGEST_RAW

    def status(self, work: ManifestWork, outcomes: Sequence[ManifestResult], now: str) -> ManifestWorkStatus:
        """The status that `work` is to have; the one that it has when nothing is new. `outcomes` are in the order of the spec."""
        old = work.status
        generation = work.metadata.generation
        former = _Former(old.resource_status.manifests)
        writer = _EntryWriter(
            FeedbackReader(self.raw_json, self.max_json_raw_length), generation, now, limit_of_messages(len(outcomes))
        )
        manifests = tuple(writer.entry(outcome, former.of(outcome.meta)) for outcome in outcomes)
        conditions = old.conditions
        listed = fitting(manifests, work.spec)
        whole = _with_omission(aggregated(manifests, generation), len(listed), len(manifests))
        for condition in whole:
            conditions = with_condition(conditions, writer.cut(condition), now)
        types = {condition.type for condition in whole}
        conditions = _without(conditions, [one.type for one in conditions if comes_from_rule(one) and one.type not in types])
        return _unless_same(
            old, ManifestWorkStatus(conditions=conditions, resource_status=ManifestResourceStatus(manifests=listed))
        )


def _with_omission(whole: list[Condition], listed: int, total: int) -> list[Condition]:
    """Applied mentions it if not all manifests fit into the status."""
    if listed == total:
        return whole
    note = f"; there is room for {listed} of {total} manifests in this status, which has those first that are not as they should be"
    return [msgspec.structs.replace(one, message=f"{one.message}{note}") if one.type == APPLIED else one for one in whole]


def deleting(work: ManifestWork, pending: Sequence[str], now: str) -> ManifestWorkStatus:
    """The status of a work that is going away, with the objects that it waits for."""
    message = "ManifestWork is being deleted"
    if pending:
        more = len(pending) - _PENDING_NAMED
        message += ", waiting for " + ", ".join(pending[:_PENDING_NAMED]) + (f" and {more} more" if more > 0 else "")
    condition = Condition(
        type=DELETING,
        status="True",
        reason="WorkDeleting",
        message=message[:LONGEST_MESSAGE],
        observed_generation=work.metadata.generation,
    )
    old = work.status
    return _unless_same(old, msgspec.structs.replace(old, conditions=with_condition(old.conditions, condition, now)))


def limit_of_messages(manifests: int) -> int:
    """How long a message may be in a work of so many manifests."""
    return max(_SHORTEST_LIMIT, min(LONGEST_MESSAGE, _ALL_MESSAGES // max(1, manifests)))


def _unless_same(old: ManifestWorkStatus, new: ManifestWorkStatus) -> ManifestWorkStatus:
    return old if old == new else new


class _Former:
    """The entries of the former status by resource."""

    def __init__(self, entries: Iterable[ManifestCondition]) -> None:
        self._exact: dict[ManifestResourceMeta, ManifestCondition] = {}
        self._anywhere: dict[ManifestResourceMeta, ManifestCondition | None] = {}
        for entry in entries:
            self._exact[entry.resource_meta] = entry
            key = _anywhere(entry.resource_meta)
            self._anywhere[key] = None if key in self._anywhere else entry
        # Manifests that could not even be read all look alike.
        self._anywhere.pop(ManifestResourceMeta(ordinal=0), None)

    def of(self, meta: ManifestResourceMeta) -> ManifestCondition:
        found = self._exact.get(meta) or self._anywhere.get(_anywhere(meta))
        return found or ManifestCondition(resource_meta=meta, conditions=())


def _anywhere(meta: ManifestResourceMeta) -> ManifestResourceMeta:
    return msgspec.structs.replace(meta, ordinal=0)


class _EntryWriter:
    """Writes the entries of one status."""

    def __init__(self, reader: FeedbackReader, generation: int, now: str, limit: int) -> None:
        self._reader = reader
        self._generation = generation
        self._now = now
        self._limit = limit

    def entry(self, outcome: ManifestResult, old: ManifestCondition) -> ManifestCondition:
        before = condition_of(old.conditions, APPLIED)
        restart = before is not None and before.observed_generation != self._generation
        conditions = self._put(old.conditions, _applied(outcome, self._generation), restart)
        manifest, document = outcome.manifest, _document(outcome)
        feedback = old.status_feedback
        if outcome.last and isinstance(manifest, Manifest):
            conditions, feedback = self._read(manifest, orjson.loads(outcome.last), conditions, feedback)
            conditions = self._put(conditions, _available(outcome))
        elif document is None or isinstance(manifest, InvalidManifest):
            conditions = self._put(_still_ruled(conditions, manifest), _available(outcome))
        elif outcome.hidden:
            conditions = self._unread(manifest, outcome.hidden, conditions)
        else:
            conditions, feedback = self._read(manifest, document, conditions, feedback)
        return ManifestCondition(resource_meta=outcome.meta, conditions=conditions, status_feedback=feedback)

    def _read(
        self, manifest: Manifest, document: Object, conditions: Conditions, old: StatusFeedback
    ) -> tuple[Conditions, StatusFeedback]:
        """The state of the object: its existence, its feedback values, and the conditions of rules."""
        resource = manifest.ref.resource
        feedback = self._reader.read(resource, document, manifest.feedback)
        ruled = evaluate(resource, document, manifest.conditions)
        types = {condition.type for condition in ruled.conditions}
        if AVAILABLE not in types:
            conditions = self._put(conditions, _AVAILABLE)
        conditions = self._put(
            conditions, _synced(bool(manifest.feedback), feedback, ruled.problems), restart=feedback.values != old.values
        )
        for condition in ruled.conditions:
            conditions = self._put(conditions, msgspec.structs.replace(condition, observed_generation=self._generation))
        gone = [one.type for one in conditions if comes_from_rule(one) and one.type not in types]
        return _without(conditions, gone), _feedback(old, feedback.values)

    def _unread(self, manifest: Manifest, why: str, conditions: Conditions) -> Conditions:
        """An object that exists but must not be reported further: its former values and conditions are kept."""
        conditions = _still_ruled(conditions, manifest)
        if all(rule.condition != AVAILABLE for rule in manifest.conditions):
            conditions = self._put(conditions, _AVAILABLE)
        elif condition_of(conditions, AVAILABLE) is None:
            conditions = self._put(conditions, _unknown("FetchingResourceFailed", f"Failed to fetch resource: {why}"))
        requested = bool(manifest.feedback or manifest.conditions)
        return self._put(conditions, _synced(requested, Feedback(), (why,) if requested else ()))

    def cut(self, condition: Condition) -> Condition:
        if len(condition.message) <= self._limit:
            return condition
        return msgspec.structs.replace(condition, message=condition.message[: self._limit - 1] + "…")

    def _put(self, conditions: Conditions, new: Condition, restart: bool = False) -> Conditions:
        new = self.cut(new)
        if not restart:
            return with_condition(conditions, new, self._now)
        dated = msgspec.structs.replace(new, last_transition_time=self._now)
        if condition_of(conditions, new.type) is None:
            return (*conditions, dated)
        return tuple(dated if condition.type == new.type else condition for condition in conditions)


def _document(outcome: ManifestResult) -> Object | None:
    """The live object as rules see it, with its kind, which objects of a list come without; None where there is nothing to see."""
    if outcome.unfetched or outcome.live is None or isinstance(outcome.manifest, InvalidManifest):
        return None
    manifest = outcome.manifest
    if not manifest.feedback and not manifest.conditions:
        return {}  # It is there, and nobody asks for more: no need to read it.
    live: Object = orjson.loads(outcome.live) if isinstance(outcome.live, bytes) else outcome.live
    if "kind" in live:
        return live
    resource = manifest.ref.resource
    return {"apiVersion": resource.api_version, "kind": resource.kind, **live}


_AVAILABLE: Final = Condition(type=AVAILABLE, status="True", reason="ResourceAvailable", message="Resource is available")


def _applied(outcome: ManifestResult, generation: int) -> Condition:
    failure = outcome.failure
    return Condition(
        type=APPLIED,
        status="True" if failure is None else "False",
        reason="AppliedManifestComplete" if failure is None else failure.reason,
        message="Apply manifest complete" if failure is None else failure.message,
        observed_generation=generation,
    )


def _available(outcome: ManifestResult) -> Condition:
    """For an object that there is nothing to read of."""
    meta, manifest = outcome.meta, outcome.manifest
    if not (meta.resource and meta.version and meta.name):
        return _unknown("IncompleteResourceMeta", "Resource meta is incomplete")
    why = outcome.unfetched or (manifest.problem if isinstance(manifest, InvalidManifest) and not manifest.nowhere else "")
    if why:
        return _unknown("FetchingResourceFailed", f"Failed to fetch resource: {why}")
    return Condition(type=AVAILABLE, status="False", reason="ResourceNotAvailable", message="Resource is not available")


def _unknown(reason: str, message: str) -> Condition:
    return Condition(type=AVAILABLE, status="Unknown", reason=reason, message=message)


def _synced(requested: bool, feedback: Feedback, other_problems: tuple[str, ...]) -> Condition:
    problems = (*feedback.problems, *other_problems)
    if not problems:
        reason = "StatusFeedbackSynced" if requested else "NoStatusFeedbackSynced"
        return Condition(type=FEEDBACK_SYNCED, status="True", reason=reason)
    text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    message = f"Sync status feedback failed with error {text}"
    return Condition(type=FEEDBACK_SYNCED, status="False", reason="StatusFeedbackSyncFailed", message=message)


def _feedback(old: StatusFeedback, values: tuple[FeedbackValue, ...]) -> StatusFeedback:
    return old if old.values == values else StatusFeedback(values=values)


def _still_ruled(conditions: Conditions, manifest: Manifest | InvalidManifest) -> Conditions:
    """Without the conditions of rules that the work no longer has; those of a manifest that is not understood stay."""
    if isinstance(manifest, InvalidManifest):
        return conditions
    ruled = {rule.condition for rule in manifest.conditions}
    return _without(
        conditions, [condition.type for condition in conditions if comes_from_rule(condition) and condition.type not in ruled]
    )


def _without(conditions: Conditions, types: Sequence[str]) -> Conditions:
    return tuple(condition for condition in conditions if condition.type not in types) if types else conditions
