"""The Subscription: which package of which catalog is to be installed and kept up to date.

OLM resolves all Subscriptions of a namespace together and says on each that this failed, whichever of them is to blame, therefore
a failure counts only where it names this one. A Subscription that lost its ClusterServiceVersion (it exists, and OLM says that
nobody references it) stays stuck by itself; an enforced policy gives OLM a while and then points the Subscription to it.
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
"""Time for OLM to get a Subscription unstuck by itself."""
INTERVENTION_WINDOW: Final = timedelta(seconds=10)
"""How long after that the policy may do it; later, the waiting begins anew."""
_UNREFERENCED: Final = re.compile(r"clusterserviceversion (\S*) exists and is not referenced")
_UNSATISFIABLE: Final = "ConstraintsNotSatisfiable"

NOT_SATISFIABLE: Final = conditions.condition(
    KIND, "False", _UNSATISFIABLE, "constraints not satisfiable: refer to the Subscription for more details"
)
"""OLM's own words for this change their order all the time."""


def musthave(policy: ResolvedPolicy, desired: Object, found: Object | None, drift: Drift | None, *, group_correct: bool) -> Step:
    """`drift` is of the one found. A Subscription without a good OperatorGroup would only fail, so none is created then."""
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
    """What follows from OLM's failing to resolve a Subscription."""

    report: Report | None
    """None: what was said before still holds."""
    intervention: datetime | None
    """When the policy may intervene; None when there is no reason to."""
    unreferenced_csv: str = ""
    """What the Subscription may be pointed to now."""


def failed_resolution(subscription: Object) -> Object | None:
    """The condition with which OLM says that it could not resolve the Subscription."""
    found = objects_at(subscription, "status", "conditions")
    failure = next((one for one in found if one.get("type") == "ResolutionFailed"), None)
    return failure if failure is not None and failure.get("status") == "True" else None


def judge_failure(
    subscription: Object, failure: Object, *, reported: bool, intervention: datetime | None, now: datetime
) -> ResolutionFailure:
    """`reported`: whether something has been said about the Subscription before."""
    reason, message = text_at(failure, "reason"), text_at(failure, "message")
    is_expired = intervention is not None and intervention < now - INTERVENTION_WINDOW
    pending = None if is_expired else intervention
    told = Report(
        conditions.condition(KIND, "False", reason, message),
        (related.existing(SUBSCRIPTIONS, subscription, "NonCompliant", reason),),
    )
    if reason.lower() != _UNSATISFIABLE.lower():
        return ResolutionFailure(told, pending)
    if not _names(subscription, message):
        return ResolutionFailure(None if reported else told, pending)
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
    """Whether a message is about this Subscription or its package, and not about one whose name only begins the same."""
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
    """Have the Subscription take up a ClusterServiceVersion that it lost."""
    status = {"currentCSV": csv}
    if not text_at(subscription, "status", "lastUpdated"):
        status["lastUpdated"] = format_time(now)
    patch = Patch(SUBSCRIPTIONS, subscription, {"status": status}, "status")
    return Step(None, (patch,), lambda answers: _updated(answers[0]), announced=False, subject=subscription)
