"""Type checking of a policy's expressions against the types that the policy matches. Checked once per generation and reported in
the status, never enforced. Follows `TypeChecker` in `k8s.io/apiserver/pkg/admission/plugin/policy/validating`.

Only rules that name groups, versions and resources determine types; wildcards, subresources and resources that are not served are
skipped. Below its first level a recursive type is `dyn`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.apiserver.cel_environment import declarations
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.registry.table import ResourceTable
from muster.cel import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    CompileError,
    Environment,
    Type,
    escape,
    list_type,
    map_type,
)
from muster.cel.types import struct_type
from muster.kube.schema_node import Schema
from muster.machinery.objects import Object

_MAX_TYPES: Final = 10
_SCALARS: Final = {"boolean": BOOL, "integer": INT, "number": DOUBLE}
_STRINGS: Final = {"byte": BYTES, "date": TIMESTAMP, "date-time": TIMESTAMP, "duration": DURATION}


def check_types(table: ResourceTable, spec: Mapping[str, Any]) -> list[Object]:
    """The `expressionWarnings` of a policy."""
    environments = [(row, _environment(table, spec, row)) for row in _types_to_check(table, spec)]
    warnings: list[Object] = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            text = validation.get(field)
            found = [problem for row, where in environments if text and (problem := _problem(text, where, row))]
            if found:
                warnings.append({"fieldRef": f"spec.validations[{index}].{field}", "warning": "\n".join(found)})
    return warnings


def _problem(text: str, where: Environment, row: ServedResource) -> str:
    try:
        where.compile(text)
    except CompileError as error:
        return f"{row.group}/{row.version}, Kind={row.kind}: {error}\n"
    return ""


def _types_to_check(table: ResourceTable, spec: Mapping[str, Any]) -> list[ServedResource]:
    rows: dict[tuple[str, str, str], ServedResource] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        plurals = [plural for plural in rule.get("resources") or () if "*" not in plural and "/" not in plural]
        if any("*" in name for name in (*groups, *versions)):
            continue
        for row in (table.get(g, v, p) for g in sorted(groups) for v in sorted(versions) for p in sorted(plurals)):
            if row is not None and len(rows) < _MAX_TYPES:
                rows[row.group, row.version, row.kind] = row
    return [rows[key] for key in sorted(rows)]


def _environment(table: ResourceTable, spec: Mapping[str, Any], row: ServedResource) -> Environment:
    about = _type_of(row.schema, row.kind, ())
    declared: dict[str, Any] = {**declarations(False, True), "object": about, "oldObject": about}
    kind = spec.get("paramKind")
    if kind is not None:
        group, _, version = (kind.get("apiVersion") or "").rpartition("/")
        params = table.by_kind(group, version, kind.get("kind") or "")
        declared["params"] = DYN if params is None else _type_of(params.schema, params.kind, ())
    fields: dict[str, Type] = {}
    for variable in spec.get("variables") or ():
        declared["variables"] = struct_type("kubernetes.variables", dict(fields))
        try:
            fields[variable["name"]] = Environment(declared).compile(variable.get("expression") or "").type
        except CompileError:
            fields[variable["name"]] = DYN
    if fields:
        declared["variables"] = struct_type("kubernetes.variables", fields)
    return Environment(declared)


def _type_of(schema: Schema, name: str, above: tuple[str, ...]) -> Type:
    if schema.int_or_string or (schema.name and schema.name in above):
        return DYN
    if schema.name:
        above = (*above, schema.name)
    if schema.type == "array":
        return DYN if schema.items is None else list_type(_type_of(schema.items, f"{name}.@idx", above))
    if schema.type == "object":
        if schema.additional is not None:
            return map_type(STRING, _type_of(schema.additional, f"{name}.@elem", above))
        if not schema.properties:
            return DYN
        fields = {
            escaped: _type_of(child, f"{name}.{field}", above)
            for field, child in schema.properties.items()
            if (escaped := escape(field)) is not None
        }
        return struct_type(name, fields)
    if schema.type == "string":
        return _STRINGS.get(schema.raw.get("format", ""), STRING)
    return _SCALARS.get(schema.type, DYN)
