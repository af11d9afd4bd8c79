"""Structural schemas: the shape a CustomResourceDefinition's schema must have so that pruning and defaulting are well defined.

Every field has a type outside of anyOf/oneOf/allOf/not; those combinations only restrict values and never declare types, defaults
or extensions; what they restrict is declared outside of them; and metadata is the server's business, except name and generateName.
Errors come sorted by text, because the schema's maps have no order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

from muster.kube.fielderrors import FieldError, forbidden, invalid, required
from muster.kube.structural_schema.patterns import BadPattern, matcher

Raw = Mapping[str, Any]
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_UNSUPPORTED: Final = ("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions")

_NESTED_FORBIDDEN: Final = (
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_DEFINED_MATTERS: Final = frozenset({"default", "x-kubernetes-list-type", "x-kubernetes-map-type"})
"""Keywords that count as soon as they are given, even with an empty value."""


class Level(Enum):
    """Where a node sits; the text says so when its type is missing."""

    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"


def unsupported_keyword(raw: Raw) -> str:
    """Why a schema cannot even be read as a structural one, empty if it can."""
    for keyword in _UNSUPPORTED:
        if raw.get(keyword) not in (None, "", {}) or (keyword == "additionalItems" and raw.get(keyword) is not None):
            return f"OpenAPIV3Schema '{keyword.removeprefix('$') if keyword == '$schema' else keyword}' is not supported"
    if raw.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    if isinstance(raw.get("items"), list):
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    return next((reason for child in subschemas(raw) if (reason := unsupported_keyword(child))), "")


def subschemas(raw: Raw) -> Iterator[Raw]:
    """The schemas directly inside one."""
    for keyword in ("not", "items", "additionalProperties"):
        child = raw.get(keyword)
        if isinstance(child, Mapping):
            yield child
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from raw.get(keyword) or ()
    yield from (raw.get("properties") or {}).values()


def check_structural(raw: Raw, path: str) -> list[FieldError]:
    """Everything that keeps a schema from being structural."""
    errors = [*_check_node(raw, Level.ROOT, path), *_check_declared(raw, raw, path, path)]
    return sorted(errors, key=str)


def _check_node(raw: Raw, level: Level, path: str) -> Iterator[FieldError]:
    kind = raw.get("type") or ""
    properties: Mapping[str, Raw] = raw.get("properties") or {}
    embedded = bool(raw.get("x-kubernetes-embedded-resource"))
    items, additional = raw.get("items"), raw.get("additionalProperties")
    if kind == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if items is not None:
        yield from _check_node(items, Level.ITEM, f"{path}.items")
    for name, child in properties.items():
        yield from _check_node(child, Level.FIELD, f"{path}.properties[{name}]")
    if additional is not None:
        if level is Level.ROOT:
            yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, Mapping):
            yield from _check_node(additional, Level.FIELD, f"{path}.additionalProperties")
    yield from _check_extensions(raw, path)
    all_of = raw.get("allOf") or []
    yield from _check_values(
        raw,
        path,
        skip_any_of=raw.get("anyOf") == _INT_OR_STRING,
        skip_first_all_of=bool(all_of) and all_of[0].get("anyOf") == _INT_OR_STRING,
    )
    yield from _check_type(raw, kind, level, embedded, path)
    if embedded and additional is not None:
        yield forbidden(f"{path}.additionalProperties", "must not be used if x-kubernetes-embedded-resource is set")
    if level is Level.ROOT and kind not in ("", "object"):
        yield invalid(f"{path}.type", kind, "must be object at the root")
    yield from _check_resource_fields(properties, level, level is Level.ROOT or embedded, path)
    if embedded and not raw.get("x-kubernetes-preserve-unknown-fields") and not properties:
        detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        yield required(f"{path}.properties", detail)


def _check_extensions(raw: Raw, path: str) -> Iterator[FieldError]:
    if raw.get("x-kubernetes-int-or-string"):
        for keyword in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if raw.get(keyword):
                yield invalid(f"{path}.{keyword}", True, "must be false if x-kubernetes-int-or-string is true")


def _check_type(raw: Raw, kind: str, level: Level, embedded: bool, path: str) -> Iterator[FieldError]:
    if embedded and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)
    elif not kind and not raw.get("x-kubernetes-int-or-string") and not raw.get("x-kubernetes-preserve-unknown-fields"):
        yield required(f"{path}.type", level.value)


def _check_resource_fields(properties: Mapping[str, Raw], level: Level, resource: bool, path: str) -> Iterator[FieldError]:
    for name in ("kind", "apiVersion"):
        if resource and name in properties and properties[name].get("type") != "string":
            yield invalid(f"{path}.properties[{name}].type", properties[name].get("type") or "", "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    field = f"{path}.properties[metadata]"
    if resource and metadata.get("type") != "object":
        yield invalid(f"{field}.type", metadata.get("type") or "", "must be object")
    if level is Level.ROOT:
        names = set(metadata.get("properties") or {})
        restricts_more = bool(names - {"name", "generateName"}) or any(
            value not in (None, "", False, [], {}) or (keyword == "additionalProperties" and value is not None)
            for keyword, value in metadata.items()
            if keyword not in ("type", "default", "properties", "externalDocs", "example")
        )
        if restricts_more:
            yield forbidden(
                field, "must not specify anything other than name and generateName, but metadata is implicitly specified"
            )


def _check_values(raw: Raw, path: str, skip_any_of: bool = False, skip_first_all_of: bool = False) -> Iterator[FieldError]:
    """The combinations at a node, which may restrict values only."""
    if not skip_any_of:
        for index, child in enumerate(raw.get("anyOf") or ()):
            yield from _check_nested(child, f"{path}.anyOf[{index}]")
    for index, child in enumerate(raw.get("allOf") or ()):
        yield from _check_nested(child, f"{path}.allOf[{index}]", skip_any_of=skip_first_all_of and index == 0)
    for index, child in enumerate(raw.get("oneOf") or ()):
        yield from _check_nested(child, f"{path}.oneOf[{index}]")
    if raw.get("not") is not None:
        yield from _check_nested(raw["not"], f"{path}.not")
    if raw.get("pattern"):
        try:
            matcher(raw["pattern"])
        except BadPattern as problem:
            yield invalid(f"{path}.pattern", raw["pattern"], f"must be a valid regular expression, but isn't: {problem}")


def _check_nested(raw: Raw, path: str, skip_any_of: bool = False) -> Iterator[FieldError]:
    yield from _check_values(raw, path, skip_any_of)
    if raw.get("items") is not None:
        yield from _check_nested(raw["items"], f"{path}.items")
    properties: Mapping[str, Raw] = raw.get("properties") or {}
    for name, child in properties.items():
        yield from _check_nested(child, f"{path}.properties[{name}]")
    if raw.get("type"):
        yield forbidden(f"{path}.type", "must be empty to be structural")
    if raw.get("additionalProperties") not in (None, False):
        yield forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    for keyword, detail in _NESTED_FORBIDDEN:
        value = raw.get(keyword)
        if value is not None and (value or keyword in _DEFINED_MATTERS):
            yield forbidden(f"{path}.{keyword}", detail)
    if "metadata" in properties:
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _check_declared(values: Raw, raw: Raw, path: str, values_path: str) -> Iterator[FieldError]:
    """What combinations speak about must be declared outside of them."""
    if values.get("not") is not None:
        yield from _check_nested_declared(values["not"], raw, path, f"{values_path}.not")
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, child in enumerate(values.get(keyword) or ()):
            yield from _check_nested_declared(child, raw, path, f"{values_path}.{keyword}[{index}]")


def _check_nested_declared(values: Raw, raw: Raw | None, path: str, values_path: str) -> Iterator[FieldError]:
    if raw is None:
        yield required(path, f"because it is defined in {values_path}")
        return
    yield from _check_declared(values, raw, path, values_path)
    if values.get("items") is not None:
        yield from _check_nested_declared(values["items"], raw.get("items"), f"{path}.items", f"{values_path}.items")
    declared = raw.get("properties") or {}
    for name, child in (values.get("properties") or {}).items():
        yield from _check_nested_declared(
            child, declared.get(name), f"{path}.properties[{name}]", f"{values_path}.properties[{name}]"
        )
