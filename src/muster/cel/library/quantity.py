"""Kubernetes quantities: `quantity('1.5Gi')`, comparison and arithmetic.

A quantity is exact: a whole number of billionths. Whether it can be read as an integer also depends on how it was
written; that rule is `integral`.
"""

from __future__ import annotations

from typing import Any

from muster.cel.errors import EvaluationError
from muster.cel.library import costs
from muster.cel.library.registry import Library, method, overload
from muster.cel.types import BOOL, DOUBLE, INT, STRING, Type
from muster.cel.values import INT_MAX, INT_MIN, Opaque
from muster.machinery.golang.quantities import NANO, QuantityError, parse_notation

QUANTITY_TYPE = Type("struct", "kubernetes.Quantity")


class Quantity(Opaque):
    __slots__ = ("integral", "nanos")
    cel_type = QUANTITY_TYPE

    def __init__(self, nanos: int, integral: bool) -> None:
        self.nanos = nanos
        self.integral = integral

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and other.nanos == self.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)


def parse_quantity(text: str) -> Quantity:
    try:
        notation = parse_notation(text)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None
    nanos, scale = notation.quantity.nanos, notation.scale
    return Quantity(nanos, scale is not None and scale >= 0 and abs(nanos) <= INT_MAX * NANO)


def _valid(text: str) -> bool:
    try:
        parse_quantity(text)
    except EvaluationError:
        return False
    return True


def _fits(value: Quantity) -> bool:
    return value.integral and value.nanos % NANO == 0 and INT_MIN * NANO <= value.nanos <= INT_MAX * NANO


def as_integer(value: Quantity) -> int:
    if not _fits(value):
        raise EvaluationError("cannot convert value to integer")
    return value.nanos // NANO


def _plus(sign: int) -> Any:
    def plus(left: Quantity, right: Quantity | int) -> Quantity:
        other = right if isinstance(right, Quantity) else Quantity(right * NANO, True)
        integral = (left.integral or not left.nanos) and (other.integral or not other.nanos)
        return Quantity(left.nanos + sign * other.nanos, integral)

    return plus


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


_Q = QUANTITY_TYPE
QUANTITY = Library(
    "kubernetes.quantity",
    overloads=(
        ("quantity", overload("string_to_quantity", (STRING,), _Q, parse_quantity, cost=costs.first_argument)),
        ("isQuantity", overload("is_quantity_string", (STRING,), BOOL, _valid, cost=costs.first_argument)),
        ("sign", overload("quantity_sign", (_Q,), INT, lambda value: _sign(value.nanos))),
        ("isGreaterThan", method("quantity_is_greater_than", (_Q, _Q), BOOL, lambda a, b: a.nanos > b.nanos)),
        ("isLessThan", method("quantity_is_less_than", (_Q, _Q), BOOL, lambda a, b: a.nanos < b.nanos)),
        ("compareTo", method("quantity_compare_to", (_Q, _Q), INT, lambda a, b: _sign(a.nanos - b.nanos))),
        ("asApproximateFloat", method("quantity_get_float", (_Q,), DOUBLE, lambda value: value.nanos / NANO)),
        ("asInteger", method("quantity_get_int", (_Q,), INT, as_integer)),
        ("isInteger", method("quantity_is_integer", (_Q,), BOOL, _fits)),
        ("add", method("quantity_add", (_Q, _Q), _Q, _plus(1))),
        ("add", method("quantity_add_int", (_Q, INT), _Q, _plus(1))),
        ("sub", method("quantity_sub", (_Q, _Q), _Q, _plus(-1))),
        ("sub", method("quantity_sub_int", (_Q, INT), _Q, _plus(-1))),
    ),
)
