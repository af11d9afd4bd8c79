"""Semantic versions: strict by default, forgiving (`v` prefix, leading zeros, missing parts) when asked."""

from __future__ import annotations

import re
from functools import total_ordering
from typing import Any

from muster.cel.errors import EvaluationError
from muster.cel.library import costs
from muster.cel.library.registry import Library, method, overload
from muster.cel.numbers import quote
from muster.cel.types import BOOL, INT, STRING, Type
from muster.cel.values import UINT_MAX, Opaque

SEMVER_TYPE = Type("struct", "kubernetes.Semver")
_ALPHANUMERIC = re.compile(r"[0-9A-Za-z-]+\Z")
Identifier = tuple[int, int, str]


@total_ordering
class Semver(Opaque):
    __slots__ = ("numbers", "prerelease")
    cel_type = SEMVER_TYPE

    def __init__(self, numbers: tuple[int, ...], prerelease: tuple[Identifier, ...]) -> None:
        self.numbers = numbers
        self.prerelease = prerelease

    def _key(self) -> tuple[Any, ...]:
        """A release sorts after all its prereleases; build metadata does not count."""
        return (self.numbers, not self.prerelease, self.prerelease)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and other._key() == self._key()

    def __lt__(self, other: Semver) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def parse_semver(text: str, normalize: bool = False) -> Semver:
    if normalize:
        text = _normalized(text)
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    major, minor, rest = parts
    rest, plus, build = rest.partition("+")
    patch, dash, prerelease = rest.partition("-")
    numbers = tuple(_number(part, name) for part, name in ((major, "Major"), (minor, "Minor"), (patch, "Patch")))
    identifiers = tuple(_identifier(part) for part in prerelease.split(".")) if dash else ()
    if plus:
        for part in build.split("."):
            if not part:
                raise EvaluationError("Build meta data is empty")
            if not _ALPHANUMERIC.match(part):
                raise EvaluationError(f"Invalid character(s) found in build meta data {quote(part)}")
    return Semver(numbers, identifiers)


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit()):
        if not text:
            raise EvaluationError('strconv.ParseUint: parsing "": invalid syntax')
        raise EvaluationError(f"Invalid character(s) found in {name.lower()} number {quote(text)}")
    if len(text) > 1 and text.startswith("0"):
        raise EvaluationError(f"{name} number must not contain leading zeroes {quote(text)}")
    if len(text) > 20 or int(text) > UINT_MAX:
        raise EvaluationError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(text)


def _identifier(text: str) -> Identifier:
    """Numbers sort before words, numbers by value, words by text."""
    if not text:
        raise EvaluationError("Prerelease is empty")
    if text.isascii() and text.isdigit():
        if len(text) > 1 and text.startswith("0"):
            raise EvaluationError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        if len(text) > 20:
            raise EvaluationError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
        return (0, int(text), "")
    if not _ALPHANUMERIC.match(text):
        raise EvaluationError(f"Invalid character(s) found in prerelease {quote(text)}")
    return (1, 0, text)


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            trimmed = part.lstrip("0")
            parts[index] = trimmed if trimmed and trimmed[0] in "0123456789" else "0" + trimmed
    if len(parts) < 3:
        if any(mark in parts[-1] for mark in "+-"):
            raise EvaluationError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _valid(text: str, normalize: bool = False) -> bool:
    try:
        parse_semver(text, normalize)
    except EvaluationError:
        return False
    return True


_V = SEMVER_TYPE
SEMVER = Library(
    "kubernetes.Semver",
    overloads=(
        ("semver", overload("string_to_semver", (STRING,), _V, parse_semver, cost=costs.first_argument)),
        ("semver", overload("string_bool_to_semver", (STRING, BOOL), _V, parse_semver, cost=costs.first_argument)),
        ("isSemver", overload("is_semver_string", (STRING,), BOOL, _valid, cost=costs.first_argument)),
        ("isSemver", overload("is_semver_string_bool", (STRING, BOOL), BOOL, _valid, cost=costs.first_argument)),
        ("isGreaterThan", method("semver_is_greater_than", (_V, _V), BOOL, lambda a, b: a > b)),
        ("isLessThan", method("semver_is_less_than", (_V, _V), BOOL, lambda a, b: a < b)),
        ("compareTo", method("semver_compare_to", (_V, _V), INT, lambda a, b: (a > b) - (a < b))),
        ("major", method("semver_major", (_V,), INT, lambda value: value.numbers[0])),
        ("minor", method("semver_minor", (_V,), INT, lambda value: value.numbers[1])),
        ("patch", method("semver_patch", (_V,), INT, lambda value: value.numbers[2])),
    ),
)
