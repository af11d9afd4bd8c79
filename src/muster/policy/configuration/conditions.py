"""The details of a policy's status: per object template a compliance state and one condition, kept from the last status if
unchanged.

Transition times are set by `status.py`. The list of details grows up to the template being set; earlier templates without a
result have an empty state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from muster.api.policy.v1 import EvaluationInterval, PolicyCondition, TemplateStatus

COMPLIANT: Final = "Compliant"
NON_COMPLIANT: Final = "NonCompliant"


def condition(compliant: bool, reason: str, message: str, interval: EvaluationInterval) -> TemplateStatus:
    period, field = (interval.compliant, "compliant") if compliant else (interval.noncompliant, "noncompliant")
    if period == "never":
        message += f'. This policy will not be evaluated again due to spec.evaluationInterval.{field} being set to "never".'
    entry = PolicyCondition(type="notification" if compliant else "violation", status="True", reason=reason, message=message)
    return TemplateStatus(compliant=COMPLIANT if compliant else NON_COMPLIANT, conditions=(entry,))


def is_compliant(entry: TemplateStatus) -> bool:
    return entry.compliant == COMPLIANT


def untimed(details: Sequence[TemplateStatus]) -> list[TemplateStatus]:
    """Details of a status without the transition times of their conditions."""
    return [
        msgspec.structs.replace(
            entry, conditions=tuple(msgspec.structs.replace(item, last_transition_time="") for item in entry.conditions)
        )
        for entry in details
    ]


def set_detail(details: list[TemplateStatus], index: int, entry: TemplateStatus) -> bool:
    """Set the details of a template; returns whether they have changed."""
    while len(details) <= index:
        details.append(TemplateStatus())
    changed = details[index] != entry
    details[index] = entry
    return changed


def compliance(details: Sequence[TemplateStatus]) -> str:
    """The state of a policy with these details; empty without details."""
    if not details:
        return ""
    return NON_COMPLIANT if any(entry.compliant == NON_COMPLIANT for entry in details) else COMPLIANT
