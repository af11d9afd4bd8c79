"""Conditions and status of both operators' objects, with OCM's types and reasons, for one generation.

Pure functions: they return conditions, or an object with another status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from muster.api import Condition, TypedObject, with_condition
from muster.api.operator.v1 import GenerationStatus, RelatedResource
from muster.operator.spec import GateReview

APPLIED: Final = "Applied"
VALID_GATES: Final = "ValidFeatureGates"
DELETING: Final = "Deleting"

_LONGEST: Final = 4096

Kind = TypeVar("Kind", bound=TypedObject)


class StepFailed(Exception):
    """A step failed; `reason` is the condition's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Waiting(StepFailed):
    """A step depends on something that a user or another controller must do first, and that is watched."""


def condition(kind: str, status: bool | None, reason: str, message: str) -> Condition:
    """`status` None is Unknown."""
    return Condition(type=kind, status="Unknown" if status is None else str(status), reason=reason, message=message[:_LONGEST])


def not_applied(failure: StepFailed) -> Condition:
    return condition(APPLIED, False, failure.reason, failure.message)


def gates(review: GateReview) -> Condition:
    unheeded = f"; without effect here: {_listed(review.without_effect)}" if review.without_effect else ""
    if not review.invalid:
        return condition(VALID_GATES, True, "FeatureGatesAllValid", f"Feature gates are all valid{unheeded}")
    problem = f"There are some invalid feature gates of {_listed(review.invalid)}{unheeded}"
    return condition(VALID_GATES, False, "InvalidFeatureGatesExisting", problem)


def _listed(gates: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{component}: [{' '.join(names)}]" for component, names in gates.items())


def deleting(remaining: Sequence[str]) -> Condition:
    return condition(DELETING, False, "ResourceRemaining", f"Still there: {'; '.join(remaining)}")


def with_status(
    obj: Kind,
    conditions: Sequence[Condition],
    now: str,
    *,
    generations: tuple[GenerationStatus, ...] | None = None,
    related: tuple[RelatedResource, ...] | None = None,
) -> Kind:
    """The object with these conditions and this generation; None keeps the former value."""
    status: Any = obj.status  # type: ignore[attr-defined]  # both kinds have one, each of its own type
    generation = obj.metadata.generation
    merged = status.conditions
    for one in conditions:
        merged = with_condition(merged, msgspec.structs.replace(one, observed_generation=generation), now)
    status = msgspec.structs.replace(
        status,
        conditions=merged,
        observed_generation=generation,
        generations=status.generations if generations is None else generations,
        related_resources=status.related_resources if related is None else related,
    )
    return msgspec.structs.replace(obj, status=status)
