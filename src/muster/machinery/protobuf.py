"""Protobuf's wire format without schemas: varints, and the fields of a message in sequence.

Callers know the fields of their messages; nothing is generated. A message is read in one pass, and malformed ones raise
MalformedMessage. Groups, which proto3 does not have, are malformed too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""
_LARGEST_NUMBER: Final = (1 << 29) - 1


class MalformedMessage(ValueError):
    """Bytes that are no message; the text is Go's."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The 64-bit number at a position, and its end."""
    try:
        # Sizes have one or two bytes.
        result = data[at]
        if result < 0x80:
            return result, at + 1
        byte = data[at + 1]
        result += (byte << 7) - 0x80
        if byte < 0x80:
            return result, at + 2
        at += 2
        for shift in (14, 21, 28, 35, 42, 49, 56, 63):
            # The continuation bit is included in the sum, and subtracted with the next byte.
            byte = data[at]
            at += 1
            result += (byte << shift) - (1 << shift)
            if byte < 0x80:
                return result & 0xFFFFFFFFFFFFFFFF, at
    except IndexError:
        raise MalformedMessage("unexpected EOF") from None
    raise MalformedMessage("proto: integer overflow")


def write_varint(value: int) -> bytes:
    """A non-negative number."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    written = []
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def read_fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, wire type and value of each field; values are bytes for length-delimited fields, integers otherwise."""
    at, end = 0, len(data)
    while at < end:
        tag, at = read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0 or number > _LARGEST_NUMBER:
            raise MalformedMessage(f"proto: illegal tag {number}")
        if wire == VARINT:
            value, at = read_varint(data, at)
            yield number, wire, value
            continue
        if wire == BYTES:
            size, at = read_varint(data, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise MalformedMessage(f"proto: illegal wireType {wire}")
        if size > end - at:
            raise MalformedMessage("unexpected EOF")
        payload = data[at : at + size]
        at += size
        yield number, wire, payload if wire == BYTES else int.from_bytes(payload, "little")


def signed(value: int) -> int:
    """A varint as int64."""
    return value - (1 << 64) if value >> 63 else value


def signed32(value: int) -> int:
    """A varint as int32."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
