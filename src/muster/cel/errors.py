"""The errors of the CEL engine, with cel-go's texts.

A `CompileError` has issues with positions in the source and renders them as cel-go does, including the caret line, because API
servers pass that text on to users. An `EvaluationError` is a CEL error *value*: logical operators may absorb it. `CostExceeded` is
not a value: nothing inside an expression can absorb it, so that a limit always holds.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_REPORTED = 100
MAX_SNIPPET = 16384


class CelError(Exception):
    """Base of everything this package raises on purpose."""


class EvaluationError(CelError):
    """An expression had no value for the given input; `str(error)` is cel-go's text."""


class CostExceeded(CelError):
    """Evaluation was stopped because it reached its cost limit."""

    def __init__(self, message: str = "operation cancelled: actual cost limit exceeded") -> None:
        super().__init__(message)


MOST_ELEMENTS = 1_000_000
"""The longest list that one operation may make: reading it would exceed the cost limit of an evaluation."""
MOST_CHARACTERS = 10_000_000
"""The longest string that one operation may make, for the same reason."""


def afford(count: int, most: int) -> None:
    """Refuses large allocations beforehand: cel-go charges some operations only afterwards."""
    if count > most:
        raise CostExceeded


class Issue(NamedTuple):
    """One error in the source; `offset` is in code points, or -1 if it concerns the whole."""

    offset: int
    message: str


class CompileError(CelError):
    """The text is not a valid expression in its environment."""

    def __init__(self, source: str, issues: list[Issue]) -> None:
        self.source = source
        self.issues = sorted(issues, key=lambda issue: issue.offset)
        super().__init__(render(source, self.issues))


def no_such_overload() -> EvaluationError:
    return EvaluationError("no such overload")


def render(source: str, issues: list[Issue]) -> str:
    shown = [_render_one(source, issue) for issue in issues[:MAX_REPORTED]]
    if len(issues) > MAX_REPORTED:
        shown.append(f"{len(issues) - MAX_REPORTED} more errors were truncated")
    return "\n".join(shown)


def _render_one(source: str, issue: Issue) -> str:
    if issue.offset < 0:
        return f"ERROR: <input>:-1:0: {issue.message}"
    if not source:
        return f"ERROR: <input>:1:0: {issue.message}"
    before = source[: issue.offset]
    line = before.count("\n") + 1
    column = issue.offset - (before.rfind("\n") + 1)
    text = f"ERROR: <input>:{line}:{column + 1}: {issue.message}"
    snippet = source.split("\n")[line - 1].replace("\t", " ")
    if len(snippet.encode("utf-8", "replace")) > MAX_SNIPPET:
        return text
    dots = "".join("．" if ord(char) > 127 else "." for char in snippet[:column])
    caret = "＾" if column < len(snippet) and ord(snippet[column]) > 127 else "^"
    return f"{text}\n | {snippet}\n | {dots}{caret}"
