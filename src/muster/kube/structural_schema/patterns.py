"""Regular expressions of schemas, in the dialect the API promises: RE2, unanchored search, linear time.

Compiled patterns are kept (bounded), because every compiled schema asks for its patterns again. A pattern that does not parse is
reported with the wording of Go's regexp package, which is what people see when a CustomResourceDefinition carries one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import re2

from muster.machinery.memo import memoized

_GO_WORDING: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


_LONGEST: Final = 64 * 1024
"""Compiling blocks the whole process; the real server has a limit too, on the size of the result."""


class BadPattern(ValueError):
    """A pattern that is not RE2 syntax; the text is Go's."""


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


_OPTIONS: Final = _options()


@memoized(4096, 4096)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether the pattern occurs anywhere in a text. An RE2 set of one pattern is tried first, because it is faster without
    positions; it may exceed its memory budget, so only a match counts."""
    if len(pattern) > _LONGEST:
        raise BadPattern("expression too large")
    try:
        search = re2.compile(pattern, _OPTIONS).search
    except re2.error as problem:
        raise BadPattern(_go_message(problem)) from None
    quick = re2.Set.SearchSet(_OPTIONS)
    try:
        quick.Add(pattern)
        quick.Compile()
    except re2.error:
        return lambda text: search(text) is not None
    match = quick.Match
    return lambda text: match(text) is not None or search(text) is not None


def _go_message(problem: Exception) -> str:
    raw = problem.args[0]
    text = raw.decode() if isinstance(raw, bytes) else str(raw)
    phrase, _, argument = text.partition(": ")
    wording = _GO_WORDING.get(phrase, phrase)
    return f"error parsing regexp: {wording}: `{argument}`"
