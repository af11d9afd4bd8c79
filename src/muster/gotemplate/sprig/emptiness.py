"""sprig's `empty`, and Go's deep equality."""

from __future__ import annotations

from typing import Any

from muster.gotemplate.errors import LimitExceeded
from muster.gotemplate.limits import charge
from muster.gotemplate.signature import FuncTable
from muster.gotemplate.values import Map, Slice, Struct, go_type

DEFAULTS = FuncTable()
_MAX_NESTING = 200


@DEFAULTS.add("empty", "any", "bool")
def empty(value: Any) -> bool:
    return not value


@DEFAULTS.add("default", "any, ...any")
def default(fallback: Any, *given: Any) -> Any:
    return given[0] if given and given[0] else fallback


@DEFAULTS.add("coalesce", "...any")
def coalesce(*values: Any) -> Any:
    return next((value for value in values if value), None)


@DEFAULTS.add("all", "...any", "bool")
def all_(*values: Any) -> bool:
    return all(values)


@DEFAULTS.add("any", "...any", "bool")
def any_(*values: Any) -> bool:
    return any(values)


@DEFAULTS.add("ternary", "any, any, bool")
def ternary(then: Any, otherwise: Any, test: bool) -> Any:
    return then if test else otherwise


def _is_nil(value: Any) -> bool:
    return isinstance(value, (Slice, Map)) and value.is_nil


def deep_equal(left: Any, right: Any, depth: int = 0) -> bool:
    """`reflect.DeepEqual`: same types all the way down, and a nil slice is not an empty one."""
    if left.__class__ is str and right.__class__ is str:
        return bool(left == right)
    if go_type(left) != go_type(right) or _is_nil(left) != _is_nil(right) or (left is None) != (right is None):
        return False
    if depth > _MAX_NESTING:
        raise LimitExceeded("the values to compare are nested too deeply")
    charge(1)
    if isinstance(left, dict):
        return len(left) == len(right) and all(
            key in right and deep_equal(item, right[key], depth + 1) for key, item in left.items()
        )
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(deep_equal(item, other, depth + 1) for item, other in zip(left, right, strict=True))
    if isinstance(left, Struct):
        return all(deep_equal(item, right.fields[name], depth + 1) for name, item in left.fields.items())
    return bool(left == right)


@DEFAULTS.add("deepEqual", "any, any", "bool")
def deep_equal_function(left: Any, right: Any) -> bool:
    return deep_equal(left, right)
