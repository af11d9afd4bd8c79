"""Konnectivity's packets, byte by byte: those that are sent, those that may come, and those that nobody should send."""

from __future__ import annotations

import pytest

from muster.gateway.konnectivity.packets import (
    MAX_FIELDS,
    Packet,
    PacketType,
    close_request,
    data_packet,
    dial_request,
    read_packet,
)
from muster.machinery.protobuf import MalformedMessage
from tests.support.konnectivity import DRAIN, close_response, dial_close, dial_response, message, read

LARGEST = (1 << 63) - 1


def test_what_is_sent() -> None:
    assert dial_request("one:443", 5) == bytes.fromhex("08001210 0a03746370 12076f6e653a343433 1805".replace(" ", ""))
    assert data_packet(1, b"hi") == bytes.fromhex("0804220608011a026869")
    assert close_request(300) == bytes.fromhex("08022a0308ac02")
    assert read(data_packet(-1, b"x")) == (PacketType.DATA, {1: (1 << 64) - 1, 3: b"x"})


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (dial_response(LARGEST, 7), Packet(PacketType.DIAL_RSP, 7, LARGEST)),
        (dial_response(-5, error="no\u202eagent"), Packet(PacketType.DIAL_RSP, 0, -5, "no\u202eagent")),
        (data_packet(-1, b"\x00\xff"), Packet(PacketType.DATA, -1, data=b"\x00\xff")),
        (close_request(3), Packet(PacketType.CLOSE_REQ, 3)),
        (close_response(3, "EOF"), Packet(PacketType.CLOSE_RSP, 3, error="EOF")),
        (dial_close(9), Packet(PacketType.DIAL_CLS, random=9)),
        (DRAIN, Packet(PacketType.DRAIN)),
        # Without a payload, or with one of another type beside it, there is nothing of its own.
        (message((1, 4)), Packet(PacketType.DATA)),
        (message((1, 4), (6, message((1, "error"), (2, 3)))), Packet(PacketType.DATA)),
        # Fields of versions to come, and an error that is no text.
        (message((1, 3), (6, message((1, b"\xff"), (2, 3), (19, 1))), (99, 1)), Packet(PacketType.CLOSE_RSP, 3, error="\ufffd")),
    ],
)
def test_what_may_come(raw: bytes, expected: Packet) -> None:
    assert read_packet(raw) == expected


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        dial_request("one:443", 5),
        message((1, 7)),
        message((1, b"4")),
        message((1, 4), (4, message((1, "one")))),
        message((1, 4), (4, message((3, 1)))),
        message((1, 4), (4, b"\x0a\xff")),
        b"\x22\xff\xff\xff\xff\x0f",
        b"\x0b",
        message(*[(9, 0)] * (MAX_FIELDS + 1)),
        message((1, 4), (4, message(*[(9, 0)] * (MAX_FIELDS + 1)))),
    ],
    ids=[
        "nothing",
        "a request",
        "unknown type",
        "type of text",
        "id of text",
        "data of number",
        "cut",
        "too long",
        "group",
        "many",
        "many inside",
    ],
)
def test_what_may_not(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_packet(raw)
