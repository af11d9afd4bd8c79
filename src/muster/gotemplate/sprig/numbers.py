"""sprig's arithmetic: conversions by spf13/cast 1.10, 64-bit integers that wrap, decimals for floats."""

from __future__ import annotations

import math
import random
import re
from fractions import Fraction
from typing import Any

from muster.gotemplate.golang import fmt
from muster.gotemplate.limits import charge_size
from muster.gotemplate.signature import FuncTable
from muster.gotemplate.values import Int64, Slice
from muster.machinery.golang import numbers
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.numbers import wrap_int64

NUMBERS = FuncTable()
_MIN, _MAX = -(1 << 63), (1 << 63) - 1
_DECIMAL = re.compile(r"([-+]?[0-9]*)(\.[0-9]*)?\Z")
_DIVISION_DIGITS = 10**16


def _trim_decimal(text: str) -> str:
    """The integer part of a number with a decimal point, which cast cuts off."""
    match = _DECIMAL.match(text) if "." in text else None
    if not match:
        return text
    whole = match[1]
    return whole + "0" if whole in ("", "-", "+") else whole


def _float_to_int(value: float) -> int:
    """Go's conversion on amd64: whatever does not fit becomes the smallest integer."""
    if value != value or value >= 9223372036854775808.0 or value < -9223372036854775808.0:
        return _MIN
    return int(value)


def to_int(value: Any) -> int:
    """`cast.ToInt` and `cast.ToInt64`: what cannot be converted is 0."""
    if isinstance(value, int):
        return wrap_int64(int(value))
    if isinstance(value, float):
        return _float_to_int(value)
    if isinstance(value, str) and value:
        try:
            return numbers.parse_int(_trim_decimal(value), 0)
        except GoError:
            return 0
    return 0


def to_float(value: Any) -> float:
    """`cast.ToFloat64`."""
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str) and value:
        try:
            return numbers.parse_float(value)
        except GoError:
            return 0.0
    return 0.0


@NUMBERS.add("int", "any", "int")
def int_(value: Any) -> int:
    return to_int(value)


@NUMBERS.add("int64", "any", "int64")
def int64(value: Any) -> Int64:
    return Int64(to_int(value))


@NUMBERS.add("float64", "any", "float64")
def float64(value: Any) -> float:
    return to_float(value)


@NUMBERS.add("atoi", "string", "int")
def atoi(text: str) -> int:
    try:
        return numbers.atoi(text)
    except numbers.NumError as error:
        return error.value


@NUMBERS.add("toDecimal", "any", "int64")
def to_decimal(value: Any) -> Int64:
    try:
        return Int64(numbers.parse_int(fmt.show(value), 8))
    except GoError:
        return Int64(0)


# Integers


@NUMBERS.add("add1", "any", "int64")
def add1(value: Any) -> Int64:
    return Int64(wrap_int64(to_int(value) + 1))


@NUMBERS.add("add", "...any", "int64")
def add(*values: Any) -> Int64:
    return Int64(wrap_int64(sum(map(to_int, values))))


@NUMBERS.add("sub", "any, any", "int64")
def sub(left: Any, right: Any) -> Int64:
    return Int64(wrap_int64(to_int(left) - to_int(right)))


def _quotient(left: int, right: int) -> int:
    if right == 0:
        raise GoError("runtime error: integer divide by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


@NUMBERS.add("div", "any, any", "int64")
def div(left: Any, right: Any) -> Int64:
    return Int64(wrap_int64(_quotient(to_int(left), to_int(right))))


@NUMBERS.add("mod", "any, any", "int64")
def mod(left: Any, right: Any) -> Int64:
    dividend, divisor = to_int(left), to_int(right)
    return Int64(dividend - divisor * _quotient(dividend, divisor))


@NUMBERS.add("mul", "any, ...any", "int64")
def mul(value: Any, *factors: Any) -> Int64:
    product = to_int(value)
    for factor in factors:
        product = wrap_int64(product * to_int(factor))
    return Int64(product)


@NUMBERS.add("max biggest", "any, ...any", "int64")
def max_(value: Any, *others: Any) -> Int64:
    return Int64(max(map(to_int, (value, *others))))


@NUMBERS.add("min", "any, ...any", "int64")
def min_(value: Any, *others: Any) -> Int64:
    return Int64(min(map(to_int, (value, *others))))


@NUMBERS.add("randInt", "int, int", "int")
def rand_int(low: int, high: int) -> int:
    if high - low <= 0:
        raise GoError("invalid argument to Intn")
    return random.SystemRandom().randrange(low, high)


# Floats


def _extreme(left: float, right: float, largest: bool) -> float:
    """`math.Max` and `math.Min`: an infinity wins over NaN, NaN over the rest, and zeros have signs."""
    limit = math.inf if largest else -math.inf
    if limit in (left, right):
        return limit
    if math.isnan(left) or math.isnan(right):
        return math.nan
    if left == right == 0:
        negative = math.copysign(1, left) < 0
        return right if negative == largest else left
    return max(left, right) if largest else min(left, right)


@NUMBERS.add("maxf", "any, ...any", "float64")
def maxf(value: Any, *others: Any) -> float:
    result = to_float(value)
    for other in others:
        result = _extreme(result, to_float(other), largest=True)
    return result


@NUMBERS.add("minf", "any, ...any", "float64")
def minf(value: Any, *others: Any) -> float:
    result = to_float(value)
    for other in others:
        result = _extreme(result, to_float(other), largest=False)
    return result


def _whole(value: float, up: bool) -> float:
    if math.isnan(value) or math.isinf(value):
        return value
    return math.copysign(float(math.ceil(value) if up else math.floor(value)), value)


@NUMBERS.add("floor", "any", "float64")
def floor(value: Any) -> float:
    return _whole(to_float(value), up=False)


@NUMBERS.add("ceil", "any", "float64")
def ceil(value: Any) -> float:
    return _whole(to_float(value), up=True)


def _power_of_ten(places: int) -> float:
    """`math.Pow(10, places)` by Go's algorithm, whose last bit is not always that of the C library."""
    mantissa, exponent = 1.0, 0
    base, base_exponent = math.frexp(10.0)
    left = abs(places)
    if left >= 1 << 12:
        return 0.0 if places < 0 else math.inf
    while left:
        if left & 1:
            mantissa *= base
            exponent += base_exponent
        base *= base
        base_exponent <<= 1
        if base < 0.5:
            base += base
            base_exponent -= 1
        left >>= 1
    if places < 0:
        mantissa, exponent = 1 / mantissa, -exponent
    try:
        return math.ldexp(mantissa, exponent)
    except OverflowError:
        return math.inf


@NUMBERS.add("round", "any, int, ...float64", "float64")
def round_(value: Any, places: int, *options: float) -> float:
    threshold = options[0] if options else 0.5
    power = _power_of_ten(places)
    shifted = power * to_float(value)
    fraction = math.nan if math.isnan(shifted) or math.isinf(shifted) else math.modf(shifted)[0]
    rounded = _whole(shifted, up=fraction >= threshold)
    if power == 0:
        return math.nan if rounded == 0 or math.isnan(rounded) else math.copysign(math.inf, rounded)
    if math.isinf(power) and math.isinf(rounded):
        return math.nan
    return rounded / power


def _fraction(value: Any) -> Fraction:
    """The decimal that the float's shortest digits spell, as shopspring/decimal reads it."""
    number = to_float(value)
    if math.isnan(number) or math.isinf(number):
        raise GoError(f"Cannot create a Decimal from {numbers.format_float(number, 'g', -1)}")
    return Fraction(repr(number))


def _to_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


@NUMBERS.add("add1f", "any", "float64")
def add1f(value: Any) -> float:
    return _to_float(_fraction(value) + 1)


@NUMBERS.add("addf", "...any", "float64")
def addf(*values: Any) -> float:
    return _to_float(sum(map(_fraction, values), Fraction(0)))


@NUMBERS.add("subf", "any, ...any", "float64")
def subf(value: Any, *others: Any) -> float:
    result = _fraction(value)
    for other in others:
        result -= _fraction(other)
    return _to_float(result)


@NUMBERS.add("mulf", "any, ...any", "float64")
def mulf(value: Any, *others: Any) -> float:
    result = _fraction(value)
    for other in others:
        result *= _fraction(other)
    return _to_float(result)


@NUMBERS.add("divf", "any, ...any", "float64")
def divf(value: Any, *others: Any) -> float:
    """Each quotient is rounded to 16 decimals, halves away from zero."""
    result = _fraction(value)
    for other in others:
        divisor = _fraction(other)
        if divisor == 0:
            raise GoError("decimal division by 0")
        scaled = result / divisor * _DIVISION_DIGITS
        magnitude = math.floor(abs(scaled) + Fraction(1, 2))
        result = Fraction(-magnitude if scaled < 0 else magnitude, _DIVISION_DIGITS)
    return _to_float(result)


# Sequences


def _steps(start: int, stop: int, step: int) -> range:
    if (step >= 0) if stop < start else (step <= 0):
        return range(0)
    steps = range(start, stop, step)
    charge_size(len(steps))
    return steps


@NUMBERS.add("until", "int", "[]int")
def until(count: int) -> Slice:
    return Slice(_steps(0, count, -1 if count < 0 else 1), "[]int")


@NUMBERS.add("untilStep", "int, int, int", "[]int")
def until_step(start: int, stop: int, step: int) -> Slice:
    return Slice(_steps(start, stop, step), "[]int")


@NUMBERS.add("seq", "...int", "string")
def seq(*params: int) -> str:
    if not 1 <= len(params) <= 3:
        return ""
    start, end = (1, params[0]) if len(params) == 1 else (params[0], params[-1])
    direction = -1 if end < start else 1
    step = params[1] if len(params) == 3 else direction
    if len(params) == 3 and direction < 0 and step > 0:
        return ""
    return " ".join(map(str, _steps(start, end + direction, step)))
