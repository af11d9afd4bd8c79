r"""Go's `path/filepath.Match` on Unix: `*` and `?` within a path element, `[a-z]`, `[^a-z]`, and `\` before a literal.

Namespaces are selected with it. Patterns are compiled once; one that is invalid in Go raises PatternError, whatever the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from muster.machinery.golang.errors import GoError
from muster.machinery.memo import memoized


class PatternError(GoError):
    """The pattern is malformed."""

    def __init__(self) -> None:
        super().__init__("syntax error in pattern")


@memoized(1024)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """None for an invalid pattern."""
    try:
        return re.compile("".join(_translated(pattern)), re.DOTALL)
    except PatternError:
        return None


def matcher(pattern: str) -> Callable[[str], bool]:
    """Raises PatternError."""
    compiled = _compiled(pattern)
    if compiled is None:
        raise PatternError
    return lambda name: compiled.fullmatch(name) is not None


def _translated(pattern: str) -> list[str]:
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            # Consecutive stars are one: regular expressions would try every split of a name among them.
            while pattern[at : at + 1] == "*":
                at += 1
            parts.append("[^/]*")
        elif char == "?":
            parts.append("[^/]")
            at += 1
        elif char == "[":
            text, at = _class(pattern, at + 1)
            parts.append(text)
        else:
            literal, at = _literal(pattern, at)
            parts.append(re.escape(literal))
    return parts


def _literal(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at] == "\\":
        at += 1
        if at >= len(pattern):
            raise PatternError
    return pattern[at], at + 1


def _class(pattern: str, at: int) -> tuple[str, int]:
    """The regular expression of a character class, and the position after it."""
    negated = pattern[at : at + 1] == "^"
    at += negated
    ranges: list[str] = []
    while not (ranges and pattern[at : at + 1] == "]"):
        low, at = _bound(pattern, at)
        high = low
        if pattern[at : at + 1] == "-":
            high, at = _bound(pattern, at + 1)
        if low <= high:
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            ranges.append("")
    inside = "".join(ranges)
    if not inside:
        return ("[^/]" if negated else "(?!)"), at + 1
    return f"[{'^' if negated else ''}{inside}]", at + 1


def _bound(pattern: str, at: int) -> tuple[str, int]:
    if at >= len(pattern) or pattern[at] in "-]":
        raise PatternError
    char, at = _literal(pattern, at)
    if at >= len(pattern):
        raise PatternError
    return char, at
