"""The fast path of validation: one compiled predicate per schema, without paths and messages.

A node becomes a table from Python type to check; a parent looks up its child's table and calls the check, so a scalar without
constraints costs two dict lookups. The predicate agrees exactly with the walker that produces the errors, `openapi`: it accepts if
and only if the walker finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from muster.kube.structural_schema.constraints import (
    INT64_MAX,
    INT64_MIN,
    Choices,
    Constraints,
    as_int64,
    breaks_multiple,
    has_repeats,
    is_whole,
)

Check = Callable[[Any], bool]
Table = dict[type, Check]
_JSON_TYPE: Final[dict[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}


def accept(node: Constraints) -> Check:
    table = _table(node)

    def run(value: Any) -> bool:
        check = table.get(value.__class__)
        return check is not None and check(value)

    return run


def _pass(value: Any) -> bool:
    return True


def _all(checks: list[Check]) -> Check:
    if not checks:
        return _pass
    if len(checks) == 1:
        return checks[0]
    if len(checks) == 2:
        first, second = checks
        return lambda value: first(value) and second(value)
    return lambda value: all(check(value) for check in checks)


def _table(node: Constraints) -> Table:
    shared = _combined(node)
    if node.enum:
        shared.append(_one_of_enum(node.enum, node.choices))
    table: Table = {}
    if (not node.types or node.nullable) and not node.enum:
        table[type(None)] = _pass
    for kind, json_type in _JSON_TYPE.items():
        typed = _type_check(node, kind, json_type)
        if typed is not None:
            table[kind] = _all([*typed, *_BY_KIND[json_type](node), *shared])
    return table


def _type_check(node: Constraints, kind: type, json_type: str) -> list[Check] | None:
    """None if values of this kind are refused, else what remains to be looked at in the value."""
    types = node.types
    if json_type in ("string", "array") and node.format and "number" not in types and "integer" not in types:
        return []
    if not types:
        return [] if not node.format or json_type in ("string", "array") else None
    if json_type in types:
        return [_is_int64] if kind is int and "number" not in types else []
    if kind is int and "number" in types:
        return []
    if kind is float and "integer" in types:
        return [is_whole]
    return None


def _is_int64(value: int) -> bool:
    return INT64_MIN <= value <= INT64_MAX


def _one_of_enum(enum: tuple[Any, ...], choices: Choices) -> Check:
    if all(choice.__class__ is str for choice in enum):
        known = frozenset(enum)
        return lambda value: value.__class__ is str and value in known
    return choices.__contains__


def _combined(node: Constraints) -> list[Check]:
    checks = [accept(child) for child in node.all_of]
    if node.any_of:
        any_of = [accept(child) for child in node.any_of]
        checks.append(lambda value: any(check(value) for check in any_of))
    if node.one_of:
        one_of = [accept(child) for child in node.one_of]
        checks.append(lambda value: sum(check(value) for check in one_of) == 1)
    if node.not_ is not None:
        refused = accept(node.not_)
        checks.append(lambda value: not refused(value))
    return checks


def _string(node: Constraints) -> list[Check]:
    checks: list[Check] = []
    if node.max_length is not None:
        longest = node.max_length
        checks.append(lambda value: len(value) <= longest)
    if node.min_length is not None:
        shortest = node.min_length
        checks.append(lambda value: len(value) >= shortest)
    if node.matches is not None:
        checks.append(node.matches)
    if node.format_check is not None:
        checks.append(node.format_check)
    return checks


def _number(node: Constraints) -> list[Check]:
    checks: list[Check] = []
    if node.minimum is not None:
        checks.append(_bound(node.minimum, node.exclusive_minimum, sign=1))
    if node.maximum is not None:
        checks.append(_bound(node.maximum, node.exclusive_maximum, sign=-1))
    if node.multiple_of is not None:
        factor = node.multiple_of
        checks.append(lambda value: not breaks_multiple(value, factor))
    return checks


def _bound(limit: float, exclusive: bool, sign: int) -> Check:
    """Integers are compared with the whole part of the limit, as the server does."""
    whole = as_int64(limit)
    if sign > 0:
        if exclusive:
            return lambda value: value > (whole if value.__class__ is int else limit)
        return lambda value: value >= (whole if value.__class__ is int else limit)
    if exclusive:
        return lambda value: value < (whole if value.__class__ is int else limit)
    return lambda value: value <= (whole if value.__class__ is int else limit)


def _array(node: Constraints) -> list[Check]:
    checks: list[Check] = []
    if node.min_items is not None:
        fewest = node.min_items
        checks.append(lambda value: len(value) >= fewest)
    if node.max_items is not None:
        most = node.max_items
        checks.append(lambda value: len(value) <= most)
    if node.items is not None:
        checks.append(_each_item(_table(node.items)))
    if node.unique_items:
        checks.append(lambda value: not has_repeats(value))
    return checks


def _each_item(table: Table) -> Check:
    def run(items: list[Any]) -> bool:
        for item in items:
            check = table.get(item.__class__)
            if check is None or (check is not _pass and not check(item)):
                return False
        return True

    return run


def _object(node: Constraints) -> list[Check]:
    checks: list[Check] = []
    if node.min_properties is not None:
        fewest = node.min_properties
        checks.append(lambda value: len(value) >= fewest)
    if node.max_properties is not None:
        most = node.max_properties
        checks.append(lambda value: len(value) <= most)
    if node.required:
        required = frozenset(node.required)
        checks.append(lambda value: value.keys() >= required)
    if node.properties or node.additional is not None or node.forbids_additional:
        checks.append(_each_field(node))
    return checks


def _each_field(node: Constraints) -> Check:
    tables = {name: _table(child) for name, child in node.properties.items()}
    others = _table(node.additional) if node.additional is not None else None
    forbids = node.forbids_additional

    def run(fields: dict[str, Any]) -> bool:
        for name, value in fields.items():
            table = tables.get(name, others)
            if table is None:
                if forbids:
                    return False
                continue
            check = table.get(value.__class__)
            if check is None or (check is not _pass and not check(value)):
                return False
        return True

    return run


def _nothing(node: Constraints) -> list[Check]:
    return []


_BY_KIND: Final[dict[str, Callable[[Constraints], list[Check]]]] = {
    "string": _string,
    "boolean": _nothing,
    "integer": _number,
    "number": _number,
    "array": _array,
    "object": _object,
}
