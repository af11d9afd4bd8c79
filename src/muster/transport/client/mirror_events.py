"""Decodes the hub's events for a mirror: the object, its current state, or its deletion.

An object that is being deleted differs from one that is gone. Go's servers omit the body in both cases; for an object that is gone,
a resync's answer has no version either. A work that is gone is sent with its metadata: then this agent can still clean up what it
has applied (`mirror.MirrorEvent.gone`).
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.machinery.clock import Clock
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object, ObjectKey
from muster.transport.client.mirror import Known, MirrorEvent
from muster.transport.codecs.objects import decode_object
from muster.transport.codecs.received import Received, part
from muster.transport.codecs.resync import KnownObject, encode_resync_request
from muster.transport.codecs.works import decode_spec
from muster.transport.contract.event import RESOURCE_ID, STATUS, CloudEvent, InvalidEvent
from muster.transport.contract.rows import Row, Versioned
from muster.transport.contract.types import Action, Subresource


def mirror_event_of(row: Row, event: CloudEvent) -> MirrorEvent:
    """Raises InvalidEvent and InvalidType for undecodable events."""
    works = row.versioned is Versioned.GENERATION
    received = decode_spec(event) if works else decode_object(row, event)
    event_type = received.event_type
    if event_type.data_type != row.data_type or event_type.subresource is not Subresource.SPEC:
        raise InvalidEvent(f"an event of type {event.type} is none of this stream")
    gone = _is_gone(received, works)
    document = None if gone and not works else received.obj
    return MirrorEvent(
        uid=received.resource_id,
        key=None if document is None else _key(document),
        version=received.version,
        document=document,
        deleted=format_time(received.deleted) if received.deleted is not None else "",
        gone=gone,
        answer=event_type.action is Action.RESYNC_RESPONSE,
        hub_id=event.text(RESOURCE_ID),
        held=received.held,
        status=event.text(STATUS) if row.status_apart else "",
        withheld=received.withheld,
    )


def _key(document: Object) -> ObjectKey:
    metadata = document["metadata"]
    namespace: str = part(metadata, "namespace", str, "metadata")
    name: str = part(metadata, "name", str, "metadata")
    if not name or not part(metadata, "uid", str, "metadata"):
        raise InvalidEvent("metadata: the object has no name or no uid")
    return ObjectKey(namespace, name)


def _is_gone(received: Received, works: bool) -> bool:
    action = received.event_type.action
    if action is Action.DELETE:
        return True
    if action is Action.RESYNC_RESPONSE and received.deleted is not None and received.version is None:
        return True
    return not works and received.obj is not None and received.gone


def resync_event(
    row: Row, cluster: str, source: str, known: Iterable[Known], resync_id: str, clock: Clock, *, with_status: bool = False
) -> CloudEvent:
    """The request for all objects, with those that are known already."""
    named = (KnownObject(resource_id=one.uid, version=one.version, name=one.key.name) for one in known)
    return encode_resync_request(
        row.data_type, cluster, named, source=source, now=clock.now(), resync_id=resync_id, with_status=with_status
    )
