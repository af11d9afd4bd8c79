"""Text forms of the special scalars: RFC 3339 times, Go durations and base64, each canonicalised as the real server re-encodes it.

All functions take what JSON had and return the canonical string, or raise DecodeError with Go's own words.
"""

from __future__ import annotations

import binascii
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from muster.kube.remembering import remembered

from .errors import DecodeError

_SECONDS = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"
_LAYOUT_STEPS: Final = (
    ("2006", r"\d{4}"), ("-", "-"), ("01", r"\d\d"), ("-", "-"), ("02", r"\d\d"), ("T", "T"), ("15", r"\d\d"), (":", ":"),
    ("04", r"\d\d"), (":", ":"), ("05", r"\d\d(?:\.\d+)?"), ("Z07:00", r"(?:Z|[+-]\d\d:\d\d)"),
)  # fmt: skip
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _bad_time(text: str, layout: str) -> DecodeError:
    rest = text
    for name, pattern in _LAYOUT_STEPS:
        found = re.match(pattern, rest, re.ASCII)
        if found is None:
            return DecodeError(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{name}"')
        rest = rest[found.end() :]
    if rest:
        return DecodeError(f'parsing time "{text}": extra text: "{rest}"')
    return DecodeError(f'parsing time "{text}": {_out_of_range(text)} out of range')


def _out_of_range(text: str) -> str:
    month, hour, minute, second = int(text[5:7]), int(text[11:13]), int(text[14:16]), int(text[17:19])
    checks = (("month", 1 <= month <= 12), ("hour", hour < 24), ("minute", minute < 60), ("second", second < 60))
    return next((name for name, good in checks if not good), "day")


def _instant(text: str, layout: str) -> datetime:
    found = _SECONDS.fullmatch(text)
    if found is None:
        raise _bad_time(text, layout)
    try:
        zone = found[3].replace("Z", "+00:00")
        instant = datetime.fromisoformat(f"{found[1]}.{(found[2] or '0')[:6]:0<6}{zone}")
        return instant.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _bad_time(text, layout) from error


@remembered(4096)
def time_text(text: str) -> str | None:
    """RFC 3339 in UTC with whole seconds; the zero time is null."""
    instant = _instant(text, _LAYOUT)
    return None if instant.year == 1 and instant == datetime(1, 1, 1, tzinfo=UTC) else f"{instant:%Y-%m-%dT%H:%M:%SZ}".zfill(20)


@remembered(4096)
def micro_time_text(text: str) -> str | None:
    """RFC 3339 in UTC with microseconds."""
    instant = _instant(text, _MICRO_LAYOUT)
    return None if instant.year == 1 and instant == datetime(1, 1, 1, tzinfo=UTC) else f"{instant:%Y-%m-%dT%H:%M:%S.%fZ}".zfill(27)


def time_from_unix(seconds: int, nanos: int, micro: bool) -> str | None:
    """The text of a protobuf timestamp."""
    try:
        instant = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise DecodeError("timestamp out of range") from error
    if instant.year == 1 and seconds == -62135596800 and nanos == 0:
        return None
    return (f"{instant:%Y-%m-%dT%H:%M:%S.%fZ}".zfill(27)) if micro else f"{instant:%Y-%m-%dT%H:%M:%SZ}".zfill(20)


_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_DURATION = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_DURATION_PART = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def duration_nanos(text: str) -> int:
    """Nanoseconds of a Go duration (`1h2m3.5s`)."""
    if text in ("0", "+0", "-0"):
        return 0
    if not _DURATION.fullmatch(text):
        raise DecodeError(f'time: invalid duration "{text}"')
    total = 0
    for whole, fraction, unit in _DURATION_PART.findall(text):
        total += int(whole or 0) * _UNITS[unit]
        if fraction:
            total += int(fraction) * _UNITS[unit] // 10 ** len(fraction)
    if total >= 1 << 63:
        raise DecodeError(f'time: invalid duration "{text}"')
    return -total if text.startswith("-") else total


def duration_text(nanos: int) -> str:
    """How Go prints a duration."""
    if nanos == 0:
        return "0s"
    sign, rest = ("-", -nanos) if nanos < 0 else ("", nanos)
    if rest < 10**9:
        unit, size = ("ns", 1) if rest < 10**3 else ("µs", 10**3) if rest < 10**6 else ("ms", 10**6)
        return f"{sign}{_with_fraction(rest, size)}{unit}"
    minutes, seconds = divmod(rest, 60 * 10**9)
    text = f"{_with_fraction(seconds, 10**9)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def _with_fraction(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else str(whole)


def base64_text(text: str) -> str:
    """Standard base64 re-encoded; line breaks inside are allowed as Go allows them."""
    try:
        if len(text) % 4:
            raise ValueError
        raw = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        raw = _base64_with_breaks(text)
    canonical = binascii.b2a_base64(raw, newline=False)
    return text if len(canonical) == len(text) and canonical == text.encode() else canonical.decode()


_ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _base64_with_breaks(text: str) -> bytes:
    """Decode like Go, which skips line breaks and reports the offset of the first bad byte."""
    quantum = 0
    padding = 0
    position = -1
    for position, character in enumerate(text):
        if character in "\r\n":
            continue
        if padding:
            if character == "=" and quantum == 2 and padding == 1:
                padding = 2
                continue
            raise DecodeError(f"illegal base64 data at input byte {len(text[:position].encode())}")
        if character == "=" and quantum >= 2:
            padding = 1
        elif character in _ALPHABET:
            quantum = (quantum + 1) % 4
        else:
            raise DecodeError(f"illegal base64 data at input byte {len(text[:position].encode())}")
    if quantum and quantum + padding != 4:
        raise DecodeError(f"illegal base64 data at input byte {len(text.encode()) if padding else len(text.encode()) - quantum}")
    return binascii.a2b_base64(text)
