"""Text forms of special scalars: RFC 3339 times, Go durations, quantities and base64, each converted to the form in which
kube-apiserver encodes it.

All functions take the JSON string and return the canonical one, or raise DecodeError with Go's message.
"""

from __future__ import annotations

import binascii
from datetime import timedelta
from typing import Final

from muster.machinery.golang import durations, quantities
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import EPOCH, RFC3339_MICRO, ZERO, format_micro_time, format_time, parse_time
from muster.machinery.memo import memoized

from .errors import DecodeError


@memoized(4096)
def time_text(text: str) -> str | None:
    """RFC 3339 in UTC with whole seconds; the zero time is null."""
    try:
        instant = parse_time(text)
    except GoError as error:
        raise DecodeError(str(error)) from error
    return None if instant == ZERO else format_time(instant)


@memoized(4096)
def micro_time_text(text: str) -> str | None:
    """RFC 3339 in UTC with microseconds."""
    try:
        instant = parse_time(text, RFC3339_MICRO)
    except GoError as error:
        raise DecodeError(str(error)) from error
    return None if instant == ZERO else format_micro_time(instant)


def time_from_unix(seconds: int, nanos: int, micro: bool) -> str | None:
    """The text of a protobuf timestamp."""
    try:
        instant = EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise DecodeError("timestamp out of range") from error
    if instant.year == 1 and seconds == -62135596800 and nanos == 0:
        return None
    return format_micro_time(instant) if micro else format_time(instant)


@memoized(1024)
def duration_text(text: str) -> str:
    """A Go duration (`1h2m3.5s`) in Go's canonical form."""
    try:
        return durations.format_duration(durations.parse_duration(text))
    except GoError as error:
        raise DecodeError(str(error)) from error


@memoized(4096)
def quantity_text(text: str) -> str:
    """A quantity in its canonical form."""
    try:
        return quantities.canonical(text)
    except GoError as error:
        raise DecodeError(str(error)) from error


def base64_text(text: str) -> str:
    """Standard base64 in its canonical form; line breaks are allowed, as in Go."""
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
    """Decode as Go, which skips line breaks and reports the offset of the first invalid byte."""
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
