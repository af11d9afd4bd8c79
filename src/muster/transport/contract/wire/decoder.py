"""Decodes messages: their fields in sequence, each once, with a limit on their number; attributes are decoded by `attributes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from muster.machinery.protobuf import BYTES, FIXED32, FIXED64, VARINT, MalformedMessage, read_varint
from muster.transport.contract.event import SPEC_VERSION, Attribute, CloudEvent, InvalidEvent, SubscriptionRequest
from muster.transport.contract.types import HEARTBEAT
from muster.transport.contract.wire.attributes import CHECKED, MOST_FIELDS, TEXT_KEYS, check_known, few_fields, read_entry
from muster.transport.contract.wire.checks import check_reference, is_json
from muster.transport.contract.wire.names import CONTENT_TYPE
from muster.transport.contract.wire.structured import is_structured, read_structured

T = TypeVar("T")


def decode_event(message: bytes) -> CloudEvent:
    """An event of a stream; heartbeats have only id and type. Raises InvalidEvent."""
    return _guarded(_read_event, message, 0, len(message))


def decode_publish_request(message: bytes) -> CloudEvent:
    """Raises InvalidEvent."""
    event = _guarded(_read_publish_request, message, 0, len(message))
    if event.type == HEARTBEAT:
        raise InvalidEvent("field type: a heartbeat is no request")
    return event


def decode_subscription_request(message: bytes) -> SubscriptionRequest:
    """Raises InvalidEvent."""
    return _guarded(_read_subscription_request, message, 0, len(message))


def _guarded(read: Callable[[bytes, int, int], T], message: bytes, start: int, end: int) -> T:
    try:
        return read(message, start, end)
    except InvalidEvent:
        raise
    except MalformedMessage as error:
        raise InvalidEvent(f"the message is malformed: {error}") from None
    except UnicodeDecodeError:
        raise InvalidEvent("the message has a text that is not UTF-8") from None
    except IndexError:
        raise InvalidEvent("the message is malformed: unexpected EOF") from None


def _read_publish_request(message: bytes, start: int, end: int) -> CloudEvent:
    where: tuple[int, int] | None = None
    at = start
    for _ in range(MOST_FIELDS):
        if at >= end:
            break
        if message[at] == 0x0A:
            if where is not None:
                raise InvalidEvent("field event comes twice")
            at, stop = _bounds(message, at, end)
            where, at = (at, stop), stop
        else:
            at = _skip(message, at, end)
    _check_end(at, end)
    if where is None:
        raise InvalidEvent("field event is missing: the request has no event")
    return _read_event(message, *where)


def _read_subscription_request(message: bytes, start: int, end: int) -> SubscriptionRequest:
    found: dict[int, str] = {}
    at = start
    for _ in range(MOST_FIELDS):
        if at >= end:
            break
        tag = message[at]
        if tag in _REQUEST_TAGS:
            at, stop = _bounds(message, at, end)
            if tag in found:
                raise InvalidEvent(f"field {_REQUEST_TAGS[tag]} comes twice")
            found[tag] = message[at:stop].decode()
            at = stop
        else:
            at = _skip(message, at, end)
    _check_end(at, end)
    return SubscriptionRequest(source=found.get(0x0A, ""), cluster_name=found.get(0x12, ""), data_type=found.get(0x1A, ""))


_REQUEST_TAGS: Final = {0x0A: "source", 0x12: "cluster_name", 0x1A: "data_type"}
_EVENT_TAGS: Final = {
    0x0A: "id",
    0x12: "source",
    0x1A: "spec_version",
    0x22: "type",
    0x2A: "attributes",
    0x32: "binary_data",
    0x3A: "text_data",
    0x42: "proto_data",
}
"""Tags of length-delimited fields, by their first and only byte."""


def _bounds(message: bytes, at: int, end: int) -> tuple[int, int]:
    """The bounds of the payload of the field with a one-byte tag at this position."""
    size, at = read_varint(message, at + 1)
    stop = at + size
    if stop > end:
        raise MalformedMessage("unexpected EOF")
    return at, stop


def _check_end(at: int, end: int) -> None:
    """Check that the last field ended at the end of the message."""
    if at < end:
        raise InvalidEvent(f"the message has more than {MOST_FIELDS} fields")


def _skip(message: bytes, at: int, end: int) -> int:
    """The end of an ignored field."""
    tag, after = read_varint(message, at)
    if tag >> 3 == 0 or tag >> 32 or (tag < 0x80 and after > at + 1):
        # The last case is a tag that is longer than necessary, which could hide a field from us that others see.
        raise MalformedMessage(f"proto: illegal tag {tag}")
    wire = tag & 7
    if wire == BYTES:
        size, after = read_varint(message, after)
        after += size
    elif wire == VARINT:
        _, after = read_varint(message, after)
    elif wire in _FIXED_SIZES:
        after += _FIXED_SIZES[wire]
    else:
        raise MalformedMessage(f"proto: illegal wireType {wire}")
    if after > end:
        raise MalformedMessage("unexpected EOF")
    return after


_FIXED_SIZES: Final = {FIXED64: 8, FIXED32: 4}


def _read_event(message: bytes, start: int, end: int) -> CloudEvent:
    found: dict[int, bytes] = {}
    attributes: dict[str, Attribute] = {}
    bare = True
    at = start
    for _ in range(MOST_FIELDS):
        if at >= end:
            break
        tag = message[at]
        if tag not in _EVENT_TAGS:
            at = _skip(message, at, end)
            continue
        size = message[at + 1]
        at += 2
        if size >= 0x80:
            size, at = read_varint(message, at - 1)
        stop = at + size
        if stop > end:
            raise MalformedMessage("unexpected EOF")
        if tag == 0x2A:
            bare = False
            # Nearly all are short texts, so they are decoded inline.
            if (
                6 <= size < 0x80
                and message[at] == 0x0A
                and (text_at := at + 6 + message[at + 1]) <= stop
                and message[text_at - 4] == 0x12
                and text_at - 2 + message[text_at - 3] == stop
                and message[text_at - 2] == 0x1A
                and text_at + message[text_at - 1] == stop
                and (name := TEXT_KEYS.get(message[at + 2 : text_at - 4])) is not None
            ):
                value: Attribute = message[text_at:stop].decode()
            else:
                name, value = read_entry(message, at, stop)
            if name in attributes:
                raise InvalidEvent(f"attribute {name!r} comes twice")
            if name in CHECKED:
                check_known(name, value)
            if name:
                attributes[name] = value
        elif tag in found:
            raise InvalidEvent(f"field {_EVENT_TAGS[tag]} comes twice")
        else:
            found[tag] = message[at:stop]
        at = stop
    _check_end(at, end)
    return _event(found, attributes, bare)


def _event(found: dict[int, bytes], attributes: dict[str, Attribute], bare: bool) -> CloudEvent:
    if 0x3A in found or 0x42 in found:
        _check_unread(found)
    identifier, source, kind = found.get(0x0A, b"").decode(), found.get(0x12, b"").decode(), found.get(0x22, b"").decode()
    data = found.get(0x32)
    content_type = attributes.pop(CONTENT_TYPE, "")
    if content_type.__class__ is not str:
        raise InvalidEvent("attribute 'contenttype' is no string")
    if is_structured(content_type):
        return read_structured(content_type, data)
    if bare and kind != HEARTBEAT:
        raise InvalidEvent("the event has no attributes; at least clustername is expected")
    if found.get(0x1A) != b"1.0":
        raise InvalidEvent(f"field spec_version: {SPEC_VERSION!r} is expected")
    if content_type and not is_json(content_type):
        raise InvalidEvent(f"attribute 'contenttype': {content_type!r}; application/json is expected")
    if identifier.isspace() or kind.isspace():
        raise InvalidEvent("field id or field type has nothing but blanks")
    check_reference("field source", source)
    return CloudEvent(id=identifier, source=source, type=kind, attributes=attributes, data=data)


def _check_unread(found: dict[int, bytes]) -> None:
    """The other two data fields are ignored, but invalid content in them makes the message malformed."""
    if (0x32 in found) + (0x3A in found) + (0x42 in found) > 1:
        raise InvalidEvent("the event has data in more than one field; binary_data alone is expected")
    found.get(0x3A, b"").decode()
    for number, wire, part in few_fields(found.get(0x42, b"")):
        if (number, wire) == (1, BYTES):
            part.decode()
