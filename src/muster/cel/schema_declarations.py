"""OpenAPI schemas to declarations, by Kubernetes' rules.

Values without a reliable type are not exposed: properties with `x-kubernetes-preserve-unknown-fields` alone, arrays without items,
names that cannot be escaped. Every object has the fields of its `properties`; resource roots and embedded resources always have
apiVersion, kind and metadata with only name and generateName. Bounds (`maxItems`, `maxLength`, …) are kept for the cost estimate.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

from muster.cel import types
from muster.cel.errors import EvaluationError
from muster.cel.library.registry import holds
from muster.cel.syntax.parser import RESERVED
from muster.cel.types import Type, list_type, map_type, struct_type
from muster.cel.values import NONE, Duration, MapView, Optional, Timestamp, Uint
from muster.cel.views import Adapter, Declaration, KeyedList, SchemaList, SchemaMap, SchemaObject, SetList

MAX_REQUEST = 3 * 1024 * 1024
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SPECIAL = re.compile(r"__|[-./]")
_ESCAPABLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*\Z")
_GO_NAMES = {str: "string", int: "int64", float: "float64", bool: "bool", dict: "map[string]interface {}",
             list: "[]interface {}"}  # fmt: skip
_STRING_SCHEMA: Mapping[str, Any] = {"type": "string"}
_ROOT_PROPERTIES: Mapping[str, Any] = {
    "kind": _STRING_SCHEMA,
    "apiVersion": _STRING_SCHEMA,
    "metadata": {"type": "object", "properties": {"name": _STRING_SCHEMA, "generateName": _STRING_SCHEMA}},
}


def escape(name: str) -> str | None:
    """A property name as a CEL identifier, or None when it cannot be one."""
    if name in RESERVED:
        return f"__{name}__"
    if not _ESCAPABLE.match(name):
        return None
    return _SPECIAL.sub(lambda match: _ESCAPED[match.group()], name)


def from_structural_schema(schema: Mapping[str, Any], *, root: bool = False, name: str = "object") -> Declaration | None:
    """The declaration of a schema, or None if its values are not exposed to CEL. `root` marks resources."""
    if schema.get("x-kubernetes-int-or-string"):
        length = schema.get("maxLength")
        return Declaration(types.DYN, _or_null(schema, _int_or_string), bound=_string_bound(length), smallest=1)
    root = root or bool(schema.get("x-kubernetes-embedded-resource"))
    if root:
        schema = _with_type_and_name(schema)
    build = _BUILDERS.get(str(schema.get("type", "")))
    return None if build is None else build(schema, name)


def _with_type_and_name(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with the fields of every resource; it may declare them itself, with bounds."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    metadata = properties.get("metadata") or {}
    names = metadata.get("properties") or {}
    strings = [properties.get("kind"), properties.get("apiVersion"), names.get("name"), names.get("generateName")]
    if metadata.get("type") == "object" and all(found and found.get("type") == "string" for found in strings):
        return schema
    return {**schema, "properties": {**properties, **_ROOT_PROPERTIES}}


def _or_null(schema: Mapping[str, Any], adapt: Adapter) -> Adapter:
    nullable = bool(schema.get("nullable"))

    def adapt_nullable(value: Any) -> Any:
        if value is None:
            if nullable:
                return None
            raise EvaluationError("invalid data, got null for schema with nullable=false")
        return adapt(value)

    return adapt_nullable


def _int_or_string(value: Any) -> Any:
    if value.__class__ is str or value.__class__ is int:
        return value
    raise EvaluationError("invalid data, expected XIntOrString value to be either a string or integer")


def _exactly(expected: type, word: str) -> Adapter:
    def adapt(value: Any) -> Any:
        if value.__class__ is expected:
            return value
        raise EvaluationError(f"invalid data, expected {word}, got {_GO_NAMES.get(value.__class__, '<nil>')}")

    return adapt


_as_string = _exactly(str, "string")
_as_int = _exactly(int, "int")
_as_bool = _exactly(bool, "bool")


def _as_double(value: Any) -> float:
    if value.__class__ is float or value.__class__ is int:
        return float(value)
    raise EvaluationError(f"invalid data, expected float, got {_GO_NAMES.get(value.__class__, '<nil>')}")


def _as_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_as_string(value), validate=True)
    except ValueError as error:
        raise EvaluationError(f"Invalid byte formatted string {value}: {error}") from None


def _timestamp(parse: Callable[[str], Timestamp], word: str) -> Adapter:
    def adapt(value: Any) -> Timestamp:
        try:
            return parse(_as_string(value))
        except EvaluationError as error:
            raise EvaluationError(f"Invalid {word} formatted string {value}: {error}") from None

    return adapt


def _parse_date(text: str) -> Timestamp:
    from muster.cel.times import parse_timestamp

    return parse_timestamp(f"{text}T00:00:00Z")


def _parse_date_time(text: str) -> Timestamp:
    from muster.cel.times import parse_timestamp

    # The format also permits a blank or lower-case t between date and time; the colon of the zone is never missing.
    return parse_timestamp(text[:10] + text[10:].upper().replace(" ", "T", 1))


def _as_duration(value: Any) -> Duration:
    from muster.cel.times import parse_duration

    try:
        return parse_duration(_as_string(value).replace(" ", ""))
    except EvaluationError as error:
        raise EvaluationError(f"Invalid duration {value}: {error}") from None


def _string_bound(length: Any) -> int:
    return MAX_REQUEST - 2 if length is None else max(0, int(length)) * 4


_FORMATS: dict[str, tuple[Type, Adapter, int, int]] = {
    "duration": (types.DURATION, _as_duration, 32, 3),
    "date": (types.TIMESTAMP, _timestamp(_parse_date, "date"), 12, 12),
    "date-time": (types.TIMESTAMP, _timestamp(_parse_date_time, "date-time"), 32, 21),
}


def _string(schema: Mapping[str, Any], name: str) -> Declaration:
    format_, length = schema.get("format"), schema.get("maxLength")
    if format_ == "byte":
        bound = MAX_REQUEST - 2 if length is None else max(0, int(length))
        return Declaration(types.BYTES, _or_null(schema, _as_bytes), bound=bound, smallest=2)
    known = _FORMATS.get(str(format_))
    if known is not None:
        type_, adapt, bound, smallest = known
        return Declaration(type_, _or_null(schema, adapt), bound=bound, smallest=smallest)
    bound = _string_bound(length)
    if length is None and schema.get("enum"):
        bound = max((len(value.encode()) for value in schema["enum"] if isinstance(value, str)), default=0)
    adapt = _or_null(schema, _as_string) if schema.get("nullable") else _as_string
    return Declaration(types.STRING, adapt, bound=bound, smallest=2)


def _scalar(type_: Type, adapt: Adapter, smallest: int) -> Callable[[Mapping[str, Any], str], Declaration]:
    def build(schema: Mapping[str, Any], name: str) -> Declaration:
        return Declaration(type_, _or_null(schema, adapt) if schema.get("nullable") else adapt, smallest=smallest)

    return build


_UNCONVERTED = frozenset({_as_string, _as_int, _as_bool})


def _array(schema: Mapping[str, Any], name: str) -> Declaration | None:
    items = schema.get("items")
    if not isinstance(items, Mapping):
        return None
    element = from_structural_schema(items, name=f"{name}.@idx")
    if element is None:
        return None
    bound = schema.get("maxItems")
    bound = (MAX_REQUEST - 2) // (element.smallest + 1) if bound is None else max(0, int(bound))
    adapt = _or_null(schema, _list_adapter(schema, element))
    return Declaration(list_type(element.type), adapt, "list", element=element, bound=bound, smallest=2)


def _list_adapter(schema: Mapping[str, Any], element: Declaration) -> Adapter:
    kind = schema.get("x-kubernetes-list-type") or "atomic"
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    make: Callable[[list[Any]], Any]
    if kind == "map":
        make = lambda raw: KeyedList(raw, element.adapt, keys)  # noqa: E731
    elif kind == "set":
        make = lambda raw: SetList(raw, element.adapt)  # noqa: E731
    elif element.adapt in _UNCONVERTED:
        make = lambda raw: raw  # noqa: E731
    else:
        make = lambda raw: SchemaList(raw, element.adapt)  # noqa: E731

    def adapt(value: Any) -> Any:
        if value.__class__ is not list:
            raise EvaluationError("invalid data, expected an array for the provided schema with type=array")
        return make(value)

    return adapt


def _object(schema: Mapping[str, Any], name: str) -> Declaration | None:
    additional = schema.get("additionalProperties")
    properties: Mapping[str, Any] = schema.get("properties") or {}
    if isinstance(additional, Mapping) and not properties:
        return _map(schema, additional, name)
    fields: dict[str, tuple[str, Declaration]] = {}
    required = set(schema.get("required") or ())
    smallest = 2
    for key, sub in properties.items():
        escaped = escape(key)
        declared = from_structural_schema(sub, name=f"{name}.{escaped}")
        if declared is None:
            continue
        if escaped is not None:
            fields[escaped] = (key, declared)
        if key in required and sub.get("default") is None:
            smallest += len(key.encode()) + declared.smallest + 4
    return object_declaration(name, fields, nullable=bool(schema.get("nullable")), smallest=smallest)


def object_declaration(
    name: str, fields: Mapping[str, tuple[str, Declaration]], *, nullable: bool = False, smallest: int = 2
) -> Declaration:
    struct = struct_type(name, {field: declared.type for field, (_, declared) in fields.items()})

    def adapt(value: Any) -> Any:
        if value.__class__ is not dict:
            if isinstance(value, MapView):
                return value
            raise EvaluationError("invalid data, expected a map for the provided schema with type=object")
        return SchemaObject(value, declaration)

    adapter = _or_null({"nullable": nullable}, adapt)
    declaration = Declaration(struct, adapter, "object", fields=fields, smallest=smallest)
    return declaration


def _map(schema: Mapping[str, Any], additional: Mapping[str, Any], name: str) -> Declaration | None:
    element = from_structural_schema(additional, name=f"{name}.@elem")
    if element is None:
        return None
    bound = schema.get("maxProperties")
    bound = (MAX_REQUEST - 2) // (element.smallest + 6) if bound is None else max(0, int(bound))
    unconverted = element.adapt in _UNCONVERTED

    def adapt(value: Any) -> Any:
        if value.__class__ is not dict:
            raise EvaluationError("invalid data, expected a map for the provided schema with type=object")
        return value if unconverted else SchemaMap(value, element.adapt)

    type_ = map_type(types.STRING, element.type)
    return Declaration(type_, _or_null(schema, adapt), "map", element=element, bound=bound, smallest=2)


_BUILDERS: dict[str, Callable[[Mapping[str, Any], str], Declaration | None]] = {
    "array": _array,
    "object": _object,
    "string": _string,
    "boolean": _scalar(types.BOOL, _as_bool, 4),
    "number": _scalar(types.DOUBLE, _as_double, 1),
    "integer": _scalar(types.INT, _as_int, 1),
}


def object_type(name: str, fields: Mapping[str, Type | Declaration]) -> Declaration:
    """A named object with the given fields, for variables that no OpenAPI schema describes."""
    declared: dict[str, tuple[str, Declaration]] = {}
    for field, spec in fields.items():
        escaped = escape(field)
        if escaped is None:
            raise ValueError(f"{field!r} cannot be a field name in an expression")
        declared[escaped] = (field, declaration_of(spec))
    return object_declaration(name, declared)


def declaration_of(spec: Type | Declaration) -> Declaration:
    """A plain type as a declaration: values are used unchanged, after a check of their class."""
    if isinstance(spec, Declaration):
        return spec

    def adapt(value: Any) -> Any:
        if holds(spec, value) or (value is None and spec.kind == "struct"):
            return value
        kind = value.__class__
        if kind is int and spec.kind == "uint" and value >= 0:
            return Uint(value)
        if kind is int and spec.kind == "double":
            return float(value)
        raise EvaluationError(f"invalid data, expected {spec}, got {_GO_NAMES.get(kind, kind.__name__)}")

    return Declaration(spec, adapt, bounded=False)


def optional_declaration(spec: Type | Declaration) -> Declaration:
    """`oldSelf` if it may be absent: None or a missing variable is `optional.none()`."""
    inner = declaration_of(spec)

    def adapt(value: Any) -> Any:
        return NONE if value is None else Optional(True, inner.adapt(value))

    return Declaration(types.optional(inner.type), adapt)
