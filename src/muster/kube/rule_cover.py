"""RBAC's escalation check: whether the rules that a user has cover all of a rule.

A rule is a product: n verbs, groups, resources and names are n⁴ permissions, and a few kilobytes of it are millions. So they are
not checked one by one. In each dimension, values that match the same held rules are one class; whether a combination of classes is
granted is the intersection of the sets of rules they match (bits of an integer), and there are few combinations. Only missing
permissions are listed, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from muster.kube.rbac import Rule

RawRule = Mapping[str, Any]
MOST_MISSING: Final = 1_000
"""The most missing permissions that are listed."""
_MOST_COMBINATIONS: Final = 100_000
"""The most combinations of classes that are checked; beyond that the rest counts as not granted."""
_Classes = dict[int, list[str]]


def path_matches(pattern: str, path: str) -> bool:
    # Several stars at the end are one, as in the API server.
    return pattern == "*" or pattern == path or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


class Coverage:
    """Held rules, as sets of rules by verb, group, resource, name and path."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._verbs: dict[str, int] = {}
        self._groups: dict[str, int] = {}
        self._resources: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._unnamed = 0
        """Rules without resourceNames."""
        self._paths: dict[str, int] = {}
        for index, rule in enumerate(rules):
            bit = 1 << index
            for known, values in (
                (self._verbs, rule.verbs),
                (self._groups, rule.groups),
                (self._resources, rule.resources),
                (self._names, rule.names),
                (self._paths, rule.paths),
            ):
                for value in values:
                    known[value] = known.get(value, 0) | bit
            if not rule.names:
                self._unnamed |= bit
        self._prefixes = [(path, bits) for path, bits in self._paths.items() if path.endswith("*")]

    def missing(self, wanted: Iterable[RawRule]) -> list[RawRule]:
        """Permissions (rules with one verb, group, resource and name each) that no held rule grants; not more than MOST_MISSING."""
        found: list[RawRule] = []
        for rule in wanted:
            atoms = list(islice(self._missing(rule), MOST_MISSING - len(found)))
            if atoms:
                order = {verb: position for position, verb in enumerate(rule["verbs"])}
                found += sorted(atoms, key=lambda atom: order[atom["verbs"][0]])
            if len(found) == MOST_MISSING:
                break
        return found

    def _missing(self, rule: RawRule) -> Iterator[RawRule]:
        verbs = self._classes(rule.get("verbs"), lambda verb: self._verbs.get(verb, 0) | self._verbs.get("*", 0))
        paths = self._classes(rule.get("nonResourceURLs"), self._path)
        for verb, path in _ungranted((verbs, paths)):
            yield {"nonResourceURLs": [path], "verbs": [verb]}
        groups = self._classes(rule.get("apiGroups"), lambda group: self._groups.get(group, 0) | self._groups.get("*", 0))
        resources = self._classes(rule.get("resources"), self._resource)
        names = self._classes(rule.get("resourceNames"), lambda name: self._names.get(name, 0) | self._unnamed)
        for verb, group, resource, name in _ungranted((verbs, groups, resources, names or {self._unnamed: [""]})):
            atom: dict[str, Any] = {"apiGroups": [group], "resources": [resource]}
            if names:
                atom["resourceNames"] = [name]
            yield {**atom, "verbs": [verb]}

    @staticmethod
    def _classes(values: Sequence[str] | None, bits: Any) -> _Classes:
        found: _Classes = {}
        for value in dict.fromkeys(values or ()):
            found.setdefault(bits(value), []).append(value)
        return found

    def _resource(self, resource: str) -> int:
        bits = self._resources.get("*", 0) | self._resources.get(resource, 0)
        _, slash, sub = resource.partition("/")
        return bits | self._resources.get(f"*/{sub}", 0) if slash else bits

    def _path(self, path: str) -> int:
        bits = self._paths.get(path, 0)
        for pattern, held in self._prefixes:
            if path_matches(pattern, path):
                bits |= held
        return bits


def _ungranted(dimensions: Sequence[_Classes]) -> Iterator[tuple[str, ...]]:
    """The values of all combinations that no rule matches in every dimension."""
    everything = -1
    looked_at = 0

    def below(level: int, bits: int) -> Iterator[list[list[str]]]:
        nonlocal looked_at
        for mine, values in dimensions[level].items():
            looked_at += 1
            left = bits & mine
            if not left or looked_at > _MOST_COMBINATIONS:
                yield [values, *(_all_values(classes) for classes in dimensions[level + 1 :])]
            elif level + 1 < len(dimensions):
                yield from ([values, *rest] for rest in below(level + 1, left))

    if all(dimensions):
        for chosen in below(0, everything):
            yield from product(*chosen)


def _all_values(classes: _Classes) -> list[str]:
    return [value for values in classes.values() for value in values]


def uncovered(owned: Iterable[Rule], wanted: RawRule) -> list[RawRule]:
    """The permissions of one rule that no owned rule grants; not more than MOST_MISSING."""
    return Coverage(owned).missing([wanted])
