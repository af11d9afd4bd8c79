"""Numbers within CEL's 64-bit ranges: conversions between the three kinds, from text, and how error messages show them."""

from __future__ import annotations

import math
from typing import Any

from muster.cel.errors import EvaluationError
from muster.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint
from muster.machinery.golang import numbers
from muster.machinery.golang.errors import GoError


def checked_int(value: int, what: str = "integer overflow") -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError(what)


def checked_uint(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def double_to_int(value: float) -> int:
    # The bounds are the doubles next to the limits: 2^63 itself does not fit, and Go excludes both ends.
    if math.isnan(value) or not -9223372036854775808.0 < value < 9223372036854775808.0:
        raise EvaluationError("integer overflow")
    return int(value)


def double_to_uint(value: float) -> Uint:
    if math.isnan(value) or not 0 <= value < 18446744073709551616.0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def string_to_int(text: str) -> int:
    try:
        return numbers.parse_int(text)
    except GoError as error:
        raise EvaluationError(str(error)) from None


def string_to_uint(text: str) -> Uint:
    try:
        return Uint(numbers.parse_uint(text))
    except GoError as error:
        raise EvaluationError(str(error)) from None


def string_to_double(text: str) -> float:
    try:
        return numbers.parse_float(text)
    except GoError as error:
        raise EvaluationError(str(error)) from None


def display(value: Any) -> str:
    """Go's %v of a scalar, as error messages show keys and indices."""
    kind = value.__class__
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return numbers.format_shortest(value, 21)
    return str(value)
