"""What Go's codecs wrote is understood here, and what is written here is what they wrote, byte for byte but for ids and moments."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson
import pytest

from muster.api.work.v1 import ManifestWorkStatus
from muster.machinery.protobuf import read_fields
from muster.transport.codecs.objects import decode_object, encode_object
from muster.transport.codecs.resync import decode_resync_request
from muster.transport.codecs.works import decode_spec, decode_status, encode_spec, encode_status
from muster.transport.contract.event import SEQUENCE, TIME, CloudEvent
from muster.transport.contract.rows import ROWS, WORKS
from muster.transport.contract.types import Action, EventType, Subresource
from muster.transport.contract.wire import decode_publish_request, encode_event
from tests.unit.transport.golden import Golden, load

CASES = load()
NOW = datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=UTC)
UID = "55555555-5555-5555-5555-555555555555"
DELETED = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)


def named(name: str) -> list[Golden]:
    """By 1.2 and by 1.3."""
    return [case for case in CASES if case.name == name]


def ours(case: Golden) -> CloudEvent:
    """The event that is written here for the object that Go was given."""
    event_type = EventType.parse(case.question["type"])
    obj, source = case.question["object"], case.question["source"]
    if event_type.data_type != WORKS.data_type:
        return encode_object(ROWS[event_type.data_type], obj, event_type, source=source, now=NOW)
    if event_type.subresource is Subresource.SPEC:
        return encode_spec(obj, event_type.action, now=NOW)
    status = msgspec.convert(obj.get("status", {}), ManifestWorkStatus)
    return encode_status(obj["metadata"], status, source=source, sequence=1, now=NOW)


def contains(larger: Any, smaller: Any) -> bool:
    """Whether all of a document is in another, which may say more: Go writes what is empty, too."""
    if isinstance(smaller, dict):
        return isinstance(larger, dict) and all(name in larger and contains(larger[name], item) for name, item in smaller.items())
    return bool(larger == smaller)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_field_has_the_bytes_that_go_writes(case: Golden) -> None:
    [(number, _, message)] = read_fields(case.wire)
    assert number == 1
    assert isinstance(message, bytes)
    event = decode_publish_request(case.wire)
    written = sorted(map(repr, read_fields(encode_event(event))))
    expected = sorted(map(repr, read_fields(message)))
    # A moment is read to the microsecond, so the digits after it are not there any more.
    assert [field for field in written if "ce-time" not in field] == [field for field in expected if "ce-time" not in field]
    moment = event.attributes[TIME]
    assert isinstance(moment, datetime)
    assert moment.tzinfo is UTC


@pytest.mark.parametrize("case", [case for case in CASES if case.question["op"] == "encode" and "1.3" in case.recorded], ids=str)
def test_the_same_object_makes_the_same_event(case: Golden) -> None:
    theirs, event = decode_publish_request(case.wire), ours(case)
    assert (event.type, event.source) == (theirs.type, theirs.source)
    different = {TIME, SEQUENCE, "metadata", "logtracing"}
    assert {name: value for name, value in event.attributes.items() if name not in different} == {
        name: value for name, value in theirs.attributes.items() if name not in different
    }
    assert event.attributes.keys() == theirs.attributes.keys()
    for name in ("metadata", "logtracing"):
        if name in theirs.attributes:
            assert orjson.loads(event.text(name)) == orjson.loads(theirs.text(name))
    if theirs.data is not None:
        assert event.data is not None
        assert contains(orjson.loads(theirs.data), {k: v for k, v in orjson.loads(event.data).items() if v != []})


@pytest.mark.parametrize("case", named("cluster deleting") + named("lease deleted"), ids=str)
def test_deletions_of_either_version_are_understood(case: Golden) -> None:
    """1.3 sends no object, 1.2 sends nothing else."""
    event = decode_publish_request(case.wire)
    received = decode_object(ROWS[event.event_type.data_type], event)
    assert (received.deleted, received.resource_id, received.gone) == (DELETED, UID, True)
    assert (received.obj is None) == ("1.3" in case.recorded)


@pytest.mark.parametrize("case", named("cluster update") + named("lease update") + named("addon v1beta1 status"), ids=str)
def test_objects_of_either_version_are_understood(case: Golden) -> None:
    event = decode_publish_request(case.wire)
    row = ROWS[event.event_type.data_type]
    received = decode_object(row, event)
    assert (received.resource_id, received.cluster, received.deleted) == (UID, "cluster1", None)
    assert received.obj is not None
    assert contains(received.obj, case.question["object"])
    assert (received.obj["kind"], received.obj["apiVersion"]) == (row.resource.kind, row.resource.api_version)
    if "1.3" in case.recorded:
        assert received.version == int(case.question["object"]["metadata"]["resourceVersion"])


@pytest.mark.parametrize("case", named("token create"), ids=str)
def test_a_token_request_is_known_by_what_its_sender_called_it(case: Golden) -> None:
    received = decode_object(ROWS[EventType.parse(case.question["type"]).data_type], decode_publish_request(case.wire))
    assert (received.resource_id, received.version) == (UID, None)


@pytest.mark.parametrize("case", named("work create"), ids=str)
def test_a_work_is_what_gos_agent_makes_of_it(case: Golden) -> None:
    received = decode_spec(decode_publish_request(case.wire))
    assert received.obj == {
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {
            "name": "w1",
            "namespace": "cluster1",
            "uid": UID,
            "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"cloudevents.open-cluster-management.io/originalsource": "kube"},
            "annotations": {
                "cloudevents.open-cluster-management.io/datatype": str(WORKS.data_type),
                "logging.open-cluster-management.io/op-id": "o<1>",
            },
        },
        "spec": case.question["object"]["spec"],
    }
    assert (received.version, received.deleted, received.event_type.action) == (3, None, Action.CREATE)


@pytest.mark.parametrize("case", named("work deleting"), ids=str)
def test_a_work_that_is_being_deleted_has_no_spec_and_our_finalizer(case: Golden) -> None:
    received = decode_spec(decode_publish_request(case.wire))
    assert received.obj is not None
    assert "spec" not in received.obj
    assert received.deleted == DELETED
    assert received.obj["metadata"]["name"] == "w1"
    assert received.obj["metadata"]["deletionTimestamp"] == "2026-01-02T03:04:06Z"
    assert received.obj["metadata"]["finalizers"] == ["cluster.open-cluster-management.io/manifest-work-cleanup"]


@pytest.mark.parametrize("case", named("work status"), ids=str)
def test_a_status_is_that_of_the_work(case: Golden) -> None:
    event = decode_publish_request(case.wire)
    report = decode_status(event)
    assert report.status == case.question["object"]["status"]
    assert (report.cluster, report.resource_id, report.generation, report.cleaned_up) == ("cluster1", UID, 3, False)
    assert str(report.sequence) == event.text(SEQUENCE)


@pytest.mark.parametrize("case", named("resync deletion"), ids=str)
def test_a_deletion_that_says_no_name_is_one_by_id(case: Golden) -> None:
    """As Go's broker sends it; the agent may know what it calls so."""
    received = decode_spec(decode_publish_request(case.wire))
    assert (received.obj, received.version, received.deleted, received.resource_id) == (None, None, DELETED, UID)


@pytest.mark.parametrize("case", named("resync request") + named("resync request of nothing"), ids=str)
def test_resync_requests_are_understood(case: Golden) -> None:
    request = decode_resync_request(decode_publish_request(case.wire))
    expected = case.question["object"]["resourceVersions"]
    assert [(known.resource_id, known.version, known.name) for known in request.known] == [
        (item["resourceID"], item["resourceVersion"], "") for item in expected
    ]
    assert (request.cluster, request.resync_id) == ("cluster1", "")
