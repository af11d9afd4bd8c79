"""The common fields of all events about objects.

Types are converted as Go does: texts where Go accepts texts, times also from texts, versions from integers and decimal texts: the
sender of a version need not know which of these its row has. Invalid values raise an InvalidEvent with the attribute.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec
import orjson

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.objects import Object
from muster.transport.contract.event import DELETED, RESOURCE_VERSION, CloudEvent, InvalidEvent
from muster.transport.contract.rows import Row, Versioned
from muster.transport.contract.types import Action, EventType

_CERTAINLY_WRITABLE: Final = 250
"""Brackets: with no more than these, JSON is not nested too deeply to be encoded."""
LARGEST_GENERATION: Final = (1 << 31) - 1
_LARGEST_VERSION: Final = (1 << 63) - 1


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded event about one object."""

    event_type: EventType
    cluster: str
    resource_id: str
    """The uid. For OCM 1.2 it is the object's name, if the event has no body with the uid."""
    version: int | None
    """The version by the row's counting; None if the event has none."""
    deleted: datetime | None
    """Since when it is being deleted, or is gone."""
    obj: Object | None
    """None for a deletion without body."""
    held: bool = False
    """For a deleted work: whether a finalizer still holds it, according to the event."""
    withheld: bool = False
    """Whether the event only reports that the object exists, without its content."""

    @property
    def gone(self) -> bool:
        """Whether the hub no longer has the object."""
        if self.deleted is None:
            return False
        return self.obj is None or self.event_type.action is Action.DELETE or not self.obj["metadata"].get("finalizers")


def read_version(row: Row, event: CloudEvent) -> int | None:
    """The version of an event; None if it has none. Raises InvalidEvent."""
    value = event.attributes.get(RESOURCE_VERSION)
    largest = LARGEST_GENERATION if row.versioned is Versioned.GENERATION else _LARGEST_VERSION
    if value is None or value == "":
        return None
    number = -1
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        number = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    if not 0 <= number <= largest:
        raise InvalidEvent(f"attribute {RESOURCE_VERSION!r}: {value!r}; a number up to {largest} is expected")
    return number


def read_deletion(event: CloudEvent) -> datetime | None:
    """Since when the object is being deleted, by the event's attribute. Raises InvalidEvent."""
    value = event.attributes.get(DELETED)
    if value is None or isinstance(value, datetime):
        return value
    return parse_moment(f"attribute {DELETED!r}", value)


def parse_moment(where: str, value: Any) -> datetime:
    """A time in RFC 3339. Raises InvalidEvent with the position."""
    try:
        return parse_time(value)
    except (GoError, TypeError) as error:
        raise InvalidEvent(f"{where}: {error}") from None


def read_document(event: CloudEvent) -> Object:
    """The event's data, which must be a JSON object. Raises InvalidEvent."""
    if not event.data:
        raise InvalidEvent(f"the event of type {event.type} has no data; a JSON object is expected")
    return parse_document("the data", event.data)


def parse_document(where: str, data: bytes | str) -> Object:
    """A JSON object. Raises InvalidEvent with the position."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidEvent(f"{where} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidEvent(f"{where} is a JSON {type(document).__name__}; an object is expected")
    raw = data if isinstance(data, bytes) else data.encode()
    if raw.count(b"{") + raw.count(b"[") > _CERTAINLY_WRITABLE:
        try:
            orjson.dumps(document)
        except orjson.JSONEncodeError:
            raise InvalidEvent(f"{where} is nested too deeply to be written again") from None
    return document


def part(document: Object, name: str, kind: type[Any], where: str) -> Any:
    """A member of a document that is absent, null or of this type; an empty one in the first two cases. Raises InvalidEvent."""
    value = document.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise InvalidEvent(f"{where}.{name} is a {type(value).__name__}; a {kind.__name__} is expected")
    return value
