"""Go's `time.Time`: an instant to the nanosecond in a location, with Go's calendar, printing and methods.

The calendar is computed on integers (proleptic Gregorian, any year), for Go's times reach far beyond `datetime`.
Methods that templates may call are in `Time.go_methods`.
"""

from __future__ import annotations

import time as system_time
from typing import Any, ClassVar

from muster.gotemplate.golang import layout
from muster.gotemplate.golang.zones import LOCAL_ZONE, UTC_ZONE, Location
from muster.gotemplate.signature import Func
from muster.gotemplate.values import Int64
from muster.machinery.golang import durations

_PROCESS_START = system_time.monotonic_ns()
_DAY = 86400
ZERO_UNIX = -62135596800
"""January 1, year 1: Go's zero time."""


class Duration(int):
    go_type = "time.Duration"
    go_kind = "int64"
    go_methods: ClassVar[dict[str, Func]] = {}

    def go_string(self) -> str:
        return durations.format_duration(int(self))


class Month(int):
    go_type = "time.Month"
    go_kind = "int"
    go_methods: ClassVar[dict[str, Func]] = {}

    def go_string(self) -> str:
        return layout.MONTHS[self - 1] if 1 <= self <= 12 else f"%!Month({int(self)})"


class Weekday(int):
    go_type = "time.Weekday"
    go_kind = "int"
    go_methods: ClassVar[dict[str, Func]] = {}

    def go_string(self) -> str:
        return layout.DAYS[self] if 0 <= self <= 6 else f"%!Weekday({int(self)})"


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01; months beyond 12 and days beyond the month's end carry over."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    year -= month <= 2
    era, of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year + day - 1 - 719468


def civil_from_days(days: int) -> tuple[int, int, int]:
    era, of_era = divmod(days + 719468, 146097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    day_of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in(month: int, year: int) -> int:
    return 29 if month == 2 and is_leap(year) else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


class Time:
    __slots__ = ("location", "monotonic", "nanosecond", "unix")
    go_type = "time.Time"
    go_kind = "struct"
    go_methods: ClassVar[dict[str, Func]] = {}

    def __init__(
        self, unix: int = ZERO_UNIX, nanosecond: int = 0, location: Location = UTC_ZONE, monotonic: int | None = None
    ) -> None:
        self.unix = unix
        self.nanosecond = nanosecond
        self.location = location
        self.monotonic = monotonic
        """Nanoseconds since the process started, if this is a reading of the clock; Go prints it."""

    @classmethod
    def now(cls) -> Time:
        wall = system_time.time_ns()
        monotonic = system_time.monotonic_ns() - _PROCESS_START
        return cls(wall // durations.SECOND, wall % durations.SECOND, LOCAL_ZONE, monotonic)

    @classmethod
    def date(cls, year: int, month: int, day: int, seconds: int, nanosecond: int, location: Location) -> Time:
        """The instant at which clocks in the location show this time (`seconds` since midnight)."""
        wall = days_from_civil(year, month, day) * _DAY + seconds
        # As Go does: guess with the offset at the wall time read as UTC, then correct once.
        _, offset = location.at(wall)
        if offset:
            _, corrected = location.at(wall - offset)
            offset = corrected if corrected != offset else offset
        return cls(wall - offset, nanosecond, location)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and (self.unix, self.nanosecond, self.location) == (
            other.unix, other.nanosecond, other.location,
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.unix, self.nanosecond))

    # The calendar

    def _wall(self) -> int:
        return self.unix + self.location.at(self.unix)[1]

    def civil(self) -> tuple[int, int, int]:
        return civil_from_days(self._wall() // _DAY)

    def clock(self) -> tuple[int, int, int]:
        seconds = self._wall() % _DAY
        return seconds // 3600, seconds // 60 % 60, seconds % 60

    def weekday(self) -> Weekday:
        return Weekday((self._wall() // _DAY + 4) % 7)

    def year_day(self) -> int:
        return self._wall() // _DAY - days_from_civil(self.civil()[0], 1, 1) + 1

    def in_location(self, location: Location) -> Time:
        return Time(self.unix, self.nanosecond, location, self.monotonic)

    def add(self, nanoseconds: int) -> Time:
        seconds, nanosecond = divmod(self.nanosecond + nanoseconds, durations.SECOND)
        monotonic = None if self.monotonic is None else self.monotonic + nanoseconds
        return Time(self.unix + seconds, nanosecond, self.location, monotonic)

    def add_date(self, years: int, months: int, days: int) -> Time:
        year, month, day = self.civil()
        seconds = self._wall() % _DAY
        return Time.date(year + years, month + months, day + days, seconds, self.nanosecond, self.location)

    def since(self, other: Time) -> int:
        """Nanoseconds from the other instant to this one, within the range of a Duration."""
        span = (self.unix - other.unix) * durations.SECOND + self.nanosecond - other.nanosecond
        return min(max(span, -(1 << 63)), (1 << 63) - 1)

    # Printing

    def format(self, layout_text: str) -> str:
        return "".join(prefix + (self._element(element) if element.kind else "") for prefix, element in layout.split(layout_text))

    def go_string(self) -> str:
        text = self.format("2006-01-02 15:04:05.999999999 -0700 MST")
        if self.monotonic is None:
            return text
        sign = "-" if self.monotonic < 0 else "+"
        seconds, rest = divmod(abs(self.monotonic), durations.SECOND)
        return f"{text} m={sign}{seconds}.{rest:09d}"

    def go_syntax(self) -> str:
        """The time as `%#v` prints it."""
        year, month, day = self.civil()
        hour, minute, second = self.clock()
        zone = f"time.Location({durations.quote(self.location.name)})"
        if self.location is UTC_ZONE or self.location is LOCAL_ZONE:
            zone = f"time.{self.location.name}"
        month_name = layout.MONTHS[month - 1]
        return f"time.Date({year}, time.{month_name}, {day}, {hour}, {minute}, {second}, {self.nanosecond}, {zone})"

    def _element(self, element: layout.Element) -> str:
        kind = element.kind
        if "offset" in kind:
            return self._offset(kind)
        if kind.startswith("fraction"):
            return self._fraction(element)
        if kind == "zone":
            name, offset = self.location.at(self.unix)
            return name or _signed_offset(offset, "")
        year, month, day = self.civil()
        hour, minute, second = self.clock()
        hour12 = hour % 12 or 12
        year_day = self.year_day()
        texts: dict[str, str] = {
            "year": f"{abs(year) % 100:02d}", "long-year": f"{'-' if year < 0 else ''}{abs(year):04d}",
            "month": layout.MONTHS[month - 1][:3], "long-month": layout.MONTHS[month - 1],
            "num-month": str(month), "zero-month": f"{month:02d}",
            "weekday": layout.DAYS[self.weekday()][:3], "long-weekday": layout.DAYS[self.weekday()],
            "day": str(day), "under-day": f"{day:2d}", "zero-day": f"{day:02d}",
            "under-yearday": f"{year_day:3d}", "zero-yearday": f"{year_day:03d}",
            "hour": f"{hour:02d}", "hour12": str(hour12), "zero-hour12": f"{hour12:02d}",
            "minute": str(minute), "zero-minute": f"{minute:02d}",
            "second": str(second), "zero-second": f"{second:02d}",
            "PM": "PM" if hour >= 12 else "AM", "pm": "pm" if hour >= 12 else "am",
        }  # fmt: skip
        return texts[kind]

    def _offset(self, kind: str) -> str:
        _, offset = self.location.at(self.unix)
        if kind.startswith("Z") and offset == 0:
            return "Z"
        colon = ":" if "colon" in kind else ""
        text = _signed_offset(offset, colon)
        if kind.endswith("short"):
            text = text[:3]
        if kind.endswith("seconds"):
            text += f"{colon}{abs(offset) % 60:02d}"
        return text

    def _fraction(self, element: layout.Element) -> str:
        trim = element.kind == "fraction9"
        if trim and not self.nanosecond:
            return ""
        digits = f"{self.nanosecond:09d}"[: element.digits]
        if not trim:
            digits = digits.ljust(min(element.digits, 9), "0")
        digits = digits.rstrip("0") if trim else digits
        return element.source[0] + digits if digits else ""

    def marshal_json(self) -> str:
        return self.format("2006-01-02T15:04:05.999999999Z07:00")


def _signed_offset(offset: int, colon: str) -> str:
    minutes = int(abs(offset) // 60)
    sign = "-" if offset <= -60 else "+"
    return f"{sign}{minutes // 60:02d}{colon}{minutes % 60:02d}"


def _methods() -> dict[str, Func]:
    def method(call: Any, result: str, *params: str) -> Func:
        return Func(call, params, result=result)

    return {
        "Year": method(lambda t: t.civil()[0], "int"),
        "Month": method(lambda t: Month(t.civil()[1]), "time.Month"),
        "Day": method(lambda t: t.civil()[2], "int"),
        "Hour": method(lambda t: t.clock()[0], "int"),
        "Minute": method(lambda t: t.clock()[1], "int"),
        "Second": method(lambda t: t.clock()[2], "int"),
        "Nanosecond": method(lambda t: t.nanosecond, "int"),
        "YearDay": method(Time.year_day, "int"),
        "Weekday": method(Time.weekday, "time.Weekday"),
        "Unix": method(lambda t: Int64(t.unix), "int64"),
        "UnixMilli": method(lambda t: Int64(t.unix * 1000 + t.nanosecond // 1_000_000), "int64"),
        "UnixNano": method(lambda t: Int64(t.unix * durations.SECOND + t.nanosecond), "int64"),
        "UTC": method(lambda t: Time(t.unix, t.nanosecond), "time.Time"),
        "Local": method(lambda t: Time(t.unix, t.nanosecond, LOCAL_ZONE), "time.Time"),
        "Format": method(lambda t, text: t.format(text), "string", "string"),
        "String": method(Time.go_string, "string"),
        "IsZero": method(lambda t: t.unix == ZERO_UNIX and not t.nanosecond, "bool"),
        "Add": method(lambda t, span: t.add(int(span)), "time.Time", "time.Duration"),
        "AddDate": method(Time.add_date, "time.Time", "int", "int", "int"),
        "Sub": method(lambda t, other: Duration(t.since(other)), "time.Duration", "time.Time"),
        "After": method(lambda t, other: t.since(other) > 0, "bool", "time.Time"),
        "Before": method(lambda t, other: t.since(other) < 0, "bool", "time.Time"),
        "Equal": method(lambda t, other: t.since(other) == 0, "bool", "time.Time"),
    }


Time.go_methods.update(_methods())
Month.go_methods["String"] = Func(Month.go_string, (), result="string")
Weekday.go_methods["String"] = Func(Weekday.go_string, (), result="string")
Duration.go_methods.update(
    String=Func(Duration.go_string, (), result="string"),
    Hours=Func(lambda d: d / durations.HOUR, (), result="float64"),
    Minutes=Func(lambda d: d / durations.MINUTE, (), result="float64"),
    Seconds=Func(lambda d: d / durations.SECOND, (), result="float64"),
)
