"""Plain objects: the event's data is the object itself, as JSON, in both directions.

The bytes of an object are passed on unchanged; only its head is decoded, and rewritten to add the kind, which items of a list do
not have, or the deletion. The event of an object that is being deleted also has the attribute `deletiontimestamp`: OCM 1.3 requires
it and needs no data, 1.2 ignores it and reads the data. An object that is gone is sent without finalizers, because agents would
take it for one that is being deleted.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec
import orjson

from muster.machinery.golang.timestamps import EPOCH, format_time
from muster.machinery.objects import Object
from muster.transport.codecs.received import Received, parse_moment, part, read_deletion, read_document, read_version
from muster.transport.contract.event import (
    CLUSTER,
    DELETED,
    ORIGINAL_SOURCE,
    RESOURCE_ID,
    RESOURCE_VERSION,
    TIME,
    Attribute,
    CloudEvent,
    InvalidEvent,
    new_event_id,
)
from muster.transport.contract.rows import Row
from muster.transport.contract.types import Action, EventType


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct, frozen=True, rename="camel"):
    kind: str | None = None
    api_version: str | None = None
    metadata: _Metadata = _Metadata()


_read_head: Final = msgspec.json.Decoder(_Head).decode


def encode_object(
    row: Row, obj: bytes | Object, event_type: EventType, *, source: str, now: datetime, gone: bool = False
) -> CloudEvent:
    """The event of an object, which is JSON or a document; `gone`: the object no longer exists.

    Raises InvalidEvent for an object that belongs to no cluster, or that cannot be decoded.
    """
    wire = obj if isinstance(obj, bytes) else orjson.dumps(obj)
    try:
        head = _read_head(wire)
    except msgspec.DecodeError as error:
        raise InvalidEvent(f"the {row.resource.kind} cannot be read: {error}") from None
    metadata = head.metadata
    cluster = row.belongs.owner(metadata.name, metadata.namespace, metadata.labels)
    if not cluster:
        raise InvalidEvent(f"the {row.resource.kind} {metadata.name!r} is no cluster's; it is known by this: {row.belongs.value}")
    attributes: dict[str, Attribute] = {CLUSTER: cluster, ORIGINAL_SOURCE: "", TIME: now}
    if metadata.uid:
        attributes[RESOURCE_ID] = metadata.uid
    if metadata.resource_version and row.typed:
        attributes[RESOURCE_VERSION] = metadata.resource_version
    if metadata.deletion_timestamp:
        attributes[DELETED] = parse_moment("metadata.deletionTimestamp", metadata.deletion_timestamp)
    elif gone:
        attributes[DELETED] = now
    return CloudEvent(
        id=new_event_id(), source=source, type=str(event_type), attributes=attributes, data=_body(row, wire, head, now, gone)
    )


def _body(row: Row, wire: bytes, head: _Head, now: datetime, gone: bool) -> bytes:
    if row.typed and not gone:
        if head.kind == row.resource.kind and head.api_version == row.resource.api_version:
            return wire
        if head.kind is None and head.api_version is None and wire.startswith(b'{"'):
            return b'{"kind":"%s","apiVersion":"%s",%s' % (row.resource.kind.encode(), row.resource.api_version.encode(), wire[1:])
    document: dict[str, Any] = orjson.loads(wire)
    document.pop("kind", None)
    document.pop("apiVersion", None)
    if row.typed:
        document = {"kind": row.resource.kind, "apiVersion": row.resource.api_version, **document}
    if gone:
        metadata = document["metadata"]
        metadata.pop("finalizers", None)
        metadata.setdefault("deletionTimestamp", format_time(now))
    return orjson.dumps(document)


def decode_object(row: Row, event: CloudEvent) -> Received:
    """Decode an event about an object. Raises InvalidEvent, InvalidType."""
    deleted = read_deletion(event)
    event_type = event.event_type
    resource_id = event.text(RESOURCE_ID)
    obj: Object | None = None
    if event.data or deleted is None:
        obj = read_document(event)
        obj["kind"], obj["apiVersion"] = row.resource.kind, row.resource.api_version
        metadata = part(obj, "metadata", dict, "the object")
        obj["metadata"] = metadata
        resource_id = part(metadata, "uid", str, "metadata") or resource_id
        if deleted is None and (written := part(metadata, "deletionTimestamp", str, "metadata")):
            deleted = parse_moment("metadata.deletionTimestamp", written)
    if deleted is None and event_type.action is Action.DELETE:
        moment = event.attributes.get(TIME)
        deleted = moment if isinstance(moment, datetime) else EPOCH
    if obj is None and not resource_id:
        raise InvalidEvent(f"attribute {RESOURCE_ID!r} is missing: a deletion without data must name the object")
    return Received(
        event_type=event_type,
        cluster=event.cluster,
        resource_id=resource_id,
        version=read_version(row, event),
        deleted=deleted,
        obj=obj,
    )
