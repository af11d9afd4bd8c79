"""Instants as the API writes them: RFC 3339 in UTC. Follows Go's `time.Parse(time.RFC3339, …)` and apimachinery's metav1.Time.

A metav1.Time has whole seconds, a metav1.MicroTime always six digits after them. Go's times reach beyond the years 1 to 9999 of
`datetime`; such a time is refused as one whose day is out of range, and an hour always has two digits here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from muster.machinery.golang.durations import SECOND, quote
from muster.machinery.golang.errors import GoError

RFC3339: Final = "2006-01-02T15:04:05Z07:00"
RFC3339_MICRO: Final = "2006-01-02T15:04:05.000000Z07:00"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ZERO: Final = datetime(1, 1, 1, tzinfo=UTC)
"""Go's zero time, which the API writes as null."""
_MATCH: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})"
).fullmatch
_TWO: Final = "([0-9]{2})"
_ELEMENTS: Final = tuple(
    (re.compile(pattern), element, field, limits)
    for pattern, element, field, limits in (
        ("[0-9]{4}", "2006", "", range(0)), ("-", "-", "", range(0)), (_TWO, "01", "month", range(1, 13)), ("-", "-", "", range(0)),
        (_TWO, "02", "", range(0)), ("T", "T", "", range(0)), (_TWO, "15", "hour", range(24)), (":", ":", "", range(0)),
        (_TWO, "04", "minute", range(60)), (":", ":", "", range(0)), (_TWO + "(?:[.,][0-9]+)?", "05", "second", range(60)),
        ("Z|[+-][0-9]{2}:[0-9]{2}", "Z07:00", "", range(0)),
    )
)  # fmt: skip
"""The elements of the layout, with the range that Go checks before it continues."""


def _refusal(text: str, layout: str) -> GoError:
    """The error for an invalid time."""
    position = 0
    for pattern, element, field, limits in _ELEMENTS:
        found = pattern.match(text, position)
        if found is None:
            rest = quote(text[position:])
            return GoError(f"parsing time {quote(text)} as {quote(layout)}: cannot parse {rest} as {quote(element)}")
        if field and int(found[1]) not in limits:
            return GoError(f"parsing time {quote(text)}: {field} out of range")
        position = found.end()
    if position < len(text):
        return GoError(f"parsing time {quote(text)}: extra text: {quote(text[position:])}")
    if not text.endswith("Z"):
        _offset(text[-6:], text)
    return GoError(f"parsing time {quote(text)}: day out of range")


def _offset(zone: str, text: str) -> timedelta:
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > 24 or minutes > 60:
        unit = "hour" if hours > 24 else "minute"
        raise GoError(f"parsing time {quote(text)}: time zone offset {unit} out of range")
    return timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)


def _read(text: str, layout: str) -> tuple[datetime, str | None]:
    """The instant in UTC to the microsecond, and all digits after the second."""
    found = _MATCH(text)
    if found is None:
        raise _refusal(text, layout)
    clock, fraction, zone = found.groups()
    try:
        instant = datetime.fromisoformat(f"{clock}+00:00" if fraction is None else f"{clock}.{fraction[:6]:0<6}+00:00")
        if zone != "Z":
            instant -= _offset(zone, text)
    except (ValueError, OverflowError):
        raise _refusal(text, layout) from None
    return instant, fraction


def parse_time(text: str, layout: str = RFC3339) -> datetime:
    """The instant in UTC; digits beyond microseconds are dropped. Raises GoError, which names the layout."""
    return _read(text, layout)[0]


def parse_unix_nanoseconds(text: str) -> int:
    """The instant in nanoseconds since 1970."""
    instant, fraction = _read(text, RFC3339)
    seconds = (instant - EPOCH) // timedelta(seconds=1)
    return seconds * SECOND + (0 if fraction is None else int(fraction[:9].ljust(9, "0")))


def format_time(moment: datetime) -> str:
    """A metav1.Time: whole seconds."""
    return moment.astimezone(UTC).isoformat()[:19] + "Z"


def format_micro_time(moment: datetime) -> str:
    """A metav1.MicroTime: always six digits after the second."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"
