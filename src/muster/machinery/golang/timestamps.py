"""Instants as the API writes them: RFC 3339 in UTC. Follows Go's `time.Parse(time.RFC3339, …)` and apimachinery's metav1.Time.

A metav1.Time has whole seconds, a metav1.MicroTime always six digits after them. Go's times reach beyond the years 1 to 9999 of
`datetime`; such a time is refused as one whose day is out of range.
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
_ELEMENTS: Final = tuple(
    (re.compile(pattern), element)
    for pattern, element in (
        ("[0-9]{4}", "2006"), ("-", "-"), ("[0-9]{2}", "01"), ("-", "-"), ("[0-9]{2}", "02"), ("T", "T"), ("[0-9]{2}", "15"),
        (":", ":"), ("[0-9]{2}", "04"), (":", ":"), ("[0-9]{2}(?:[.,][0-9]+)?", "05"), ("Z|[+-][0-9]{2}:[0-9]{2}", "Z07:00"),
    )
)  # fmt: skip


def _mismatch(text: str, layout: str) -> GoError:
    position = 0
    for pattern, element in _ELEMENTS:
        found = pattern.match(text, position)
        if found is None:
            return GoError(
                f"parsing time {quote(text)} as {quote(layout)}: cannot parse {quote(text[position:])} as {quote(element)}"
            )
        position = found.end()
    return GoError(f"parsing time {quote(text)}: extra text: {quote(text[position:])}")


def _out_of_range(text: str) -> GoError:
    month, hour, minute, second = int(text[5:7]), int(text[11:13]), int(text[14:16]), int(text[17:19])
    checks = (("month", 1 <= month <= 12), ("hour", hour < 24), ("minute", minute < 60), ("second", second < 60))
    field = next((name for name, good in checks if not good), "day")
    return GoError(f"parsing time {quote(text)}: {field} out of range")


def _offset(zone: str, text: str) -> timedelta:
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > 24 or minutes > 60:
        unit = "hour" if hours > 24 else "minute"
        raise GoError(f"parsing time {quote(text)}: time zone offset {unit} out of range")
    return timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)


def _read(text: str, layout: str) -> tuple[datetime, str | None]:
    """The instant to the second, in UTC, and the digits after it."""
    found = _MATCH(text)
    if found is None:
        raise _mismatch(text, layout)
    clock, fraction, zone = found.groups()
    try:
        instant = datetime.fromisoformat(clock + "+00:00")
    except ValueError:
        raise _out_of_range(text) from None
    if zone != "Z":
        try:
            instant -= _offset(zone, text)
        except OverflowError:
            raise _out_of_range(text) from None
    return instant, fraction


def parse_time(text: str, layout: str = RFC3339) -> datetime:
    """The instant in UTC; digits beyond microseconds are dropped. Raises GoError, which names the layout."""
    instant, fraction = _read(text, layout)
    return instant if fraction is None else instant.replace(microsecond=int(fraction[:6].ljust(6, "0")))


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
