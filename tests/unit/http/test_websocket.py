"""The WebSocket codec: what one end writes the other reads, however it is cut; what breaks the rules is refused by its code."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.http.websocket import (
    NORMAL,
    PROTOCOL_ERROR,
    TOO_BIG,
    UNSUPPORTED,
    Close,
    Data,
    Event,
    Nothing,
    Ping,
    Pong,
    WebSocketCodec,
    WebSocketFailure,
    accept_value,
    is_key,
    masked,
    new_key,
)

MASK = b"\x01\x02\x03\x04"


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


def read(codec: WebSocketCodec, pieces: list[bytes]) -> list[Event]:
    return [event for piece in pieces for event in codec.feed(piece)]


def payload(events: list[Event]) -> bytes:
    return b"".join(event.payload for event in events if isinstance(event, Data))


@given(st.booleans(), st.lists(st.integers(0, 300) | st.integers(65000, 66000), max_size=4), st.data())
def test_what_is_written_is_read_however_it_is_cut(client: bool, sizes: list[int], data: st.DataObject) -> None:
    messages = [bytes(range(251)) * (size // 251) + b"x" * (size % 251) for size in sizes]
    writer, reader = WebSocketCodec(client=client), WebSocketCodec(client=not client)
    wire = b"".join(writer.data(message) for message in messages)
    pieces = cut(wire, data.draw(st.lists(st.integers(0, 400), max_size=30)))
    assert payload(read(reader, pieces)) == b"".join(messages)


@given(st.binary(max_size=2000), st.binary(max_size=20), st.booleans())
def test_nothing_that_comes_does_more_than_fail(noise: bytes, first: bytes, client: bool) -> None:
    codec = WebSocketCodec(client=client)
    with suppress(WebSocketFailure):
        assert len(payload(read(codec, [first, noise]))) <= len(first) + len(noise)


@given(st.binary(max_size=1000), st.binary(min_size=4, max_size=4), st.integers(0, 1000))
def test_masking_twice_is_none_and_may_be_done_in_pieces(data: bytes, mask: bytes, at: int) -> None:
    whole = masked(data, mask)
    assert masked(whole, mask) == data
    assert masked(data[:at], mask) + masked(data[at:], mask, len(data[:at])) == whole


def test_control_frames_come_between_the_pieces_of_a_message() -> None:
    server = WebSocketCodec(client=False)
    codec = WebSocketCodec(client=True)
    wire = (
        b"\x02\x02ab" + server.ping(b"p") + b"\x00\x00" + server.pong(b"q") + b"\x80\x01c" + server.close(NORMAL, "bye") + b"\xff"
    )
    expected = [Data(b"ab"), Ping(b"p"), Nothing(), Pong(b"q"), Data(b"c"), Close(NORMAL, "bye")]
    assert codec.feed(wire) == expected


def test_data_of_a_frame_that_is_not_all_there_are_given_on_and_not_kept() -> None:
    codec = WebSocketCodec(client=True)
    assert codec.feed(b"\x82\x7f" + (1 << 20).to_bytes(8, "big") + b"abc") == [Data(b"abc")]
    assert codec.feed(b"def") == [Data(b"def")]


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (b"\x82\x81\0\0\0\0a", PROTOCOL_ERROR),
        (b"\xc2\x01a", PROTOCOL_ERROR),
        (b"\x81\x01a", UNSUPPORTED),
        (b"\x83\x01a", PROTOCOL_ERROR),
        (b"\x80\x01a", PROTOCOL_ERROR),
        (b"\x02\x01a\x82\x01a", PROTOCOL_ERROR),
        (b"\x09\x01a", PROTOCOL_ERROR),
        (b"\x89\x7e\0\x80" + b"a" * 128, PROTOCOL_ERROR),
        (b"\x88\x01a", PROTOCOL_ERROR),
        (b"\x88\x03\x03\xe8\xff", PROTOCOL_ERROR),
        (b"\x82\x7f" + (1 << 40).to_bytes(8, "big"), TOO_BIG),
    ],
)
def test_what_breaks_the_rules_is_refused(wire: bytes, code: int) -> None:
    with pytest.raises(WebSocketFailure) as raised:
        WebSocketCodec(client=True).feed(wire)
    assert raised.value.code == code


def test_a_server_wants_its_client_to_mask() -> None:
    with pytest.raises(WebSocketFailure):
        WebSocketCodec(client=False).feed(b"\x82\x01a")
    assert WebSocketCodec(client=False).feed(WebSocketCodec(client=True, mask=lambda: MASK).data(b"a")) == [Data(b"a")]


def test_the_handshake_is_that_of_the_rfc() -> None:
    assert accept_value("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert is_key(new_key())
    assert not is_key("")
    assert not is_key("c2hvcnQ=")
    assert not is_key("no key at all")
