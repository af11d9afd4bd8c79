"""Compares two lists of records and says in few lines where they differ.

Accepted differences are cut out of both sides first. One that no longer shows is reported too: a list of excuses must
shrink when the code gets better.
"""

import difflib
import json
from collections.abc import Sequence
from typing import Any

from tests.differential.dsl import Case, Differs, Request, Step, WatchStep
from tests.differential.runner import Record


def kept_steps(steps: Sequence[Step]) -> list[Step]:
    """The steps that leave a record, in the order of the records."""
    kept: list[Step] = []
    for step in steps:
        if isinstance(step, Request) and not step.keep:
            continue
        kept.append(step)
        if isinstance(step, WatchStep):
            kept += kept_steps(step.during)
    return kept


def differences(case: Case, expected: list[Record], actual: list[Record]) -> str:
    """Empty when the two tell the same story."""
    report: list[str] = []
    steps = kept_steps(case.steps)
    if len(expected) != len(actual):
        report.append(f"{len(expected)} answers expected, {len(actual)} given")
    for step, left, right in zip(steps, expected, actual, strict=False):
        stale = [
            f"accepted difference {name} ({part}) is gone: remove it from the step"
            for name, parts in step.differs.items()
            for part in parts
            if _at(left, part.split(".")) == _at(right, part.split("."))
        ]
        one, other = _without(left, step.differs), _without(right, step.differs)
        if one != other or stale:
            report.append(f"step: {left.get('step')}")
            report += stale
            report += _diff(one, other)
    return "\n".join(report)


def staleness(recorded: list[Record], live: list[Record]) -> str:
    """Where the recorded answers are no longer what the real server says; nothing is excused here."""
    report = [] if len(recorded) == len(live) else [f"{len(recorded)} answers recorded, {len(live)} given"]
    for left, right in zip(recorded, live, strict=False):
        if _lines(left) != _lines(right):
            report += [f"step: {left.get('step')}", *_diff(left, right)]
    return "\n".join(report)


def _diff(expected: Record, actual: Record) -> list[str]:
    lines = difflib.unified_diff(_lines(expected), _lines(actual), "kube", "embedded", lineterm="", n=2)
    return [line[:600] for line in lines][:120]


def _lines(record: Record) -> list[str]:
    return json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False).splitlines()


def _without(record: Record, differs: Differs) -> Record:
    copy: Record = json.loads(json.dumps(record))
    for parts in differs.values():
        for part in parts:
            *parents, last = part.split(".")
            for parent in _every(copy, parents):
                if isinstance(parent, dict):
                    parent.pop(last, None)
    return copy


def _at(record: Record, names: Sequence[str]) -> list[Any]:
    return _every(record, names)


def _every(value: Any, names: Sequence[str]) -> list[Any]:
    """All values at a path; a list is entered by itself, `*` stands for any key."""
    if isinstance(value, list):
        return [found for item in value for found in _every(item, names)]
    if not names:
        return [value]
    if not isinstance(value, dict):
        return []
    if names[0] == "*":
        return [found for item in value.values() for found in _every(item, names[1:])]
    return _every(value[names[0]], names[1:]) if names[0] in value else []
