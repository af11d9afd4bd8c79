"""Validation of unique items: `x-kubernetes-list-type: set` (whole items) and `map` (the key fields of items).

Only the branches of a schema that lead to such a list are walked; a schema without one costs nothing. The second occurrence of a
value is reported, further ones are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from muster.kube.fielderrors import FieldError, duplicate, invalid
from muster.kube.schema_node import Schema
from muster.kube.structural_schema.constraints import identity

Finder = Callable[[Any, str, list[FieldError]], None]
_COMPOUND: Final = (dict, list)
_ABSENT: Final = object()


def duplicates(obj: dict[str, Any], schema: Schema) -> list[FieldError]:
    """Repeated items in lists of type set or map."""
    if "duplicates" not in schema.memo:
        schema.memo["duplicates"] = _compile(schema, root=True)
    find: Finder | None = schema.memo["duplicates"]
    errors: list[FieldError] = []
    if find is not None:
        find(obj, "", errors)
    return errors


def _compile(schema: Schema, root: bool = False) -> Finder | None:
    """None if there is no such list below. The root is an object, whatever its type is."""
    children = {name: inside for name, node in schema.properties.items() if (inside := _compile(node)) is not None}
    described = schema.additional is not None and schema.raw.get("additionalProperties") is not True
    others = _compile(schema.additional) if described and schema.additional is not None else None
    items = None if root or schema.items is None else _compile(schema.items)
    unique = None if root else _UNIQUE.get(schema.list_type)
    if not children and others is None and items is None and unique is None:
        return None
    keys = schema.list_map_keys

    def find(value: Any, path: str, errors: list[FieldError]) -> None:
        if value.__class__ is dict:
            for name, child in children.items():
                field = value.get(name)
                if field.__class__ in _COMPOUND:
                    child(field, f"{path}.{name}" if path else name, errors)
            if others is not None:
                for name, field in value.items():
                    if field.__class__ in _COMPOUND:
                        others(field, f"{path}[{name}]", errors)
        elif value.__class__ is list:
            if unique is not None:
                unique(value, path, keys, errors)
            if items is not None:
                for index, item in enumerate(value):
                    if item.__class__ in _COMPOUND:
                        items(item, f"{path}[{index}]", errors)

    return find


def _unique_items(value: list[Any], path: str, keys: tuple[str, ...], errors: list[FieldError]) -> None:
    for index in _repeated(map(identity, value)):
        errors.append(duplicate(f"{path}[{index}]", value[index]))


def _unique_keys(value: list[Any], path: str, keys: tuple[str, ...], errors: list[FieldError]) -> None:
    for index, item in enumerate(value):
        if item is not None and item.__class__ is not dict:
            errors.append(invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map"))
            return
    # Items without any of the keys are equal, be they empty or null.
    items = [item or {} for item in value]
    for index in _repeated(tuple(identity(item.get(key, _ABSENT)) for key in keys) for item in items):
        item = items[index]
        errors.append(duplicate(f"{path}[{index}]", {key: item[key] for key in keys if key in item}))


def _repeated(identities: Iterable[Any]) -> list[int]:
    """Positions of second appearances."""
    seen: dict[Any, int] = {}
    found: list[int] = []
    for index, known in enumerate(identities):
        times = seen[known] = seen.get(known, 0) + 1
        if times == 2:
            found.append(index)
    return found


_UNIQUE: Final[dict[str, Callable[[list[Any], str, tuple[str, ...], list[FieldError]], None]]] = {
    "set": _unique_items,
    "map": _unique_keys,
}
