"""Durations in nanoseconds. Follows Go's `time.ParseDuration` and `time.Duration`; metav1.Duration is the same on the wire.

`human_duration` is kubectl's output format for an AGE, which is never parsed (apimachinery's `duration.HumanDuration`).
"""

from __future__ import annotations

import re
from typing import Final

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.numbers import wrap_int64
from muster.machinery.golang.text import encode

SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
_UNITS: Final = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000, "s": SECOND, "m": MINUTE, "h": HOUR}
_LIMIT: Final = 1 << 63
_TERM: Final = re.compile(r"([0-9]*)(\.?)([0-9]*)([^0-9.]*)")
_EXACT_DIGITS: Final = 18
_A_MINUTE, _AN_HOUR, _A_DAY, _A_YEAR = 60, 3600, 86400, 365 * 86400
"""Seconds."""


def quote(text: str) -> str:
    """The `time` package's own quoting, which escapes every byte that is not printable ASCII."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    out = []
    for char in text:
        if char >= "\x80" or char < " ":
            out.append("".join(f"\\x{byte:02x}" for byte in encode(char)))
        else:
            out.append("\\" + char if char in '"\\' else char)
    return '"' + "".join(out) + '"'


def _fraction(digits: str) -> tuple[int, float]:
    """The digits after the point as a number and its scale; precision beyond 63 bits is dropped, not an error."""
    if len(digits) <= _EXACT_DIGITS:
        return int(digits), float(10 ** len(digits))
    value, scale = 0, 1.0
    for digit in digits:
        if value > (_LIMIT - 1) // 10 or value * 10 + int(digit) > _LIMIT:
            break
        value = value * 10 + int(digit)
        scale *= 10
    return value, scale


def _invalid(text: str, reason: str = "invalid duration") -> GoError:
    return GoError(f"time: {reason} {quote(text)}")


def parse_duration(text: str) -> int:
    """`time.ParseDuration`, in nanoseconds; raises GoError."""
    at = 1 if text[:1] in ("-", "+") else 0
    if text[at:] == "0":
        return 0
    if len(text) == at:
        raise _invalid(text)
    total, limit = 0, _LIMIT if text[0] == "-" else _LIMIT - 1
    while at < len(text):
        term = _TERM.match(text, at)
        assert term is not None  # all parts are optional
        whole, _, fraction, unit = term.groups()
        if not whole and not fraction:
            raise _invalid(text)
        whole = whole.lstrip("0") or "0"
        if len(whole) > 19 or int(whole) > _LIMIT:
            raise _invalid(text)
        if not unit:
            raise _invalid(text, "missing unit in duration")
        scale = _UNITS.get(unit)
        if scale is None:
            raise _invalid(text, f"unknown unit {quote(unit)} in duration")
        value = int(whole) * scale
        if fraction:
            part, digits = _fraction(fraction)
            value += int(float(part) * (float(scale) / digits))
        total += value
        if total > _LIMIT:
            raise _invalid(text)
        at = term.end()
    if total > limit:
        raise _invalid(text)
    return -total if text[0] == "-" else total


def _with_fraction(value: int, digits: int) -> str:
    whole, rest = divmod(value, 10**digits)
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)


def format_duration(nanoseconds: int) -> str:
    """`Duration.String`."""
    value = abs(nanoseconds)
    sign = "-" if nanoseconds < 0 else ""
    if value == 0:
        return "0s"
    if value < SECOND:
        digits, unit = (0, "ns") if value < 1000 else (3, "µs") if value < 1_000_000 else (6, "ms")
        return f"{sign}{_with_fraction(value, digits)}{unit}"
    minutes, rest = divmod(value, MINUTE)
    text = f"{_with_fraction(rest, 9)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def round_duration(value: int, unit: int) -> int:
    """`Duration.Round`: half away from zero."""
    if unit <= 0:
        return value
    rest = abs(value) % unit
    down = abs(value) - rest
    rounded = down if rest * 2 < unit else down + unit
    return wrap_int64(-rounded if value < 0 else rounded)


def human_duration(seconds: float) -> str:
    """Two or three significant figures, as kubectl prints an AGE. A small clock skew counts as zero."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _A_MINUTE:
        return f"{whole}s"
    if whole < 10 * _A_MINUTE:
        return _two(whole, _A_MINUTE, "m", 1, "s")
    if whole < 3 * _AN_HOUR:
        return f"{whole // _A_MINUTE}m"
    if whole < 8 * _AN_HOUR:
        return _two(whole, _AN_HOUR, "h", _A_MINUTE, "m")
    if whole < 2 * _A_DAY:
        return f"{whole // _AN_HOUR}h"
    if whole < 8 * _A_DAY:
        return _two(whole, _A_DAY, "d", _AN_HOUR, "h")
    if whole < 2 * _A_YEAR:
        return f"{whole // _A_DAY}d"
    if whole < 8 * _A_YEAR:
        return _two(whole, _A_YEAR, "y", _A_DAY, "d")
    return f"{whole // _A_YEAR}y"


def _two(seconds: int, unit: int, name: str, smaller: int, smaller_name: str) -> str:
    rest = seconds % unit // smaller
    return f"{seconds // unit}{name}{rest}{smaller_name}" if rest else f"{seconds // unit}{name}"
