"""Works as events, and what agents report of them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.work.v1 import ManifestWork, ManifestWorkStatus
from muster.transport.codecs.statushash import status_hash
from muster.transport.codecs.works import decode_spec, decode_status, encode_spec, encode_status
from muster.transport.contract.event import CloudEvent, InvalidEvent
from muster.transport.contract.types import Action, InvalidType

NOW = datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=UTC)
SINCE = "2026-01-02T03:04:05Z"
DELETED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
METADATA: dict[str, Any] = {"name": "w1", "namespace": "c1", "uid": "u1", "resourceVersion": "500", "generation": 3}
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a": "<b>"}}
FINALIZER = "cluster.open-cluster-management.io/manifest-work-cleanup"


def work(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": METADATA | metadata,
        "spec": {"workload": {"manifests": [MANIFEST]}} if spec is None else spec,
        "status": {"conditions": [{"type": "Applied"}]},
    }


def sent(found: Any, action: Action = Action.UPDATE, **how: Any) -> CloudEvent:
    return encode_spec(found, action, now=NOW, **how)


def test_what_an_event_says_of_a_work() -> None:
    event = sent(work())
    assert event.source == "kube"
    assert event.type == "io.open-cluster-management.works.v1alpha1.manifestbundles.spec.update_request"
    assert orjson.loads(event.text("metadata")) == METADATA
    assert {name: value for name, value in event.attributes.items() if name != "metadata"} == {
        "clustername": "c1",
        "originalsource": "",
        "resourceid": "u1",
        "resourceversion": 3,
        "logtracing": "{}",
        "time": NOW,
    }
    assert event.data == orjson.dumps({"manifests": [MANIFEST]})


def test_manifests_are_sent_as_the_bytes_they_came_in() -> None:
    wire = b'{"metadata":{"name":"w1","namespace":"c1","uid":"u1"},"spec":{"workload":{"manifests":[{"b": 1e3, "a":"\\u003c"}]}}}'
    assert ManifestWork.decode(wire).wire is wire, "what caches hold is what came"
    assert sent(wire).data == b'{"manifests":[{"b": 1e3, "a":"\\u003c"}]}'


def test_all_of_the_spec_goes_under_the_names_of_bundles() -> None:
    spec = {
        "workload": {"manifests": []},
        "deleteOption": {"propagationPolicy": "Orphan"},
        "manifestConfigs": [{"resourceIdentifier": {"resource": "a", "name": "b"}}],
        "executor": {"subject": {"type": "ServiceAccount"}},
    }
    event = sent(work(spec))
    assert event.data is not None
    assert orjson.loads(event.data) == {
        "manifests": [],
        "deleteOption": spec["deleteOption"],
        "manifestConfigs": spec["manifestConfigs"],
        "executer": spec["executor"],
    }
    received = decode_spec(event)
    assert received.obj is not None
    assert received.obj["spec"] == spec


@pytest.mark.parametrize(
    "spec",
    [{}, {"workload": None}, {"workload": {}}, {"workload": {"manifests": None}, "deleteOption": None, "manifestConfigs": []}],
)
def test_what_a_spec_lacks_is_not_sent(spec: dict[str, Any]) -> None:
    assert sent(work(spec)).data == b'{"manifests":[]}'


def test_managed_fields_stay_at_home() -> None:
    fields = [{"manager": "m", "fieldsV1": {"f:spec": {}}}]
    assert orjson.loads(sent(work(managedFields=fields)).text("metadata")) == METADATA


def test_annotations_for_logs_are_an_attribute_too() -> None:
    annotations = {"logging.open-cluster-management.io/op-id": "1", "other": "2"}
    event = sent(work(annotations=annotations))
    assert orjson.loads(event.text("logtracing")) == {"logging.open-cluster-management.io/op-id": "1"}
    assert orjson.loads(event.text("metadata"))["annotations"] == annotations


def test_a_work_that_is_being_deleted_is_sent_without_its_spec() -> None:
    event = sent(work(deletionTimestamp=SINCE, finalizers=["f"]))
    assert (event.attributes["deletiontimestamp"], event.data) == (DELETED, None)
    assert orjson.loads(event.text("metadata"))["deletionTimestamp"] == SINCE


def test_a_work_that_is_gone_is_one_that_is_being_deleted() -> None:
    event = sent(work(finalizers=["f"]), Action.DELETE, gone=True)
    assert (event.attributes["deletiontimestamp"], event.data) == (NOW, None)
    assert orjson.loads(event.text("metadata")) == {**METADATA, "deletionTimestamp": "2026-11-16T12:00:00Z"}


@pytest.mark.parametrize(
    "found", [b"", b"[]", {}, {"metadata": []}, {"metadata": {"generation": "3"}}, work([1]), work(generation=1 << 31)]  # type: ignore[arg-type]
)  # fmt: skip
def test_what_is_no_work_is_not_sent(found: Any) -> None:
    with pytest.raises(InvalidEvent):
        sent(found)


def received(data: Any = None, action: Action = Action.UPDATE, **attributes: Any) -> CloudEvent:
    base: dict[str, Any] = {"clustername": "c1", "resourceid": "u1", "resourceversion": 3} | attributes
    return CloudEvent(
        id="i",
        source="hub",
        type=f"io.open-cluster-management.works.v1alpha1.manifestbundles.spec.{action}",
        attributes={name: value for name, value in base.items() if value is not None},
        data=data if data is None or isinstance(data, bytes) else orjson.dumps(data),
    )


def metadata_of(event: CloudEvent) -> dict[str, Any]:
    found = decode_spec(event).obj
    assert found is not None
    metadata: dict[str, Any] = found["metadata"]
    return metadata


def test_the_metadata_of_a_received_work() -> None:
    said = {"name": "w1", "namespace": "other", "uid": "other", "resourceVersion": "9", "generation": 9, "labels": {"a": "b"}}
    metadata = metadata_of(received({"manifests": []}, metadata=orjson.dumps(said).decode()))
    assert metadata == {
        "name": "w1",
        "namespace": "c1",
        "uid": "u1",
        "generation": 3,
        "labels": {"a": "b", "cloudevents.open-cluster-management.io/originalsource": "hub"},
        "annotations": {
            "cloudevents.open-cluster-management.io/datatype": "io.open-cluster-management.works.v1alpha1.manifestbundles"
        },
    }


def test_a_work_without_metadata_is_called_by_its_id() -> None:
    assert metadata_of(received({"manifests": []}))["name"] == "u1"


def test_what_is_said_for_logs_becomes_annotations() -> None:
    tracing = '{"logging.open-cluster-management.io/op-id":"1","other":"2"}'
    annotations = metadata_of(received({"manifests": []}, logtracing=tracing))["annotations"]
    assert annotations["logging.open-cluster-management.io/op-id"] == "1"
    assert "other" not in annotations


def test_a_generation_may_be_a_text() -> None:
    assert decode_spec(received({"manifests": []}, resourceversion="12")).version == 12


def test_a_received_deletion_has_the_finalizer_that_the_agent_takes_away() -> None:
    event = received(deletiontimestamp=NOW, metadata='{"name":"w1","finalizers":["other"]}')
    assert metadata_of(event)["finalizers"] == [FINALIZER]
    found = decode_spec(event)
    assert (found.deleted, found.gone) == (NOW, False)
    assert decode_spec(received(None, Action.DELETE, deletiontimestamp=NOW, metadata='{"name":"w1"}')).gone


@pytest.mark.parametrize(("finalizers", "held"), [("[]", False), ("null", False), ('["f"]', True)])
def test_a_deletion_says_whether_the_work_was_held(finalizers: str, held: bool) -> None:
    metadata = f'{{"name":"w1","finalizers":{finalizers}}}'
    assert decode_spec(received(None, Action.DELETE, deletiontimestamp=NOW, metadata=metadata)).held is held


@pytest.mark.parametrize(
    ("data", "attributes", "expected"),
    [
        (None, {}, "no data"),
        (b"[]", {}, "an object is expected"),
        ({"manifests": {}}, {}, "manifests is a dict"),
        ({"manifests": [1]}, {}, "manifests has an item"),
        ({"manifests": [], "deleteOption": []}, {}, "deleteOption"),
        ({}, {"resourceversion": None}, "resourceversion"),
        ({}, {"resourceversion": "x"}, "resourceversion"),
        ({}, {"resourceversion": "2147483648"}, "resourceversion"),
        ({}, {"resourceversion": -1}, "resourceversion"),
        ({}, {"resourceid": None}, "resourceid"),
        ({}, {"clustername": None}, "clustername"),
        ({}, {"metadata": "{"}, "'metadata' is not JSON"),
        ({}, {"metadata": "[]"}, "'metadata' is a JSON list"),
        ({}, {"metadata": '{"name":1}'}, "metadata.name"),
        ({}, {"metadata": '{"labels":1}'}, "metadata.labels"),
        ({}, {"metadata": 1}, "'metadata' is a int"),
        ({}, {"logtracing": "1"}, "logtracing"),
    ],
)
def test_what_is_no_work_is_refused_by_name(data: Any, attributes: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidEvent, match=expected):
        decode_spec(received(data, **attributes))


STATUS = {
    "conditions": [{"type": "Applied", "status": "True", "reason": "R", "message": "1 < 2", "lastTransitionTime": SINCE}],
    "resourceStatus": {"manifests": [{"resourceMeta": {"ordinal": 0}, "conditions": []}]},
}
LABELS = {"cloudevents.open-cluster-management.io/originalsource": "hub"}


def reported(status: dict[str, Any], **metadata: Any) -> CloudEvent:
    typed = msgspec.convert(status, ManifestWorkStatus)
    return encode_status(METADATA | {"labels": LABELS} | metadata, typed, source="agent", sequence=42, now=NOW)


def test_what_an_agent_reports() -> None:
    event = reported(STATUS)
    assert event.type == "io.open-cluster-management.works.v1alpha1.manifestbundles.status.update_request"
    assert (event.source, event.text("originalsource"), event.text("sequenceid")) == ("agent", "hub", "42")
    assert orjson.loads(event.text("metadata")) == METADATA | {"labels": LABELS}
    assert event.attributes["resourceversion"] == 3
    report = decode_status(event)
    assert (report.cluster, report.resource_id, report.generation, report.sequence) == ("c1", "u1", 3, 42)
    assert report.status_hash == event.text("statushash")
    assert report.status["conditions"] == STATUS["conditions"]
    assert report.status["resourceStatus"]["manifests"][0]["resourceMeta"]["ordinal"] == 0
    assert not report.cleaned_up


def test_the_status_of_nothing_goes_too() -> None:
    report = decode_status(reported({}))
    assert report.status == {"conditions": [], "resourceStatus": {}}


@pytest.mark.parametrize(("status", "expected"), [("True", True), ("False", False)])
def test_an_agent_says_when_nothing_is_left(status: str, expected: bool) -> None:
    assert decode_status(reported({"conditions": [{"type": "Deleted", "status": status}]})).cleaned_up is expected


def test_a_work_of_which_nobody_knows_who_sent_it_is_not_reported() -> None:
    with pytest.raises(InvalidEvent, match="originalsource"):
        reported(STATUS, labels={})


def test_equal_status_has_equal_hash_and_another_has_another() -> None:
    first, second = (msgspec.convert(STATUS, ManifestWorkStatus) for _ in range(2))
    assert status_hash(first) == status_hash(second) != status_hash(ManifestWorkStatus())
    assert status_hash(ManifestWorkStatus()) == "3a4ba43801251ccdf889a3154674d23a35ab996aacfc00de92e61dbb2f5cf189", "Go's"


@pytest.mark.parametrize(
    ("data", "attributes", "expected"),
    [
        (None, {}, "no data"),
        ({"conditions": {}}, {}, "conditions is a dict"),
        ({"conditions": ["x"]}, {}, "conditions has an item"),
        ({"resourceStatus": {}}, {}, "resourceStatus"),
        ({}, {"sequenceid": None}, "sequenceid"),
        ({}, {"sequenceid": "abc"}, "sequenceid"),
        ({}, {"sequenceid": "-1"}, "sequenceid"),
        ({}, {"sequenceid": str(1 << 63)}, "sequenceid"),
        ({}, {"sequenceid": 7}, "sequenceid"),
        ({}, {"resourceversion": None}, "resourceversion"),
        ({}, {"resourceid": None}, "resourceid"),
        ({}, {"statushash": 1}, "statushash"),
    ],
)
def test_what_is_no_status_is_refused_by_name(data: Any, attributes: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidEvent, match=expected):
        decode_status(received(data, **({"sequenceid": "1"} | attributes)))


def test_null_is_nothing() -> None:
    """Go writes it for a list that is not there."""
    assert decode_status(received({"conditions": None, "resourceStatus": None}, sequenceid="1")).status["conditions"] == []


json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["manifests", "conditions", "resourceStatus", "executer", "name", "labels"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
attributes = st.dictionaries(
    st.sampled_from(["clustername", "resourceid", "resourceversion", "deletiontimestamp", "metadata", "logtracing", "sequenceid"]),
    st.text(max_size=5) | st.integers(-9, 9) | st.booleans() | st.just(NOW) | json.map(lambda found: orjson.dumps(found).decode()),
)


@given(json, attributes)
def test_an_event_is_a_work_or_invalid(data: Any, found: dict[str, Any]) -> None:
    for decode in (decode_spec, decode_status):
        with suppress(InvalidEvent, InvalidType):
            decode(received(data, **found))
