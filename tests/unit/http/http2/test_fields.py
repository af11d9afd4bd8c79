"""Header fields as bytes: ours are read by another decoder, others' by ours."""

from __future__ import annotations

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from muster.http.http2.fields import (
    FieldDecoder,
    Fields,
    FieldsTooLarge,
    MalformedFields,
    UndecodableFields,
    check_request,
    check_response,
    check_trailers,
    content_length,
    encode,
)

names = st.from_regex(rb"\A[a-z][a-z0-9-]{0,200}\Z")
values = st.binary(max_size=300).filter(lambda value: not set(value) & {0, 10, 13})
HEAD: Fields = [(b":method", b"POST"), (b":scheme", b"https"), (b":path", b"/")]


@given(st.lists(st.tuples(names, values), max_size=20))
def test_what_we_encode_others_decode(fields: Fields) -> None:
    assert list(Decoder().decode(encode(fields), raw=True)) == fields


@given(st.lists(st.lists(st.tuples(names, values), max_size=8), max_size=5))
def test_what_others_encode_we_decode(blocks: list[Fields]) -> None:
    encoder, decoder = Encoder(), FieldDecoder(1 << 20)
    for fields in blocks:
        assert decoder.decode(encoder.encode(fields)) == fields


few = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.sampled_from([b"1", b"2", b"v" * 900])), max_size=6)


@given(st.lists(st.tuples(few, st.integers(1, 3), st.sampled_from([None, 0, 100, 1500, 4096])), max_size=12))
def test_blocks_that_repeat_mean_what_they_say(blocks: list[tuple[Fields, int, int | None]]) -> None:
    """With a table so small that entries come and go, and heads that are sent several times."""
    encoder, decoder = Encoder(), FieldDecoder(1 << 20)
    for fields, times, size in blocks:
        if size is not None:
            encoder.header_table_size = size
        for _ in range(times):
            assert decoder.decode(encoder.encode(fields)) == fields


@given(st.lists(st.binary(max_size=30), max_size=30))
def test_remembering_changes_nothing(blocks: list[bytes]) -> None:
    """Any bytes, each twice in a row, mean the same to a decoder that remembers nothing."""
    ours, plain = FieldDecoder(4096), Decoder(max_header_list_size=4096)
    plain.max_allowed_table_size = 4096
    for block in [block for block in blocks for _ in range(2)]:
        try:
            expected = list(plain.decode(block, raw=True))
        except Exception:
            with pytest.raises((UndecodableFields, FieldsTooLarge)):
                ours.decode(block)
            return
        assert ours.decode(block) == expected


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_refused(block: bytes) -> None:
    decoder = FieldDecoder(4096)
    try:
        fields = decoder.decode(block)
    except (UndecodableFields, FieldsTooLarge):
        return
    assert sum(len(name) + len(value) + 32 for name, value in fields) <= 4096


def test_a_block_counts_by_its_fields_not_by_its_bytes() -> None:
    decoder = FieldDecoder(10_000)
    entry = Encoder().encode([(b"a", b"v" * 4000)])
    assert len(decoder.decode(entry)) == 1
    with pytest.raises(FieldsTooLarge):
        decoder.decode(b"\xbe" * 10)


@pytest.mark.parametrize("field", [(b"a", b"1\r\nb: 2"), (b"A", b"1"), (b"a b", b"1"), (b"", b"1"), (b"a", b"\0")])
def test_what_is_no_field_is_not_sent(field: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError):
        encode([field])


def test_credentials_are_never_indexed() -> None:
    (field,) = Decoder().decode(encode([(b"authorization", b"Bearer x")]), raw=True)
    assert not field.indexable


@pytest.mark.parametrize(
    "fields",
    [
        [],
        HEAD[:2],
        [*HEAD, (b":path", b"/")],
        [(b"a", b"1"), *HEAD],
        [*HEAD, (b":other", b"1")],
        [*HEAD, (b"Upper", b"1")],
        [*HEAD, (b"connection", b"close")],
        [*HEAD, (b"te", b"gzip")],
        [*HEAD, (b"a", b"1\n2")],
        [*HEAD[:2], (b":path", b"")],
    ],
)
def test_a_malformed_request_is_refused(fields: Fields) -> None:
    with pytest.raises(MalformedFields):
        check_request(fields)


def test_well_formed_heads_pass() -> None:
    check_request([*HEAD, (b"te", b"trailers"), (b"x", b"y")])
    check_request([(b":method", b"CONNECT"), (b":authority", b"x:1")])
    assert check_response([(b":status", b"204")]) == 204
    check_trailers([(b"grpc-status", b"0")])


def test_a_malformed_answer_is_refused() -> None:
    for fields in ([], [(b":status", b"20")], [(b":status", b"abc")], [(b":status", b"200"), (b":path", b"/")]):
        with pytest.raises(MalformedFields):
            check_response(fields)
    with pytest.raises(MalformedFields):
        check_trailers([(b":status", b"200")])


def test_a_length_is_one_number() -> None:
    assert content_length([(b"content-length", b"5"), (b"content-length", b"5")]) == 5
    assert content_length([]) is None
    for values in ([b"5", b"6"], [b"-1"], [b""], [b"9" * 30]):
        with pytest.raises(MalformedFields):
            content_length([(b"content-length", value) for value in values])
