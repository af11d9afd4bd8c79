"""Encodes messages. A text attribute, the usual case, is a lookup and two pieces of the result."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Final

from muster.machinery.golang.timestamps import EPOCH
from muster.machinery.protobuf import write_varint
from muster.transport.contract.event import (
    DELETED,
    TIME,
    Attribute,
    CloudEvent,
    InvalidEvent,
    SubscriptionRequest,
    Uri,
    UriRef,
    is_attribute_name,
)
from muster.transport.contract.wire.names import CONTENT_TYPE, FIELDS, PREFIX, TEXTS

_INT32: Final = range(-(1 << 31), 1 << 31)
_SIZES: Final = tuple(write_varint(size) for size in range(1 << 10))


def _size(size: int) -> bytes:
    return _SIZES[size] if size < len(_SIZES) else write_varint(size)


def encode_event(event: CloudEvent) -> bytes:
    """Raises InvalidEvent for attributes that cannot be encoded."""
    try:
        identifier, source = event.id.encode(), event.source.encode()
        pieces = [b"\x0a", _size(len(identifier)), identifier] if identifier else []
        if source:
            pieces += (b"\x12", _size(len(source)), source)
        pieces.append(_kind(event.type))
        for name, value in event.attributes.items():
            if value.__class__ is str:
                encoded = value.encode()
                heads = _HEADS.get(name)
                pieces += ((heads and heads.get(len(encoded))) or _text_head(name, len(encoded)), encoded)
            elif value.__class__ is datetime:
                written = _timestamp(value)
                pieces += (_moment_head(name, len(written)), written)
            elif value.__class__ is int:
                pieces.append(_integer_entry(name, value))
            else:
                pieces.append(_entry(name, _value(name, value)))
    except UnicodeEncodeError as error:
        raise InvalidEvent(f"the event has a text that is not Unicode: {error.reason}") from None
    if event.data is not None:
        pieces += (_JSON, b"\x32", _size(len(event.data)), event.data)
    return b"".join(pieces)


@lru_cache(maxsize=256)
def _kind(kind: str) -> bytes:
    """The fields for version and type; there are few types."""
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


_HEADS: Final[dict[str, dict[int, bytes]]] = {name: {} for name in TEXTS}
"""The bytes before a text, by attribute name and text length. They are cached for these names only."""
_LONGEST_KEPT: Final = 512


def _text_head(name: str, size: int) -> bytes:
    written = _size(size)
    head = _entry_head(name, 1 + len(written) + size) + b"\x1a" + written
    if size < _LONGEST_KEPT and name in _HEADS:
        _HEADS[name][size] = head
    return head


def _entry_head(name: str, size: int) -> bytes:
    """The bytes of an attribute before its value message, which has this size."""
    return _key_head(_KEYS.get(name) or _key(name), size)


def _key_head(key: bytes, size: int) -> bytes:
    written = _size(size)
    return b"\x2a" + _size(len(key) + len(written) + size) + key + written


def _key(name: str) -> bytes:
    """The bytes of an attribute's name up to the size of its value."""
    if not is_attribute_name(name) or name in FIELDS:
        raise InvalidEvent(f"attribute {name!r}: names are of lower-case letters and digits, and none is that of a field")
    return _written_key((PREFIX + name).encode())


def _written_key(key: bytes) -> bytes:
    return b"\x0a" + _size(len(key)) + key + b"\x12"


def _entry(name: str, value: bytes) -> bytes:
    return _entry_head(name, len(value)) + value


_KEYS: Final = {name: _key(name) for name in (*TEXTS, TIME, DELETED)}
_JSON: Final = _key_head(_written_key(CONTENT_TYPE.encode()), 18) + b"\x1a\x10application/json"


@lru_cache(maxsize=256)
def _moment_head(name: str, size: int) -> bytes:
    return _entry_head(name, 2 + size) + b"\x3a" + _size(size)


@lru_cache(maxsize=1024)
def _integer_entry(name: str, value: int) -> bytes:
    """Integers are generations, which are usually small."""
    return _entry(name, _value(name, value))


def _value(name: str, value: Attribute) -> bytes:
    """The message of a value that is no plain text."""
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
    """Consecutive times are often in the same second."""
    return b"\x08" + write_varint(seconds & 0xFFFFFFFFFFFFFFFF) if seconds else b""
