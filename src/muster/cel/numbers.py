"""Numbers as Go prints and converts them: shortest float text, 64-bit ranges, conversions between the three kinds."""

from __future__ import annotations

import math
import re
from typing import Any

from muster.cel.errors import EvaluationError
from muster.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_GO_INT = re.compile(r"[+-]?[0-9]+\Z")
_GO_UINT = re.compile(r"[0-9]+\Z")
_GO_FLOAT = re.compile(r"[+-]?([0-9]+(_[0-9]+)*(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_GO_HEX_FLOAT = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+(\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]{1,5}\Z")
_GO_SPECIAL = re.compile(r"[+-]?(inf|infinity)\Z|nan\Z", re.I)


def format_double(value: float, threshold: int = 6) -> str:
    """Go's %g with the shortest digits; exponents from 10^threshold on (`strconv` uses 21 for plain %v)."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    prefix, text, power = shortest(value)
    if power < -4 or power >= threshold:
        mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
        return f"{prefix}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return prefix + fixed(text, power)


def shortest(value: float) -> tuple[str, str, int]:
    """Sign, digits and power of ten of the shortest text that reads back as the number: d.ddd × 10^power."""
    prefix, mantissa = ("-", repr(value)[1:]) if value < 0 else ("", repr(value))
    mantissa, _, exponent = mantissa.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    return prefix, digits.rstrip("0") or "0", int(exponent or "0") + len(whole) - 1 - leading


def fixed(digits: str, power: int) -> str:
    """Digits d.ddd × 10^power written without an exponent."""
    if power < 0:
        return "0." + "0" * (-power - 1) + digits
    if len(digits) <= power + 1:
        return digits + "0" * (power + 1 - len(digits))
    return f"{digits[: power + 1]}.{digits[power + 1 :]}"


def format_fixed(value: float) -> str:
    """Go's %f with the shortest digits."""
    if value == 0 or not math.isfinite(value):
        return format_double(value)
    prefix, text, power = shortest(value)
    return prefix + fixed(text, power)


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
    if not _GO_INT.match(text):
        raise EvaluationError(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    value = int(text) if len(text) < 4000 else INT_MAX + 1
    if not INT_MIN <= value <= INT_MAX:
        raise EvaluationError(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return value


def string_to_uint(text: str) -> Uint:
    if not _GO_UINT.match(text):
        raise EvaluationError(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")
    value = int(text) if len(text) < 4000 else UINT_MAX + 1
    if value > UINT_MAX:
        raise EvaluationError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return Uint(value)


def string_to_double(text: str) -> float:
    if _GO_SPECIAL.match(text):
        return float(text)
    if _GO_HEX_FLOAT.match(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            return _finite(text, math.inf)
    if not _GO_FLOAT.match(text):
        raise EvaluationError(f"strconv.ParseFloat: parsing {quote(text)}: invalid syntax")
    return _finite(text, float(text))


def _finite(text: str, value: float) -> float:
    if math.isinf(value):
        raise EvaluationError(f"strconv.ParseFloat: parsing {quote(text)}: value out of range")
    return value


_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
            "\\": "\\\\", '"': '\\"'}  # fmt: skip


def quote(text: str) -> str:
    """Go's %q."""
    out = []
    for char in text:
        escaped = _ESCAPES.get(char)
        if escaped is not None:
            out.append(escaped)
        elif char.isprintable():
            out.append(char)
        elif ord(char) < 0x80:
            out.append(f"\\x{ord(char):02x}")
        else:
            out.append(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")
    return '"' + "".join(out) + '"'


def display(value: Any) -> str:
    """Go's %v of a scalar, as error messages show keys and indices."""
    kind = value.__class__
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return format_double(value, 21)
    return str(value)
