"""The OperatorGroup of the operator's namespace: there must be exactly one, and it selects the namespaces that the operator
serves.

An existing one with another name is never replaced, and no second one is created, because OLM fails every operator of a
namespace with two. If a policy does not specify one, any existing one is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.machinery.objects import Object
from muster.policy.operators import conditions, related
from muster.policy.operators.drift import Drift
from muster.policy.operators.kinds import OPERATOR_GROUPS as GROUPS
from muster.policy.operators.kinds import is_terminating, name_of, text_at, value_at
from muster.policy.operators.policy import ResolvedPolicy
from muster.policy.operators.steps import Create, Delete, Report, Step, Update

KIND: Final = GROUPS.kind
EXACT_FIELDS: Final = ("targetNamespaces", "selector")

PREEXISTING: Final = conditions.condition(
    KIND,
    "True",
    "PreexistingOperatorGroupFound",
    "the policy does not specify an OperatorGroup but one already exists in the namespace - assuming that OperatorGroup is correct",
)
TOO_MANY: Final = conditions.condition(
    KIND, "False", "TooManyOperatorGroups", "there is more than one OperatorGroup in the namespace"
)


def is_desired(desired: Object, found: Object) -> bool:
    """Whether this is the one that the policy specifies, or would create."""
    name = name_of(desired)
    if name:
        return name_of(found) == name
    return text_at(found, "metadata", "generateName") == text_at(desired, "metadata", "generateName")


def is_default(desired: Object) -> bool:
    """Whether the policy specifies no OperatorGroup."""
    return not name_of(desired)


def musthave(policy: ResolvedPolicy, desired: Object, found: Sequence[Object], drift: Drift | None) -> Step:
    """`drift` is for the only one found, if it is the desired one and the policy specifies its fields."""
    if not found:
        return _create(policy, desired)
    if len(found) > 1:
        return _too_many(found)
    group = found[0]
    if is_default(desired) and not is_desired(desired, group):
        return Step(Report(PREEXISTING, (related.existing(GROUPS, group, "Compliant", related.FOUND),)), correct=True)
    if not is_desired(desired, group):
        others = (
            related.wanted(GROUPS, desired, "NonCompliant", related.MISSING),
            related.existing(GROUPS, group, "NonCompliant", related.MISMATCHED),
        )
        return Step(Report(conditions.mismatch(KIND), others))
    if drift is None or not drift.needed:
        return Step(Report(conditions.matches(KIND), (related.existing(GROUPS, group, "Compliant", related.FOUND),)), correct=True)
    mismatched = (related.existing(GROUPS, group, "NonCompliant", related.MISMATCHED),)
    if not policy.is_enforced or drift.forbidden:
        enforceable = not (policy.is_enforced and drift.forbidden)
        return Step(Report(conditions.mismatch(KIND, enforceable=enforceable), mismatched))
    return Step(
        Report(conditions.mismatch(KIND), mismatched),
        (Update(GROUPS, drift.merged),),
        lambda answers: Report(conditions.updated(KIND), (related.existing(GROUPS, answers[0], "Compliant", related.UPDATED),)),
        correct=True,
    )


def _create(policy: ResolvedPolicy, desired: Object) -> Step:
    report = Report(conditions.missing(KIND), (related.wanted(GROUPS, desired, "NonCompliant", related.MISSING),))
    if not policy.is_enforced:
        return Step(report)
    return Step(
        report,
        (Create(GROUPS, desired),),
        lambda answers: Report(
            conditions.created(KIND), (related.existing(GROUPS, answers[0], "Compliant", related.CREATED, created=True),)
        ),
        correct=True,
    )


def _too_many(found: Sequence[Object]) -> Step:
    reason = "There is more than one OperatorGroup in this namespace"
    return Step(Report(TOO_MANY, tuple(related.existing(GROUPS, group, "NonCompliant", reason) for group in found)))


def mustnothave(
    policy: ResolvedPolicy, desired: Object, found: Sequence[Object], subscriptions: Sequence[Object], subscription: str
) -> Step:
    """`subscriptions` are those of the namespace; `subscription` is the name of the policy's own, which is removed too."""
    absent = Report(conditions.not_present(KIND), (related.wanted(GROUPS, desired, "Compliant", related.ABSENT),))
    if not found:
        return Step(absent)
    if len(found) > 1:
        return _too_many(found)
    group = found[0]
    behavior = policy.spec.removal_behavior.operator_groups
    if behavior == "Keep" or any(name_of(other) != subscription for other in subscriptions):
        return _keep(group)
    if not is_desired(desired, group):
        return Step(absent)
    if value_at(group, "metadata", "ownerReferences"):
        # Another operator uses it, or another component owns it.
        return _keep(group)
    unwanted = Report(conditions.present(KIND), (related.existing(GROUPS, group, "NonCompliant", related.UNWANTED),))
    if not policy.is_enforced:
        return Step(unwanted)
    if is_terminating(group):
        return Step(Report(conditions.deleting(KIND), (related.wanted(GROUPS, group, "NonCompliant", related.DELETING),)))
    return Step(
        unwanted,
        (Delete(GROUPS, group),),
        lambda _: Report(conditions.deleted(KIND), (related.wanted(GROUPS, group, "Compliant", related.DELETED),)),
    )


def _keep(group: Object) -> Step:
    return Step(Report(conditions.kept(KIND), (related.leftover(GROUPS, group),)))
