"""Timestamps and durations: Go's text forms, calendar fields, ranges.

Both are counted in nanoseconds, because Go's are and Python's datetime stops at microseconds; the calendar work is
left to datetime. Error texts are those of Go's `time` package, which users see through CEL.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

from muster.cel.errors import EvaluationError
from muster.cel.numbers import format_fixed, quote
from muster.cel.values import INT_MAX, INT_MIN, Duration, Timestamp

SECOND = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIN_SECONDS, MAX_SECONDS = -62135596800, 253402300799
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_FIELDS = (
    (re.compile(r"[0-9]{4}"), "2006"),
    (re.compile(r"-"), "-"),
    (re.compile(r"[0-9]{2}"), "01"),
    (re.compile(r"-"), "-"),
    (re.compile(r"[0-9]{2}"), "02"),
    (re.compile(r"T"), "T"),
    (re.compile(r"[0-9]{2}"), "15"),
    (re.compile(r":"), ":"),
    (re.compile(r"[0-9]{2}"), "04"),
    (re.compile(r":"), ":"),
    (re.compile(r"[0-9]{2}"), "05"),
    (re.compile(r"(?:[.,][0-9]+)?"), ""),
    (re.compile(r"Z|[+-][0-9]{2}:[0-9]{2}"), "Z07:00"),
)
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})\Z"
)


def parse_timestamp(text: str) -> Timestamp:
    match = _RFC3339.match(text)
    if match is None:
        raise EvaluationError(_explain(text))
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        offset = timedelta(0)
        if zone != "Z":
            hours, minutes = int(zone[1:3]), int(zone[4:6])
            if hours > 24 or minutes > 60:
                raise EvaluationError(f"parsing time {quote(text)}: time zone offset hour out of range")
            offset = timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC) - offset
        seconds = (moment - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise EvaluationError(f"parsing time {quote(text)}: {_out_of_range(match)} out of range") from None
    nanos = int((fraction or "0")[:9].ljust(9, "0"))
    return Timestamp(seconds * SECOND + nanos)


def _out_of_range(match: re.Match[str]) -> str:
    limits = (("month", 2, 1, 12), ("hour", 4, 0, 23), ("minute", 5, 0, 59), ("second", 6, 0, 59))
    for name, group, low, high in limits:
        if not low <= int(match.group(group)) <= high:
            return name
    return "day"


def _explain(text: str) -> str:
    position = 0
    for pattern, element in _FIELDS:
        match = pattern.match(text, position)
        if match is None:
            return f'parsing time {quote(text)} as "{_LAYOUT}": cannot parse {quote(text[position:])} as {quote(element)}'
        position = match.end()
    return f"parsing time {quote(text)}: extra text: {quote(text[position:])}"


def checked_timestamp(ns: int) -> Timestamp:
    if not MIN_SECONDS <= ns // SECOND <= MAX_SECONDS:
        raise EvaluationError("timestamp overflow")
    return Timestamp(ns)


def checked_duration(ns: int) -> Duration:
    if not INT_MIN <= ns <= INT_MAX:
        raise EvaluationError("integer overflow")
    return Duration(ns)


def moment(value: Timestamp, zone: tzinfo = UTC) -> datetime:
    """The calendar date and time, to the second."""
    try:
        return (_EPOCH + timedelta(seconds=value.ns // SECOND)).astimezone(zone)
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None


def format_timestamp(value: Timestamp) -> str:
    """RFC 3339 with the digits of the fraction that matter."""
    fraction = value.ns % SECOND
    text = moment(value).strftime("-%m-%dT%H:%M:%S")
    digits = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{moment(value).year:04d}{text}{digits}Z"


def format_duration(value: Duration) -> str:
    whole, fraction = divmod(abs(value.ns), SECOND)
    return format_fixed((whole + fraction / 1e9) * (-1 if value.ns < 0 else 1)) + "s"


_OFFSET = re.compile(r"([+-]?)([0-9]{1,2}):([0-9]{2})\Z")


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """A time zone by IANA name or as ±hh:mm."""
    match = _OFFSET.match(name)
    if match is not None:
        sign, hours, minutes = match.groups()
        delta = timedelta(hours=int(hours), minutes=int(minutes))
        if delta >= timedelta(hours=24):
            raise EvaluationError(f"unknown time zone {name}")
        return timezone(-delta if sign == "-" else delta)
    if name in ("", "UTC"):
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None


_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": SECOND, "m": 60 * SECOND,
          "h": 3600 * SECOND}  # fmt: skip
_TERM = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)")


def parse_duration(text: str) -> Duration:
    """Go's time.ParseDuration."""
    invalid = EvaluationError(f"time: invalid duration {quote(text)}")
    rest = text
    negative = rest.startswith("-")
    if rest[:1] in ("+", "-"):
        rest = rest[1:]
    if rest == "0":
        return Duration(0)
    if not rest:
        raise invalid
    total = 0
    while rest:
        match = _TERM.match(rest)
        whole, fraction, unit = match.groups() if match else ("", None, "")
        if not whole and (fraction is None or fraction == "."):
            raise invalid
        if not unit:
            raise EvaluationError(f"time: missing unit in duration {quote(text)}")
        scale = _UNITS.get(unit)
        if scale is None:
            raise EvaluationError(f"time: unknown unit {quote(unit)} in duration {quote(text)}")
        if len(whole) > 19:
            raise invalid
        total += int(whole or "0") * scale
        digits = (fraction or ".")[1:]
        if digits:
            total += int(digits[:18]) * scale // 10 ** len(digits[:18])
        if total > INT_MAX + (1 if negative else 0):
            raise invalid
        rest = rest[match.end() :] if match else ""
    return Duration(-total if negative else total)
