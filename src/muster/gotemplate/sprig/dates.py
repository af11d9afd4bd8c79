"""sprig's functions on dates and durations."""

from __future__ import annotations

from typing import Any

from muster.gotemplate.golang import timeparse, zones
from muster.gotemplate.golang.time import Time
from muster.gotemplate.signature import FuncTable
from muster.gotemplate.values import Int32, Int64
from muster.machinery.golang import durations, numbers
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.numbers import wrap_int64

DATES = FuncTable()
_HTML = "2006-01-02"
_DAY = 24 * durations.HOUR
_ROUNDED_UNITS = (
    (365 * _DAY, "y"),
    (30 * _DAY, "mo"),
    (_DAY, "d"),
    (durations.HOUR, "h"),
    (durations.MINUTE, "m"),
    (durations.SECOND, "s"),
)


def _moment(value: Any) -> Time:
    """A time as it is, an integer as seconds since 1970, and now for anything else."""
    if isinstance(value, Time):
        return value
    if value.__class__ in (int, Int64, Int32):
        return Time(int(value), 0, zones.LOCAL_ZONE)
    return Time.now()


@DATES.add("now", "", "time")
def now() -> Time:
    return Time.now()


@DATES.add("dateInZone date_in_zone", "string, any, string", "string")
def date_in_zone(layout: str, value: Any, zone: str) -> str:
    return _moment(value).in_location(zones.load(zone) or zones.UTC_ZONE).format(layout)


@DATES.add("date", "string, any", "string")
def date(layout: str, value: Any) -> str:
    return date_in_zone(layout, value, "Local")


@DATES.add("htmlDate", "any", "string")
def html_date(value: Any) -> str:
    return date_in_zone(_HTML, value, "Local")


@DATES.add("htmlDateInZone", "any, string", "string")
def html_date_in_zone(value: Any, zone: str) -> str:
    return date_in_zone(_HTML, value, zone)


@DATES.add("dateModify date_modify", "string, time", "time")
def date_modify(change: str, moment: Time) -> Time:
    try:
        return moment.add(durations.parse_duration(change))
    except GoError:
        return moment


@DATES.add("mustDateModify must_date_modify", "string, time", "time")
def must_date_modify(change: str, moment: Time) -> Time:
    return moment.add(durations.parse_duration(change))


@DATES.add("toDate", "string, string", "time")
def to_date(layout: str, text: str) -> Time:
    try:
        return timeparse.parse(layout, text, zones.LOCAL_ZONE)
    except GoError:
        return Time()


@DATES.add("mustToDate", "string, string", "time")
def must_to_date(layout: str, text: str) -> Time:
    return timeparse.parse(layout, text, zones.LOCAL_ZONE)


@DATES.add("unixEpoch", "time", "string")
def unix_epoch(moment: Time) -> str:
    return str(moment.unix)


@DATES.add("ago", "any", "string")
def ago(value: Any) -> str:
    moment = Time.now() if value.__class__ is Int32 else _moment(value)
    return durations.format_duration(durations.round_duration(Time.now().since(moment), durations.SECOND))


@DATES.add("duration", "any", "string")
def duration(seconds: Any) -> str:
    count = int(seconds) if isinstance(seconds, Int64) else 0
    if isinstance(seconds, str):
        try:
            count = numbers.parse_int(seconds)
        except numbers.NumError as error:
            count = error.value
    return durations.format_duration(wrap_int64(count * durations.SECOND))


@DATES.add("durationRound", "any", "string")
def duration_round(value: Any) -> str:
    span = 0
    if isinstance(value, str):
        try:
            span = durations.parse_duration(value)
        except GoError:
            span = 0
    elif isinstance(value, Int64):
        span = int(value)
    elif isinstance(value, Time):
        span = Time.now().since(value)
    for unit, name in _ROUNDED_UNITS:
        if abs(span) > unit:
            return f"{abs(span) // unit}{name}"
    return "0s"
