"""Decoder for Kubernetes protobuf bodies (magic number and runtime.Unknown), which Go clients send for all built-in types.

Messages are decoded with the struct layouts: fields that Go inlines are nested messages on the wire and fields of their parent in
JSON. Non-pointer scalars are on the wire even if zero, pointer scalars only if set, so a zero on the wire is a value, and the typed
conversion that follows decides which zeros are shown. Times, quantities, int-or-string, raw extensions and named slices have
message forms of their own. There is no encoder: answers to these clients are JSON.

A malformed body raises DecodeError and nothing else. Nesting and the number of messages are limited, so that a small body cannot
become a large object.
"""

from __future__ import annotations

import binascii
import struct as packing
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import orjson

from muster.machinery.golang.durations import format_duration
from muster.machinery.objects import Object
from muster.machinery.protobuf import BYTES, FIXED64, VARINT, MalformedMessage, read_fields, read_varint, signed, signed32

from . import scalars, typed
from .errors import DecodeError
from .layouts import Layout, TypeExpr, definition_of, layout

MAGIC: Final = b"k8s\x00"
_MAX_DEPTH: Final = 100
_MAX_MESSAGES: Final = 100_000


class _Budget:
    """The number of messages that one body may still contain."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages = _MAX_MESSAGES


Reader = Callable[[bytes, _Budget, int], Any]
"""Reads the payload of a length-delimited field."""


_fields: Final[Callable[[bytes], Any]] = read_fields
"""Number, wire type and value of each field; the caller knows the types of the values."""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _scalar_fields(data: bytes) -> dict[int, Any]:
    """The last value of each field number, for small messages of special types."""
    return {number: value for number, _, value in _fields(data)}


def _of(found: dict[int, Any], number: int, kind: type, default: Any) -> Any:
    value = found.get(number, default)
    if not isinstance(value, kind):
        raise DecodeError(f"proto: wrong wireType for field {number}")
    return value


def _time(data: bytes, budget: _Budget, depth: int) -> str | None:
    return _timestamp(data, False)


def _micro_time(data: bytes, budget: _Budget, depth: int) -> str | None:
    return _timestamp(data, True)


def _timestamp(data: bytes, micro: bool) -> str | None:
    if not data:
        return None
    found = _scalar_fields(data)
    return scalars.time_from_unix(signed(_of(found, 1, int, 0)), max(signed32(_of(found, 2, int, 0)), 0), micro)


def _duration(data: bytes, budget: _Budget, depth: int) -> str:
    return format_duration(signed(_of(_scalar_fields(data), 1, int, 0)))


def _quantity(data: bytes, budget: _Budget, depth: int) -> str:
    return _text(_of(_scalar_fields(data), 1, bytes, b"0"))


def _int_or_string(data: bytes, budget: _Budget, depth: int) -> int | str:
    found = _scalar_fields(data)
    if _of(found, 1, int, 0) == 1:
        return _text(_of(found, 3, bytes, b""))
    return signed32(_of(found, 2, int, 0))


def _raw_json(data: bytes, budget: _Budget, depth: int) -> Any:
    raw = _of(_scalar_fields(data), 1, bytes, b"")
    if not raw:
        return None
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise DecodeError(f"embedded JSON: {error}") from error


def _strings(data: bytes, budget: _Budget, depth: int) -> list[str]:
    found = []
    for number, wire, value in _fields(data):
        if number == 1:
            if wire != BYTES:
                raise DecodeError("proto: wrong wireType for field 1")
            found.append(_text(value))
    return found


_PROPS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


def _props(data: bytes, budget: _Budget, depth: int) -> Object:
    return _message(data, _message_fields(_PROPS), budget, depth)


def _props_or_array(data: bytes, budget: _Budget, depth: int) -> Any:
    schema: Any = None
    schemas: list[Any] = []
    for number, wire, value in _fields(data):
        if number in (1, 2) and wire != BYTES:
            raise DecodeError(f"proto: wrong wireType for field {number}")
        if number == 1:
            schema = _props(value, budget, depth + 1)
        elif number == 2:
            schemas.append(_props(value, budget, depth + 1))
    return schemas if schemas else schema


def _props_or_bool(data: bytes, budget: _Budget, depth: int) -> Any:
    found = _scalar_fields(data)
    if 2 in found:
        return _props(_of(found, 2, bytes, b""), budget, depth + 1)
    return bool(_of(found, 1, int, 0))


def _props_or_strings(data: bytes, budget: _Budget, depth: int) -> Any:
    texts: list[str] = []
    schema: Any = None
    for number, wire, value in _fields(data):
        if number in (1, 2) and wire != BYTES:
            raise DecodeError(f"proto: wrong wireType for field {number}")
        if number == 1:
            schema = _props(value, budget, depth + 1)
        elif number == 2:
            texts.append(_text(value))
    return texts if texts else schema


_SPECIAL: Final[dict[str, Reader]] = {
    "Time": _time,
    "MicroTime": _micro_time,
    "Duration": _duration,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "RawExtension": _raw_json,
    "FieldsV1": _raw_json,
    "JSON": _raw_json,
    "ExtraValue": _strings,
    "Verbs": _strings,
    "JSONSchemaPropsOrArray": _props_or_array,
    "JSONSchemaPropsOrBool": _props_or_bool,
    "JSONSchemaPropsOrStringArray": _props_or_strings,
}


def _double(value: int) -> float | int:
    number: float = packing.unpack("<d", value.to_bytes(8, "little"))[0]
    if number != number or number in (float("inf"), float("-inf")):
        raise DecodeError("a number is not finite")
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


_INTEGERS: Final[dict[str, Callable[[int], Any]]] = {
    "bool": bool,
    "int": signed,
    "int32": signed32,
    "int64": signed,
    "float64": _double,
}


def _length_delimited(expr: TypeExpr) -> Reader:
    if expr.kind == "string":
        return lambda data, budget, depth: _text(data)
    if expr.kind == "bytes":
        return lambda data, budget, depth: binascii.b2a_base64(data, newline=False).decode()
    if expr.kind == "special":
        return _SPECIAL[expr.name.rsplit(".", 1)[-1]]
    name = expr.name
    return lambda data, budget, depth: _message(data, _message_fields(name), budget, depth)


class _Field:
    """How to read one field of a message. `shape` is one, list, map or inline."""

    __slots__ = ("integer", "key", "read", "shape", "wire")

    def __init__(self, key: str, expr: TypeExpr, inline: bool) -> None:
        self.key = key
        self.shape = "inline" if inline else expr.kind if expr.kind in ("list", "map") else "one"
        item = expr.item if expr.item is not None else expr
        self.integer = _INTEGERS.get(item.kind)
        self.read: Reader | None = None if self.integer is not None else _length_delimited(item)
        self.wire = FIXED64 if item.kind == "float64" else VARINT if self.integer is not None else BYTES


@cache
def _message_fields(name: str) -> dict[int, _Field]:
    return _read_layout(layout(name))


def _read_layout(of: Layout) -> dict[int, _Field]:
    return {field.number: _Field(field.json, field.type, field.inline) for field in of.fields if field.number}


def _message(data: bytes, fields: dict[int, _Field], budget: _Budget, depth: int) -> Object:
    budget.messages -= 1
    if depth > _MAX_DEPTH or budget.messages < 0:
        raise DecodeError("the object is nested too deeply or has too many parts")
    result: Object = {}
    for number, wire, value in _fields(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.shape == "map":
            if wire != BYTES:
                raise DecodeError(f"proto: wrong wireType = {wire} for field {field.key}")
            _map_entry(value, field, result, budget, depth)
            continue
        if wire != field.wire:
            if field.shape == "list" and field.wire == VARINT and wire == BYTES and field.integer is not None:
                result.setdefault(field.key, []).extend(_packed(value, field.integer))
                continue
            raise DecodeError(f"proto: wrong wireType = {wire} for field {field.key}")
        item = field.integer(value) if field.integer is not None else field.read(value, budget, depth + 1)  # type: ignore[misc]
        if field.shape == "one":
            held = result.get(field.key)
            result[field.key] = {**held, **item} if type(held) is dict and type(item) is dict else item
        elif field.shape == "inline":
            result.update(item)
        else:
            result.setdefault(field.key, []).append(item)
    return result


def _packed(data: bytes, integer: Callable[[int], Any]) -> list[Any]:
    found = []
    at = 0
    while at < len(data):
        value, at = read_varint(data, at)
        found.append(integer(value))
    return found


def _map_entry(data: bytes, field: _Field, result: Object, budget: _Budget, depth: int) -> None:
    budget.messages -= 1
    if budget.messages < 0:
        raise DecodeError("the object has too many parts")
    key = ""
    value: Any = field.integer(0) if field.integer is not None else field.read(b"", budget, depth + 1)  # type: ignore[misc]
    for number, wire, raw in _fields(data):
        if number == 1:
            if wire != BYTES:
                raise DecodeError("proto: wrong wireType for a map key")
            key = _text(raw)
        elif number == 2:
            if wire != field.wire:
                raise DecodeError("proto: wrong wireType for a map value")
            value = field.integer(raw) if field.integer is not None else field.read(raw, budget, depth + 1)  # type: ignore[misc]
    result.setdefault(field.key, {})[key] = value


def envelope(body: bytes) -> tuple[str, str, bytes]:
    """(apiVersion, kind, message) of a body."""
    if body[:4] != MAGIC:
        raise DecodeError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        outer = _scalar_fields(body[4:])
        meta = _scalar_fields(_of(outer, 1, bytes, b""))
    except MalformedMessage as error:
        raise DecodeError(str(error)) from error
    encoding = _of(outer, 3, bytes, b"")
    if encoding:
        raise DecodeError(f"unsupported content encoding {_text(encoding)!r}")
    return _text(_of(meta, 1, bytes, b"")), _text(_of(meta, 2, bytes, b"")), _of(outer, 2, bytes, b"")


def decode(body: bytes, api_version: str = "", kind: str = "") -> Object:
    """The object in a body, as the server shows it in JSON. The two hints are used if the envelope has no type."""
    stated_version, stated_kind, message = envelope(body)
    api_version, kind = stated_version or api_version, stated_kind or kind
    group, _, version = api_version.rpartition("/")
    definition = definition_of(group, version, kind)
    if definition is None:
        raise DecodeError(f'no kind "{kind}" is registered for version "{api_version}"')
    try:
        obj = _message(message, _message_fields(definition), _Budget(), 0)
    except MalformedMessage as error:
        raise DecodeError(str(error)) from error
    obj = {"kind": kind, "apiVersion": api_version, **obj}
    try:
        shown: Object = typed.struct(definition)(obj)
    except typed.WrongType as error:
        raise DecodeError(f"the message does not fit {kind}") from error
    return shown


__all__ = ["MAGIC", "DecodeError", "decode", "envelope"]
