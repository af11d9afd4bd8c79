"""Regular expressions: RE2, as in cel-go, with linear time for any pattern.

`find` and `findAll` are Kubernetes' additions to the language's `matches`. Patterns are compiled once and cached.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from muster.cel.errors import EvaluationError
from muster.cel.library import costs
from muster.cel.library.registry import Library, method
from muster.cel.types import INT, STRING, list_type

_GO_MESSAGES = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}


def _go_message(reason: str) -> str:
    """RE2's error with the text of Go's regexp package."""
    message, _, fragment = reason.partition(": ")
    return f"{_GO_MESSAGES.get(message, message)}: `{fragment}`"


_LONGEST_KEPT = 4096


def compile_pattern(pattern: str) -> Any:
    """The compiled pattern; raises ValueError with RE2's reason. Long ones are not cached, to bound memory."""
    return _kept(pattern) if len(pattern) <= _LONGEST_KEPT else _fresh(pattern)


def _fresh(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else error
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(_go_message(text)) from None


_kept = lru_cache(maxsize=512)(_fresh)


def search(text: str, pattern: str) -> bool:
    try:
        compiled = compile_pattern(pattern)
    except ValueError as error:
        raise EvaluationError(f"error parsing regexp: {error}") from None
    return compiled.search(text) is not None


def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except ValueError as error:
        raise EvaluationError(f"Illegal regex: error parsing regexp: {error}") from None


def find(text: str, pattern: str) -> str:
    found = _compiled(pattern).search(text)
    return "" if found is None else str(found.group())


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    matches: list[str] = []
    if limit == 0:
        return matches
    for found in _compiled(pattern).finditer(text):
        matches.append(found.group())
        if len(matches) == limit:
            break
    return matches


REGEX = Library(
    "kubernetes.regex",
    overloads=(
        ("find", method("string_find_string", (STRING, STRING), STRING, find, costs.regex)),
        ("findAll", method("string_find_all_string", (STRING, STRING), list_type(STRING), find_all, costs.regex)),
        (
            "findAll",
            method("string_find_all_string_int", (STRING, STRING, INT), list_type(STRING), find_all, costs.regex),
        ),
    ),
)
