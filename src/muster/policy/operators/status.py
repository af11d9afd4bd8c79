"""The draft of an OperatorPolicy's status.

A draft starts as the last written status. Each report replaces the condition of its type and the related objects of its kind;
the summary is computed from the conditions. An unchanged condition keeps its transition time, and so does the summary, so an
unchanged draft equals the status it started from, and is not written.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from muster.api.meta import Condition, condition_of
from muster.api.policy.v1beta1 import OperatorPolicySpec, OperatorPolicyStatus, RelatedObject
from muster.machinery.golang.timestamps import format_time
from muster.policy.operators import conditions
from muster.policy.operators.steps import Report
from muster.policy.reporter import with_message

_UNDATED: Final = ""


class StatusDraft:
    def __init__(self, base: OperatorPolicyStatus, generation: int, spec: OperatorPolicySpec) -> None:
        self.base = base
        self.spec = spec
        """The spec on which the summary depends; with resolved hub templates."""
        self._generation = generation
        self._conditions = {one.type: _undated(one) for one in base.conditions if one.type != conditions.COMPLIANT}
        self._related: tuple[RelatedObject, ...] = base.related_objects
        self.label = base.resolved_subscription_label
        self.overlapping = base.overlapping_policies
        self.intervention_time = base.subscription_intervention_time
        self.messages: list[str] = []
        """Messages about the state before something was enforced."""

    def put(self, report: Report) -> None:
        condition = report.condition
        self._conditions[condition.type] = _undated(condition)
        if report.related:
            kind = report.related[0].object.kind
            before = [one for one in self._related if one.object.kind == kind]
            others = [one for one in self._related if one.object.kind != kind]
            now = [_with_origin(one, before) for one in report.related]
            self._related = tuple(sorted((*others, *now), key=lambda one: (one.object.kind, one.object.metadata.name)))

    def drop(self, condition: str) -> None:
        self._conditions.pop(condition, None)

    def has(self, condition: str) -> bool:
        return condition in self._conditions

    def related_of(self, kind: str) -> tuple[RelatedObject, ...]:
        return tuple(one for one in self._related if one.object.kind == kind)

    @property
    def summary(self) -> Condition:
        return conditions.summary(self.spec, tuple(self._conditions.values()))

    @property
    def has_news(self) -> bool:
        """Whether there is something to report: the status differs, or is for another spec, or was reset."""
        base = self.base
        before = {one.type: _undated(one) for one in base.conditions if one.type != conditions.COMPLIANT}
        return (
            not base.compliant
            or self._conditions != before
            or _undated_summary(base) != self.summary
            or self._related != base.related_objects
            or self._generation != base.observed_generation
        )

    def announce(self) -> None:
        """Record the current state before it is changed."""
        message = self.summary.message
        if self.has_news and (not self.messages or self.messages[-1] != message):
            self.messages.append(message)

    def finished(self, now: datetime, history_length: int) -> tuple[OperatorPolicyStatus, list[str]]:
        """The status, and the messages to report: the state before each change, then the current one."""
        summary = self.summary
        messages = list(self.messages)
        if self.has_news and (not messages or messages[-1] != summary.message):
            messages.append(summary.message)
        history = self.base.history
        for message in messages:
            if not history or history[0].message != message:
                history = with_message(history, message, now, length=history_length)
        everything = sorted((*self._conditions.values(), summary), key=lambda one: one.type)
        status = msgspec.structs.replace(
            self.base,
            compliant=summary.reason,
            observed_generation=self._generation,
            conditions=tuple(self._dated(one, format_time(now)) for one in everything),
            related_objects=self._related,
            resolved_subscription_label=self.label,
            overlapping_policies=self.overlapping,
            subscription_intervention_time=self.intervention_time,
            history=history,
        )
        return status, messages

    def _dated(self, condition: Condition, now: str) -> Condition:
        before = condition_of(self.base.conditions, condition.type)
        since = before.last_transition_time if before is not None and _undated(before) == condition else now
        return msgspec.structs.replace(condition, last_transition_time=since)


def _undated(condition: Condition) -> Condition:
    return msgspec.structs.replace(condition, last_transition_time=_UNDATED, observed_generation=0)


def _undated_summary(status: OperatorPolicyStatus) -> Condition | None:
    found = condition_of(status.conditions, conditions.COMPLIANT)
    return None if found is None else _undated(found)


def _with_origin(related: RelatedObject, before: list[RelatedObject]) -> RelatedObject:
    """An object that the policy has created keeps this property while it is the same object."""
    properties = related.properties
    if properties is None or properties.created_by_policy is not None:
        return related
    for one in before:
        known = one.properties
        if known is not None and known.created_by_policy is not None and known.uid == properties.uid:
            origin = msgspec.structs.replace(properties, created_by_policy=known.created_by_policy)
            return msgspec.structs.replace(related, properties=origin)
    return related
