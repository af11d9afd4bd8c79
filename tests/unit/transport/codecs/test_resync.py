"""Resync requests, their end, and what is said of objects that are gone."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.transport.codecs.objects import decode_object, encode_object
from muster.transport.codecs.resync import (
    KnownObject,
    Tombstone,
    as_resync_response,
    decode_resync_request,
    encode_resync_end,
    encode_resync_request,
    encode_tombstone,
    resync_end,
)
from muster.transport.codecs.works import decode_spec
from muster.transport.contract.event import CloudEvent, InvalidEvent
from muster.transport.contract.rows import LEASE_ROW, SIGNING_REQUEST_ROW, WORKS
from muster.transport.contract.types import Action, EventType, Subresource
from muster.transport.contract.wire import decode_event, encode_event

NOW = datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=UTC)
LEASE = {"metadata": {"name": "l", "namespace": "c1", "uid": "u1", "resourceVersion": "7"}}


def asked(body: Any, **attributes: Any) -> CloudEvent:
    data = body if isinstance(body, bytes | None) else orjson.dumps(body)
    return CloudEvent(id="i", source="a", type=f"{WORKS.data_type}.spec.resync_request", attributes=attributes, data=data)


@given(st.lists(st.builds(KnownObject, resource_id=st.text(), version=st.integers(-(1 << 63), (1 << 63) - 1), name=st.text())))
def test_what_is_asked_for_is_understood(known: list[KnownObject]) -> None:
    event = encode_resync_request(WORKS.data_type, "c1", iter(known), source="a", now=NOW, resync_id="r1")
    request = decode_resync_request(event)
    assert (request.known, request.cluster, request.resync_id) == (known, "c1", "r1")


def test_the_body_is_ocms_with_names_beside() -> None:
    event = encode_resync_request(WORKS.data_type, "c1", [KnownObject(resource_id="u", version=3, name="w")], source="a", now=NOW)
    assert event.type == f"{WORKS.data_type}.spec.resync_request"
    assert event.attributes == {"clustername": "c1", "originalsource": "", "time": NOW}
    assert event.data == b'{"resourceVersions":[{"resourceID":"u","resourceVersion":3,"name":"w"}]}'


@pytest.mark.parametrize("body", [{}, {"resourceVersions": None}, {"resourceVersions": []}, {"later": 1}])
def test_who_knows_nothing_says_so_in_several_ways(body: Any) -> None:
    assert decode_resync_request(asked(body)).known == []


def test_what_others_add_is_passed_over() -> None:
    body = {"resourceVersions": [{"resourceID": "u", "resourceVersion": 3, "later": {}}], "statusHashes": []}
    assert decode_resync_request(asked(body)).known == [KnownObject(resource_id="u", version=3)]


@pytest.mark.parametrize(
    "body",
    [
        *(None, b"", b"{", b"[]", b"null"),
        {"resourceVersions": {}},
        {"resourceVersions": [1]},
        {"resourceVersions": [{"resourceID": 1}]},
        {"resourceVersions": [{"resourceVersion": "3"}]},
        {"resourceVersions": [{"resourceVersion": 1 << 63}]},
        {"resourceVersions": [{}] * 100_001},
    ],
)
def test_what_is_no_request_is_refused(body: Any) -> None:
    with pytest.raises(InvalidEvent, match="resync request"):
        decode_resync_request(asked(body))


@given(st.binary(), st.dictionaries(st.sampled_from(["clustername", "resyncid"]), st.text() | st.integers(0, 9)))
def test_an_event_is_a_request_or_invalid(body: bytes, attributes: dict[str, Any]) -> None:
    with suppress(InvalidEvent):
        decode_resync_request(asked(body, **attributes))


def test_the_end_is_told_from_all_other_events() -> None:
    event = encode_resync_end(LEASE_ROW.data_type, "c1", "r1", now=NOW)
    assert event.type == f"{LEASE_ROW.data_type}.spec.resync_response"
    assert resync_end(event) == "r1"
    answer = encode_object(
        LEASE_ROW, LEASE, EventType(LEASE_ROW.data_type, Subresource.SPEC, Action.UPDATE), source="kube", now=NOW
    )
    assert resync_end(answer) == ""
    assert as_resync_response(answer, LEASE_ROW.data_type).type == event.type
    assert decode_object(LEASE_ROW, as_resync_response(answer, LEASE_ROW.data_type)).obj is not None


def test_a_tombstone_of_a_work_says_its_name_and_version() -> None:
    gone = Tombstone(cluster="c1", namespace="c1", name="w1", resource_id="u1", version=3)
    received = decode_spec(encode_tombstone(WORKS, gone, Action.RESYNC_RESPONSE, now=NOW))
    assert received.obj is not None
    assert (received.obj["metadata"]["name"], received.version, received.deleted) == ("w1", 3, NOW)


@pytest.mark.parametrize(("version", "expected"), [(-1, 0), (1 << 40, (1 << 31) - 1)])
def test_a_tombstone_can_be_written_whatever_version_an_agent_has_said(version: int, expected: int) -> None:
    gone = Tombstone(cluster="c1", namespace="c1", name="w1", resource_id="u1", version=version)
    event = encode_tombstone(WORKS, gone, Action.RESYNC_RESPONSE, now=NOW)
    assert decode_spec(decode_event(encode_event(event))).version == expected


@pytest.mark.parametrize("row", [LEASE_ROW, SIGNING_REQUEST_ROW], ids=lambda row: row.resource.kind)
def test_a_tombstone_of_another_object_is_the_object_as_far_as_it_is_known(row: Any) -> None:
    gone = Tombstone(cluster="c1", namespace="c1" if row.resource.namespaced else "", name="n", resource_id="u1", version=7)
    event = encode_tombstone(row, gone, Action.DELETE, now=NOW)
    assert event.attributes["resourceversion"] == "7"
    received = decode_object(row, event)
    assert received.gone
    assert received.obj is not None
    assert received.obj["metadata"] == {
        "name": "n",
        "uid": "u1",
        "deletionTimestamp": "2026-11-16T12:00:00Z",
        **({"namespace": "c1"} if row.resource.namespaced else {}),
    }
