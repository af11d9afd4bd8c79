"""Aggregates the results of many objects to one condition: a template may name an object in each of many namespaces.

Results are keyed by namespace and name. If several events happened to an object, there are several batches, reported one after
the other; an object with fewer events is in the last ones only. In a batch, noncompliant results hide compliant ones; equal
reasons are reported together, with names and namespaces joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from muster.policy.configuration import results
from muster.policy.configuration.results import ObjectEvent, ObjectResult


class ObjectKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Batch(NamedTuple):
    """One condition to report."""

    compliant: bool
    reason: str
    message: str


_MUST_HAVE: Final = "K8s does not have a `must have` object"
_AGGREGATED_REASONS: Final[Mapping[str, tuple[str, str]]] = {
    results.FOUND: ("K8s `must have` object already exists", "found as specified"),
    results.CREATED: (results.CREATED, "was created successfully"),
    results.UPDATED: (results.UPDATED, "was updated successfully"),
    results.DELETED: (results.DELETED, "was deleted successfully"),
    results.NOT_FOUND: (_MUST_HAVE, "not found"),
    results.NO_MATCH: (_MUST_HAVE, "found but not as specified"),
    results.ABSENT: ("K8s `must not have` object already missing", "missing as expected"),
    results.UNWANTED: ("K8s has a `must not have` object", "found"),
}
"""By reason of the event, in the order of the message: the reason of the condition, and the predicate about the objects."""

_EventsByKey = Mapping[ObjectKey, tuple[ObjectResult, ObjectEvent]]


def batches(plural: str, found: Mapping[ObjectKey, ObjectResult]) -> list[Batch]:
    """`plural` is the plural name of the resource."""
    length = max((len(result.events) for result in found.values()), default=0)
    events: list[dict[ObjectKey, tuple[ObjectResult, ObjectEvent]]] = [{} for _ in range(length)]
    for key, result in found.items():
        for at, event in enumerate(result.events, length - len(result.events)):
            events[at][key] = result, event
    return [_batch(plural, batch) for batch in events]


def _batch(plural: str, events: _EventsByKey) -> Batch:
    compliant = all(event.compliant for _, event in events.values())
    by_reason: dict[str, dict[ObjectKey, tuple[ObjectResult, ObjectEvent]]] = {}
    for key in sorted(events, key=str):
        if events[key][1].compliant == compliant:
            by_reason.setdefault(events[key][1].reason, {})[key] = events[key]
    others = sorted(set(by_reason) - set(_AGGREGATED_REASONS))
    reasons: list[str] = []
    message = ""
    for reason in (*_AGGREGATED_REASONS, *others):
        if reason in by_reason:
            if message and not message.endswith("; "):
                message += "; "
            if reason in _AGGREGATED_REASONS:
                condition_reason, predicate = _AGGREGATED_REASONS[reason]
                reasons.append(condition_reason)
                message += _joined(plural, predicate, by_reason[reason])
            else:
                reasons.append(reason)
                message += _each(by_reason[reason])
    return Batch(compliant, _join_reasons(reasons), message)


def _join_reasons(reasons: Sequence[str]) -> str:
    text = ""
    for reason in reasons:
        text = f"{text}; {reason}" if text else reason
    return text


def _by_names(events: _EventsByKey) -> dict[str, list[ObjectKey]]:
    """Keys grouped by the names of their objects. A template without a name matches different names in each namespace."""
    by_names: dict[str, list[ObjectKey]] = {}
    for key, (result, _) in events.items():
        by_names.setdefault(", ".join(result.names) or key.name, []).append(key)
    return dict(sorted(by_names.items()))


def _each(events: _EventsByKey) -> str:
    """Errors are not aggregated."""
    message = ""
    for keys in _by_names(events).values():
        if message and not message.endswith("; "):
            message += "; "
        message += "; ".join(events[key][1].message for key in keys)
    return message


def _joined(plural: str, predicate: str, events: _EventsByKey) -> str:
    by_statement: dict[str, list[str]] = {}
    for names, keys in _by_names(events).items():
        namespaces = sorted({key.namespace for key in keys} - {""})
        where = ""
        if namespaces:
            where = f" in namespace{'s:' if len(namespaces) > 1 else ''} {', '.join(namespaces)}"
        by_statement.setdefault(f"{predicate}{where}", []).append(names)
    statements = []
    for statement in sorted(by_statement):
        joined = ", ".join(sorted(by_statement[statement]))
        statements.append(f"{plural}{f' [{joined}]' if joined else ''} {statement}")
    return "; ".join(statements)
