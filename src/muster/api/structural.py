"""The OpenAPI schema of a struct, structural as a CustomResourceDefinition needs it.

Types give the shape, `muster.api.markers` annotations the constraints, docstrings of structs the descriptions. A field without a
default is required; a default that is a non-empty scalar is the schema's default too, so it is written once. Metadata is left to
the API server, as it wants it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from muster.api.markers import Keywords
from muster.api.resource import ObjectMeta, Record, TypedObject, required_fields

Schema = dict[str, Any]
_SCALARS: Final[Mapping[Any, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    msgspec.Raw: {},
}


@cache
def object_schema(cls: type[Record]) -> Mapping[str, Any]:
    """The schema of a struct; for a whole object the root of a definition's `openAPIV3Schema`. Shared: do not change it."""
    hints = get_type_hints(cls, include_extras=True)
    properties: Schema = {}
    required = []
    for field in msgspec.structs.fields(cls):
        properties[field.encode_name] = _with_default(_schema(hints[field.name]), field.default)
        if field.name in required_fields(cls):
            required.append(field.encode_name)
    if issubclass(cls, TypedObject):
        properties |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    schema: Schema = {"type": "object", **cls.keywords}
    if cls.__doc__ and not (cls.__bases__ and cls.__doc__ == cls.__bases__[0].__doc__):
        schema["description"] = inspect.cleandoc(cls.__doc__)
    if properties:
        schema["properties"] = dict(sorted(properties.items()))
    if required:
        schema["required"] = sorted(required)
    return schema


def _with_default(schema: Schema, default: Any) -> Schema:
    if "default" not in schema and isinstance(default, str | int | float) and default:
        return {**schema, "default": default}
    return schema


def _schema(annotation: Any) -> Schema:
    origin = get_origin(annotation)
    if origin is Annotated:
        base, *marks = get_args(annotation)
        return _merged(_schema(base), (mark.values for mark in marks if isinstance(mark, Keywords)))
    if origin in (Union, types.UnionType):
        members = [member for member in get_args(annotation) if member is not types.NoneType]
        return _schema(members[0]) if len(members) == 1 else {}
    if origin is tuple:
        return {"type": "array", "items": _schema(get_args(annotation)[0])}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(get_args(annotation)[1])}
    if annotation is ObjectMeta:
        return {"type": "object"}
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return dict(object_schema(annotation))
    return dict(_SCALARS[annotation])


def _merged(schema: Schema, layers: Iterable[Mapping[str, Any]]) -> Schema:
    for layer in layers:
        schema = {**schema, **layer}
    return schema
