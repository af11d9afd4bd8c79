"""Plain objects as events and back."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.transport.codecs.objects import decode_object, encode_object
from muster.transport.contract.event import CloudEvent, InvalidEvent
from muster.transport.contract.rows import ADDONS_BETA, CLUSTERS, LEASE_ROW, ROWS, SIGNING_REQUEST_ROW, TOKENS, Row
from muster.transport.contract.types import Action, EventType, InvalidType, Subresource

NOW = datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=UTC)
SINCE = "2026-01-02T03:04:05Z"
LEASE: dict[str, Any] = {
    "metadata": {"name": "l", "namespace": "c1", "uid": "u1", "resourceVersion": "7", "finalizers": ["f"]},
    "spec": {"holderIdentity": "<h>", "renewTime": None},
}


def told(row: Row, action: Action = Action.UPDATE) -> EventType:
    return EventType(row.data_type, Subresource.SPEC, action)


def encoded(row: Row, obj: Any, **how: Any) -> CloudEvent:
    return encode_object(row, obj, told(row), source="kube", now=NOW, **how)


def body(event: CloudEvent) -> dict[str, Any]:
    assert event.data is not None
    document: dict[str, Any] = orjson.loads(event.data)
    return document


def test_an_object_of_its_kind_is_sent_as_the_bytes_it_came_in() -> None:
    wire = b'{"apiVersion": "coordination.k8s.io/v1", "kind":"Lease","metadata":{"name":"l","namespace":"c1"} }'
    assert encoded(LEASE_ROW, wire).data is wire


def test_an_object_of_a_list_is_told_its_kind() -> None:
    """Items of lists do not have it."""
    for obj in (LEASE, orjson.dumps(LEASE), orjson.dumps(LEASE, option=orjson.OPT_INDENT_2), {**LEASE, "kind": "Lease"}):
        event = encoded(LEASE_ROW, obj)
        assert body(event) == {**LEASE, "kind": "Lease", "apiVersion": "coordination.k8s.io/v1"}


def test_what_an_event_says_of_an_object() -> None:
    event = encoded(LEASE_ROW, LEASE)
    assert event.source == "kube"
    assert event.type == "coordination.k8s.io.v1.leases.spec.update_request"
    assert event.attributes == {"clustername": "c1", "originalsource": "", "resourceid": "u1", "resourceversion": "7", "time": NOW}


def test_an_object_that_nobody_has_stored_yet_has_no_id_and_no_version() -> None:
    event = encoded(CLUSTERS, {"metadata": {"name": "c1"}})
    assert event.attributes == {"clustername": "c1", "originalsource": "", "time": NOW}


@pytest.mark.parametrize(
    ("row", "metadata"),
    [
        (CLUSTERS, {"name": "c1"}),
        (LEASE_ROW, {"name": "l", "namespace": "c1"}),
        (ADDONS_BETA, {"name": "a", "namespace": "c1"}),
        (SIGNING_REQUEST_ROW, {"name": "r", "labels": {"open-cluster-management.io/cluster-name": "c1"}}),
        (TOKENS, {"name": "sa", "namespace": "c1", "uid": "u"}),
    ],
)
def test_whose_cluster_an_object_is(row: Row, metadata: dict[str, Any]) -> None:
    assert encoded(row, {"metadata": metadata}).cluster == "c1"


@pytest.mark.parametrize("obj", [{"metadata": {"name": "r"}}, {"metadata": {}}, {}, b"{}", b"[]", b"{", {"metadata": {"name": 1}}])
def test_an_object_that_is_no_clusters_is_not_sent(obj: Any) -> None:
    with pytest.raises(InvalidEvent):
        encoded(SIGNING_REQUEST_ROW, obj)


def test_a_token_request_says_no_kind_and_no_version() -> None:
    obj = {"kind": "TokenRequest", "metadata": {"name": "sa", "namespace": "c1", "uid": "u", "resourceVersion": "3"}}
    event = encoded(TOKENS, obj)
    assert body(event) == {"metadata": obj["metadata"]}
    assert "resourceversion" not in event.attributes


def test_an_object_that_is_being_deleted_is_sent_whole_beside_the_moment() -> None:
    deleting = {**LEASE, "metadata": {**LEASE["metadata"], "deletionTimestamp": SINCE}}
    event = encoded(LEASE_ROW, deleting)
    assert event.attributes["deletiontimestamp"] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert body(event)["metadata"] == deleting["metadata"]
    received = decode_object(LEASE_ROW, event)
    assert received.deleted == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert not received.gone, "something holds it"


def test_an_object_that_is_gone_has_no_finalizers_and_a_moment() -> None:
    event = encoded(LEASE_ROW, LEASE, gone=True)
    assert event.attributes["deletiontimestamp"] == NOW
    metadata = body(event)["metadata"]
    assert "finalizers" not in metadata
    assert metadata["deletionTimestamp"] == "2026-11-16T12:00:00Z"
    assert decode_object(LEASE_ROW, event).gone
    assert LEASE["metadata"]["finalizers"] == ["f"], "what was given is as it was"


def test_an_object_goes_there_and_back() -> None:
    received = decode_object(LEASE_ROW, encoded(LEASE_ROW, LEASE))
    assert received.obj == {**LEASE, "kind": "Lease", "apiVersion": "coordination.k8s.io/v1"}
    assert (received.cluster, received.resource_id, received.version, received.deleted) == ("c1", "u1", 7, None)
    assert (received.event_type, received.gone) == (told(LEASE_ROW), False)


def event(data: Any = None, action: Action = Action.UPDATE, **attributes: Any) -> CloudEvent:
    written = data if data is None or isinstance(data, bytes) else orjson.dumps(data)
    return CloudEvent(id="i", source="s", type=str(told(LEASE_ROW, action)), attributes=attributes, data=written)


def test_the_kind_of_an_object_is_that_of_its_row_whatever_it_says() -> None:
    received = decode_object(LEASE_ROW, event({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "l"}}))
    assert received.obj is not None
    assert (received.obj["kind"], received.obj["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")


def test_a_deletion_may_come_without_the_object() -> None:
    received = decode_object(LEASE_ROW, event(resourceid="u1", deletiontimestamp=NOW))
    assert (received.resource_id, received.deleted, received.obj, received.gone) == ("u1", NOW, None, True)
    assert decode_object(LEASE_ROW, event(resourceid="u1", deletiontimestamp=SINCE)).deleted == datetime(
        2026, 1, 2, 3, 4, 5, tzinfo=UTC
    )


def test_what_the_object_says_of_its_uid_counts() -> None:
    """OCM 1.2 says the name as id."""
    received = decode_object(LEASE_ROW, event({"metadata": {"name": "l", "uid": "u1"}}, resourceid="l"))
    assert received.resource_id == "u1"
    assert decode_object(LEASE_ROW, event({"metadata": {"name": "l"}}, resourceid="l")).resource_id == "l"


def test_a_deletion_by_its_action_alone_is_one() -> None:
    received = decode_object(LEASE_ROW, event({"metadata": {"name": "l", "finalizers": ["f"]}}, Action.DELETE, time=NOW))
    assert (received.deleted, received.gone) == (NOW, True)


@pytest.mark.parametrize(("version", "expected"), [("12", 12), (12, 12), ("", None), ("9223372036854775807", (1 << 63) - 1)])
def test_versions_are_numbers_and_decimal_texts(version: Any, expected: int | None) -> None:
    assert decode_object(LEASE_ROW, event({}, resourceversion=version)).version == expected


@pytest.mark.parametrize(
    ("data", "attributes", "expected"),
    [
        (None, {}, "no data"),
        (b"", {}, "no data"),
        (b"{", {}, "not JSON"),
        (b"[]", {}, "an object is expected"),
        (b'{"metadata":[]}', {}, "metadata is a list"),
        (b'{"metadata":{"uid":1}}', {}, "metadata.uid"),
        (b'{"metadata":{"deletionTimestamp":"now"}}', {}, "metadata.deletionTimestamp"),
        (b'{"a":' + b"[" * 300 + b"]" * 300 + b"}", {}, "nested"),
        (b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}", {}, "not JSON"),
        (b"{}", {"resourceid": 1}, "resourceid"),
        (b"{}", {"clustername": True}, "clustername"),
        (b"{}", {"resourceversion": "abc"}, "resourceversion"),
        (b"{}", {"resourceversion": "-1"}, "resourceversion"),
        (b"{}", {"resourceversion": "９"}, "resourceversion"),
        (b"{}", {"resourceversion": True}, "resourceversion"),
        (b"{}", {"resourceversion": str(1 << 63)}, "resourceversion"),
        (b"{}", {"resourceversion": "1" * 10_000}, "resourceversion"),
        (b"{}", {"deletiontimestamp": "now"}, "deletiontimestamp"),
        (b"{}", {"deletiontimestamp": 7}, "deletiontimestamp"),
        (None, {"deletiontimestamp": NOW}, "resourceid"),
    ],
)
def test_what_cannot_be_understood_is_refused_by_name(data: bytes | None, attributes: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidEvent, match=expected):
        decode_object(LEASE_ROW, event(data, **attributes))


def test_many_brackets_are_not_deep() -> None:
    wide: dict[str, Any] = {"a": [[{}] for _ in range(500)]}
    assert decode_object(LEASE_ROW, event(wide)).obj is not None


json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["metadata", "uid", "name", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)
attributes = st.dictionaries(
    st.sampled_from(["clustername", "resourceid", "resourceversion", "deletiontimestamp"]),
    st.text(max_size=5) | st.integers(-9, 9) | st.booleans() | st.binary(max_size=3) | st.just(NOW),
)


@given(st.sampled_from(list(ROWS.values())), json, attributes, st.sampled_from(Action))
def test_an_event_is_about_an_object_or_invalid(row: Row, data: Any, found: dict[str, Any], action: Action) -> None:
    with suppress(InvalidEvent, InvalidType):
        decode_object(row, event(data, action, **found))
