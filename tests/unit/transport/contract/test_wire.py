"""The bytes of events and requests: what Go writes is read, what we write is the same, and nothing but InvalidEvent is raised."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.protobuf import write_varint
from muster.transport.contract.event import CloudEvent, InvalidEvent, SubscriptionRequest, Uri, UriRef, heartbeat, new_event_id
from muster.transport.contract.types import HEARTBEAT
from muster.transport.contract.wire import (
    decode_event,
    decode_publish_request,
    decode_subscription_request,
    encode_event,
    encode_publish_request,
    encode_subscription_request,
)

NOW = datetime(2026, 11, 15, 7, 8, 19, 602346, tzinfo=UTC)


def field(number: int, payload: bytes | str) -> bytes:
    data = payload.encode() if isinstance(payload, str) else payload
    return write_varint(number << 3 | 2) + write_varint(len(data)) + data


def integer(number: int, value: int) -> bytes:
    return write_varint(number << 3) + write_varint(value)


def attribute(name: str, value: bytes) -> bytes:
    """An attribute whose value has this message."""
    return field(5, field(1, name) + field(2, value))


def text(name: str, value: str) -> bytes:
    return attribute(name, field(3, value))


CLUSTER = text("ce-clustername", "c1")


def event(*parts: bytes, version: str = "1.0") -> bytes:
    return field(1, "i") + field(2, "s") + field(3, version) + field(4, "t") + b"".join(parts)


values = st.one_of(
    st.text(),
    st.booleans(),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.binary(),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from([Uri("https://a.example/x?y=z"), UriRef("a/b"), UriRef("")]),
)
names = st.from_regex("[a-z0-9]{1,20}", fullmatch=True).filter(
    lambda name: (
        name not in ("id", "source", "specversion", "type", "time", "subject", "dataschema", "datacontenttype", "contenttype")
    )
)
visible = st.text().filter(lambda text: not text.isspace())
events = st.builds(
    CloudEvent,
    id=visible,
    source=st.from_regex("[A-Za-z0-9./_-]*", fullmatch=True),
    type=visible,
    attributes=st.dictionaries(st.one_of(names, st.sampled_from(["clustername", "metadata"])), values, min_size=1),
    data=st.none() | st.binary(),
)


@given(events)
def test_an_event_that_is_written_is_read_as_it_was(found: CloudEvent) -> None:
    read = decode_event(encode_event(found))
    assert read == found
    assert {name: type(value) for name, value in read.attributes.items()} == {
        name: type(value) for name, value in found.attributes.items()
    }


@given(st.builds(SubscriptionRequest, source=st.text(), cluster_name=st.text(), data_type=st.text()))
def test_a_subscription_that_is_written_is_read_as_it_was(request: SubscriptionRequest) -> None:
    assert decode_subscription_request(encode_subscription_request(request)) == request


@given(st.binary())
def test_bytes_are_a_message_or_invalid(message: bytes) -> None:
    for decode in (decode_event, decode_publish_request, decode_subscription_request):
        with suppress(InvalidEvent):
            decode(message)


@given(events, st.data())
def test_a_damaged_event_is_an_event_or_invalid(found: CloudEvent, data: st.DataObject) -> None:
    message = bytearray(encode_publish_request(found))
    for _ in range(data.draw(st.integers(1, 4))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    message = message[: data.draw(st.integers(0, len(message)))]
    with suppress(InvalidEvent):
        decode_publish_request(bytes(message))


def test_the_smallest_request_has_the_bytes_that_go_writes() -> None:
    """Go's reader takes it for no event, because it has no attributes."""
    request = bytes.fromhex("0a0e0a01691201731a03312e30220174")
    assert encode_publish_request(CloudEvent(id="i", source="s", type="t")) == request
    with pytest.raises(InvalidEvent, match="no attributes"):
        decode_publish_request(request)


def test_an_attribute_is_written_with_its_prefix_and_the_content_type_without() -> None:
    written = encode_event(CloudEvent(id="i", source="s", type="t", attributes={"clustername": "c1"}, data=b"{}"))
    assert written == event(CLUSTER, text("contenttype", "application/json"), field(6, b"{}"))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([attribute("ce-x", integer(1, 1))], {"x": True}),
        ([attribute("ce-x", integer(1, 0))], {"x": False}),
        ([attribute("ce-x", integer(2, 7))], {"x": 7}),
        ([attribute("ce-x", integer(2, (1 << 64) - 7))], {"x": -7}),
        ([attribute("ce-x", field(4, b"\xff"))], {"x": b"\xff"}),
        ([attribute("ce-x", field(5, "https://a.example"))], {"x": Uri("https://a.example")}),
        ([attribute("ce-x", field(6, "/a"))], {"x": UriRef("/a")}),
        ([attribute("ce-time", field(7, integer(1, 1_794_726_499) + integer(2, 602_346_645)))], {"time": NOW}),
        ([text("ce-time", "2026-11-15T07:08:19.602346645Z")], {"time": NOW}),
        ([text("ce-ClusterName", "c1")], {"clustername": "c1"}),
        ([field(5, field(2, field(3, "c1")) + field(1, "ce-x"))], {"x": "c1"}),
        ([field(5, integer(9, 9) + field(1, "ce-x") + field(2, field(3, "c1")))], {"x": "c1"}),
        ([attribute("ce-x", field(9, "later") + field(3, "c1"))], {"x": "c1"}),
        ([attribute("ce-x", field(3, ""))], {"x": ""}),
        ([text("ce-subject", "s"), text("ce-dataschema", "/a")], {"subject": "s", "dataschema": "/a"}),
    ],
)  # fmt: skip
def test_values_of_all_kinds_and_shapes_are_read(parts: list[bytes], expected: dict[str, Any]) -> None:
    assert decode_event(event(*parts)).attributes == expected


def test_what_has_no_prefix_says_nothing() -> None:
    assert decode_event(event(text("clustername", "c1"), text("datacontenttype", "text/plain"))).attributes == {}


def test_unknown_fields_are_passed_over() -> None:
    later = integer(15, 3) + write_varint(16 << 3 | 1) + bytes(8) + write_varint(200 << 3 | 5) + bytes(4) + field(99, "later")
    assert decode_event(later + event(CLUSTER, later)).cluster == "c1"
    request = decode_subscription_request(later + field(2, "c1") + later)
    assert request == SubscriptionRequest(cluster_name="c1")


def test_fields_of_another_kind_than_expected_are_passed_over_too() -> None:
    assert decode_event(integer(1, 3) + event(CLUSTER)).id == "i"


def test_data_is_bytes_and_nothing_else() -> None:
    assert decode_event(event(CLUSTER, field(7, "{}"))).data is None
    assert decode_event(event(CLUSTER, field(8, b""))).data is None
    assert decode_event(event(CLUSTER, field(6, b""))).data == b""
    assert decode_event(event(CLUSTER, field(6, b"{}"))).data == b"{}"


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON", "text/json"])
def test_data_may_be_called_json_in_several_ways(content_type: str) -> None:
    assert decode_event(event(CLUSTER, text("contenttype", content_type), field(6, b"{}"))).data == b"{}"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (event(), "no attributes"),
        (event(CLUSTER, version="9.9"), "spec_version"),
        (field(1, "i") + CLUSTER, "spec_version"),
        (event(attribute("ce-x", b"")), "'x' has no value"),
        (event(attribute("x", b"")), "has no value"),
        (event(field(5, field(1, "ce-x"))), "'x' has no value"),
        (event(field(5, b"")), "has no value"),
        (event(attribute("ce-x", field(9, "later"))), "'x' has no value"),
        (event(attribute("ce-x", field(3, "1") + field(3, "2"))), "'x' has two values"),
        (event(attribute("ce-x", field(3, "1") + integer(1, 1))), "'x' has two values"),
        (event(field(5, field(1, "ce-x") + field(1, "ce-y") + field(2, field(3, "")))), "two names"),
        (event(CLUSTER, CLUSTER), "'clustername' comes twice"),
        (event(CLUSTER, text("ce-CLUSTERNAME", "c2")), "'clustername' comes twice"),
        (event(CLUSTER, field(4, "t")), "field type comes twice"),
        (event(CLUSTER, field(6, b"1"), field(6, b"2")), "binary_data comes twice"),
        (event(CLUSTER, field(6, b"1"), field(7, b"2")), "more than one field"),
        (event(text("ce-", "c1")), "names are of letters"),
        (event(text("ce-a-b", "c1")), "names are of letters"),
        (event(text("ce-ä", "c1")), "names are of letters"),
        (event(text("ce-type", "c1")), "field type says this"),
        (event(text("ce-time", "yesterday")), "'time'"),
        (event(text("ce-dataschema", "http://[::1")), "'dataschema'"),
        (event(attribute("ce-subject", integer(1, 1))), "'subject'"),
        (event(attribute("ce-subject", field(5, "a"))), "'subject'"),
        (field(1, " ") + field(3, "1.0") + field(4, "t") + CLUSTER, "blanks"),
        (field(1, "i") + field(3, "1.0") + field(4, "\t") + CLUSTER, "blanks"),
        (field(1, "i") + field(2, "\0") + field(3, "1.0") + field(4, "t") + CLUSTER, "source"),
        (event(attribute("ce-time", field(7, integer(2, 1_000_000_000)))), "nanoseconds"),
        (event(attribute("ce-time", field(7, integer(1, 1 << 62)))), "out of range"),
        (event(attribute("ce-x", field(5, "http://[::1"))), "'x'"),
        (event(attribute("contenttype", integer(1, 1))), "'contenttype' is no string"),
        (event(attribute("contenttype", field(6, "application/json"))), "'contenttype' is no string"),
        (event(attribute("ce-time", field(4, b"2026"))), "'time' is a bytes"),
        (event(CLUSTER, field(7, b"\xff")), "UTF-8"),
        (event(CLUSTER, field(8, field(1, b"\xff"))), "UTF-8"),
        (event(CLUSTER, field(8, b"{}")), "malformed"),
        (event(CLUSTER, text("contenttype", "text/plain"), field(6, b"1")), "'text/plain'"),
        (event(CLUSTER, text("contenttype", "application/json;;"), field(6, b"1")), "'application/json;;'"),
        (event(text("ce-x", "c1").replace(b"c1", b"\xff\xfe")), "UTF-8"),
        (event(text("ce-x", "c1").replace(b"ce-x", b"ce-\xff")), "UTF-8"),
        (event(CLUSTER)[:-1], "unexpected EOF"),
        (event(CLUSTER) + b"\x2a", "unexpected EOF"),
        (event(CLUSTER) + b"\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "integer overflow"),
        (event(CLUSTER) + b"\x2a\xff\xff\xff\xff\x0f", "unexpected EOF"),
        (event(CLUSTER) + b"\x8a\x00\x01x", "illegal tag"),
        (event(CLUSTER) + b"\x02\x00", "illegal tag"),
        (event(CLUSTER) + b"\x7b" * 100_000, "illegal wireType 3"),
        (event(CLUSTER) + integer(9, 1) * 1_000_000, "more than 256 fields"),
        (event(*(text(f"ce-a{number}", "") for number in range(1_000))), "more than 256 fields"),
        (event(field(5, integer(9, 1) * 1_000_000 + field(1, "ce-x"))), "more than 256 fields"),
        (event(attribute("ce-x", integer(9, 1) * 1_000_000)), "more than 256 fields"),
        (event(attribute("ce-x", field(7, integer(9, 1) * 1_000_000))), "more than 256 fields"),
    ],
)  # fmt: skip
def test_what_is_malformed_is_refused_by_name(message: bytes, expected: str) -> None:
    with pytest.raises(InvalidEvent, match=expected):
        decode_event(message)
    with pytest.raises(InvalidEvent, match=expected):
        decode_publish_request(field(1, message))


@pytest.mark.parametrize(
    "message", [b"", field(2, b"x"), field(1, event(CLUSTER)) * 2, b"\x0a", b"\x0a\x05abc", b"\x48\x01" * 1_000_000]
)
def test_a_request_has_one_event(message: bytes) -> None:
    with pytest.raises(InvalidEvent):
        decode_publish_request(message)


def test_a_heartbeat_has_no_attributes_and_is_no_request() -> None:
    written = encode_event(heartbeat())
    read = decode_event(written)
    assert (read.type, read.source, read.attributes, read.data) == (HEARTBEAT, "", {}, None)
    assert written == field(1, read.id) + field(3, "1.0") + field(4, HEARTBEAT)
    with pytest.raises(InvalidEvent, match="heartbeat"):
        decode_publish_request(field(1, written))


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"x": 1 << 31}, "32 bits"),
        ({"x": -(1 << 31) - 1}, "32 bits"),
        ({"Type": "t"}, "names are of lower-case"),
        ({"type": "t"}, "names are of lower-case"),
        ({"clustername": "\ud800"}, "Unicode"),
    ],
)
def test_what_cannot_travel_is_not_written(attributes: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidEvent, match=expected):
        encode_event(CloudEvent(id="i", source="s", type="t", attributes=attributes))


@pytest.mark.parametrize("size", [0, 1, 100, 127, 128, 511, 512, 1023, 1024, 20_000])
def test_texts_of_all_sizes_come_back(size: int) -> None:
    found = CloudEvent(id="i", source="s", type="t", attributes={"metadata": "m" * size, "other": "o" * size}, data=b"d" * size)
    assert decode_event(encode_event(found)) == found
    assert decode_event(encode_event(found)) == found, "also from what was kept of the first time"


@pytest.mark.parametrize("generation", [-1, 0, 1, 127, 128, 2**31 - 1, -(2**31)])
def test_integers_and_booleans_are_not_taken_for_each_other(generation: int) -> None:
    for value in (generation, bool(generation), generation):
        read = decode_event(encode_event(CloudEvent(id="i", source="s", type="t", attributes={"resourceversion": value})))
        assert (read.attributes["resourceversion"], type(read.attributes["resourceversion"])) == (value, type(value))


def test_ids_of_two_processes_are_different() -> None:
    program = "from muster.transport.contract.event import new_event_id; print(new_event_id()[:24], new_event_id()[:24])"
    others = {subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert len({*others, f"{new_event_id()[:24]} {new_event_id()[:24]}\n"}) == 3


def test_ids_are_uuids() -> None:
    ids = {new_event_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert {(str(UUID(found)), UUID(found).version) for found in ids} == {(found, 4) for found in ids}
