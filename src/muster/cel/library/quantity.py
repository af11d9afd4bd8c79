"""Kubernetes quantities: `quantity('1.5Gi')`, comparison and arithmetic.

A quantity is exact: a fraction of integers, rounded up to a billionth when parsed as the reference does. Whether it
can be read as an integer also depends on how it was written there; that rule is `integral`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from muster.cel.errors import EvaluationError
from muster.cel.library import costs
from muster.cel.library.registry import Library, method, overload
from muster.cel.types import BOOL, DOUBLE, INT, STRING, Type
from muster.cel.values import INT_MAX, INT_MIN, Opaque

QUANTITY_TYPE = Type("struct", "kubernetes.Quantity")
_PATTERN = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*)([+-]?[0-9]*)\Z")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO = 10**9
_WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_SUFFIX = "unable to parse quantity's suffix"


class Quantity(Opaque):
    __slots__ = ("integral", "value")
    cel_type = QUANTITY_TYPE

    def __init__(self, value: Fraction, integral: bool) -> None:
        self.value = value
        self.integral = integral

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


def parse_quantity(text: str) -> Quantity:
    match = _PATTERN.match(text)
    if match is None or not text:
        raise EvaluationError(_WRONG_FORMAT)
    sign, whole, fraction, suffix, exponent = match.groups()
    fraction = fraction or ""
    # A quantity without digits is zero.
    whole = whole.lstrip("0") or "0"
    binary, power = _scale(suffix, exponent)
    value = Fraction(int(whole + fraction), 10 ** len(fraction)) * (Fraction(2) ** power if binary else Fraction(10) ** power)
    nano = -(-(value * _NANO).numerator // (value * _NANO).denominator)
    capped = min(Fraction(nano, _NANO), Fraction(INT_MAX))
    return Quantity(-capped if sign == "-" else capped, _integral(whole, fraction, binary, power) and value <= INT_MAX)


def _scale(suffix: str, exponent: str) -> tuple[bool, int]:
    """Whether the suffix counts in powers of two, and the power."""
    if suffix in _BINARY and not exponent:
        return True, _BINARY[suffix]
    if suffix in ("e", "E") and exponent:
        if exponent in ("+", "-") or len(exponent) > 8:
            raise EvaluationError(_WRONG_SUFFIX)
        return False, max(-1000, min(1000, int(exponent)))
    if suffix in _DECIMAL and not exponent:
        return False, _DECIMAL[suffix]
    raise EvaluationError(_WRONG_SUFFIX)


def _integral(whole: str, fraction: str, binary: bool, power: int) -> bool:
    """Whether the reference stores the number as a scaled 64-bit integer with no fractional scale."""
    if binary:
        return not fraction and 15 - len(whole) - int(power * 3 / 10) - 1 >= 0
    return len(whole) + len(fraction) <= 18 and power >= len(fraction)


def _valid(text: str) -> bool:
    try:
        parse_quantity(text)
    except EvaluationError:
        return False
    return True


def _fits(value: Quantity) -> bool:
    return value.integral and value.value.denominator == 1 and INT_MIN <= value.value <= INT_MAX


def as_integer(value: Quantity) -> int:
    if not _fits(value):
        raise EvaluationError("cannot convert value to integer")
    return int(value.value)


def _plus(sign: int) -> Any:
    def plus(left: Quantity, right: Quantity | int) -> Quantity:
        other = right if isinstance(right, Quantity) else Quantity(Fraction(right), True)
        integral = (left.integral or not left.value) and (other.integral or not other.value)
        return Quantity(left.value + sign * other.value, integral)

    return plus


def _sign(value: Fraction) -> int:
    return (value > 0) - (value < 0)


_Q = QUANTITY_TYPE
QUANTITY = Library(
    "kubernetes.quantity",
    overloads=(
        ("quantity", overload("string_to_quantity", (STRING,), _Q, parse_quantity, cost=costs.first_argument)),
        ("isQuantity", overload("is_quantity_string", (STRING,), BOOL, _valid, cost=costs.first_argument)),
        ("sign", overload("quantity_sign", (_Q,), INT, lambda value: _sign(value.value))),
        ("isGreaterThan", method("quantity_is_greater_than", (_Q, _Q), BOOL, lambda a, b: a.value > b.value)),
        ("isLessThan", method("quantity_is_less_than", (_Q, _Q), BOOL, lambda a, b: a.value < b.value)),
        ("compareTo", method("quantity_compare_to", (_Q, _Q), INT, lambda a, b: _sign(a.value - b.value))),
        ("asApproximateFloat", method("quantity_get_float", (_Q,), DOUBLE, lambda value: float(value.value))),
        ("asInteger", method("quantity_get_int", (_Q,), INT, as_integer)),
        ("isInteger", method("quantity_is_integer", (_Q,), BOOL, _fits)),
        ("add", method("quantity_add", (_Q, _Q), _Q, _plus(1))),
        ("add", method("quantity_add_int", (_Q, INT), _Q, _plus(1))),
        ("sub", method("quantity_sub", (_Q, _Q), _Q, _plus(-1))),
        ("sub", method("quantity_sub_int", (_Q, INT), _Q, _plus(-1))),
    ),
)
