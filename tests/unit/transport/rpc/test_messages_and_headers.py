"""Messages in data that come in any pieces, and gRPC's own header fields."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.http.http2.fields import FieldDecoder
from muster.transport.rpc import headers
from muster.transport.rpc.messages import MessageReader, prefixed
from muster.transport.rpc.status import Code, RpcError


@given(st.lists(st.binary(max_size=300), max_size=10), st.lists(st.integers(0, 3000), max_size=20))
def test_messages_are_the_same_however_they_are_cut(messages: list[bytes], cuts: list[int]) -> None:
    data = b"".join(map(prefixed, messages))
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    reader = MessageReader(1000)
    for start, end in pairwise(places):
        reader.feed(data[start:end])
    assert reader.messages == messages
    assert reader.is_between


@given(st.binary(max_size=400), st.integers(1, 400))
def test_what_is_missing_is_known_as_soon_as_it_can_be(message: bytes, cut: int) -> None:
    data = prefixed(message)
    reader = MessageReader(1000)
    reader.feed(data[:cut])
    if cut < len(data):
        assert reader.announced == (len(message) if cut >= 5 else None)
        assert reader.missing == (len(data) - cut if cut >= 5 else 5 - cut)
        assert reader.kept <= cut


def test_a_message_over_the_limit_is_refused_on_its_prefix() -> None:
    reader = MessageReader(10)
    with pytest.raises(RpcError) as caught:
        reader.feed(prefixed(b"x" * 11)[:6])
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    assert reader.kept <= 6


def test_a_compressed_message_is_refused() -> None:
    with pytest.raises(RpcError) as caught:
        MessageReader(10).feed(b"\1\0\0\0\1x")
    assert caught.value.code is Code.INTERNAL


@pytest.mark.parametrize(
    ("written", "seconds"), [(b"1H", 3600.0), (b"2M", 120.0), (b"3S", 3.0), (b"4m", 0.004), (b"5u", 5e-6), (b"6n", 6e-9)]
)
def test_timeouts_are_read(written: bytes, seconds: float) -> None:
    assert headers.parse_timeout(written) == pytest.approx(seconds)


@pytest.mark.parametrize("written", [b"", b"1", b"S", b"123456789S", b"-1S", b"1.5S", b"1s"])
def test_malformed_timeouts_are_refused(written: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        headers.parse_timeout(written)
    assert caught.value.code is Code.INTERNAL


@given(st.floats(-1, 1e9))
def test_a_timeout_is_never_shorter_than_asked_for(seconds: float) -> None:
    written = headers.format_timeout(seconds)
    assert min(seconds, 99_999_999) <= headers.parse_timeout(written) <= max(0.0011, seconds * 1.001 + 0.001, seconds + 1)


@given(st.sampled_from(Code), st.text(max_size=300))
def test_a_status_travels_with_any_message(code: Code, message: str) -> None:
    block = headers.trailers(code, message)
    status = headers.read_status(FieldDecoder(1 << 16).decode(block))
    assert status is not None
    assert status.code is code
    assert status.message == message.encode("utf-8", "replace").decode()


def test_a_status_that_grpc_does_not_have_is_unknown() -> None:
    for raw in (b"99", b"x", b""):
        status = headers.read_status([(b"grpc-status", raw)])
        assert status is not None
        assert status.code is Code.UNKNOWN
    assert headers.read_status([]) is None


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (b"application/grpc", True),
        (b"application/grpc+proto", True),
        (b"application/grpc;x=y", True),
        (b"application/grpc-web", False),
        (b"application/json", False),
        (b"", False),
    ],
)
def test_content_types(kind: bytes, expected: bool) -> None:
    assert headers.is_grpc(kind) is expected


def test_metadata_have_no_fields_of_http_or_grpc() -> None:
    fields = [
        (b":path", b"/"),
        (b"te", b"trailers"),
        (b"grpc-timeout", b"1S"),
        (b"a", b"1"),
        (b"a", b"2"),
        (b"authorization", b"x"),
    ]
    assert headers.metadata_of(fields) == {"a": "1,2", "authorization": "x"}


@pytest.mark.parametrize("name", ["grpc-status", ":status", "Upper"])
def test_metadata_of_answers_cannot_be_grpcs_own(name: str) -> None:
    with pytest.raises(ValueError):
        headers.answer_head({name: "1"})
