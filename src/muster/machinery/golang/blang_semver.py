"""Semantic versions, strictly as semver.org has them. Follows github.com/blang/semver v4, the parser behind CEL's `semver()`.

Templates have the forgiving versions of `masterminds_semver`; how prereleases are ordered is the same in both.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.numbers import MAX_UINT64, parse_uint
from muster.machinery.golang.quoting import quote

Identifier = tuple[int, int, str]
"""Sorts numbers before words, numbers by value, words by text."""
_ALPHANUMERIC = re.compile("[0-9A-Za-z-]+")


class Version(NamedTuple):
    """Sorts by precedence: a release comes after all its prereleases; build metadata does not count."""

    major: int
    minor: int
    patch: int
    released: bool
    prerelease: tuple[Identifier, ...]


def is_numeric(text: str) -> bool:
    return text.isascii() and text.isdigit()


def precedence(prerelease: str) -> tuple[Identifier, ...]:
    """The sort key of a prerelease. A number beyond 64 bits is a word."""
    return tuple([_identifier(part) for part in prerelease.split(".")]) if prerelease else ()


def _identifier(text: str) -> Identifier:
    if is_numeric(text) and (len(text) < 20 or (len(text) == 20 and int(text) <= MAX_UINT64)):
        return (0, int(text), "")
    return (1, 0, text)


def parse_version(text: str) -> Version:
    """`semver.Parse`; raises GoError."""
    if not text:
        raise GoError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise GoError("No Major.Minor.Patch elements found")
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    major_number, minor_number = _number(parts[0], "Major"), _number(parts[1], "Minor")
    patch_number = _number(patch, "Patch")
    for part in prerelease.split(".") if dash else ():
        _check_identifier(part)
    for part in build.split(".") if plus else ():
        if not part:
            raise GoError("Build meta data is empty")
        if not _ALPHANUMERIC.fullmatch(part):
            raise GoError(f"Invalid character(s) found in build meta data {quote(part)}")
    return Version(major_number, minor_number, patch_number, not dash, precedence(prerelease))


def _number(text: str, name: str) -> int:
    if text and not is_numeric(text):
        raise GoError(f"Invalid character(s) found in {name.lower()} number {quote(text)}")
    if len(text) > 1 and text.startswith("0"):
        raise GoError(f"{name} number must not contain leading zeroes {quote(text)}")
    return int(text) if 0 < len(text) < 20 else parse_uint(text)


def _check_identifier(text: str) -> None:
    if not text:
        raise GoError("Prerelease is empty")
    if not is_numeric(text):
        if not _ALPHANUMERIC.fullmatch(text):
            raise GoError(f"Invalid character(s) found in prerelease {quote(text)}")
        return
    if len(text) > 1 and text.startswith("0"):
        raise GoError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
    if len(text) >= 20:
        parse_uint(text)
