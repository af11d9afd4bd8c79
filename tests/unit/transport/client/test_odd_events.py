"""Whatever is in an event, nothing but a complaint or a sound mirror comes of it."""

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.transport.client.mirror import Mirror
from muster.transport.client.mirror_events import mirror_event_of
from muster.transport.contract.event import (
    CLUSTER,
    DELETED,
    LOG_TRACING,
    METADATA,
    RESOURCE_ID,
    RESOURCE_VERSION,
    CloudEvent,
    InvalidEvent,
)
from muster.transport.contract.rows import CLUSTERS, LEASE_ROW, WORKS, Row
from muster.transport.contract.types import Action, InvalidType

_json: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "b", "2026-01-01T00:00:00Z"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "uid", "x"]), inner, max_size=3),
    max_leaves=6,
)
_odd = ["namespace", "labels", "annotations", "finalizers", "deletionTimestamp", "generation", "resourceVersion"]


@st.composite
def _metadata(draw: st.DrawFn) -> dict[str, Any]:
    """Mostly sound, with something odd now and then."""
    metadata: dict[str, Any] = {"name": draw(st.sampled_from(["a", "b"])), "uid": draw(st.sampled_from(["u1", "u2", "u3"]))}
    for name in draw(st.lists(st.sampled_from([*_odd, "name", "uid"]), max_size=2)):
        metadata[name] = draw(_json)
    if draw(st.booleans()):
        metadata["finalizers"] = ["f"]
    return metadata


@st.composite
def _event(draw: st.DrawFn, row: Row) -> CloudEvent:
    odd = draw(st.integers(0, 9))
    metadata = draw(_metadata())
    document = {"metadata": metadata, "spec": draw(_json), "manifests": draw(st.lists(_json, max_size=2))}
    attributes: dict[str, Any] = {
        CLUSTER: "c1",
        RESOURCE_ID: str(metadata.get("uid")),
        RESOURCE_VERSION: draw(st.integers(0, 5)),
        METADATA: orjson.dumps(metadata).decode(),
    }
    if draw(st.integers(0, 3)) == 0:
        attributes[DELETED] = "2026-01-01T00:00:00Z"
    data: bytes | None = orjson.dumps(document)
    part, action = "spec", draw(st.sampled_from([Action.CREATE, Action.UPDATE, Action.DELETE, Action.RESYNC_RESPONSE])).value
    if odd == 0:
        part, action = draw(st.sampled_from(["spec", "status", "x"])), draw(st.sampled_from([*map(str, Action), "dance", ""]))
    elif odd == 1:
        data = draw(st.none() | _json.map(orjson.dumps) | st.binary(max_size=8))
    elif odd == 2:
        name = draw(st.sampled_from([RESOURCE_ID, RESOURCE_VERSION, METADATA, DELETED, LOG_TRACING]))
        attributes[name] = draw(st.sampled_from(["", "a", "3", "{}", "[]"]) | st.integers(-1, 6) | st.just(b"x"))
    elif odd == 3:
        attributes.pop(draw(st.sampled_from([CLUSTER, RESOURCE_ID, RESOURCE_VERSION, METADATA])))
    return CloudEvent(id="i", source="kube", type=f"{row.data_type}.{part}.{action}", attributes=attributes, data=data)


def _sound(row: Row, events: list[CloudEvent]) -> None:
    mirror = Mirror(row)
    for number, event in enumerate(events):
        if number % 4 == 1:
            mirror.begin_resync()
        elif number % 4 == 3:
            mirror.end_resync()
        try:
            arrival = mirror_event_of(row, event)
        except (InvalidEvent, InvalidType):
            continue
        mirror.apply(arrival)
        for entry in mirror:
            metadata = entry.document["metadata"]
            assert (metadata["name"], metadata.get("namespace") or "") == (entry.key.name, entry.key.namespace)
            assert entry.deleting == bool(metadata.get("deletionTimestamp"))
            assert mirror.by_uid(entry.uid) is mirror.get(entry.key)


@settings(max_examples=300)
@given(
    st.sampled_from([WORKS, LEASE_ROW, CLUSTERS]).flatmap(lambda row: st.tuples(st.just(row), st.lists(_event(row), max_size=8)))
)
def test_odd_events_leave_a_sound_mirror(given: tuple[Row, list[CloudEvent]]) -> None:
    _sound(*given)
