"""The Subscription: the package of a catalog that is installed and kept up to date.

OLM resolves all Subscriptions of a namespace together and reports a failure on each of them, whichever has caused it. Therefore
a failure counts only if it names this one. A Subscription that lost its ClusterServiceVersion (OLM reports that it "exists and
is not referenced") does not recover by itself; after a grace period an enforced policy sets the Subscription's status to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object
from muster.policy.operators import conditions, related
from muster.policy.operators.drift import Drift
from muster.policy.operators.kinds import SUBSCRIPTIONS, is_terminating, name_of, namespace_of, objects_at, text_at, value_at
from muster.policy.operators.policy import ResolvedPolicy
from muster.policy.operators.steps import Create, Delete, Patch, Report, Step, Update

KIND: Final = SUBSCRIPTIONS.kind
EXACT_FIELDS: Final = ("config",)
GRACE_PERIOD: Final = timedelta(seconds=30)
"""Time for OLM to recover by itself."""
INTERVENTION_WINDOW: Final = timedelta(seconds=10)
"""Time after that in which the policy may intervene; later, the grace period starts again."""
_UNREFERENCED: Final = re.compile(r"clusterserviceversion (\S*) exists and is not referenced")
_UNSATISFIABLE: Final = "ConstraintsNotSatisfiable"

NOT_SATISFIABLE: Final = conditions.condition(
    KIND, "False", _UNSATISFIABLE, "constraints not satisfiable: refer to the Subscription for more details"
)
"""OLM's own message changes its order all the time."""


def musthave(policy: ResolvedPolicy, desired: Object, found: Object | None, drift: Drift | None, *, group_correct: bool) -> Step:
    """`drift` is for the found one. Without a correct OperatorGroup a Subscription would only fail, so none is created then."""
    if found is None or drift is None:
        return _create(policy, desired, group_correct)
    if not drift.needed:
        report = Report(conditions.matches(KIND), (related.existing(SUBSCRIPTIONS, found, "Compliant", related.FOUND),))
        return Step(report, correct=True, subject=drift.merged)
    mismatched = (related.existing(SUBSCRIPTIONS, found, "NonCompliant", related.MISMATCHED),)
    if not policy.is_enforced or drift.forbidden:
        enforceable = not (policy.is_enforced and drift.forbidden)
        return Step(Report(conditions.mismatch(KIND, enforceable=enforceable), mismatched), subject=drift.merged)
    return Step(
        Report(conditions.mismatch(KIND), mismatched),
        (Update(SUBSCRIPTIONS, drift.merged),),
        lambda answers: _updated(answers[0]),
        correct=True,
        subject=drift.merged,
    )


def _create(policy: ResolvedPolicy, desired: Object, group_correct: bool) -> Step:
    report = Report(conditions.missing(KIND), (related.wanted(SUBSCRIPTIONS, desired, "NonCompliant", related.MISSING),))
    if not policy.is_enforced or not group_correct:
        return Step(report, subject=desired)
    return Step(
        report,
        (Create(SUBSCRIPTIONS, desired),),
        lambda answers: Report(
            conditions.created(KIND), (related.existing(SUBSCRIPTIONS, answers[0], "Compliant", related.CREATED, created=True),)
        ),
        correct=True,
        subject=desired,
    )


def _updated(answer: Object) -> Report:
    return Report(conditions.updated(KIND), (related.existing(SUBSCRIPTIONS, answer, "Compliant", related.UPDATED),))


def mustnothave(policy: ResolvedPolicy, desired: Object, found: Object | None) -> Step:
    if found is None:
        absent = related.wanted(SUBSCRIPTIONS, desired, "Compliant", related.ABSENT)
        return Step(Report(conditions.not_present(KIND), (absent,)), subject=desired)
    if policy.spec.removal_behavior.subscriptions == "Keep":
        return Step(Report(conditions.kept(KIND), (related.leftover(SUBSCRIPTIONS, found),)), subject=found)
    unwanted = Report(conditions.present(KIND), (related.existing(SUBSCRIPTIONS, found, "NonCompliant", related.UNWANTED),))
    if not policy.is_enforced:
        return Step(unwanted, subject=found)
    if is_terminating(found):
        going = related.wanted(SUBSCRIPTIONS, found, "NonCompliant", related.DELETING)
        return Step(Report(conditions.deleting(KIND), (going,)), subject=found)
    return Step(
        unwanted,
        (Delete(SUBSCRIPTIONS, found),),
        lambda _: Report(conditions.deleted(KIND), (related.wanted(SUBSCRIPTIONS, found, "Compliant", related.DELETED),)),
        subject=found,
    )


@dataclass(frozen=True)
class ResolutionFailure:
    """What follows from OLM's failure to resolve a Subscription."""

    report: Report | None
    """None if the previous report still holds."""
    intervention: datetime | None
    """When the policy may intervene; None if there is no reason to."""
    unreferenced_csv: str = ""
    """The ClusterServiceVersion to which the Subscription may be pointed now."""


def failed_resolution(subscription: Object) -> Object | None:
    """OLM's condition that it could not resolve the Subscription."""
    found = objects_at(subscription, "status", "conditions")
    failure = next((one for one in found if one.get("type") == "ResolutionFailed"), None)
    return failure if failure is not None and failure.get("status") == "True" else None


def evaluate_failure(
    subscription: Object, failure: Object, *, reported: bool, intervention: datetime | None, now: datetime
) -> ResolutionFailure:
    """`reported`: whether there is already a report about the Subscription."""
    reason, message = text_at(failure, "reason"), text_at(failure, "message")
    is_expired = intervention is not None and intervention < now - INTERVENTION_WINDOW
    pending = None if is_expired else intervention
    failed = Report(
        conditions.condition(KIND, "False", reason, message),
        (related.existing(SUBSCRIPTIONS, subscription, "NonCompliant", reason),),
    )
    if reason.lower() != _UNSATISFIABLE.lower():
        return ResolutionFailure(failed, pending)
    if not _names(subscription, message):
        return ResolutionFailure(None if reported else failed, pending)
    report = Report(NOT_SATISFIABLE, (related.existing(SUBSCRIPTIONS, subscription, "NonCompliant", _UNSATISFIABLE),))
    unreferenced = _UNREFERENCED.search(message)
    if unreferenced is None:
        return ResolutionFailure(report, pending)
    if pending is None:
        return ResolutionFailure(report, now + GRACE_PERIOD)
    is_settled = text_at(subscription, "status", "installedCSV") or text_at(subscription, "status", "currentCSV")
    if pending > now or is_settled:
        return ResolutionFailure(report, pending)
    return ResolutionFailure(report, pending, unreferenced[1])


def _names(subscription: Object, message: str) -> bool:
    """Whether a message is about this Subscription or its package, and not about one whose name has it as a prefix."""
    namespace = re.escape(namespace_of(subscription))
    name, package = re.escape(name_of(subscription)), re.escape(text_at(subscription, "spec", "name"))
    about = rf"(?:subscription (?:{namespace}/)?{name}|package (?:{namespace}/)?{package})(?:$|\s|,|:)"
    return re.search(about, message) is not None


def is_copied(csv: Object) -> bool:
    """Whether OLM has copied it from another namespace."""
    origin = text_at(csv, "metadata", "annotations", "olm.operatorNamespace")
    return (
        (origin != "" and origin != namespace_of(csv))
        or value_at(csv, "metadata", "labels", "olm.copiedFrom") is not None
        or text_at(csv, "status", "reason") == "Copied"
    )


def point_to(subscription: Object, csv: str, now: datetime) -> Step:
    """Point the Subscription to a ClusterServiceVersion that it lost."""
    status = {"currentCSV": csv}
    if not text_at(subscription, "status", "lastUpdated"):
        status["lastUpdated"] = format_time(now)
    patch = Patch(SUBSCRIPTIONS, subscription, {"status": status}, "status")
    return Step(None, (patch,), lambda answers: _updated(answers[0]), announced=False, subject=subscription)
