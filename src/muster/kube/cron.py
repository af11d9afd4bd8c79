"""Cron schedules: five fields, a macro (`@daily`) or an interval (`@every 1h`), and their next time in a time zone.

Follows robfig/cron v3 as Kubernetes uses it, with its error messages. Day of month and day of week must both match if one is a
star, and either is sufficient if neither is. When clocks are set forward, times in the skipped hour do not occur; when they are set
back, the repeated hour counts twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from muster.machinery.golang.durations import parse_duration
from muster.machinery.golang.errors import GoError

_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_DAY_NAMES: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTH_NAMES: Final = ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DIGITS: Final = 18
_YEARS: Final = 5
"""The search limit in years; 31 February never occurs."""


class ScheduleError(ValueError):
    """An invalid schedule; the text is the API's error."""


@dataclass(frozen=True, slots=True)
class _Field:
    values: frozenset[int]
    star: bool


@dataclass(frozen=True, slots=True)
class Interval:
    """`@every`."""

    seconds: int

    def next(self, after: datetime, zone: tzinfo = UTC) -> datetime | None:
        return after.replace(microsecond=0) + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class Calendar:
    minutes: _Field
    hours: _Field
    days: _Field
    months: _Field
    weekdays: _Field

    def next(self, after: datetime, zone: tzinfo = UTC) -> datetime | None:
        """The first time after this one, in UTC; None if there is none within five years."""
        moment = (after + timedelta(seconds=1)).replace(microsecond=0).astimezone(UTC)
        last_year = moment.astimezone(zone).year + _YEARS
        while (local := moment.astimezone(zone)).year <= last_year:
            if local.month not in self.months.values:
                first = local.replace(day=1, hour=0, minute=0, second=0, fold=0)
                moment = (first + timedelta(days=32)).replace(day=1).astimezone(UTC)
            elif not self._is_day(local):
                moment = (local.replace(hour=0, minute=0, second=0, fold=0) + timedelta(days=1)).astimezone(UTC)
            elif local.hour not in self.hours.values:
                moment += timedelta(hours=1) - timedelta(minutes=local.minute, seconds=local.second)
            elif local.minute not in self.minutes.values:
                moment += timedelta(minutes=1) - timedelta(seconds=local.second)
            elif local.second:
                moment += timedelta(seconds=60 - local.second)
            else:
                return moment
        return None

    def _is_day(self, local: datetime) -> bool:
        matches = (local.day in self.days.values, local.isoweekday() % 7 in self.weekdays.values)
        return all(matches) if self.days.star or self.weekdays.star else any(matches)


Schedule = Calendar | Interval


def parse_schedule(text: str) -> Schedule:
    """Raises ScheduleError."""
    if text.startswith("@"):
        every = re.fullmatch(r"@every (\S+)", text)
        if every is not None:
            return _interval(text, every[1])
        if text not in _MACROS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
    fields = _MACROS.get(text, text).split()
    if len(fields) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    return Calendar(*(_field(field, *bounds) for field, bounds in zip(fields, _RANGES, strict=True)))


def _interval(text: str, duration: str) -> Interval:
    try:
        seconds = parse_duration(duration) // 1_000_000_000
    except GoError as problem:
        raise ScheduleError(f"failed to parse duration {text}: {problem}") from None
    return Interval(max(seconds, 1))


def _field(text: str, low: int, high: int) -> _Field:
    parts = [_part(part, low, high) for part in text.split(",") if part]
    return _Field(frozenset(value for part in parts for value in part.values), any(part.star for part in parts))


def _part(part: str, low: int, high: int) -> _Field:
    span, stepped, written = part.partition("/")
    step = _number(written, 0) if stepped else 1
    if span in ("*", "?"):
        start, end = low, high
    else:
        first, _, last = span.partition("-")
        start, end = _number(first, high), _number(last or first, high)
        if stepped and not last:
            end = high
    if start < low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise ScheduleError(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if not step:
        raise ScheduleError(f"step of range should be a positive number: {part}")
    return _Field(frozenset(range(start, end + 1, step)), span in ("*", "?") and step == 1)


def _number(text: str, high: int) -> int:
    names = {12: _MONTH_NAMES, 6: _DAY_NAMES}.get(high, ())
    if text and text.lower() in names:
        return names.index(text.lower())
    if not (text.isascii() and text.isdigit()):
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if len(text) > _DIGITS:
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    return int(text)
