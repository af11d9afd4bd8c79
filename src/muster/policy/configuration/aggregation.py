"""One condition of many objects: a template may mean an object in each of many namespaces, and its status says one thing of them.

Results come keyed by namespace and name. Where several things happened to an object, there are several batches, reported one after
the other; an object to which nothing happened is in the last one only. In a batch, what is not compliant hides what is; equal
reasons are told together, names and namespaces joined.
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
    """What is reported at once."""

    compliant: bool
    reason: str
    message: str


_MUST_HAVE: Final = "K8s does not have a `must have` object"
_TOLD_TOGETHER: Final[Mapping[str, tuple[str, str]]] = {
    results.FOUND: ("K8s `must have` object already exists", "found as specified"),
    results.CREATED: (results.CREATED, "was created successfully"),
    results.UPDATED: (results.UPDATED, "was updated successfully"),
    results.DELETED: (results.DELETED, "was deleted successfully"),
    results.NOT_FOUND: (_MUST_HAVE, "not found"),
    results.NO_MATCH: (_MUST_HAVE, "found but not as specified"),
    results.ABSENT: ("K8s `must not have` object already missing", "missing as expected"),
    results.UNWANTED: ("K8s has a `must not have` object", "found"),
}
"""By the event's reason, in the order they are told: the condition's reason, and what is said of the objects."""

_Told = Mapping[ObjectKey, tuple[ObjectResult, ObjectEvent]]


def batches(plural: str, found: Mapping[ObjectKey, ObjectResult]) -> list[Batch]:
    """`plural` is the resource's name."""
    length = max((len(result.events) for result in found.values()), default=0)
    told: list[dict[ObjectKey, tuple[ObjectResult, ObjectEvent]]] = [{} for _ in range(length)]
    for key, result in found.items():
        for at, event in enumerate(result.events, length - len(result.events)):
            told[at][key] = result, event
    return [_batch(plural, batch) for batch in told]


def _batch(plural: str, told: _Told) -> Batch:
    compliant = all(event.compliant for _, event in told.values())
    by_reason: dict[str, dict[ObjectKey, tuple[ObjectResult, ObjectEvent]]] = {}
    for key in sorted(told, key=str):
        if told[key][1].compliant == compliant:
            by_reason.setdefault(told[key][1].reason, {})[key] = told[key]
    others = sorted(set(by_reason) - set(_TOLD_TOGETHER))
    reasons: list[str] = []
    message = ""
    for reason in (*_TOLD_TOGETHER, *others):
        if reason in by_reason:
            if message and not message.endswith("; "):
                message += "; "
            if reason in _TOLD_TOGETHER:
                condition_reason, predicate = _TOLD_TOGETHER[reason]
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


def _by_names(told: _Told) -> dict[str, list[ObjectKey]]:
    """Which keys speak of the same names. An unnamed template finds other names in each namespace."""
    by_names: dict[str, list[ObjectKey]] = {}
    for key, (result, _) in told.items():
        by_names.setdefault(", ".join(result.names) or key.name, []).append(key)
    return dict(sorted(by_names.items()))


def _each(told: _Told) -> str:
    """Errors speak for themselves, one by one."""
    message = ""
    for keys in _by_names(told).values():
        if message and not message.endswith("; "):
            message += "; "
        message += "; ".join(told[key][1].message for key in keys)
    return message


def _joined(plural: str, predicate: str, told: _Told) -> str:
    by_statement: dict[str, list[str]] = {}
    for names, keys in _by_names(told).items():
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
