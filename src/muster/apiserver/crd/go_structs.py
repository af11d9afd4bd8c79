"""Parts of a CRD as kube-apiserver prints them in errors: its internal Go structs, with all fields in order, zero values included.

A few error texts quote a whole version, schema or rule, and clients compare error texts. The tables list each struct field with the
key of the public form and the zero value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from muster.kube.fielderrors import Rendered
from muster.machinery.golang.json import HTML_ESCAPES

Raw = Mapping[str, Any]
Shape = Callable[[Any], Any]


def _render(value: Any) -> Rendered:
    return Rendered(orjson.dumps(value).decode().translate(HTML_ESCAPES))


def rendered_versions(versions: list[Any] | None) -> Rendered:
    return _render(None if versions is None else [_version(version) for version in versions])


def rendered_schema(raw: Raw) -> Rendered:
    return _render(_schema(raw))


def rendered_rule(rule: Raw) -> Rendered:
    return _render(_struct(rule, _RULE))


def _struct(raw: Raw, fields: tuple[tuple[str, str, Any, Shape | None], ...]) -> dict[str, Any]:
    shaped = {}
    for name, key, zero, shape in fields:
        value = raw.get(key)
        shaped[name] = zero if value is None else (value if shape is None else shape(value))
    return shaped


def _schema(raw: Raw) -> dict[str, Any]:
    return _struct(raw, _SCHEMA)


def _schemas(raws: list[Raw]) -> list[Any]:
    return [_schema(raw) for raw in raws]


def _schema_map(raws: Mapping[str, Raw]) -> dict[str, Any]:
    return {name: _schema(raws[name]) for name in sorted(raws)}


def _schema_or_bool(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"Allows": value, "Schema": None}
    return {"Allows": True, "Schema": _schema(value)}


def _schema_or_array(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"Schema": None, "JSONSchemas": _schemas(value)}
    return {"Schema": _schema(value), "JSONSchemas": None}


def _dependencies(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _schema_or_names(value[name]) for name in sorted(value)}


def _schema_or_names(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"Schema": None, "Property": value}
    return {"Schema": _schema(value), "Property": None}


def _rules(rules: list[Raw]) -> list[Any]:
    return [_struct(rule, _RULE) for rule in rules]


def _version(version: Raw) -> dict[str, Any]:
    return _struct(version, _VERSION)


def _columns(columns: list[Raw]) -> list[Any]:
    return [_struct(column, _COLUMN) for column in columns]


def _subresources(raw: Raw) -> dict[str, Any]:
    scale = raw.get("scale")
    return {
        "Status": None if raw.get("status") is None else {},
        "Scale": None if scale is None else _struct(scale, _SCALE),
    }


_RULE: Final = (
    ("Rule", "rule", "", None),
    ("Message", "message", "", None),
    ("MessageExpression", "messageExpression", "", None),
    ("Reason", "reason", None, None),
    ("FieldPath", "fieldPath", "", None),
    ("OptionalOldSelf", "optionalOldSelf", None, None),
)
_EXTERNAL_DOCS: Final = (("Description", "description", "", None), ("URL", "url", "", None))
_SCALE: Final = (
    ("SpecReplicasPath", "specReplicasPath", "", None),
    ("StatusReplicasPath", "statusReplicasPath", "", None),
    ("LabelSelectorPath", "labelSelectorPath", None, None),
)
_COLUMN: Final = (
    ("Name", "name", "", None),
    ("Type", "type", "", None),
    ("Format", "format", "", None),
    ("Description", "description", "", None),
    ("Priority", "priority", 0, None),
    ("JSONPath", "jsonPath", "", None),
)
_VERSION: Final = (
    ("Name", "name", "", None),
    ("Served", "served", False, None),
    ("Storage", "storage", False, None),
    ("Deprecated", "deprecated", False, None),
    ("DeprecationWarning", "deprecationWarning", None, None),
    ("Schema", "schema", None, lambda raw: {"OpenAPIV3Schema": _schema(raw.get("openAPIV3Schema") or {})}),
    ("Subresources", "subresources", None, _subresources),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", None, _columns),
    ("SelectableFields", "selectableFields", None, lambda raws: [{"JSONPath": raw.get("jsonPath", "")} for raw in raws]),
)
_SCHEMA: Final[tuple[tuple[str, str, Any, Shape | None], ...]] = (
    ("ID", "id", "", None),
    ("Schema", "$schema", "", None),
    ("Ref", "$ref", None, None),
    ("Description", "description", "", None),
    ("Type", "type", "", None),
    ("Nullable", "nullable", False, None),
    ("Format", "format", "", None),
    ("Title", "title", "", None),
    ("Default", "default", None, None),
    ("Maximum", "maximum", None, None),
    ("ExclusiveMaximum", "exclusiveMaximum", False, None),
    ("Minimum", "minimum", None, None),
    ("ExclusiveMinimum", "exclusiveMinimum", False, None),
    ("MaxLength", "maxLength", None, None),
    ("MinLength", "minLength", None, None),
    ("Pattern", "pattern", "", None),
    ("MaxItems", "maxItems", None, None),
    ("MinItems", "minItems", None, None),
    ("UniqueItems", "uniqueItems", False, None),
    ("MultipleOf", "multipleOf", None, None),
    ("Enum", "enum", None, None),
    ("MaxProperties", "maxProperties", None, None),
    ("MinProperties", "minProperties", None, None),
    ("Required", "required", None, None),
    ("Items", "items", None, _schema_or_array),
    ("AllOf", "allOf", None, _schemas),
    ("OneOf", "oneOf", None, _schemas),
    ("AnyOf", "anyOf", None, _schemas),
    ("Not", "not", None, _schema),
    ("Properties", "properties", None, _schema_map),
    ("AdditionalProperties", "additionalProperties", None, _schema_or_bool),
    ("PatternProperties", "patternProperties", None, _schema_map),
    ("Dependencies", "dependencies", None, _dependencies),
    ("AdditionalItems", "additionalItems", None, _schema_or_bool),
    ("Definitions", "definitions", None, _schema_map),
    ("ExternalDocs", "externalDocs", None, lambda raw: _struct(raw, _EXTERNAL_DOCS)),
    ("Example", "example", None, None),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", None, None),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", False, None),
    ("XIntOrString", "x-kubernetes-int-or-string", False, None),
    ("XListMapKeys", "x-kubernetes-list-map-keys", None, None),
    ("XListType", "x-kubernetes-list-type", None, None),
    ("XMapType", "x-kubernetes-map-type", None, None),
    ("XValidations", "x-kubernetes-validations", None, _rules),
)
SCHEMA_FIELDS: Final = tuple((name, key) for name, key, _, _ in _SCHEMA)
"""(struct field, JSON key) of a schema, in the order of the struct."""
