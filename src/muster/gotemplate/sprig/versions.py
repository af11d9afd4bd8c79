"""sprig's semantic versions in templates: `semver`, `semverCompare`, and the methods of a version."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from muster.gotemplate.signature import Func, FuncTable
from muster.gotemplate.values import Uint64
from muster.machinery.golang import masterminds_semver

VERSIONS = FuncTable()


class Version(masterminds_semver.Version):
    """A pointer to a version, as `semver` returns it."""

    __slots__ = ()
    go_type: ClassVar[str] = "*semver.Version"
    go_kind: ClassVar[str] = "ptr"
    go_methods: ClassVar[dict[str, Func]] = {}

    def go_string(self) -> str:
        return str(self)

    marshal_json = go_string

    def go_fields(self) -> dict[str, Any]:
        """The fields that fmt prints without a text verb."""
        return {
            "major": Uint64(self.major), "minor": Uint64(self.minor), "patch": Uint64(self.patch),
            "pre": self.prerelease, "metadata": self.metadata, "original": self.original,
        }  # fmt: skip


class VersionValue(Version):
    """A version that is no pointer: the result of the Inc methods. It has no methods of the pointer."""

    __slots__ = ()
    go_type = "semver.Version"
    go_kind = "struct"
    go_methods: ClassVar[dict[str, Func]] = {}

    @classmethod
    def after(cls, version: Version, part: str) -> Self:
        following = version.next(part)
        return cls(following.major, following.minor, following.patch, "", "", following.original)


@VERSIONS.add("semver", "string", "*semver.Version")
def semver(text: str) -> Version:
    return Version.parse(text)


@VERSIONS.add("semverCompare", "string, string", "bool")
def semver_compare(constraint: str, text: str) -> bool:
    alternatives = masterminds_semver.parse_constraints(constraint)
    return masterminds_semver.satisfies(Version.parse(text), alternatives)


def _methods() -> dict[str, Func]:
    def method(call: Any, result: str, *params: str) -> Func:
        return Func(call, params, result=result)

    other = Version.go_type
    return {
        "Major": method(lambda v: Uint64(v.major), "uint64"),
        "Minor": method(lambda v: Uint64(v.minor), "uint64"),
        "Patch": method(lambda v: Uint64(v.patch), "uint64"),
        "Prerelease": method(lambda v: v.prerelease, "string"),
        "Metadata": method(lambda v: v.metadata, "string"),
        "Original": method(lambda v: v.original, "string"),
        "String": method(Version.go_string, "string"),
        "IncMajor": method(lambda v: VersionValue.after(v, "major"), VersionValue.go_type),
        "IncMinor": method(lambda v: VersionValue.after(v, "minor"), VersionValue.go_type),
        "IncPatch": method(lambda v: VersionValue.after(v, "patch"), VersionValue.go_type),
        "Compare": method(Version.compare, "int", other),
        "Equal": method(lambda v, o: v.compare(o) == 0, "bool", other),
        "LessThan": method(lambda v, o: v.compare(o) < 0, "bool", other),
        "GreaterThan": method(lambda v, o: v.compare(o) > 0, "bool", other),
        "LessThanEqual": method(lambda v, o: v.compare(o) <= 0, "bool", other),
        "GreaterThanEqual": method(lambda v, o: v.compare(o) >= 0, "bool", other),
    }


Version.go_methods.update(_methods())
VersionValue.go_methods.update(
    (name, method) for name, method in Version.go_methods.items() if not method.params and name != "Original"
)
