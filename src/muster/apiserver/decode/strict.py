"""JSON request bodies: parsing, duplicate keys, and the typed conversion of built-in types, with kube-apiserver's message for each
problem.

The fast path is one orjson parse and one pass of compiled closures (`typed`). Only if that pass fails does a slower traversal of
the same layouts determine paths: it prunes and reports unknown fields in document order, or finds the first value of a wrong type
and produces Go's message. Duplicate keys need a second parse with pair hooks, so callers request it only for strict validation, or
if `may_have_duplicates` cannot exclude them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import orjson

from muster.kube.schema_node import Schema
from muster.machinery.objects import Object

from . import scalars, typed
from .depth import EXCEEDED, may_be_deep, too_deep
from .errors import DecodeError, Unrecognized
from .jsonsyntax import number_beyond_float64, syntax_problem
from .layouts import Layout, TypeExpr, has_layout, layout

_MAX_PROBLEMS = 100
"""Maximum number of reported problems of each kind."""


def parse(body: bytes) -> Any:
    """Any JSON document."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        problem = syntax_problem(body)
        if not problem and (number := number_beyond_float64(body)):
            raise DecodeError(f"json: cannot unmarshal number {number} into Go value of type float64") from error
        raise Unrecognized(problem or str(error), body) from error
    if may_be_deep(body) and too_deep(value):
        raise Unrecognized(EXCEEDED, body)
    return value


_TYPE_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'


def decode_json(body: bytes, find_duplicates: bool = False) -> tuple[Object, list[str]]:
    """(object, paths of duplicate fields). The last duplicate wins, as in Go."""
    value = parse(body)
    if not isinstance(value, dict):
        raise Unrecognized(f"json: cannot unmarshal {json_kind(value)} into Go value of type {_TYPE_META}", body)
    return value, (duplicates(body) if find_duplicates and may_have_duplicates(body, value) else [])


def may_have_duplicates(body: bytes, value: Any) -> bool:
    """False if encoding the parsed value gives the body again: then it has no duplicate keys. True if it may have some."""
    return orjson.dumps(value) != body.rstrip()


def duplicates(body: bytes) -> list[str]:
    """Paths of duplicate keys, in document order of the second occurrence."""
    found: list[str] = []
    _collect_duplicates(_decode_pairs(body.decode()), "", found)
    return list(dict.fromkeys(found))[:_MAX_PROBLEMS]


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as a list of pairs."""


_decode_pairs = json.JSONDecoder(object_pairs_hook=_Pairs).decode


def _collect_duplicates(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            here = f"{path}.{key}" if path else key
            if key in seen:
                found.append(here)
            seen.add(key)
            _collect_duplicates(item, here, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _collect_duplicates(item, f"{path}[{index}]", found)


def normalize(obj: Object, schema: Schema) -> Object:
    """Convert the object to the form of its built-in type, in place; unknown fields are dropped. Raises DecodeError."""
    return decode_typed(obj, schema)[0]


def decode_typed(obj: Object, schema: Schema) -> tuple[Object, list[str]]:
    """(object in the form of its built-in type, paths of dropped unknown fields). Works in place. Types without a struct layout
    (custom resources) are returned unchanged."""
    if not has_layout(schema.name):
        return obj, []
    convert = typed.struct(schema.name)
    unknown: list[str] = []
    try:
        try:
            return convert(obj), unknown
        except typed.UnknownField:
            unknown = _prune(obj, layout(schema.name), "")
            return convert(obj), unknown
    except typed.WrongType:
        raise DecodeError(_mismatch(obj, layout(schema.name))) from None


def unknown_fields(obj: Object, schema: Schema) -> list[str]:
    """Paths of unknown fields, in document order; they are not dropped."""
    return _unknown(obj, layout(schema.name), "", False)[:_MAX_PROBLEMS] if has_layout(schema.name) else []


def _prune(obj: Object, of: Layout, path: str) -> list[str]:
    return _unknown(obj, of, path, True)[:_MAX_PROBLEMS]


def _unknown(value: Any, of: Layout, path: str, drop: bool) -> list[str]:
    found: list[str] = []
    if not isinstance(value, dict):
        return found
    unknown_keys: list[str] = []
    for key, item in value.items():
        here = f"{path}.{key}" if path else key
        field = of.json_fields.get(key)
        if field is None:
            found.append(here)
            unknown_keys.append(key)
        else:
            found += _unknown_in(item, field.type, here, drop)
    if drop:
        for key in unknown_keys:
            del value[key]
    return found


_NESTED_PROPS = frozenset({"JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"})


def _unknown_in(value: Any, expr: TypeExpr, path: str, drop: bool) -> list[str]:
    if expr.kind == "struct":
        return _unknown(value, layout(expr.name), path, drop)
    if expr.kind == "list" and expr.item is not None and isinstance(value, list):
        return [field for index, item in enumerate(value) for field in _unknown_in(item, expr.item, f"{path}[{index}]", drop)]
    if expr.kind == "map" and expr.item is not None and isinstance(value, dict):
        return [field for key, item in value.items() for field in _unknown_in(item, expr.item, f"{path}.{key}", drop)]
    if expr.kind == "special" and expr.name.rsplit(".", 1)[-1] in _NESTED_PROPS:
        # These types unmarshal their JSON themselves and not strictly, so unknown fields in them are not reported.
        props = layout(expr.name.rsplit(".", 1)[0] + ".JSONSchemaProps")
        for item in value if isinstance(value, list) else [value]:
            _unknown(item, props, path, drop)
    return []


def json_kind(value: Any) -> str:
    """Go's name for the kind of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"


def _mismatch(obj: Object, of: Layout) -> str:
    return _mismatch_in_struct(obj, of, of.go, "") or "json: cannot unmarshal the object"


def _mismatch_in_struct(value: Any, of: Layout, struct: str, path: str) -> str | None:
    for key, item in value.items():
        field = of.json_fields.get(key)
        if field is not None and item is not None:
            here = f"{path}.{key}" if path else key
            problem = _mismatch_in(item, field.type, of.go.rpartition(".")[2], here)
            if problem:
                return problem
    return None


_ALLOWED_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "bool": (bool,),
    "bytes": (str,),
    "list": (list,),
    "map": (dict,),
    "struct": (dict,),
    "float64": (int, float),
}
_BITS = {"int": 64, "int32": 32, "int64": 64}
_SPECIAL_ALLOWED_TYPES: dict[str, tuple[type, ...]] = {
    "Time": (str,),
    "MicroTime": (str,),
    "Duration": (str,),
    "ExtraValue": (list,),
    "Verbs": (list,),
    "IntOrString": (str,),
}


def _mismatch_in(value: Any, expr: TypeExpr, struct: str, path: str) -> str | None:
    if value is None:
        return None
    if expr.kind == "special":
        return _special_mismatch(value, expr, struct, path)
    problem = f"json: cannot unmarshal {{}} into Go struct field {struct}.{path} of type {expr.go}"
    if expr.kind in _BITS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return problem.format(json_kind(value))
        limit = 1 << (_BITS[expr.kind] - 1)
        fits = isinstance(value, int) and -limit <= value < limit
        return None if fits else problem.format(f"number {value}")
    if expr.kind == "bytes" and isinstance(value, list):
        wrong = next((item for item in value if isinstance(item, bool) or not isinstance(item, int)), 0)
        return problem.replace(expr.go, "uint8").format(json_kind(wrong))
    if not isinstance(value, _ALLOWED_TYPES[expr.kind]) or (expr.kind == "float64" and isinstance(value, bool)):
        return problem.format(json_kind(value))
    if expr.kind == "struct":
        return _mismatch_in_struct(value, layout(expr.name), struct, path)
    if expr.item is not None:
        for item in _items_of(value):
            nested = _mismatch_in(item, expr.item, struct, path)
            if nested:
                return nested
    return None


def _items_of(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _special_mismatch(value: Any, expr: TypeExpr, struct: str, path: str) -> str | None:
    """The message for special types, which unmarshal themselves; Go adds the field nevertheless."""
    name = expr.name.rsplit(".", 1)[-1]
    problem = f"json: cannot unmarshal {{}} into Go struct field {struct}.{path} of type {{}}"
    if name == "IntOrString" and isinstance(value, int | float) and not isinstance(value, bool):
        fits = isinstance(value, int) and -(1 << 31) <= value < 1 << 31
        return None if fits else problem.format(f"number {value}", "int32")
    if name in _SPECIAL_ALLOWED_TYPES and not isinstance(value, _SPECIAL_ALLOWED_TYPES[name]):
        expected = {"IntOrString": "int32", "ExtraValue": expr.go, "Verbs": expr.go}.get(name, "string")
        return problem.format(json_kind(value), expected)
    if name in ("ExtraValue", "Verbs"):
        return next((problem.format(json_kind(item), "string") for item in value if not isinstance(item, str)), None)
    return None


def cannot_be_handled(kind: str, version: str, problem: str) -> str:
    """The message of the 400 answer."""
    return f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}'


def strict_warnings(unknown: list[str], duplicate: list[str], body: bytes | None = None) -> list[str]:
    """The warnings of strict decoding: with `body` in document order, as a typed decoder; else duplicates first."""
    if body is not None and unknown and duplicate:
        return _in_document_order(json.loads(body, object_pairs_hook=_Pairs), set(unknown), set(duplicate))
    return [f'duplicate field "{path}"' for path in duplicate] + [f'unknown field "{path}"' for path in unknown]


def _in_document_order(document: Any, unknown: set[str], duplicate: set[str]) -> list[str]:
    found: list[str] = []

    def visit(value: Any, path: str) -> None:
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for key, item in value:
                here = f"{path}.{key}" if path else key
                if here in unknown:
                    found.append(f'unknown field "{here}"')
                    continue
                if key in seen and here in duplicate:
                    found.append(f'duplicate field "{here}"')
                seen.add(key)
                visit(item, here)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                visit(item, f"{path}[{index}]")

    visit(document, "")
    return list(dict.fromkeys(found))


__all__ = [
    "DecodeError",
    "Unrecognized",
    "cannot_be_handled",
    "decode_json",
    "decode_typed",
    "duplicates",
    "json_kind",
    "may_have_duplicates",
    "normalize",
    "parse",
    "scalars",
    "strict_warnings",
    "unknown_fields",
]
