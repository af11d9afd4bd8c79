"""Go's `time.ParseInLocation`: a text read by a layout."""

from __future__ import annotations

import re
from dataclasses import dataclass

from muster.gotemplate.golang import layout as layouts
from muster.gotemplate.golang.time import Time, days_in, is_leap
from muster.gotemplate.golang.zones import UTC_ZONE, Fixed, Location
from muster.machinery.golang.durations import quote
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.text import decode, encode

_OFFSETS = {
    "offset": re.compile(r"(.)(..)(..)()", re.DOTALL),
    "offset-colon": re.compile(r"(.)(..):(..)()", re.DOTALL),
    "offset-short": re.compile(r"(.)(..)()()", re.DOTALL),
    "offset-seconds": re.compile(r"(.)(..)(..)(..)", re.DOTALL),
    "offset-colon-seconds": re.compile(r"(.)(..):(..):(..)", re.DOTALL),
}
_TWO_DIGITS = re.compile("[0-9]{2}")
_ONE_OR_TWO_DIGITS = re.compile("[0-9]{1,2}")
_THREE_DIGITS = re.compile("[0-9]{3}")
_UP_TO_THREE_DIGITS = re.compile("[0-9]{1,3}")


def _after_common_bytes(rest: str, wanted: str) -> str:
    """Go compares bytes: of two different characters it may have consumed equal first bytes before it fails."""
    if not rest or not wanted:
        return rest
    one, other = encode(rest[0]), encode(wanted[0])
    common = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    return decode(one[common:]) + rest[1:]


class _Bad(Exception):
    """The value does not fit the element."""


@dataclass
class _Fields:
    year: int = 0
    month: int = -1
    day: int = -1
    year_day: int = -1
    hour: int = 0
    minute: int = 0
    second: int = 0
    nanosecond: int = 0
    zone: Location | None = None
    offset: int | None = None
    zone_name: str = ""
    meridiem: str = ""
    out_of_range: str = ""


class _Parser:
    def __init__(self, layout: str, value: str, location: Location) -> None:
        self.layout = layout
        self.value = value
        self.rest = value
        self.location = location
        self.fields = _Fields()

    def _error(self, element: str, rest: str, message: str = "") -> GoError:
        if message:
            return GoError(f"parsing time {quote(self.value)}{message}")
        return GoError(f"parsing time {quote(self.value)} as {quote(self.layout)}: cannot parse {quote(rest)} as {quote(element)}")

    def run(self) -> Time:
        chunks = layouts.split(self.layout)
        for at, (prefix, element) in enumerate(chunks):
            self._skip(prefix)
            if not element.kind:
                if self.rest:
                    raise self._error("", self.rest, f": extra text: {quote(self.rest)}")
                break
            held = self.rest
            try:
                self._element(element, chunks[at + 1] if at + 1 < len(chunks) else None)
            except _Bad:
                if not self.fields.out_of_range:
                    raise self._error(element.source, held) from None
            if self.fields.out_of_range:
                raise self._error("", self.rest, f": {self.fields.out_of_range} out of range")
        return self._time()

    def _skip(self, prefix: str) -> None:
        rest, wanted = self.rest, prefix
        while wanted:
            if wanted[0] == " ":
                if rest and rest[0] != " ":
                    raise self._error(prefix, rest)
                wanted, rest = wanted.lstrip(" "), rest.lstrip(" ")
                continue
            if not rest or rest[0] != wanted[0]:
                raise self._error(prefix, _after_common_bytes(rest, wanted))
            wanted, rest = wanted[1:], rest[1:]
        self.rest = rest

    def _take(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.rest)
        if not match:
            raise _Bad
        self.rest = self.rest[match.end() :]
        return int(match[0])

    def _number(self, kind: str) -> int:
        return self._take(_TWO_DIGITS if kind.startswith("zero") else _ONE_OR_TWO_DIGITS)

    def _name(self, names: list[str], short: bool) -> int:
        for at, name in enumerate(names):
            name = name[:3] if short else name
            if self.rest[: len(name)].lower() == name.lower():
                self.rest = self.rest[len(name) :]
                return at
        raise _Bad

    def _element(self, element: layouts.Element, following: tuple[str, layouts.Element] | None) -> None:
        kind, fields = element.kind, self.fields
        if kind in ("month", "long-month"):
            fields.month = self._name(layouts.MONTHS, kind == "month") + 1
        elif kind in ("weekday", "long-weekday"):
            self._name(layouts.DAYS, kind == "weekday")
        elif kind in ("num-month", "zero-month"):
            fields.month = self._number(kind)
            fields.out_of_range = "" if 1 <= fields.month <= 12 else "month"
        elif kind in ("day", "under-day", "zero-day"):
            if kind == "under-day" and self.rest.startswith(" "):
                self.rest = self.rest[1:]
            fields.day = self._number(kind)
        elif kind in ("hour", "hour12", "zero-hour12"):
            fields.hour = self._number(kind)
            fields.out_of_range = "" if fields.hour <= (23 if kind == "hour" else 12) else "hour"
        elif kind in ("minute", "zero-minute"):
            fields.minute = self._number(kind)
            fields.out_of_range = "" if fields.minute < 60 else "minute"
        elif kind in ("second", "zero-second"):
            self._second(kind, following)
        elif kind in ("year", "long-year"):
            self._year(kind)
        elif kind in ("under-yearday", "zero-yearday"):
            self._year_day(kind)
        elif kind in ("PM", "pm"):
            fields.meridiem, self.rest = self.rest[:2], self.rest[2:]
            if fields.meridiem not in ((kind, "AM") if kind == "PM" else (kind, "am")):
                raise _Bad
        elif kind == "zone":
            self._zone()
        elif kind == "fraction0":
            self._nanoseconds(element.digits + 1)
        elif kind == "fraction9":
            digits = re.match("[.,]([0-9]+)", self.rest)
            if digits:
                self._nanoseconds(digits.end())
        else:
            self._offset(kind)

    def _year(self, kind: str) -> None:
        size = 2 if kind == "year" else 4
        digits, self.rest = self.rest[:size], self.rest[size:]
        if len(digits) < size or not re.fullmatch("[+-]?[0-9]+" if kind == "year" else "[0-9]+", digits):
            raise _Bad
        year = int(digits)
        self.fields.year = year if kind != "year" else year + (1900 if year >= 69 else 2000)

    def _year_day(self, kind: str) -> None:
        if kind == "under-yearday":
            self.rest = self.rest[min(2, len(self.rest) - len(self.rest.lstrip(" "))) :]
        self.fields.year_day = self._take(_THREE_DIGITS if kind == "zero-yearday" else _UP_TO_THREE_DIGITS)

    def _second(self, kind: str, following: tuple[str, layouts.Element] | None) -> None:
        self.fields.second = self._number(kind)
        if self.fields.second >= 60:
            self.fields.out_of_range = "second"
            return
        digits = re.match("[.,][0-9]+", self.rest)
        if digits and not (following and following[1].kind.startswith("fraction")):
            self._nanoseconds(digits.end())

    def _nanoseconds(self, size: int) -> None:
        text, self.rest = self.rest[:size], self.rest[size:]
        if len(text) < size or text[0] not in ".,":
            raise _Bad
        digits = text[1:10]
        if not re.fullmatch("[+-]?[0-9]+", digits):
            raise _Bad
        if digits.startswith("-") and int(digits):
            self.fields.out_of_range = "fractional second"
        self.fields.nanosecond = int(digits) * 10 ** (9 - len(digits))

    def _offset(self, kind: str) -> None:
        if kind.startswith("Z"):
            if self.rest.startswith("Z"):
                self.rest = self.rest[1:]
                self.fields.zone = UTC_ZONE
                return
            kind = kind[1:]
        match = _OFFSETS[kind].match(self.rest)
        if not match:
            raise _Bad
        self.rest = self.rest[match.end() :]
        offset, size = 0, 3600
        for digits, limit, unit in zip(match.groups()[1:], (24, 60, 60), ("hour", "minute", "second"), strict=True):
            if not _TWO_DIGITS.fullmatch(digits or "00"):
                raise _Bad
            if int(digits or 0) > limit:
                self.fields.out_of_range = f"time zone offset {unit}"
            offset += int(digits or 0) * size
            size //= 60
        if match[1] not in "+-":
            raise _Bad
        self.fields.offset = -offset if match[1] == "-" else offset

    def _zone(self) -> None:
        if self.rest.startswith("UTC"):
            self.rest = self.rest[3:]
            self.fields.zone = UTC_ZONE
            return
        size = _zone_length(self.rest)
        if not size:
            raise _Bad
        self.fields.zone_name, self.rest = self.rest[:size], self.rest[size:]

    # From fields to an instant

    def _time(self) -> Time:
        fields = self.fields
        if fields.meridiem.lower() == "pm" and fields.hour < 12:
            fields.hour += 12
        elif fields.meridiem.lower() == "am" and fields.hour == 12:
            fields.hour = 0
        if fields.year_day >= 0:
            self._resolve_year_day()
        month, day = max(fields.month, 1) if fields.month < 0 else fields.month, 1 if fields.day < 0 else fields.day
        if not 1 <= day <= days_in(month, fields.year):
            raise self._error("", "", ": day out of range")
        seconds = (fields.hour * 60 + fields.minute) * 60 + fields.second
        if fields.zone is not None:
            return Time.date(fields.year, month, day, seconds, fields.nanosecond, fields.zone)
        if fields.offset is None and not fields.zone_name:
            return Time.date(fields.year, month, day, seconds, fields.nanosecond, self.location)
        moment = Time.date(fields.year, month, day, seconds, fields.nanosecond, UTC_ZONE)
        if fields.offset is not None:
            moment = moment.add(-fields.offset * 1_000_000_000)
            name, offset = self.location.at(moment.unix)
            if offset == fields.offset and fields.zone_name in ("", name):
                return moment.in_location(self.location)
            return moment.in_location(Fixed(fields.zone_name, fields.offset))
        return self._named_zone(moment)

    def _named_zone(self, moment: Time) -> Time:
        zone_name = self.fields.zone_name
        name, offset = self.location.at(moment.unix)
        if name == zone_name:
            return moment.add(-offset * 1_000_000_000).in_location(self.location)
        offset = int(zone_name[3:]) * 3600 if len(zone_name) > 3 and zone_name.startswith("GMT") else 0
        return moment.in_location(Fixed(zone_name, offset))

    def _resolve_year_day(self) -> None:
        fields = self.fields
        if not 1 <= fields.year_day <= 365 + is_leap(fields.year):
            raise self._error("", "", ": day-of-year out of range")
        month, day = 1, fields.year_day
        while day > days_in(month, fields.year):
            day -= days_in(month, fields.year)
            month += 1
        if fields.month >= 0 and fields.month != month:
            raise self._error("", "", ": day-of-year does not match month")
        if fields.day >= 0 and fields.day != day:
            raise self._error("", "", ": day-of-year does not match day")
        fields.month, fields.day = month, day


def _signed_offset_length(text: str) -> int:
    match = re.match("[+-]([0-9]+)", text)
    return match.end() if match and int(match[1]) <= 23 else 0


def _zone_length(text: str) -> int:
    """The length of a zone abbreviation at the start; 0 if there is none."""
    if len(text) < 3:
        return 0
    if text[:4] in ("ChST", "MeST"):
        return 4
    if text.startswith("GMT"):
        return 3 + _signed_offset_length(text[3:])
    if text[0] in "+-":
        return _signed_offset_length(text)
    match = re.match("[A-Z]{0,6}", text)
    size = match.end() if match else 0
    if size == 3 or (size == 5 and text[4] == "T") or (size == 4 and (text[3] == "T" or text[:4] == "WITA")):
        return size
    return 0


def parse(layout: str, value: str, location: Location) -> Time:
    """`time.ParseInLocation`; raises GoError with Go's text."""
    return _Parser(layout, value, location).run()
