"""The OpenAPI v2 document as protobuf (gnostic's OpenAPI v2 messages), which Go clients request first and without falling back to
JSON.

Only what clients read is encoded: definitions with types, references and extensions. The tables have the field numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from muster.machinery.protobuf import write_varint

MEDIA = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""The media type in Accept headers. The answer has a dot before the version, because `@` is invalid in a Content-Type."""
CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_COUNTS = {"maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "maxProperties": 17, "minProperties": 18}
_REQUIRED, _ENUM, _ADDITIONAL, _TYPE, _ITEMS, _PROPERTIES, _EXTENSION = 19, 20, 21, 22, 23, 25, 31


def _field(number: int, payload: bytes | str) -> bytes:
    data = payload.encode() if isinstance(payload, str) else payload
    return write_varint(number << 3 | 2) + write_varint(len(data)) + data


def _integer(number: int, value: int) -> bytes:
    return write_varint(number << 3) + write_varint(value)


def _any(value: Any) -> bytes:
    """A free-form value, which is encoded as YAML text; JSON is YAML."""
    return _field(2, orjson.dumps(value))


def _named(name: str, value: bytes) -> bytes:
    return _field(1, name) + _field(2, value)


def _schema(schema: Mapping[str, Any]) -> bytes:
    parts: list[bytes] = []
    for key, value in schema.items():
        if key in _TEXTS:
            parts.append(_field(_TEXTS[key], value))
        elif key in _COUNTS:
            parts.append(_integer(_COUNTS[key], value))
        elif key == "required":
            parts += [_field(_REQUIRED, name) for name in value]
        elif key == "enum":
            parts += [_field(_ENUM, _any(item)) for item in value]
        elif key == "type":
            parts.append(_field(_TYPE, _field(1, value)))
        elif key == "items":
            parts.append(_field(_ITEMS, _field(1, _schema(value))))
        elif key == "properties":
            parts.append(_field(_PROPERTIES, _schemas(value)))
        elif key == "additionalProperties":
            parts.append(_field(_ADDITIONAL, _integer(2, int(value)) if isinstance(value, bool) else _field(1, _schema(value))))
        elif key.startswith("x-"):
            parts.append(_field(_EXTENSION, _named(key, _any(value))))
    return b"".join(parts)


def _schemas(schemas: Mapping[str, Mapping[str, Any]]) -> bytes:
    return b"".join(_field(1, _named(name, _schema(schema))) for name, schema in schemas.items())


def encode_document(document: Mapping[str, Any]) -> bytes:
    """Encode a swagger document as gnostic's `Document`."""
    info = _field(1, document["info"]["title"]) + _field(2, document["info"]["version"])
    return _field(1, document["swagger"]) + _field(2, info) + _field(8, b"") + _field(9, _schemas(document["definitions"]))
