"""What upstream's dryrun does and ours does not, on purpose: the one table, for policies that are played to both.

Each difference says which policies have it, and of which parts of an answer it is an excuse. docs/policy.md has the same table for
people, by the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from muster.kube.yaml import load
from muster.machinery.objects import Object
from muster.policy.configuration.definitions import has_template


@dataclass(frozen=True)
class Difference:
    name: str
    reason: str
    has: Callable[[Object, list[Object]], bool]
    """Of a policy and its objects."""
    parts: frozenset[str]
    """Of the status, and `messages`."""


def templates_of(policy: Object) -> Iterator[Object]:
    spec = policy["spec"]
    yield from spec.get("object-templates") or load(spec.get("object-templates-raw") or "[]")


def _name(template: Object) -> str:
    name = (template["objectDefinition"].get("metadata") or {}).get("name", "")
    return str(name)


def _selected_mustnothave(policy: Object, _: list[Object]) -> bool:
    return any(
        template["complianceType"].lower() == "mustnothave" and not _name(template) and "objectSelector" in template
        for template in templates_of(policy)
    )


def _unnamed_list(policy: Object, _: list[Object]) -> bool:
    return any(
        not _name(template) and any(isinstance(value, list) for value in template["objectDefinition"].values())
        for template in templates_of(policy)
    )


def _has_empty_map_in_list(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_empty_map_in_list, value.values()))
    return isinstance(value, list) and ({} in value or any(map(_has_empty_map_in_list, value)))


def _empty_map_in_list(_: Object, objects: list[Object]) -> bool:
    return any(map(_has_empty_map_in_list, objects))


def _templated_identity(policy: Object, _: list[Object]) -> bool:
    metadata = [template["objectDefinition"].get("metadata") or {} for template in templates_of(policy)]
    return any(has_template(str(one.get(field, ""))) for one in metadata for field in ("name", "namespace"))


_EVERYTHING: Final = frozenset(("code", "compliant", "compliancyDetails", "relatedObjects", "history", "messages"))

DIFFERENCES: Final = (
    Difference(
        "related objects of a selector",
        "where mustnothave means none of the objects that its objectSelector selects, upstream relates one of these, by chance; "
        "ours relates all",
        _selected_mustnothave,
        frozenset(("relatedObjects", "messages", "history")),
    ),
    Difference(
        "lists of unnamed templates",
        "upstream writes what matched one object into the template's top-level lists before it compares the next object; ours "
        "compares each with the template as it is",
        _unnamed_list,
        _EVERYTHING,
    ),
    Difference(
        "empty maps in lists",
        "upstream takes an empty map in an object's list for a match of any scalar in the template's, and would write null; ours "
        "does not",
        _empty_map_in_list,
        _EVERYTHING,
    ),
    Difference(
        "templated names and namespaces",
        "upstream resolves a name or namespace that uses no variable once, and puts another in its place for all objects but the "
        "first that comes, by chance; ours takes it for every object, and says so where it does not match",
        _templated_identity,
        _EVERYTHING,
    ),
)


def explanation(policy: Object, objects: list[Object], deviating: set[str]) -> str:
    """The name of the difference that excuses all these parts; empty when there is none."""
    for difference in DIFFERENCES:
        if deviating <= difference.parts and difference.has(policy, objects):
            return difference.name
    return ""
