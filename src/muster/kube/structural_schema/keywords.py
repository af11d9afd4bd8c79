"""Which keywords a CustomResourceDefinition's schema may use, and which of them must agree with each other.

The walk visits every subschema: unsupported keywords, places where defaults may not be, list and map types with their keys, and the
form of `x-kubernetes-validations` rules. Compiling rules is not done here: a `RuleChecker` that knows the expression language
follows the walk and is asked at nodes with rules, unless something at or below the node is wrong already. Its errors come last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from muster.kube.fielderrors import FieldError, forbidden, invalid, not_supported, required
from muster.kube.structural_schema.fieldpaths import BadFieldPath, resolve
from muster.kube.structural_schema.structural import unsupported_keyword

Raw = Mapping[str, Any]
TYPES: Final = ["array", "boolean", "integer", "number", "object", "string"]
RULE_REASONS: Final = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"]
_META_FIELDS: Final = frozenset({"metadata", "kind", "apiVersion"})
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_SCALAR_KEY: Final = "must be a scalar type if parent array's x-kubernetes-list-type is map"
_MAP_KEY: Final = "this property is in x-kubernetes-list-map-keys, so it"


class RuleChecker(Protocol):
    """Follows the walk over a schema and validates the rules of a node."""

    def for_property(self, raw: Raw, name: str) -> RuleChecker: ...
    def for_additional(self, raw: Raw) -> RuleChecker: ...
    def for_items(self, raw: Raw) -> RuleChecker: ...
    def check(self, raw: Raw, path: str, uncorrelatable: str) -> list[FieldError]: ...


@dataclass(frozen=True, slots=True)
class _Context:
    """The inherited properties of a node."""

    no_default: str | None = None
    in_resource_meta: bool = False
    uncorrelatable: str = ""
    """The nearest ancestor whose children cannot be matched with those of an older object."""


@dataclass(slots=True)
class _Errors:
    schema: list[FieldError]
    rules: list[FieldError]

    def extend(self, other: _Errors) -> None:
        self.schema += other.schema
        self.rules += other.rules


def check_keywords(raw: Raw, path: str, rules: RuleChecker | None = None) -> list[FieldError]:
    """Everything wrong with the keywords of a resource's schema; rules are compiled if a checker is given."""
    errors = _check(raw, path, _Context(), True, rules)
    return errors.schema + errors.rules


def _check(raw: Raw, path: str, context: _Context, root: bool, rules: RuleChecker | None) -> _Errors:
    errors = _Errors(list(_check_supported(raw, path, context)), [])
    if raw.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.schema.append(forbidden(f"{path}.uniqueItems", detail))
    _check_fields(raw, path, context, root, rules, errors)
    for child, child_path in _combinations(raw, path):
        errors.extend(_check(child, child_path, context, False, None))
    items = raw.get("items")
    if items is not None:
        below = context
        if raw.get("x-kubernetes-list-type") != "map" and not context.uncorrelatable:
            below = replace(context, uncorrelatable=path)
        for index, child in enumerate(items if isinstance(items, list) else (items,)):
            child_path = f"{path}.items[{index}]" if isinstance(items, list) else f"{path}.items"
            errors.extend(_check(child, child_path, below, False, rules and rules.for_items(child)))
    if raw.get("x-kubernetes-preserve-unknown-fields") is False:
        errors.schema.append(invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"))
    errors.schema += _check_map_type(raw, path)
    errors.schema += _check_list_type(raw, path)
    if raw.get("x-kubernetes-list-type") == "map":
        errors.schema += _check_map_list(raw, path)
    errors.schema += _check_item_identity(raw, path)
    if raw.get("x-kubernetes-validations"):
        errors.schema += _check_rules(raw, path)
        if rules is not None and not errors.schema:
            errors.rules += rules.check(raw, path, context.uncorrelatable)
    return errors


def _check_supported(raw: Raw, path: str, context: _Context) -> Iterator[FieldError]:
    kind = raw.get("type") or ""
    if kind and kind not in TYPES:
        yield not_supported(f"{path}.type", kind, TYPES)
    if raw.get("default") is not None and context.no_default is not None:
        yield forbidden(f"{path}.default", f"must not be set {context.no_default}")
    for keyword in _UNSUPPORTED:
        if raw.get(keyword) is not None and raw[keyword] != "":
            yield forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(raw.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if context.in_resource_meta and raw.get("x-kubernetes-embedded-resource"):
        yield forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")


def _check_fields(raw: Raw, path: str, context: _Context, root: bool, rules: RuleChecker | None, errors: _Errors) -> None:
    properties: Mapping[str, Raw] = raw.get("properties") or {}
    additional = raw.get("additionalProperties")
    if additional is not None:
        if properties and additional is not True:
            detail = "additionalProperties and properties are mutual exclusive"
            errors.schema.append(forbidden(f"{path}.additionalProperties", detail))
        if isinstance(additional, Mapping):
            below = context
            if context.in_resource_meta:
                below = replace(context, no_default="inside additionalProperties applying to object metadata")
            child_rules = rules and rules.for_additional(additional)
            errors.extend(_check(additional, f"{path}.additionalProperties", below, False, child_rules))
    for name, child in properties.items():
        below = context
        if raw.get("x-kubernetes-map-type") not in (None, "granular", "atomic") and not below.uncorrelatable:
            below = replace(below, uncorrelatable=path)
        if (root or raw.get("x-kubernetes-embedded-resource")) and name in _META_FIELDS:
            below = replace(below, in_resource_meta=True, no_default=f"in top-level {name}" if root else below.no_default)
        errors.extend(_check(child, f"{path}.properties[{name}]", below, False, rules and rules.for_property(child, name)))


def _combinations(raw: Raw, path: str) -> Iterator[tuple[Raw, str]]:
    if raw.get("not") is not None:
        yield raw["not"], f"{path}.not"
    for keyword in ("allOf", "oneOf", "anyOf"):
        for index, child in enumerate(raw.get(keyword) or ()):
            yield child, f"{path}.{keyword}[{index}]"
    for name, child in (raw.get("definitions") or {}).items():
        yield child, f"{path}.definitions[{name}]"
    for name, child in (raw.get("dependencies") or {}).items():
        if isinstance(child, Mapping):
            yield child, f"{path}.dependencies[{name}]"


def _must_be(path: str, raw: Raw, kind: str, keyword: str) -> FieldError:
    detail = f"must be {kind} if {keyword} is specified"
    return invalid(f"{path}.type", raw["type"], detail) if raw.get("type") else required(f"{path}.type", detail)


def _check_map_type(raw: Raw, path: str) -> Iterator[FieldError]:
    kind = raw.get("x-kubernetes-map-type")
    if kind is None:
        return
    if raw.get("type") != "object":
        yield _must_be(path, raw, "object", "x-kubernetes-map-type")
    if kind not in ("atomic", "granular"):
        yield not_supported(f"{path}.x-kubernetes-map-type", kind, ["atomic", "granular"])


def _check_list_type(raw: Raw, path: str) -> Iterator[FieldError]:
    kind, items = raw.get("x-kubernetes-list-type"), raw.get("items")
    if kind is not None and raw.get("type") != "array":
        yield _must_be(path, raw, "array", "x-kubernetes-list-type")
    elif kind == "set" and isinstance(items, Mapping):
        detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
        inner = items.get("x-kubernetes-list-type")
        if items.get("type") == "array" and inner not in (None, "atomic"):
            yield invalid(f"{path}.items.x-kubernetes-list-type", inner, detail)
        if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
            yield invalid(f"{path}.items.x-kubernetes-map-type", inner, detail)
    if kind is not None and kind not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.x-kubernetes-list-type", kind, ["atomic", "set", "map"])
    if raw.get("x-kubernetes-list-map-keys"):
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        if kind is None:
            yield required(f"{path}.x-kubernetes-list-type", detail)
        elif kind != "map":
            yield invalid(f"{path}.x-kubernetes-list-type", kind, detail)


def _check_map_list(raw: Raw, path: str) -> Iterator[FieldError]:
    keys, items = raw.get("x-kubernetes-list-map-keys") or [], raw.get("items")
    if not keys:
        yield required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    elif not isinstance(items, Mapping):
        yield invalid(f"{path}.items", items, "must only have a single schema if x-kubernetes-list-type is map")
    elif items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type") or "", detail)
    else:
        properties = items.get("properties") or {}
        seen: set[str] = set()
        for key in keys:
            if key not in properties:
                yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, "entries must all be names of item properties")
            elif properties[key].get("type") in ("array", "object"):
                yield invalid(f"{path}.items.properties[{key}].type", items["type"], _SCALAR_KEY)
            if key in seen:
                yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries")
            seen.add(key)


def _check_item_identity(raw: Raw, path: str) -> Iterator[FieldError]:
    """Items that are identified by value or key must not be null, and their keys must be required."""
    kind, items = raw.get("x-kubernetes-list-type"), raw.get("items")
    if kind not in ("set", "map") or not isinstance(items, Mapping):
        return
    if items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {kind}")
    if kind == "map":
        properties = items.get("properties") or {}
        for key in raw.get("x-kubernetes-list-map-keys") or ():
            if key not in properties:
                continue
            field = f"{path}.items.properties[{key}]"
            if key not in (items.get("required") or ()) and properties[key].get("default") is None:
                yield required(f"{field}.default", f"{_MAP_KEY} must have a default or be a required property")
            if properties[key].get("nullable"):
                yield forbidden(f"{field}.nullable", f"{_MAP_KEY} cannot be nullable")


def _check_rules(raw: Raw, path: str) -> Iterator[FieldError]:
    for index, rule in enumerate(raw["x-kubernetes-validations"]):
        field = f"{path}.x-kubernetes-validations[{index}]"
        message, expression, location = (rule.get(key) or "" for key in ("message", "messageExpression", "fieldPath"))
        text = (rule.get("rule") or "").strip()
        if not text:
            yield required(f"{field}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{field}.message", message, "must be non-empty if specified")
        elif _has_line_breaks(message.strip()):
            yield invalid(f"{field}.message", message, "must not contain line breaks")
        elif _has_line_breaks(text) and not message.strip():
            yield required(f"{field}.message", "message must be specified if rule contains line breaks")
        if expression and not expression.strip():
            yield required(f"{field}.messageExpression", "messageExpression must be non-empty if specified")
        if rule.get("reason") is not None and rule["reason"] not in RULE_REASONS:
            yield not_supported(f"{field}.reason", rule["reason"], RULE_REASONS)
        if location and not location.strip():
            yield invalid(f"{field}.fieldPath", location, "must be non-empty if specified")
        if _has_line_breaks(location):
            yield invalid(f"{field}.fieldPath", location, "must not contain line breaks")
        if location and not unsupported_keyword(raw) and not _leads_somewhere(location, raw):
            yield invalid(f"{field}.fieldPath", location, "must be a valid path")


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _leads_somewhere(path: str, raw: Raw) -> bool:
    try:
        resolve(path, raw)
    except BadFieldPath:
        return False
    return True
