"""The conditions of a work, aggregated from those of its manifests: Applied, Available, and those of condition rules.

One manifest that is False makes the work False; for Progressing it is the opposite. A condition of manifests that were last checked
in an earlier generation has that generation: a work is not Complete in a generation in which nothing was applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from muster.api.meta import Condition, condition_of
from muster.api.work.v1 import ManifestCondition
from muster.work.agent.reporting.rules import AGGREGATED, comes_from_rule
from muster.work.names import APPLIED, AVAILABLE, PROGRESSING


def aggregated(manifests: Sequence[ManifestCondition], generation: int) -> list[Condition]:
    """The conditions of the work in their order, without times."""
    applied = [one.status for entry in manifests if (one := condition_of(entry.conditions, APPLIED)) is not None]
    whole = [_applied(applied, generation)] if applied else []
    available = Counter(one.status for entry in manifests if (one := condition_of(entry.conditions, AVAILABLE)) is not None)
    whole.append(_available(available, len(manifests), generation))
    by_type: dict[str, list[Condition]] = {}
    for condition in _of_rules(manifests):
        by_type.setdefault(condition.type, []).append(condition)
    return whole + [_of_type(kind, by_type[kind], generation) for kind in sorted(by_type)]


def _of_rules(manifests: Sequence[ManifestCondition]) -> Iterator[Condition]:
    for entry in manifests:
        for condition in entry.conditions:
            if comes_from_rule(condition) and condition.type != AVAILABLE:
                yield condition


def _applied(statuses: Sequence[str], generation: int) -> Condition:
    failed = "False" in statuses
    return Condition(
        type=APPLIED,
        status="False" if failed else "True",
        reason="AppliedManifestWorkFailed" if failed else "AppliedManifestWorkComplete",
        message="Failed to apply manifest work" if failed else "Apply manifest work complete",
        observed_generation=generation,
    )


def _available(count: Counter[str], total: int, generation: int) -> Condition:
    if count["False"]:
        condition = "False", "ResourcesNotAvailable", f"{count['False']} of {total} resources are not available"
    elif count["Unknown"]:
        condition = "Unknown", "ResourcesStatusUnknown", f"{count['Unknown']} of {total} resources have unknown status"
    elif not count["True"]:
        condition = "Unknown", "ResourcesStatusUnknown", "cannot get any available resource "
    else:
        condition = "True", "ResourcesAvailable", "All resources are available"
    status, reason, message = condition
    return Condition(type=AVAILABLE, status=status, reason=reason, message=message, observed_generation=generation)


def _of_type(kind: str, conditions: Sequence[Condition], generation: int) -> Condition:
    statuses = {condition.status for condition in conditions}
    order = ("True", "Unknown", "False") if kind == PROGRESSING else ("False", "Unknown", "True")
    only = conditions[0].message if len(conditions) == 1 else ""
    return Condition(
        type=kind,
        status=next(status for status in order if status in statuses),
        reason=AGGREGATED,
        message=only or f"Aggregated from {len(conditions)} manifest conditions",
        observed_generation=min(generation, *(condition.observed_generation for condition in conditions)),
    )
