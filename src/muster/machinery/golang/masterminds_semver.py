"""Semantic versions and constraints, tolerant. Follows github.com/Masterminds/semver v3.4, which sprig uses.

Missing parts are zero and a leading v is dropped. A constraint (`>= 1.2, < 2 || 3.x`) is a list of alternatives. Strict versions
are those of `blang_semver`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import re2

from muster.machinery.golang.blang_semver import is_numeric, precedence
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.numbers import parse_uint

_SUFFIX = r"(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?"
_PATTERN = r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?" + _SUFFIX
_OPERATORS = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^"
_VERSION = re2.compile(r"^v?([0-9]+)(\.[0-9]+)?(\.[0-9]+)?" + _SUFFIX + "$")
_ONE = re2.compile(rf"^\s*({_OPERATORS})\s*({_PATTERN})\s*$")
_RANGE = re2.compile(rf"\s*({_PATTERN})\s+-\s+({_PATTERN})\s*")
_FIND = re2.compile(rf"({_OPERATORS})\s*({_PATTERN})")
_VALID = re2.compile(rf"^(\s*({_OPERATORS})\s*({_PATTERN})\s*)((?:\s+|,\s*)({_OPERATORS})\s*({_PATTERN})\s*)*$")
_INVALID = "invalid semantic version"


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    major: int
    minor: int
    patch: int
    prerelease: str
    metadata: str
    original: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """`semver.NewVersion`; raises GoError."""
        match = _VERSION.search(text) if text.isascii() else None
        if not match:
            raise GoError(_INVALID)
        numbers = []
        for group in (match.group(1), match.group(2), match.group(3)):
            try:
                numbers.append(parse_uint((group or "0").removeprefix(".")))
            except GoError as error:
                raise GoError(f"error parsing version segment: {error}") from None
        prerelease, metadata = match.group(5) or "", match.group(8) or ""
        for part in prerelease.split(".") if prerelease else ():
            if is_numeric(part) and len(part) > 1 and part[0] == "0":
                raise GoError("version segment starts with 0")
        major, minor, patch = numbers
        return cls(major, minor, patch, prerelease, metadata, text)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        text += f"-{self.prerelease}" if self.prerelease else ""
        return text + (f"+{self.metadata}" if self.metadata else "")

    def compare(self, other: Version) -> int:
        left, right = (self.major, self.minor, self.patch), (other.major, other.minor, other.patch)
        if left != right:
            return -1 if left < right else 1
        if not self.prerelease or not other.prerelease:
            return bool(other.prerelease) - bool(self.prerelease)
        ours, theirs = precedence(self.prerelease), precedence(other.prerelease)
        return (ours > theirs) - (ours < theirs)

    def next(self, part: str) -> Version:
        """The next version: the given part is incremented, the later ones become zero."""
        major, minor, patch = self.major, self.minor, self.patch
        if part == "patch":
            patch += not self.prerelease
        elif part == "minor":
            minor, patch = minor + 1, 0
        else:
            major, minor, patch = major + 1, 0, 0
        prefix = "v" if self.original.startswith("v") else ""
        return Version(major, minor, patch, "", "", f"{prefix}{major}.{minor}.{patch}")


@dataclass(frozen=True, slots=True)
class Constraint:
    operator: str
    version: Version
    dirty: bool = False
    """A part is a wildcard, as in 1.x."""
    minor_dirty: bool = False
    patch_dirty: bool = False

    def allows(self, version: Version, with_prereleases: bool) -> bool:
        if version.prerelease and not with_prereleases:
            return False
        return _CHECKS[self.operator](self, version)


def _not_equal(constraint: Constraint, version: Version) -> bool:
    wanted = constraint.version
    if constraint.dirty:
        if wanted.major != version.major or (wanted.minor != version.minor and not constraint.minor_dirty):
            return True
        if constraint.minor_dirty:
            return False
        if wanted.patch != version.patch and not constraint.patch_dirty:
            return True
        if constraint.patch_dirty:
            return precedence(version.prerelease) != precedence(wanted.prerelease)
    return version.compare(wanted) != 0


def _greater(constraint: Constraint, version: Version) -> bool:
    wanted = constraint.version
    if constraint.dirty:
        if version.major != wanted.major:
            return version.major > wanted.major
        if constraint.minor_dirty:
            return False
        if constraint.patch_dirty:
            return version.minor > wanted.minor
    return version.compare(wanted) > 0


def _less(constraint: Constraint, version: Version) -> bool:
    return version.compare(constraint.version) < 0


def _at_least(constraint: Constraint, version: Version) -> bool:
    return version.compare(constraint.version) >= 0


def _at_most(constraint: Constraint, version: Version) -> bool:
    wanted = constraint.version
    if not constraint.dirty:
        return version.compare(wanted) <= 0
    if version.major > wanted.major:
        return False
    return not (version.major == wanted.major and version.minor > wanted.minor and not constraint.minor_dirty)


def _tilde(constraint: Constraint, version: Version) -> bool:
    wanted = constraint.version
    if version.compare(wanted) < 0:
        return False
    is_zero = (wanted.major, wanted.minor, wanted.patch) == (0, 0, 0)
    if is_zero and not constraint.minor_dirty and not constraint.patch_dirty:
        return True
    return version.major == wanted.major and (version.minor == wanted.minor or constraint.minor_dirty)


def _equal(constraint: Constraint, version: Version) -> bool:
    return _tilde(constraint, version) if constraint.dirty else version.compare(constraint.version) == 0


def _caret(constraint: Constraint, version: Version) -> bool:
    wanted = constraint.version
    if version.compare(wanted) < 0:
        return False
    if wanted.major > 0 or constraint.minor_dirty:
        return version.major == wanted.major
    if version.major > 0:
        return False
    if wanted.minor > 0 or constraint.patch_dirty:
        return version.minor == wanted.minor
    if version.minor > 0:
        return False
    return version.patch == wanted.patch


_CHECKS: dict[str, Callable[[Constraint, Version], bool]] = {
    "": _equal, "=": _equal, "!=": _not_equal, ">": _greater, "<": _less, ">=": _at_least, "=>": _at_least,
    "<=": _at_most, "=<": _at_most, "~": _tilde, "~>": _tilde, "^": _caret,
}  # fmt: skip


def _open(part: str | None) -> bool:
    return (part or "").removeprefix(".") in ("", "x", "X", "*")


def _constraint(text: str) -> Constraint:
    if not text:
        return Constraint("", Version.parse("0.0.0"), dirty=True)
    match = _ONE.search(text)
    if not match:
        raise GoError(f"improper constraint: {text}")
    major, minor, patch, tail = match.group(3), match.group(4), match.group(5), match.group(6) or ""
    wanted, dirty, minor_dirty, patch_dirty = match.group(2), True, False, False
    if _open(major):
        wanted = f"0.0.0{tail}"
    elif _open(minor):
        wanted, minor_dirty = f"{major}.0.0{tail}", True
    elif _open(patch):
        wanted, patch_dirty = f"{major}{minor}.0{tail}", True
    else:
        dirty = False
    try:
        version = Version.parse(wanted)
    except GoError:
        raise GoError("constraint parser error") from None
    return Constraint(match.group(1) or "", version, dirty, minor_dirty, patch_dirty)


def _matchable(text: str) -> str:
    """The text without invalid UTF-8, which RE2 refuses; no version contains it."""
    return text if text.isascii() else "".join("�" if "\udc80" <= char <= "\udcff" else char for char in text)


def parse_constraints(text: str) -> list[list[Constraint]]:
    """Alternatives, each a list of constraints that must all hold."""
    for found in list(_RANGE.finditer(_matchable(text))):
        text = text.replace(found.group(0), f">= {found.group(1)}, <= {found.group(11)} ", 1)
    groups = []
    for alternative in text.split("||"):
        if not _VALID.search(_matchable(alternative)):
            raise GoError(f"improper constraint: {alternative}")
        parts = [found.group(0) for found in _FIND.finditer(alternative)] or [alternative]
        groups.append([_constraint(part) for part in parts])
    return groups


def satisfies(version: Version, alternatives: list[list[Constraint]]) -> bool:
    """`Constraints.Check`: prereleases only count where an alternative names one."""
    for group in alternatives:
        with_prereleases = any(item.version.prerelease for item in group)
        if all(item.allows(version, with_prereleases) for item in group):
            return True
    return False
