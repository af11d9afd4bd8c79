"""Protobuf's wire format."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.protobuf import MalformedMessage, read_fields, read_varint, signed, signed32, write_varint


@given(st.integers(0, (1 << 64) - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_a_number_that_is_written_is_read_as_it_was(value: int, before: bytes, after: bytes) -> None:
    written = write_varint(value)
    assert read_varint(before + written + after, len(before)) == (value, len(before) + len(written))


@pytest.mark.parametrize(
    ("written", "expected"),
    [(b"\x80\x00", 0), (b"\x81\x80\x80\x00", 1), (b"\xff" * 9 + b"\x01", (1 << 64) - 1), (b"\xff" * 9 + b"\x7f", (1 << 64) - 1)],
)
def test_numbers_may_be_longer_than_they_have_to_be(written: bytes, expected: int) -> None:
    assert read_varint(written, 0) == (expected, len(written))


@pytest.mark.parametrize("written", [b"", b"\x80", b"\xff" * 9])
def test_a_number_that_does_not_end_is_malformed(written: bytes) -> None:
    with pytest.raises(MalformedMessage, match="unexpected EOF"):
        read_varint(written, 0)


def test_a_number_of_more_than_ten_bytes_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="overflow"):
        read_varint(b"\xff" * 10 + b"\x01", 0)


def test_fields_come_in_the_order_they_are_in() -> None:
    message = b"\x0a\x02hi" + b"\x10\x96\x01" + b"\x19" + bytes([1, *bytes(7)]) + b"\x25" + bytes([2, *bytes(3)])
    assert list(read_fields(message)) == [(1, 2, b"hi"), (2, 0, 150), (3, 1, 1), (4, 5, 2)]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"\x02\x00", "illegal tag"),
        (write_varint((1 << 29) << 3), "illegal tag"),
        (b"\x0b", "illegal wireType 3"),
        (b"\x0c", "illegal wireType 4"),
        (b"\x0f", "illegal wireType 7"),
        (b"\x0a\x02h", "unexpected EOF"),
        (b"\x0a", "unexpected EOF"),
        (b"\x0d\x00", "unexpected EOF"),
    ],
)
def test_what_is_no_field_is_malformed(message: bytes, expected: str) -> None:
    with pytest.raises(MalformedMessage, match=expected):
        list(read_fields(message))


@given(st.binary())
def test_bytes_are_fields_or_malformed(message: bytes) -> None:
    with suppress(MalformedMessage):
        list(read_fields(message))


def test_numbers_below_zero_are_those_with_the_highest_bit() -> None:
    assert (signed((1 << 64) - 1), signed(1 << 62), signed32((1 << 64) - 1), signed32(1 << 31)) == (-1, 1 << 62, -1, -(1 << 31))
