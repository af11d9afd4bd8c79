"""Computes the status of a ConfigurationPolicy from an evaluation, and whether it has to be written and reported.

An unchanged status is not written: an unchanged condition keeps its transition time, and `lastEvaluated` alone is written only
for policies with an interval, which need it after a restart. An event is sent, and the history grows, when a condition, the
compliance or the evaluated generation changes; the state before something was enforced (`Evaluation.batches`) is reported before
the current one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from muster.api.policy.v1 import ConfigurationPolicy, ConfigurationPolicyStatus, RelatedObject, TemplateStatus
from muster.machinery.golang.timestamps import format_time
from muster.policy.configuration.conditions import compliance, untimed
from muster.policy.configuration.interfaces import Evaluation
from muster.policy.reporter import TERMINATING, truncated, with_message

Compose = Callable[[ConfigurationPolicyStatus], str]
"""The message of a policy with this status."""


@dataclass(frozen=True)
class Announcement:
    """A message for the policy's owner."""

    compliant: str
    message: str


@dataclass(frozen=True)
class StatusUpdate:
    status: ConfigurationPolicyStatus
    announcements: tuple[Announcement, ...]
    """In order; empty if nothing to report has changed."""
    details_changed: bool
    worth_writing: bool


def next_status(
    policy: ConfigurationPolicy, evaluation: Evaluation, now: datetime, compose: Compose, *, at_intervals: bool = False
) -> StatusUpdate:
    """The new status. `at_intervals`: the policy is evaluated at an interval."""
    before = status = policy.status
    announcements: list[Announcement] = []
    for details in (*evaluation.batches, evaluation.details):
        status, announcement = _advanced(policy, status, details, evaluation.related, now, compose)
        if announcement is not None:
            announcements.append(announcement)
    silent = msgspec.structs.replace(status, last_evaluated=before.last_evaluated) == before
    details_changed = untimed(status.compliancy_details) != untimed(before.compliancy_details)
    return StatusUpdate(status, tuple(announcements), details_changed, at_intervals or not silent)


def _advanced(
    policy: ConfigurationPolicy,
    before: ConfigurationPolicyStatus,
    found: Sequence[TemplateStatus],
    related: tuple[RelatedObject, ...],
    now: datetime,
    compose: Compose,
) -> tuple[ConfigurationPolicyStatus, Announcement | None]:
    metadata = policy.metadata
    details = _with_times(before.compliancy_details, found, format_time(now))
    compliant = TERMINATING if metadata.deletion_timestamp else compliance(details)
    status = msgspec.structs.replace(
        before,
        compliant=compliant,
        compliancy_details=details,
        related_objects=related,
        last_evaluated=format_time(now),
        last_evaluated_generation=metadata.generation,
    )
    message = truncated(compose(status))
    announced = (
        details != before.compliancy_details
        or compliant != before.compliant
        or before.last_evaluated_generation != metadata.generation
    )
    if announced or not before.history or before.history[0].message != message:
        status = msgspec.structs.replace(status, history=with_message(before.history, message, now))
    return status, Announcement(compliant, message) if announced else None


def _with_times(before: Sequence[TemplateStatus], found: Sequence[TemplateStatus], now: str) -> tuple[TemplateStatus, ...]:
    """The new details, with the transition times of unchanged ones."""
    known, news = untimed(before), untimed(found)
    return tuple(
        before[index] if index < len(known) and known[index] == details else _stamped(details, now)
        for index, details in enumerate(news)
    )


def _stamped(details: TemplateStatus, moment: str) -> TemplateStatus:
    conditions = tuple(msgspec.structs.replace(one, last_transition_time=moment) for one in details.conditions)
    return msgspec.structs.replace(details, conditions=conditions)


def with_unpruned(related: Sequence[RelatedObject], unpruned: Iterable[RelatedObject]) -> tuple[RelatedObject, ...]:
    """Objects that are no longer desired but could not be pruned yet stay in the status."""
    named = {one.object for one in related}
    kept = (*related, *(one for one in unpruned if one.object not in named))
    return tuple(sorted(kept, key=lambda one: (one.object.kind, one.object.metadata.namespace, one.object.metadata.name)))
