"""Decodes attributes: by position if they have the usual shape, field by field otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import EPOCH, parse_time
from muster.machinery.protobuf import BYTES, VARINT, read_fields, read_varint, signed, signed32
from muster.transport.contract.event import DELETED, TIME, Attribute, InvalidEvent, Uri, UriRef, is_attribute_name
from muster.transport.contract.wire.checks import check_reference
from muster.transport.contract.wire.names import CONTENT_TYPE, FIELDS, PREFIX, TEXTS

MOST_FIELDS: Final = 256
"""The most fields of a message. Events have less than twenty; very many would block the event loop."""
TEXT_KEYS: Final = {(PREFIX + name).encode(): name for name in TEXTS} | {CONTENT_TYPE.encode(): CONTENT_TYPE}
"""Attributes that usually have a text, by their keys."""
_KEYS: Final = TEXT_KEYS | {(PREFIX + name).encode(): name for name in (TIME, DELETED)}


def few_fields(message: bytes) -> Iterator[tuple[int, int, Any]]:
    for count, field in enumerate(read_fields(message)):
        if count >= MOST_FIELDS:
            raise InvalidEvent(f"an attribute has more than {MOST_FIELDS} fields")
        yield field


def read_entry(message: bytes, at: int, stop: int) -> tuple[str, Attribute]:
    """One attribute. Its name is empty if it is to be ignored; `contenttype` keeps its name."""
    if at < stop and message[at] == 0x0A and (size := message[at + 1]) < 0x80:
        value_at = at + 2 + size
        if value_at < stop and message[value_at] == 0x12:
            key = message[at + 2 : value_at]
            name = _KEYS.get(key) or _name(key)
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
    for number, wire, payload in few_fields(entry):
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
    """The attribute's name by its key; empty if the key has no `ce-`."""
    text = key.decode()
    if text == CONTENT_TYPE:
        return text
    if not text.startswith(PREFIX):
        return ""
    name = text[len(PREFIX) :].lower()
    if name == "datacontenttype":
        return CONTENT_TYPE
    if not is_attribute_name(name) or name == CONTENT_TYPE:
        raise InvalidEvent(f"attribute {text!r}: names are of letters and digits, with ce- before them")
    if name in FIELDS:
        raise InvalidEvent(f"attribute {text!r}: field {name} says this")
    return name


def _without_value(name: str) -> InvalidEvent:
    return InvalidEvent(f"attribute {name!r} has no value")


def _read_value(name: str, message: bytes, at: int, stop: int) -> Attribute:
    """The value between these positions; the types that OCM uses come first."""
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
    for number, wire, payload in few_fields(message):
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
    for number, wire, part in few_fields(payload):
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

CHECKED: Final[dict[str, tuple[type[Any], ...]]] = {TIME: (datetime,), "subject": (str,), "dataschema": (str, Uri, UriRef)}
"""CloudEvents' own attributes with restricted values."""


def check_known(name: str, value: Attribute) -> None:
    if value.__class__ not in CHECKED[name]:
        raise InvalidEvent(f"attribute {name!r} is a {type(value).__name__}; a {CHECKED[name][0].__name__} is expected")
    if name == "dataschema":
        check_reference(f"attribute {name!r}", str(value))
