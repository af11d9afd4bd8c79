"""Events that are JSON as a whole."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.transport.contract.event import CloudEvent, InvalidEvent
from muster.transport.contract.wire import decode_event
from tests.unit.transport.contract.test_wire import field, text

EVENT = {"specversion": "1.0", "id": "i", "source": "s", "type": "t", "clustername": "c1"}
CONTENT = "application/cloudevents+json"


def structured(data: bytes, content_type: str = CONTENT) -> bytes:
    """The message's own fields are there to be overlooked."""
    return field(1, "other") + field(4, "other") + text("contenttype", content_type) + field(6, data)


@pytest.mark.parametrize("content_type", [CONTENT, "application/cloudevents+json; charset=utf-8", "application/cloudevents+JSON"])
def test_an_event_may_be_json_as_a_whole(content_type: str) -> None:
    document = {**EVENT, "time": "2026-11-15T07:08:19.5Z", "resourceversion": 3, "Flag": True, "nothing": None, "data": {"a": 1}}
    assert decode_event(structured(orjson.dumps(document), content_type)) == CloudEvent(
        id="i",
        source="s",
        type="t",
        attributes={
            "clustername": "c1",
            "resourceversion": 3,
            "flag": True,
            "time": datetime(2026, 11, 15, 7, 8, 19, 500_000, tzinfo=UTC),
        },
        data=b'{"a":1}',
    )


def test_its_data_may_be_base64() -> None:
    assert decode_event(structured(orjson.dumps({**EVENT, "data_base64": "e30="}))).data == b"{}"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"id": 1}, "id: a string"),
        ({"time": "now"}, "time"),
        ({"source": ""}, "source is empty"),
        ({"source": "\0"}, "source"),
        ({"dataschema": ":"}, "dataschema"),
        ({"dataschema": 1}, "dataschema"),
        ({"subject": True}, "subject"),
        ({"time": 7}, "time"),
        ({"resourceversion": 1 << 31}, "32 bits"),
        ({"resourceversion": 1.5}, "32 bits"),
        ({"a-b": "c"}, "'a-b'"),
        ({"data": 1, "data_base64": "e30="}, "both"),
        ({"data_base64": "???"}, "data_base64"),
        ({"data_base64": {}}, "data_base64"),
        ({"data": 1, "datacontenttype": "text/plain"}, "text/plain"),
    ],
)
def test_what_cannot_be_understood_is_refused_by_name(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidEvent, match=expected):
        decode_event(structured(orjson.dumps(EVENT | change)))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"1", b'{"specversion":"1.0","data":' + b"[" * 500 + b"]" * 500 + b"}"])
def test_what_is_no_event_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidEvent):
        decode_event(structured(data))


@pytest.mark.parametrize(
    "content_type", ["application/cloudevents-batch+json", "application/cloudevents+avro", "application/cloudevents"]
)
def test_other_formats_are_refused(content_type: str) -> None:
    with pytest.raises(InvalidEvent, match="contenttype"):
        decode_event(structured(orjson.dumps(EVENT), content_type))


json = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 40), 1 << 40) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
members = st.dictionaries(st.sampled_from([*EVENT, "data", "data_base64", "datacontenttype", "time"]) | st.text(), json)


@given(members)
def test_json_is_an_event_or_invalid(document: dict[str, Any]) -> None:
    with suppress(InvalidEvent):
        decode_event(structured(orjson.dumps(EVENT | document)))
