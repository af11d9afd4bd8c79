"""Numbers as text. Follows Go's `strconv`.

Digits come from Python's own correctly rounded conversions (`repr` is the shortest round-trip form, `%.*e` is exact);
this module only lays them out by Go's rules. Parsing accepts Go's syntax (base prefixes, underscores with base 0,
hexadecimal floats) and nothing that only Python accepts.
"""

from __future__ import annotations

import math
import re
import struct
from functools import lru_cache

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.quoting import INVALID_SYNTAX, quote

OUT_OF_RANGE = "value out of range"
_BASE_PREFIX = re.compile("0[bBoOxX]")


def _underscores_ok(text: str) -> bool:
    """Underscores must stand between digits; one may follow a base prefix."""
    text = text[1:] if text[:1] in ("+", "-") else text
    before, digits = "", "0123456789"
    if _BASE_PREFIX.match(text):
        before = "digit"
        digits += "abcdefABCDEF" if text[1] in "xX" else ""
        text = text[2:]
    for char in text:
        if char in digits:
            before = "digit"
        elif char == "_":
            if before != "digit":
                return False
            before = "_"
        else:
            if before == "_":
                return False
            before = ""
    return before != "_"


_DIGITS = {base: re.compile(digits) for base, digits in ((2, "[01]+"), (8, "[0-7]+"), (10, "[0-9]+"), (16, "[0-9a-fA-F]+"))}
MAX_UINT64 = (1 << 64) - 1


def _parse_digits(text: str, base: int) -> int:
    """The magnitude of unsigned digits; raises GoError(INVALID_SYNTAX)."""
    if base == 0:
        if "_" in text:
            if not _underscores_ok(text):
                raise GoError(INVALID_SYNTAX)
            text = text.replace("_", "")
        base = 10
        if text[:1] == "0":
            prefix = text[1:2].lower()
            if prefix in ("x", "b", "o") and prefix:
                base, text = {"x": 16, "b": 2, "o": 8}[prefix], text[2:]
            elif len(text) > 1:
                base, text = 8, text[1:]
    digits = _DIGITS[base].match(text)
    significant = digits[0].lstrip("0") if digits else ""
    # Python refuses to convert thousands of digits; more than 64 are too many in every base.
    value = int(significant or "0", base) if len(significant) <= 64 else MAX_UINT64 + 1
    # Go reads digit by digit: a number that is too large is noticed before what follows it.
    if value <= MAX_UINT64 and (not digits or digits.end() < len(text)):
        raise GoError(INVALID_SYNTAX)
    return value


class NumError(GoError):
    """`strconv.NumError`; `value` is the nearest representable number when the text was out of range."""

    def __init__(self, func: str, text: str, reason: str, value: int = 0) -> None:
        super().__init__(f"strconv.{func}: parsing {quote(text)}: {reason}")
        self.reason = reason
        self.value = value


def parse_uint(text: str, base: int = 10, func: str = "ParseUint") -> int:
    try:
        value = _parse_digits(text, base)
    except GoError:
        raise NumError(func, text, INVALID_SYNTAX) from None
    if value > MAX_UINT64:
        raise NumError(func, text, OUT_OF_RANGE, MAX_UINT64)
    return value


def parse_int(text: str, base: int = 10, func: str = "ParseInt") -> int:
    negative = text[:1] == "-"
    try:
        value = _parse_digits(text[1:] if text[:1] in ("+", "-") else text, base)
    except GoError:
        raise NumError(func, text, INVALID_SYNTAX) from None
    value = -value if negative else value
    if value > 0x7FFFFFFFFFFFFFFF:
        raise NumError(func, text, OUT_OF_RANGE, 0x7FFFFFFFFFFFFFFF)
    if value < -0x8000000000000000:
        raise NumError(func, text, OUT_OF_RANGE, -0x8000000000000000)
    return value


def atoi(text: str) -> int:
    """`strconv.Atoi`."""
    return parse_int(text, 10, "Atoi")


_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_HEX_FLOAT = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]*)\.?([0-9a-fA-F]*)[pP]([+-]?[0-9]+)\Z")
_SPECIAL = re.compile(r"([+-]?)(?:(inf|infinity)|nan)\Z", re.IGNORECASE)


def parse_float(text: str) -> float:
    """`strconv.ParseFloat(text, 64)`."""
    plain = text
    if "_" in text:
        if not _underscores_ok(text):
            raise NumError("ParseFloat", text, INVALID_SYNTAX)
        plain = text.replace("_", "")
    if _FLOAT.match(plain):
        value = float(plain)
        if math.isinf(value):
            raise NumError("ParseFloat", text, OUT_OF_RANGE)
        return value
    special = _SPECIAL.match(plain)
    if special:
        if not special[2]:
            if special[1]:
                raise NumError("ParseFloat", text, INVALID_SYNTAX)
            return math.nan
        return -math.inf if special[1] == "-" else math.inf
    hexadecimal = _HEX_FLOAT.match(plain)
    if hexadecimal and (hexadecimal[2] or hexadecimal[3]):
        try:
            return float.fromhex(plain)
        except OverflowError:
            raise NumError("ParseFloat", text, OUT_OF_RANGE) from None
    raise NumError("ParseFloat", text, INVALID_SYNTAX)


def parse_bool(text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise GoError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")


def _shortest32(value: float) -> str:
    packed = struct.pack("f", value)
    for digits in range(9):
        text = f"{value:.{digits}e}"
        if struct.pack("f", float(text)) == packed:
            return text
    return f"{value:.9e}"


@lru_cache(maxsize=4096)
def _shortest(value: float, bits: int) -> tuple[str, int]:
    """The shortest digits that give the (non-negative, finite) value back, and the decimal exponent of the first."""
    text = _shortest32(value) if bits == 32 else repr(value)
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0)
    lead = len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    if not digits:
        return "0", 0
    return digits, point - lead - 1


def _exponent_form(sign: str, digits: str, exponent: int, letter: str) -> str:
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}{letter}{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _fixed_form(sign: str, digits: str, exponent: int) -> str:
    if exponent < 0:
        return sign + "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return sign + digits + "0" * (exponent + 1 - len(digits))
    return sign + digits[: exponent + 1] + "." + digits[exponent + 1 :]


def _hex_form(value: float, letter: str, precision: int) -> str:
    sign = "-" if math.copysign(1, value) < 0 else ""
    fraction, exponent = math.frexp(abs(value))
    if fraction == 0:
        bits, exponent = 0, 0
    else:
        bits, exponent = int(fraction * (1 << 53)), exponent - 1
    # 53 bits: one before the point and 52 (13 hexadecimal digits) after it.
    if 0 <= precision < 13:
        drop = 4 * (13 - precision)
        half, rest = 1 << (drop - 1), bits & ((1 << drop) - 1)
        bits >>= drop
        if rest > half or (rest == half and bits & 1):
            bits += 1
        bits <<= drop
        if bits >> 53:
            bits >>= 1
            exponent += 1
    digits = f"{bits & ((1 << 52) - 1):013x}"
    digits = digits.rstrip("0") if precision < 0 else digits.ljust(precision, "0")[:precision]
    text = f"{sign}0x{bits >> 52:x}{'.' + digits if digits else ''}p{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return text.upper() if letter == "X" else text


def format_float(value: float, letter: str, precision: int, bits: int = 64) -> str:
    """`strconv.FormatFloat`; precision -1 asks for the shortest form."""
    if value != value:
        return "NaN"
    if value in (math.inf, -math.inf):
        return "+Inf" if value > 0 else "-Inf"
    if letter in "xX":
        return _hex_form(value, letter, precision)
    if letter == "b":
        fraction, exponent = math.frexp(value)
        size, least = (24, -149) if bits == 32 else (53, -1074)
        shift = max(exponent - size, least)
        return f"{int(math.ldexp(fraction, exponent - shift))}p{shift:+d}" if value else f"0p{least}"
    sign = "-" if math.copysign(1, value) < 0 else ""
    magnitude = abs(value)
    if precision >= 0:
        if letter in "eE":
            text = f"{magnitude:.{precision}e}"
            return sign + (text.upper() if letter == "E" else text)
        if letter in "fF":
            return sign + f"{magnitude:.{precision}f}"
        text = f"{magnitude:.{precision}g}"
        return sign + (text.upper() if letter == "G" else text)
    digits, exponent = _shortest(magnitude, bits)
    if letter in "eE":
        return _exponent_form(sign, digits, exponent, letter)
    if letter in "fF" or -4 <= exponent < 6:
        return _fixed_form(sign, digits, exponent)
    return _exponent_form(sign, digits, exponent, "E" if letter == "G" else "e")


def format_shortest(value: float, threshold: int = 6) -> str:
    """The fewest digits that tell the number apart, with an exponent below 1e-4 and from 10^threshold on; `%v` has 6."""
    if threshold == 6 or not math.isfinite(value):
        return format_float(value, "g", -1)
    _, exponent = _shortest(abs(value), 64)
    form = "f" if -4 <= exponent < threshold else "e"
    return format_float(value, form, -1)


def wrap_int64(value: int) -> int:
    """Two's complement of 64 bits, as Go's integer arithmetic does."""
    if -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return value
    return ((value + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000
