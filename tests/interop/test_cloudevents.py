"""Go's codecs of the transport and ours, side by side: each reads what the other writes, and what they make of it is the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.work.v1 import ManifestWorkStatus
from muster.machinery.objects import GVR
from muster.machinery.protobuf import write_varint
from muster.runtime.client.errors import AlreadyExists, Conflict, StatusError, status_error
from muster.transport.codecs.objects import decode_object, encode_object
from muster.transport.codecs.resync import KnownObject, Tombstone, encode_resync_end, encode_resync_request, encode_tombstone
from muster.transport.codecs.statushash import status_hash
from muster.transport.codecs.works import decode_spec, decode_status, encode_spec, encode_status
from muster.transport.contract import wire
from muster.transport.contract.errors import from_rpc, to_rpc
from muster.transport.contract.event import CloudEvent, InvalidEvent, Uri, UriRef
from muster.transport.contract.rows import (
    ADDONS_ALPHA,
    ADDONS_BETA,
    CLUSTERS,
    LEASE_ROW,
    SIGNING_REQUEST_ROW,
    TOKENS,
    WORKS,
    Belongs,
    Row,
)
from muster.transport.contract.types import Action, EventType, Subresource
from muster.transport.contract.wire import decode_publish_request, encode_publish_request
from muster.transport.rpc.status import Code, RpcError
from tests.interop.cloudevents.oracle import VERSIONS, GoRefused, Oracle, started
from tests.interop.cloudevents.record import QUESTIONS
from tests.unit.transport.golden import load

NOW = datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=UTC)
PROTO = Path(wire.__file__).parent / "cloudevents.proto"
differential = settings(max_examples=60, deadline=None)
thorough = settings(max_examples=400, deadline=None)


@pytest.fixture(scope="module", params=VERSIONS)
def go(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with started(request.param) as oracle:
        yield oracle


@pytest.fixture(scope="module")
def go13() -> Iterator[Oracle]:
    with started("1.3") as oracle:
        yield oracle


# What JSON of objects is made of: Go's texts are Unicode, and its zero values are left out of what it writes.
texts = st.text(min_size=1, max_size=12)
labels = st.dictionaries(texts, texts, max_size=3)
uids = st.uuids().map(str)
moments = st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1)).map(lambda moment: f"{moment:%Y-%m-%dT%H:%M:%SZ}")
versions = st.integers(1, (1 << 62)).map(str)


@st.composite
def metadata(draw: st.DrawFn, row: Row, *, deleting: bool | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": draw(texts), "uid": draw(uids), "resourceVersion": draw(versions)}
    found["generation"] = draw(st.integers(1, (1 << 31) - 1))
    if row.resource.namespaced:
        found["namespace"] = draw(texts)
    for name in ("labels", "annotations"):
        if value := draw(labels):
            found[name] = value
    if row.belongs is Belongs.LABEL:
        found.setdefault("labels", {})["open-cluster-management.io/cluster-name"] = draw(texts)
    if draw(st.booleans()) if deleting is None else deleting:
        found["deletionTimestamp"] = draw(moments)
        found["finalizers"] = ["example.com/held"]
    return found


def body(part: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({part: st.fixed_dictionaries(fields)})


BODIES: dict[Row, st.SearchStrategy[dict[str, Any]]] = {
    CLUSTERS: body("spec", hubAcceptsClient=st.booleans(), leaseDurationSeconds=st.integers(1, 99)),
    SIGNING_REQUEST_ROW: body("spec", signerName=texts, request=st.just("UEVN"), usages=st.lists(texts, min_size=1, max_size=2)),
    LEASE_ROW: body("spec", holderIdentity=texts, renewTime=moments.map(lambda text: text[:-1] + ".123456Z")),
    ADDONS_ALPHA: body("spec", installNamespace=texts),
    ADDONS_BETA: body("status", namespace=texts),
}


@st.composite
def objects(draw: st.DrawFn) -> tuple[Row, dict[str, Any]]:
    row = draw(st.sampled_from(list(BODIES)))
    return row, {"metadata": draw(metadata(row)), **draw(BODIES[row])}


manifests = st.builds(
    lambda name, data: {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}, texts, labels
)


@st.composite
def works(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {"workload": {"manifests": draw(st.lists(manifests, min_size=1, max_size=3))}}
    if draw(st.booleans()):
        spec["deleteOption"] = {"propagationPolicy": "Orphan"}
    if draw(st.booleans()):
        spec["executor"] = {
            "subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": draw(texts), "name": draw(texts)}}
        }
    found = draw(metadata(WORKS))
    if draw(st.booleans()):
        found.setdefault("annotations", {})["logging.open-cluster-management.io/op-id"] = draw(texts)
    return {"metadata": found, "spec": spec}


conditions = st.fixed_dictionaries(
    {
        "type": texts,
        "status": st.sampled_from(["True", "False"]),
        "reason": texts,
        "message": st.text(max_size=20),
        "lastTransitionTime": moments,
    },
    optional={"observedGeneration": st.integers(1, 1 << 40)},
)
feedback = st.one_of(
    st.fixed_dictionaries({"type": st.just("Integer"), "integer": st.integers(-(1 << 63), (1 << 63) - 1)}),
    st.fixed_dictionaries({"type": st.just("String"), "string": st.text(max_size=12)}),
    st.fixed_dictionaries({"type": st.just("Boolean"), "boolean": st.booleans()}),
    st.fixed_dictionaries({"type": st.just("JsonRaw"), "jsonRaw": st.text(max_size=12)}),
)
resource_metas = st.fixed_dictionaries(
    {"ordinal": st.integers(0, 99)},
    optional=dict.fromkeys(("group", "version", "kind", "resource", "name", "namespace"), texts),
)
manifest_statuses = st.fixed_dictionaries(
    {"resourceMeta": resource_metas, "conditions": st.lists(conditions, max_size=2)},
    optional={
        "statusFeedback": st.fixed_dictionaries(
            {"values": st.lists(st.fixed_dictionaries({"name": texts, "fieldValue": feedback}), max_size=2)}
        )
    },
)
statuses = st.fixed_dictionaries(
    {},
    optional={
        "conditions": st.lists(conditions, max_size=2),
        "resourceStatus": st.fixed_dictionaries({"manifests": st.lists(manifest_statuses, max_size=2)}),
    },
)


def without_nothing(value: Any) -> Any:
    """A document without what Go writes although it is not there."""
    if isinstance(value, dict):
        kept = {name: without_nothing(item) for name, item in value.items()}
        return {name: item for name, item in kept.items() if item not in (None, "", {}, [], 0, False)}
    if isinstance(value, list):
        return [without_nothing(item) for item in value]
    return value


def test_our_proto_says_what_gos_does(go: Oracle) -> None:
    answer = go.ask("fields")
    assert answer["text"] == wire.SERVICE
    found: dict[str, str] = {}
    for message, body in re.findall(r"message (\w+) \{(.*?)\n\}", PROTO.read_text(), re.DOTALL):
        for kind, name, number in re.findall(r"^ +((?:map<.*?>)|[\w.]+) (\w+) = (\d+);", body, re.MULTILINE):
            found[f"{message}.{name}"] = f"{number} {kind.rpartition('.')[2]}"
    assert found == answer["object"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_golden_files_are_what_go_writes(version: str) -> None:
    recorded = {case.name: case for case in load() if version in case.recorded}
    assert {name: case.question for name, case in recorded.items()} == QUESTIONS
    with started(version) as oracle:
        for name, question in QUESTIONS.items():
            now, then = (decode_publish_request(found) for found in (oracle.ask(**question)["wire"], recorded[name].wire))
            assert now.data == then.data
            assert now.attributes.keys() == then.attributes.keys()


@differential
@given(objects(), st.sampled_from([Action.CREATE, Action.UPDATE, Action.DELETE]), st.booleans())
def test_go_reads_the_objects_we_write(go: Oracle, found: tuple[Row, dict[str, Any]], action: Action, gone: bool) -> None:
    """Also 1.2, which knows deletions from the object alone."""
    row, obj = found
    event = encode_object(row, obj, EventType(row.data_type, Subresource.SPEC, action), source="kube", now=NOW, gone=gone)
    read = without_nothing(go.ask("decode", wire=encode_publish_request(event))["object"])
    assert (read.pop("kind"), read.pop("apiVersion")) == (row.resource.kind, row.resource.api_version)
    expected = without_nothing(obj)
    if gone:
        expected["metadata"].pop("finalizers", None)
        expected["metadata"].setdefault("deletionTimestamp", "2026-11-16T12:00:00Z")
    assert read == expected


@differential
@given(objects(), st.sampled_from([Action.CREATE, Action.UPDATE]))
def test_we_read_the_objects_go_writes(go: Oracle, found: tuple[Row, dict[str, Any]], action: Action) -> None:
    row, obj = found
    answer = go.ask("encode", type=str(EventType(row.data_type, Subresource.SPEC, action)), source="kube", object=obj)
    received = decode_object(row, decode_publish_request(answer["wire"]))
    assert received.resource_id == obj["metadata"]["uid"]
    assert received.cluster == row.belongs.cluster_of(obj)
    assert (received.deleted is None) == ("deletionTimestamp" not in obj["metadata"])
    if received.obj is not None:
        read = without_nothing(received.obj)
        assert (read.pop("kind"), read.pop("apiVersion")) == (row.resource.kind, row.resource.api_version)
        assert read == without_nothing(obj)


@differential
@given(st.data())
def test_a_token_request_goes_there_and_back(go: Oracle, data: st.DataObject) -> None:
    obj = {
        "metadata": {"name": data.draw(texts), "namespace": data.draw(texts), "uid": data.draw(uids)},
        "spec": {"expirationSeconds": data.draw(st.integers(600, 1 << 32))},
    }
    event_type = EventType(TOKENS.data_type, Subresource.SPEC, Action.CREATE)
    event = encode_object(TOKENS, obj, event_type, source="c", now=NOW)
    assert without_nothing(go.ask("decode", wire=encode_publish_request(event))["object"]) == obj
    answer = go.ask("encode", type=str(event_type), source="c", object=obj)
    received = decode_object(TOKENS, decode_publish_request(answer["wire"]))
    assert received.obj is not None
    assert without_nothing(received.obj) == {**obj, "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}


@differential
@given(works(), st.booleans())
def test_go_and_we_make_the_same_work_of_what_we_write(go: Oracle, work: dict[str, Any], gone: bool) -> None:
    event = encode_spec(orjson.dumps(work), Action.UPDATE, now=NOW, gone=gone)
    theirs = go.ask("decode", wire=encode_publish_request(event))["object"]
    received = decode_spec(event)
    assert received.obj is not None
    ours = {name: part for name, part in received.obj.items() if name not in ("apiVersion", "kind")}
    assert without_nothing(theirs) == without_nothing(ours)
    assert (received.version, received.resource_id) == (work["metadata"]["generation"], work["metadata"]["uid"])


@differential
@given(works())
def test_go_and_we_make_the_same_work_of_what_go_writes(go: Oracle, work: dict[str, Any]) -> None:
    event_type = EventType(WORKS.data_type, Subresource.SPEC, Action.CREATE)
    written = go.ask("encode", type=str(event_type), source="kube", object=work)["wire"]
    theirs = go.ask("decode", wire=written)["object"]
    received = decode_spec(decode_publish_request(written))
    assert received.obj is not None
    ours = {name: part for name, part in received.obj.items() if name not in ("apiVersion", "kind")}
    assert without_nothing(theirs) == without_nothing(ours)


@differential
@given(metadata(WORKS, deleting=False), statuses)
def test_go_reads_the_status_we_write_and_hashes_it_alike(go: Oracle, found: dict[str, Any], status: dict[str, Any]) -> None:
    found.setdefault("labels", {})["cloudevents.open-cluster-management.io/originalsource"] = "kube"
    typed = msgspec.convert(status, ManifestWorkStatus)
    event = encode_status(found, typed, source="agent", sequence=7, now=NOW)
    read = go.ask("decode", wire=encode_publish_request(event))["object"]
    assert without_nothing(read.get("status", {})) == without_nothing(status)
    assert read["metadata"]["annotations"]["cloudevents.open-cluster-management.io/sequenceid"] == "7"
    assert status_hash(typed) == go.ask("hash", object={"metadata": found, "status": status})["text"]


@differential
@given(metadata(WORKS, deleting=False), statuses)
def test_we_read_the_status_go_writes(go: Oracle, found: dict[str, Any], status: dict[str, Any]) -> None:
    found.setdefault("labels", {})["cloudevents.open-cluster-management.io/originalsource"] = "kube"
    event_type = EventType(WORKS.data_type, Subresource.STATUS, Action.UPDATE)
    written = go.ask("encode", type=str(event_type), source="agent", object={"metadata": found, "status": status})["wire"]
    event = decode_publish_request(written)
    report = decode_status(event)
    assert without_nothing(report.status) == without_nothing(status)
    assert (report.cluster, report.resource_id, report.generation) == (found["namespace"], found["uid"], found["generation"])
    assert report.status_hash == status_hash(msgspec.convert(status, ManifestWorkStatus))


@differential
@given(st.lists(st.builds(KnownObject, resource_id=uids, version=st.integers(0, (1 << 63) - 1), name=texts), max_size=4), texts)
def test_go_reads_our_resync_requests_and_not_what_is_ours_in_them(go: Oracle, known: list[KnownObject], cluster: str) -> None:
    event = encode_resync_request(WORKS.data_type, cluster, known, source="agent", now=NOW, resync_id="r1")
    answer = go.ask("resync", wire=encode_publish_request(event))
    assert answer["object"] == {
        "resourceVersions": [{"resourceID": item.resource_id, "resourceVersion": item.version} for item in known]
    }


@pytest.mark.parametrize(
    "row", [CLUSTERS, LEASE_ROW, SIGNING_REQUEST_ROW, ADDONS_ALPHA, ADDONS_BETA], ids=lambda row: row.resource.kind
)
def test_go_understands_tombstones(go: Oracle, row: Row) -> None:
    gone = Tombstone(cluster="c1", namespace="c1" if row.resource.namespaced else "", name="n", resource_id="u", version=7)
    event = encode_tombstone(row, gone, Action.RESYNC_RESPONSE, now=NOW)
    read = go.ask("decode", wire=encode_publish_request(event))["object"]["metadata"]
    assert (read["name"], read["uid"], read["deletionTimestamp"]) == ("n", "u", "2026-11-16T12:00:00Z")
    assert "finalizers" not in read


def test_go_understands_a_works_tombstone_and_keeps_its_name(go: Oracle) -> None:
    gone = Tombstone(cluster="c1", namespace="c1", name="w1", resource_id="u", version=7)
    event = encode_tombstone(WORKS, gone, Action.RESYNC_RESPONSE, now=NOW)
    read = go.ask("decode", wire=encode_publish_request(event))["object"]["metadata"]
    assert (read["name"], read["namespace"], read["uid"], read["generation"]) == ("w1", "c1", "u", 7)
    assert read["deletionTimestamp"] == "2026-11-16T12:00:00Z"


def test_go_can_read_the_end_of_a_resync_that_it_never_asks_for(go: Oracle) -> None:
    event = encode_resync_end(WORKS.data_type, "c1", "r1", now=NOW)
    assert go.ask("event", wire=encode_publish_request(event))["extensions"]["resyncid"]["value"] == "r1"


attribute_values = st.one_of(
    st.text(max_size=200),
    st.booleans(),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.binary(max_size=20),
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
    st.just(Uri("https://a.example/b?c=d")),
)
attribute_names = st.from_regex("[a-z0-9]{1,12}", fullmatch=True).filter(
    lambda name: (
        name not in ("id", "source", "specversion", "type", "time", "subject", "dataschema", "datacontenttype", "contenttype")
    )
)
KINDS = {
    str: "string",
    bool: "bool",
    int: "int32",
    bytes: "[]uint8",
    datetime: "types.Timestamp",
    Uri: "types.URI",
    UriRef: "types.URIRef",
}


@differential
@given(st.dictionaries(attribute_names, attribute_values, min_size=1, max_size=5), st.none() | st.binary(max_size=300))
def test_go_reads_attributes_of_all_kinds(go13: Oracle, attributes: dict[str, Any], data: bytes | None) -> None:
    event = CloudEvent(id="i", source="s", type="t", attributes={**attributes, "time": NOW}, data=data)
    answer = go13.ask("event", wire=encode_publish_request(event))
    read = answer.get("extensions", {})
    assert read.pop("time")["value"] == "2026-11-16T12:00:00.123456Z"
    assert {name: found["kind"] for name, found in read.items()} == {name: KINDS[type(value)] for name, value in attributes.items()}
    for name, value in attributes.items():
        if isinstance(value, str | int) and not isinstance(value, bool):
            assert read[name]["value"] == str(value)
    assert answer.get("data", b"") == (data or b"")


GO_BLANKS = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


def agree(go: Oracle, message: bytes) -> bool:
    """Whether both read the same; whatever is refused here counts as read alike."""
    try:
        ours = decode_publish_request(message)
    except InvalidEvent:
        return True
    try:
        theirs = go.ask("event", wire=message)
    except GoRefused:
        return False
    said = {name: value for name, value in ours.attributes.items() if name not in ("time", "subject", "dataschema")}
    read = {name: found for name, found in theirs.get("extensions", {}).items() if name != "time"}
    return (
        # Go may cut blanks off, and its texts of times have what digits there are.
        theirs.get("type", "") in (ours.type, ours.type.strip(GO_BLANKS))
        and said.keys() == read.keys()
        and all(KINDS[type(value)] == read[name]["kind"] for name, value in said.items())
        and all(value == read[name]["value"] for name, value in said.items() if value.__class__ is str)
        and (ours.data or b"") == theirs.get("data", b"")
    )


@thorough
@given(st.sampled_from([case.wire for case in load()]), st.data())
def test_what_we_read_go_reads_too(go13: Oracle, message: bytes, data: st.DataObject) -> None:
    """Of damaged events Go reads some that are refused here, but none is read here that Go refuses, or reads in another way."""
    damaged = bytearray(message)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    assert agree(go13, bytes(damaged))


structured_members = st.fixed_dictionaries(
    {"specversion": st.just("1.0"), "type": texts, "clustername": texts},
    optional={
        "id": texts | st.integers(0, 9) | st.none(),
        "source": texts | st.none(),
        "time": moments | texts | st.none(),
        "subject": texts | st.none(),
        "dataschema": st.sampled_from(["/a", "https://a.example", ":"]),
        "datacontenttype": st.sampled_from(["application/json", "text/plain", ""]),
        "data": st.none() | st.integers(0, 9) | labels,
        "data_base64": st.sampled_from(["e30=", "???", ""]),
        "flag": st.booleans() | st.integers(-(1 << 33), 1 << 33) | st.floats(allow_nan=False, allow_infinity=False) | labels,
        "A": texts,
        "a-b": texts,
    },
)


@thorough
@given(structured_members)
def test_what_we_read_as_json_go_reads_too(go13: Oracle, document: dict[str, Any]) -> None:
    entry = b"\x0a\x0bcontenttype\x12\x1e\x1a\x1capplication/cloudevents+json"
    data = orjson.dumps(document)
    event = b"\x2a" + write_varint(len(entry)) + entry + b"\x32" + write_varint(len(data)) + data
    assert agree(go13, b"\x0a" + write_varint(len(event)) + event)


@pytest.mark.parametrize(
    "error",
    [
        AlreadyExists(409, "AlreadyExists", 'leases "x" already exists', {"name": "x", "kind": "leases"}),
        Conflict(409, "Conflict", "the object has been modified", {"name": "x", "group": "work.open-cluster-management.io"}),
        status_error(422, {"reason": "Invalid", "message": "bad", "details": {"causes": [{"field": "spec", "message": "no"}]}}),
    ],
)
def test_refusals_are_the_same_at_both_ends(go: Oracle, error: StatusError) -> None:
    refused = to_rpc(error)
    assert refused.code is Code.FAILED_PRECONDITION
    read = go.ask("status", text=refused.message)["object"]
    assert (read["code"], read["reason"], read["message"]) == (error.code, error.reason, error.message)
    assert read["details"] == error.details
    text = go.ask("refusal", object=read)["text"]
    back = from_rpc(RpcError(Code.FAILED_PRECONDITION, text), "hub", GVR("v1", "things", "Thing"), "x")
    assert type(back) is type(error)
    assert isinstance(back, StatusError)
    assert (back.code, back.reason, back.message, back.details) == (error.code, error.reason, error.message, error.details)


def test_what_go_says_without_a_status_is_a_failed_publish_at_both_ends(go: Oracle) -> None:
    read = go.ask("status", text="no JSON")["object"]
    back = from_rpc(RpcError(Code.FAILED_PRECONDITION, "no JSON"), "hub", GVR("v1", "things", "Thing"), "one")
    assert isinstance(back, StatusError)
    assert (back.code, back.reason) == (read["code"], read["reason"]) == (500, "PublishError")
    assert {"kind": "things", "name": "one"}.items() <= dict(back.details).items()
