"""Many questions to the resolver oracle at once, and how its answers and ours are compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.interop.oracle_program import Oracle
from tests.interop.policy.accepted_differences import FAILED, AcceptedDifference, accepted

ORACLE = Oracle("resolver")
_INVALID_BYTES = re.compile("[\udc80-\udcff]")


def go_result(answer: dict[str, Any]) -> str:
    if "panic" in answer:
        return FAILED + "panic: " + answer["panic"]
    if "error" in answer:
        return FAILED + answer["error"]
    return ("sensitive: " if answer.get("sensitive") else "") + answer.get("result", "")


def shown(text: str) -> str:
    """Text as it comes from Go in JSON, in which bytes that are not UTF-8 are U+FFFD."""
    return _INVALID_BYTES.sub("�", text)


@dataclass
class Outcome:
    compared: int = 0
    failed: int = 0
    """Cases that are errors, on both sides."""
    excused: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        self.compared += other.compared
        self.failed += other.failed
        self.excused += other.excused
        self.different += other.different

    def __str__(self) -> str:
        shown = "\n".join(self.different[:10])
        return f"{len(self.different)} of {self.compared} differ ({self.failed} errors, excused: {dict(self.excused)}):\n{shown}"


def compare(
    cases: Sequence[tuple[str, dict[str, Any]]], ours: Callable[[int], str], known: tuple[AcceptedDifference, ...],
    before: Iterable[dict[str, Any]] = (), theirs: Callable[[int, dict[str, Any]], str] = lambda _, answer: go_result(answer),
) -> Outcome:  # fmt: skip
    """Asks the oracle about all cases, each a text to show and a question, after what has to be said `before`."""
    prepared = list(before)
    answers = ORACLE.play([*prepared, *(question for _, question in cases)])[len(prepared) :]
    outcome = Outcome()
    for at, ((text, _), answer) in enumerate(zip(cases, answers, strict=True)):
        outcome.compared += 1
        go, our = theirs(at, answer), shown(ours(at))
        if go == our:
            outcome.failed += go.startswith(FAILED)
        elif (name := accepted(known, text, go, our)) is not None:
            outcome.excused[name] += 1
        else:
            outcome.different.append(f"{text!r}\n  Go:   {go!r}\n  ours: {our!r}")
    return outcome
