"""Operators on values whose types are known only at run time, and the checks behind the typed fast paths.

Each follows cel-go: 64-bit integers overflow with an error, division truncates toward zero, numbers of different kinds are compared
but not added. An error names an operand without the operator; not one that has the operator for other types.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from muster.cel.errors import MOST_ELEMENTS, EvaluationError, afford, no_such_overload
from muster.cel.numbers import checked_int, checked_uint, display
from muster.cel.times import checked_duration, checked_timestamp
from muster.cel.types import Type
from muster.cel.values import (
    MISSING,
    NONE,
    Duration,
    ListView,
    MapView,
    Optional,
    Timestamp,
    Uint,
    compare,
    elements,
    equals,
    is_list,
    is_map,
    lookup,
    size_of,
    type_of,
)

_COMPARABLE = frozenset({bool, int, Uint, float, str, bytes, Timestamp, Duration})
_TRAITS: dict[str, frozenset[type]] = {
    "_+_": frozenset({int, Uint, float, str, bytes, list, Timestamp, Duration}),
    "_-_": frozenset({int, Uint, float, Timestamp, Duration}),
    "_*_": frozenset({int, Uint, float}),
    "_/_": frozenset({int, Uint, float}),
    "_%_": frozenset({int, Uint}),
    "-_": frozenset({bool, int, float, Duration}),
    "size": frozenset({str, bytes, list, dict}),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _COMPARABLE),
}
_RECEIVERS = frozenset({str, Timestamp, Duration})


def unsupported(function: str, operand: Any) -> EvaluationError:
    kind = operand.__class__
    if kind in _TRAITS[function] or kind in _RECEIVERS or isinstance(operand, ListView | MapView):
        return no_such_overload()
    return EvaluationError(f"no such overload: {function}")


def add(left: Any, right: Any) -> Any:
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return checked_int(left + right)
        if kind is str or kind is float or kind is bytes:
            return left + right
        if kind is list:
            afford(len(left) + len(right), MOST_ELEMENTS)
            return left + right
        if kind is Uint:
            return checked_uint(int(left) + int(right))
        if kind is Duration:
            return checked_duration(left.ns + right.ns)
    if isinstance(left, ListView):
        afford(len(left) + size_of(right), MOST_ELEMENTS)
        return left.plus(right)
    if kind is list and isinstance(right, ListView):
        afford(len(left) + len(right), MOST_ELEMENTS)
        return left + right.elements()
    if (kind is Timestamp and right.__class__ is Duration) or (kind is Duration and right.__class__ is Timestamp):
        return checked_timestamp(left.ns + right.ns)
    raise unsupported("_+_", left)


def subtract(left: Any, right: Any) -> Any:
    kind, other = left.__class__, right.__class__
    if kind is other:
        if kind is int:
            return checked_int(left - right)
        if kind is float:
            return left - right
        if kind is Uint:
            return checked_uint(int(left) - int(right))
        if kind is Duration or kind is Timestamp:
            return checked_duration(left.ns - right.ns)
    if kind is Timestamp and other is Duration:
        return checked_timestamp(left.ns - right.ns)
    raise unsupported("_-_", left)


def multiply(left: Any, right: Any) -> Any:
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return checked_int(left * right)
        if kind is float:
            return left * right
        if kind is Uint:
            return checked_uint(int(left) * int(right))
    raise unsupported("_*_", left)


def divide(left: Any, right: Any) -> Any:
    kind = left.__class__
    if kind is right.__class__:
        if kind is float:
            return divide_doubles(left, right)
        if kind is int or kind is Uint:
            if right == 0:
                raise EvaluationError("division by zero")
            quotient = abs(left) // abs(right)
            if kind is Uint:
                return Uint(quotient)
            return checked_int(quotient if (left < 0) == (right < 0) else -quotient)
    raise unsupported("_/_", left)


def divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, math.copysign(1, left) * math.copysign(1, right))


def modulo(left: Any, right: Any) -> Any:
    kind = left.__class__
    if kind is right.__class__ and (kind is int or kind is Uint):
        if right == 0:
            raise EvaluationError("modulus by zero")
        remainder = abs(left) % abs(right)
        if kind is Uint:
            return Uint(remainder)
        if left == -(2**63) and right == -1:
            raise EvaluationError("integer overflow")
        return -remainder if left < 0 else remainder
    raise unsupported("_%_", left)


def negate(value: Any) -> Any:
    kind = value.__class__
    if kind is int:
        return checked_int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return checked_duration(-value.ns)
    raise unsupported("-_", value)


def logical_not(value: Any) -> bool:
    if value is True:
        return False
    if value is False:
        return True
    raise no_such_overload()


def _ordering(name: str, accept: Callable[[int], bool]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        if left.__class__ not in _COMPARABLE:
            raise unsupported(name, left)
        return accept(compare(left, right))

    return ordered


less = _ordering("_<_", lambda order: order < 0)
less_equals = _ordering("_<=_", lambda order: order <= 0)
greater = _ordering("_>_", lambda order: order > 0)
greater_equals = _ordering("_>=_", lambda order: order >= 0)


def not_equals(left: Any, right: Any) -> bool:
    return not equals(left, right)


def contained(value: Any, container: Any) -> bool:
    """`value in container`."""
    if is_list(container):
        return any(equals(element, value) for element in elements(container))
    if is_map(container):
        return lookup(container, value) is not MISSING
    raise no_such_overload()


def size(value: Any) -> int:
    kind = value.__class__
    if kind is str or kind is list or kind is dict or kind is bytes or isinstance(value, ListView | MapView):
        return len(value)
    raise unsupported("size", value)


def _position(index: Any) -> int:
    kind = index.__class__
    if kind is int or kind is Uint:
        return int(index)
    if kind is float:
        if index.is_integer():
            return int(index)
        raise EvaluationError(f"unsupported index value {display(index)} in list")
    raise EvaluationError(f"unsupported index type '{type_of(index).name}' in list")


def at_index(container: Any, index: Any) -> Any:
    """`container[index]`."""
    if is_list(container):
        position = _position(index)
        if not 0 <= position < len(container):
            raise EvaluationError(f"index out of bounds: {position}")
        if container.__class__ is list:
            return container[position]
        return elements_at(container, position)
    if is_map(container):
        found = lookup(container, index)
        if found is MISSING:
            raise EvaluationError(f"no such key: {display(index)}")
        return found
    if container.__class__ is Optional:
        return optional_at_index(container, index)
    raise EvaluationError(f"no such key: {display(index)}")


def elements_at(view: Any, position: int) -> Any:
    return view.element(view.raw[position])


def optional_at_index(container: Any, index: Any) -> Optional:
    if container.__class__ is Optional:
        if not container.present:
            return NONE
        container = container.value
    if is_list(container):
        position = _position(index)
        if not 0 <= position < len(container):
            return NONE
        return Optional(True, at_index(container, position))
    if is_map(container):
        found = lookup(container, index)
        return NONE if found is MISSING else Optional(True, found)
    raise no_such_overload()


def select(operand: Any, field: str) -> Any:
    """`operand.field` on a value of unknown type."""
    if operand.__class__ is dict:
        found = operand.get(field, MISSING)
    elif isinstance(operand, MapView):
        found = operand.find(field)
    elif operand.__class__ is Optional:
        return optional_select(operand, field)
    elif is_list(operand):
        raise EvaluationError("unsupported index type 'string' in list")
    else:
        found = MISSING
    if found is MISSING:
        raise EvaluationError(f"no such key: {field}")
    return found


def optional_select(operand: Any, field: str) -> Optional:
    if operand.__class__ is Optional:
        if not operand.present:
            return NONE
        operand = operand.value
    found = lookup(operand, field) if is_map(operand) else MISSING
    return NONE if found is MISSING else Optional(True, found)


def has_field(operand: Any, field: str) -> bool:
    if operand.__class__ is Optional:
        return optional_select(operand, field).present
    return is_map(operand) and lookup(operand, field) is not MISSING


def type_value(value: Any) -> Type:
    return type_of(value)
