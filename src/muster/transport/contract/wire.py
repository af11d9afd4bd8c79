"""The bytes of what is spoken: the messages of `cloudevents.proto`, written and read without generated code.

Five small messages need no library: what comes before a text depends on its attribute's name and its length alone, so writing an
attribute is a look-up and two pieces of the result; and what others write has one shape, which is read by position. What is legal
protobuf but has another shape (fields in another order, attributes of rare kinds) is read field by field. Either way a message is
read once, in linear time.

Attributes travel with `ce-` before their names, but for `contenttype`; an attribute without it says nothing to us. As Go's reader:
unknown fields are passed over, attributes' names are of letters and digits and read in lower case, an attribute must have a value,
an event without any attribute is none (but a heartbeat), and an event may be JSON as a whole (`structured`). Stricter than Go's: a
field that comes twice, or a field of the event that comes once more as an attribute, is refused, since no writer does that and two
readers may understand it in two ways; and a message of very many fields is refused for what it costs. Whatever is wrong is an
InvalidEvent, and nothing else is ever raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, TypeVar

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import EPOCH, parse_time
from muster.machinery.protobuf import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    MalformedMessage,
    read_fields,
    read_varint,
    signed,
    signed32,
    write_varint,
)
from muster.transport.contract import event as names
from muster.transport.contract.event import (
    SPEC_VERSION,
    TIME,
    Attribute,
    CloudEvent,
    InvalidEvent,
    SubscriptionRequest,
    Uri,
    UriRef,
    is_attribute_name,
)
from muster.transport.contract.structured import is_structured, read_structured
from muster.transport.contract.types import HEARTBEAT
from muster.transport.contract.values import check_reference, is_json

SERVICE: Final = "io.cloudevents.v1.CloudEventService"
PUBLISH: Final = f"/{SERVICE}/Publish"
SUBSCRIBE: Final = f"/{SERVICE}/Subscribe"
EMPTY: Final = b""
"""The answer to Publish."""

_PREFIX: Final = "ce-"
_CONTENT_TYPE: Final = "contenttype"
_FIELDS: Final = frozenset(("id", "source", "specversion", "type"))
"""What the message has fields for."""
_MOST_FIELDS: Final = 256
"""Of a message. Events have less than twenty; each of very many would be read one by one, with nothing else done meanwhile."""
_INT32: Final = range(-(1 << 31), 1 << 31)

T = TypeVar("T")

_SIZES: Final = tuple(write_varint(size) for size in range(1 << 10))


def _size(size: int) -> bytes:
    return _SIZES[size] if size < len(_SIZES) else write_varint(size)


# Writing


def encode_event(event: CloudEvent) -> bytes:
    """Raises InvalidEvent for attributes that cannot travel."""
    try:
        identifier, source = event.id.encode(), event.source.encode()
        pieces = [b"\x0a", _size(len(identifier)), identifier] if identifier else []
        if source:
            pieces += (b"\x12", _size(len(source)), source)
        pieces.append(_kind(event.type))
        for name, value in event.attributes.items():
            if value.__class__ is str:
                encoded = value.encode()
                size = len(encoded)
                heads = _HEADS.get(name)
                pieces += ((None if heads is None else heads.get(size)) or _text_head(name, size), encoded)
            else:
                pieces.append(_entry(name, _value(name, value)))
    except UnicodeEncodeError as error:
        raise InvalidEvent(f"the event has a text that is not Unicode: {error.reason}") from None
    if event.data is not None:
        pieces += (_JSON, b"\x32", _size(len(event.data)), event.data)
    return b"".join(pieces)


@lru_cache(maxsize=256)
def _kind(kind: str) -> bytes:
    """The fields that say version and type; there are few types."""
    encoded = kind.encode()
    return b"\x1a\x031.0\x22" + _size(len(encoded)) + encoded


def encode_publish_request(event: CloudEvent) -> bytes:
    """Raises InvalidEvent."""
    encoded = encode_event(event)
    return b"".join((b"\x0a", _size(len(encoded)), encoded))


def encode_subscription_request(request: SubscriptionRequest) -> bytes:
    pieces: list[bytes] = []
    for tag, text in ((b"\x0a", request.source), (b"\x12", request.cluster_name), (b"\x1a", request.data_type)):
        if text:
            encoded = text.encode()
            pieces += (tag, _size(len(encoded)), encoded)
    return b"".join(pieces)


_KNOWN: Final = (
    names.CLUSTER,
    names.ORIGINAL_SOURCE,
    names.RESOURCE_ID,
    names.RESOURCE_VERSION,
    names.SEQUENCE,
    names.STATUS_HASH,
    names.METADATA,
    names.LOG_TRACING,
    names.RESYNC,
)
"""Attributes that are to be expected with a text."""
_HEADS: Final[dict[str, dict[int, bytes]]] = {name: {} for name in _KNOWN}
"""What comes before a text, by the name of its attribute and the text's length. Of other names none is kept."""
_LONGEST_KEPT: Final = 512


def _text_head(name: str, size: int) -> bytes:
    written = _size(size)
    head = _entry_head(name, 1 + len(written) + size) + b"\x1a" + written
    if size < _LONGEST_KEPT and name in _HEADS:
        _HEADS[name][size] = head
    return head


def _entry_head(name: str, size: int) -> bytes:
    """An attribute up to its value's message, which is of this size."""
    return _key_head(_KEYS.get(name) or _key(name), size)


def _key_head(key: bytes, size: int) -> bytes:
    written = _size(size)
    return b"\x2a" + _size(len(key) + len(written) + size) + key + written


def _key(name: str) -> bytes:
    """An attribute's name up to the size of its value."""
    if not is_attribute_name(name) or name in _FIELDS:
        raise InvalidEvent(f"attribute {name!r}: names are of lower-case letters and digits, and none is that of a field")
    return _written_key((_PREFIX + name).encode())


def _written_key(key: bytes) -> bytes:
    return b"\x0a" + _size(len(key)) + key + b"\x12"


def _entry(name: str, value: bytes) -> bytes:
    return _entry_head(name, len(value)) + value


_KEYS: Final = {name: _key(name) for name in (*_KNOWN, TIME, names.DELETED)}
_JSON: Final = _key_head(_written_key(_CONTENT_TYPE.encode()), 18) + b"\x1a\x10application/json"


def _value(name: str, value: Attribute) -> bytes:
    """The message of a value that is not simply a text."""
    if isinstance(value, datetime):
        written = _timestamp(value)
        return b"\x3a" + _size(len(written)) + written
    if isinstance(value, bool):
        return b"\x08\x01" if value else b"\x08\x00"
    if isinstance(value, int):
        if value not in _INT32:
            raise InvalidEvent(f"attribute {name!r}: {value} has more than 32 bits")
        return b"\x10" + write_varint(value & 0xFFFFFFFFFFFFFFFF)
    tag = b"\x2a" if isinstance(value, Uri) else b"\x32" if isinstance(value, UriRef) else b"\x1a"
    if isinstance(value, bytes):
        tag, encoded = b"\x22", value
    else:
        encoded = value.encode()
    return tag + _size(len(encoded)) + encoded


def _timestamp(moment: datetime) -> bytes:
    since = moment - EPOCH
    written, nanos = _seconds(since.days * 86_400 + since.seconds), since.microseconds * 1000
    return written + b"\x10" + write_varint(nanos) if nanos else written


@lru_cache(maxsize=16)
def _seconds(seconds: int) -> bytes:
    """Most moments that are written are of the same second."""
    return b"\x08" + write_varint(seconds & 0xFFFFFFFFFFFFFFFF) if seconds else b""


# Reading


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
    for _ in range(_MOST_FIELDS):
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
    for _ in range(_MOST_FIELDS):
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
"""Tags of fields that have a length, by their first and only byte."""
_NAMES: Final = {(_PREFIX + name).encode(): name for name in _KNOWN} | {_CONTENT_TYPE.encode(): _CONTENT_TYPE}
"""Attributes that are to be expected with a text, by their keys."""
_ALL_NAMES: Final = _NAMES | {(_PREFIX + name).encode(): name for name in (TIME, names.DELETED)}


def _bounds(message: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the payload of the field with a one-byte tag here begins and ends."""
    size, at = read_varint(message, at + 1)
    stop = at + size
    if stop > end:
        raise MalformedMessage("unexpected EOF")
    return at, stop


def _check_end(at: int, end: int) -> None:
    """Where reading has come to, by its last field."""
    if at < end:
        raise InvalidEvent(f"the message has more than {_MOST_FIELDS} fields")


def _few_fields(message: bytes) -> Iterator[tuple[int, int, Any]]:
    for count, field in enumerate(read_fields(message)):
        if count >= _MOST_FIELDS:
            raise InvalidEvent(f"an attribute has more than {_MOST_FIELDS} fields")
        yield field


def _skip(message: bytes, at: int, end: int) -> int:
    """Where a field ends that is of no interest."""
    tag, after = read_varint(message, at)
    if tag >> 3 == 0 or tag >> 32 or (tag < 0x80 and after > at + 1):
        # The last is a tag that is longer than it has to be, which would hide a field from us that others see.
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
    for _ in range(_MOST_FIELDS):
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
            # Nearly all are short texts, which are worth being read without a call.
            if (
                6 <= size < 0x80
                and message[at] == 0x0A
                and (text_at := at + 6 + message[at + 1]) <= stop
                and message[text_at - 4] == 0x12
                and text_at - 2 + message[text_at - 3] == stop
                and message[text_at - 2] == 0x1A
                and text_at + message[text_at - 1] == stop
                and (name := _NAMES.get(message[at + 2 : text_at - 4])) is not None
            ):
                value: Attribute = message[text_at:stop].decode()
            else:
                name, value = _read_entry(message, at, stop)
            if name in attributes:
                raise InvalidEvent(f"attribute {name!r} comes twice")
            if name in _CHECKED:
                _check_known(name, value)
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
    content_type = attributes.pop(_CONTENT_TYPE, "")
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
    """Nobody looks at the other two fields for data, but a message with something else in them is malformed."""
    if (0x32 in found) + (0x3A in found) + (0x42 in found) > 1:
        raise InvalidEvent("the event has data in more than one field; binary_data alone is expected")
    found.get(0x3A, b"").decode()
    for number, wire, part in _few_fields(found.get(0x42, b"")):
        if (number, wire) == (1, BYTES):
            part.decode()


_CHECKED: Final[dict[str, tuple[type[Any], ...]]] = {TIME: (datetime,), "subject": (str,), "dataschema": (str, Uri, UriRef)}
"""Attributes of CloudEvents' own, of which not all values are good."""


def _check_known(name: str, value: Attribute) -> None:
    if value.__class__ not in _CHECKED[name]:
        raise InvalidEvent(f"attribute {name!r} is a {type(value).__name__}; a {_CHECKED[name][0].__name__} is expected")
    if name == "dataschema":
        check_reference(f"attribute {name!r}", str(value))


def _read_entry(message: bytes, at: int, stop: int) -> tuple[str, Attribute]:
    """One attribute. Its name is empty if it is not for us, and `contenttype` has it as its name."""
    if at < stop and message[at] == 0x0A and (size := message[at + 1]) < 0x80:
        value_at = at + 2 + size
        if value_at < stop and message[value_at] == 0x12:
            key = message[at + 2 : value_at]
            name = _ALL_NAMES.get(key) or _name(key)
            size = message[value_at + 1]
            value_at += 2
            if size >= 0x80:
                size, value_at = read_varint(message, value_at - 1)
            if value_at + size == stop:
                return name, _read_value(name, message, value_at, stop)
    return _read_entry_by_fields(message[at:stop])


def _read_entry_by_fields(entry: bytes) -> tuple[str, Attribute]:
    key = b""
    value: bytes | None = None
    seen = 0
    for number, wire, payload in _few_fields(entry):
        if number in (1, 2) and wire == BYTES:
            if seen & number:
                raise InvalidEvent("an attribute has two names or two values")
            seen |= number
            if number == 1:
                key = payload
            else:
                value = payload
    name = _name(key)
    if value is None:
        raise _without_value(name)
    return name, _read_value(name, value, 0, len(value))


def _name(key: bytes) -> str:
    """The attribute's name by its key; empty where the key has no `ce-`."""
    text = key.decode()
    if text == _CONTENT_TYPE:
        return text
    if not text.startswith(_PREFIX):
        return ""
    name = text[len(_PREFIX) :].lower()
    if name == "datacontenttype":
        return _CONTENT_TYPE
    if not is_attribute_name(name) or name == _CONTENT_TYPE:
        raise InvalidEvent(f"attribute {text!r}: names are of letters and digits, with ce- before them")
    if name in _FIELDS:
        raise InvalidEvent(f"attribute {text!r}: field {name} says this")
    return name


def _without_value(name: str) -> InvalidEvent:
    return InvalidEvent(f"attribute {name!r} has no value")


def _read_value(name: str, message: bytes, at: int, stop: int) -> Attribute:
    """The value between these; those kinds first that OCM uses."""
    if at == stop:
        raise _without_value(name)
    tag = message[at]
    if tag == 0x1A:
        size = message[at + 1]
        text_at = at + 2
        if size >= 0x80:
            size, text_at = read_varint(message, at + 1)
        if text_at + size == stop:
            text = message[text_at:stop].decode()
            return _moment(name, text) if name == TIME else text
    elif tag == 0x10:
        number, after = read_varint(message, at + 1)
        if after == stop:
            return signed32(number)
    elif tag == 0x3A and at + 2 + message[at + 1] == stop and message[at + 2] == 0x08:
        seconds, after = read_varint(message, at + 3)
        if after < stop and message[after] == 0x10:
            nanos, after = read_varint(message, after + 1)
            if after == stop:
                return _instant(name, signed(seconds), signed32(nanos))
    return _read_value_by_fields(name, message[at:stop])


def _moment(name: str, text: str) -> datetime:
    try:
        return parse_time(text)
    except GoError as error:
        raise InvalidEvent(f"attribute {name!r}: {error}") from None


def _read_value_by_fields(name: str, message: bytes) -> Attribute:
    value: Attribute | None = None
    for number, wire, payload in _few_fields(message):
        read = _KINDS.get((number, wire))
        if read is None:
            continue
        if value is not None:
            raise InvalidEvent(f"attribute {name!r} has two values")
        value = read(name, payload)
    if value is None:
        raise _without_value(name)
    if name == TIME and value.__class__ is str:
        return _moment(name, str(value))
    return value


def _read_uri(name: str, payload: bytes) -> str:
    text = payload.decode()
    check_reference(f"attribute {name!r}", text)
    return text


def _read_timestamp(name: str, payload: bytes) -> datetime:
    parts = {1: 0, 2: 0}
    for number, wire, part in _few_fields(payload):
        if number in parts and wire == VARINT:
            parts[number] = signed(part) if number == 1 else signed32(part)
    return _instant(name, *parts.values())


def _instant(name: str, seconds: int, nanos: int) -> datetime:
    if not 0 <= nanos < 1_000_000_000:
        raise InvalidEvent(f"attribute {name!r}: a timestamp of {nanos} nanoseconds")
    try:
        return EPOCH + timedelta(0, seconds, nanos // 1000)
    except OverflowError:
        raise InvalidEvent(f"attribute {name!r}: a timestamp of {seconds} seconds is out of range") from None


_KINDS: Final[dict[tuple[int, int], Callable[[str, Any], Attribute]]] = {
    (1, VARINT): lambda _, payload: bool(payload),
    (2, VARINT): lambda _, payload: signed32(payload),
    (3, BYTES): lambda _, payload: str(payload, "utf-8"),
    (4, BYTES): lambda _, payload: bytes(payload),
    (5, BYTES): lambda name, payload: Uri(_read_uri(name, payload)),
    (6, BYTES): lambda name, payload: UriRef(_read_uri(name, payload)),
    (7, BYTES): _read_timestamp,
}
