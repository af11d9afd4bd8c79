"""Resync requests of agents, and the hub's answers besides the objects themselves.

A request lists the agent's objects with their versions. Three fields are ours, and ignored by others: the name of each object, by
which the hub can report the deletion of an object that it never knew; an id, which the hub sends back on the stream once everything
has been sent; and a flag that requests the status of each object, for an agent that has just started and does not know what it
reported before. Go's servers do not mark the end, so agents must guess it, and send no statuses, so agents report everything again.

A deletion in an answer has more than Go's: the version and the name of the deleted object. An agent of OCM 1.3 cannot decode a
work's deletion without a version, and confuses works without a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final

import msgspec
import orjson

from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object
from muster.transport.codecs.received import LARGEST_GENERATION
from muster.transport.contract.event import (
    CLUSTER,
    DELETED,
    HUB_SOURCE,
    LOG_TRACING,
    METADATA,
    ORIGINAL_SOURCE,
    RESOURCE_ID,
    RESOURCE_VERSION,
    RESYNC,
    TIME,
    WITH_STATUS,
    Attribute,
    CloudEvent,
    InvalidEvent,
    new_event_id,
)
from muster.transport.contract.rows import Row, Versioned
from muster.transport.contract.types import Action, DataType, EventType, Subresource

_INT64: Final = 1 << 63
_MOST_OBJECTS: Final = 100_000
"""Twice as many as fit in a message, if each has an id."""


class KnownObject(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An object that the agent has."""

    resource_id: str = msgspec.field(name="resourceID", default="")
    """Its uid, also from agents of OCM 1.2, whose events have names instead. Empty if the agent has created the object and not
    received it since."""
    version: Annotated[int, msgspec.Meta(ge=-_INT64, le=_INT64 - 1)] = msgspec.field(name="resourceVersion", default=0)
    """The version by the row's counting. Agents of OCM 1.2 send the generation of all objects. For objects with a status, or
    without generation, that does not show whether they have the latest, so they get everything but works again."""
    name: str = ""
    """Only sent by our agents."""


class _Body(msgspec.Struct, kw_only=True):
    known: Annotated[list[KnownObject], msgspec.Meta(max_length=_MOST_OBJECTS)] | None = msgspec.field(
        name="resourceVersions", default=None
    )


class ResyncRequest(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    known: list[KnownObject]
    resync_id: str
    """To be sent back once everything has been sent; empty if the agent does not request that."""
    with_status: bool = False
    """Whether answers must have the objects' status, also of those that the agent has."""


_read_body: Final = msgspec.json.Decoder(_Body).decode


def encode_resync_request(
    data_type: DataType,
    cluster: str,
    known: Iterable[KnownObject],
    *,
    source: str,
    now: datetime,
    resync_id: str = "",
    with_status: bool = False,
) -> CloudEvent:
    attributes: dict[str, Attribute] = {CLUSTER: cluster, ORIGINAL_SOURCE: "", TIME: now}
    if resync_id:
        attributes[RESYNC] = resync_id
    if with_status:
        attributes[WITH_STATUS] = True
    return CloudEvent(
        id=new_event_id(),
        source=source,
        type=_type(data_type, Action.RESYNC),
        attributes=attributes,
        data=msgspec.json.encode(_Body(known=list(known))),
    )


def decode_resync_request(event: CloudEvent) -> ResyncRequest:
    """Raises InvalidEvent."""
    if not event.data:
        raise InvalidEvent("the resync request has no data; resourceVersions is expected, which may be empty")
    try:
        body = _read_body(event.data)
    except msgspec.DecodeError as error:
        raise InvalidEvent(f"the resync request cannot be read: {error}") from None
    return ResyncRequest(
        cluster=event.cluster,
        known=body.known or [],
        resync_id=event.text(RESYNC),
        with_status=event.attributes.get(WITH_STATUS) is True,
    )


def encode_resync_end(data_type: DataType, cluster: str, resync_id: str, *, now: datetime) -> CloudEvent:
    """The marker that everything has been sent, for the agent that requested it."""
    return CloudEvent(
        id=new_event_id(),
        source=HUB_SOURCE,
        type=_type(data_type, Action.RESYNC_RESPONSE),
        attributes={CLUSTER: cluster, ORIGINAL_SOURCE: "", TIME: now, RESYNC: resync_id},
    )


def resync_end(event: CloudEvent) -> str:
    """The id of the resync that an event ends; empty for other events."""
    return "" if RESOURCE_ID in event.attributes else event.text(RESYNC)


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """A deleted object."""

    cluster: str
    namespace: str
    name: str
    resource_id: str
    version: int


def encode_tombstone(row: Row, gone: Tombstone, action: Action, *, now: datetime, source: str = HUB_SOURCE) -> CloudEvent:
    """The deletion of an object of which only this is known."""
    metadata: Object = {"name": gone.name, "uid": gone.resource_id, "deletionTimestamp": format_time(now)}
    if gone.namespace:
        metadata["namespace"] = gone.namespace
    attributes: dict[str, Attribute] = {
        CLUSTER: gone.cluster,
        ORIGINAL_SOURCE: "",
        TIME: now,
        RESOURCE_ID: gone.resource_id,
        DELETED: now,
    }
    data: bytes | None = None
    if row.versioned is Versioned.GENERATION:
        # The version may come from an agent. Any is sufficient for a deletion.
        generation = min(max(gone.version, 0), LARGEST_GENERATION)
        metadata["generation"] = generation
        attributes |= {RESOURCE_VERSION: generation, METADATA: orjson.dumps(metadata).decode(), LOG_TRACING: "{}"}
    else:
        attributes[RESOURCE_VERSION] = str(gone.version)
        data = orjson.dumps({"kind": row.resource.kind, "apiVersion": row.resource.api_version, "metadata": metadata})
    return CloudEvent(id=new_event_id(), source=source, type=_type(row.data_type, action), attributes=attributes, data=data)


def as_resync_response(event: CloudEvent, data_type: DataType) -> CloudEvent:
    """An event about an object as an answer to a resync."""
    return msgspec.structs.replace(event, type=_type(data_type, Action.RESYNC_RESPONSE))


def _type(data_type: DataType, action: Action) -> str:
    return str(EventType(data_type, Subresource.SPEC, action))
