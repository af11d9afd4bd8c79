"""Go's `time.Location`: time zones."""

from __future__ import annotations

import time as system_time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_000_000_000, 253_000_000_000
"""Python's calendar covers the years 1 to 9999; zone rules beyond are those of the nearest year."""


class Location(Protocol):
    @property
    def name(self) -> str: ...

    def at(self, unix: int) -> tuple[str, int]:
        """The abbreviation and the offset (seconds east of UTC) at that instant."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    name: str
    offset: int

    def at(self, unix: int) -> tuple[str, int]:
        return self.name, self.offset


@dataclass(frozen=True, slots=True)
class Local:
    """This machine's zone."""

    name: str = "Local"

    def at(self, unix: int) -> tuple[str, int]:
        local = system_time.localtime(min(max(unix, _FIRST), _LAST))
        return local.tm_zone, local.tm_gmtoff


@dataclass(frozen=True, slots=True)
class Zone:
    name: str
    rules: ZoneInfo

    def at(self, unix: int) -> tuple[str, int]:
        moment = (_EPOCH + timedelta(seconds=min(max(unix, _FIRST), _LAST))).astimezone(self.rules)
        offset = moment.utcoffset()
        return moment.tzname() or "", int(offset.total_seconds()) if offset is not None else 0


UTC_ZONE = Fixed("UTC", 0)
LOCAL_ZONE = Local()


@lru_cache(maxsize=256)
def load(name: str) -> Location | None:
    """`time.LoadLocation`; None if there is no such location."""
    if name in ("", "UTC"):
        return UTC_ZONE
    if name == "Local":
        return LOCAL_ZONE
    try:
        return Zone(name, ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        return None
