"""Timestamps and durations: Go's text forms, calendar fields, ranges.

Both are counted in nanoseconds, because Go's are and Python's datetime stops at microseconds; the calendar work is
left to datetime. Error texts are those of Go's `time` package, which users see through CEL.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

from muster.cel.errors import EvaluationError
from muster.cel.values import INT_MAX, INT_MIN, Duration, Timestamp
from muster.machinery.golang import durations
from muster.machinery.golang.durations import SECOND
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.numbers import format_float
from muster.machinery.golang.timestamps import EPOCH, parse_unix_nanoseconds

MIN_SECONDS, MAX_SECONDS = -62135596800, 253402300799


def parse_timestamp(text: str) -> Timestamp:
    try:
        return Timestamp(parse_unix_nanoseconds(text))
    except GoError as error:
        raise EvaluationError(str(error)) from None


def parse_duration(text: str) -> Duration:
    try:
        return Duration(durations.parse_duration(text))
    except GoError as error:
        raise EvaluationError(str(error)) from None


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
        return (EPOCH + timedelta(seconds=value.ns // SECOND)).astimezone(zone)
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
    return format_float((whole + fraction / 1e9) * (-1 if value.ns < 0 else 1), "f", -1) + "s"


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
