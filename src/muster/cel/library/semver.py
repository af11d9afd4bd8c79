"""Semantic versions: strict by default, optionally tolerant (`v` prefix, leading zeros, missing parts)."""

from __future__ import annotations

from functools import total_ordering

from muster.cel.errors import EvaluationError
from muster.cel.library import costs
from muster.cel.library.registry import Library, method, overload
from muster.cel.types import BOOL, INT, STRING, Type
from muster.cel.values import Opaque
from muster.machinery.golang.blang_semver import Version, parse_version
from muster.machinery.golang.errors import GoError

SEMVER_TYPE = Type("struct", "kubernetes.Semver")


@total_ordering
class Semver(Opaque):
    __slots__ = ("version",)
    cel_type = SEMVER_TYPE

    def __init__(self, version: Version) -> None:
        self.version = version

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and other.version == self.version

    def __lt__(self, other: Semver) -> bool:
        return self.version < other.version

    def __hash__(self) -> int:
        return hash(self.version)


def parse_semver(text: str, normalize: bool = False) -> Semver:
    try:
        return Semver(parse_version(_normalized(text) if normalize else text))
    except GoError as error:
        raise EvaluationError(str(error)) from None


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
        ("major", method("semver_major", (_V,), INT, lambda value: value.version.major)),
        ("minor", method("semver_minor", (_V,), INT, lambda value: value.version.minor)),
        ("patch", method("semver_patch", (_V,), INT, lambda value: value.version.patch)),
    ),
)
