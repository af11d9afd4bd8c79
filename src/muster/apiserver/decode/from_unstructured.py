"""Type errors of a document that a strategic merge patch has produced. Follows `DefaultUnstructuredConverter.FromUnstructured` in
`k8s.io/apimachinery/pkg/runtime`.

A strategic merge patch works on maps, which kube-apiserver converts to the Go type without encoding them as JSON. Only where one
kind of container takes the place of another does this step have messages of its own; all others are those of JSON decoding.
"""

from __future__ import annotations

from typing import Any

from muster.kube.schema_node import Schema

from .layouts import Layout, TypeExpr, has_layout, layout

_SLICE, _MAP = "slice", "map"


def from_unstructured_problem(value: Any, schema: Schema) -> str:
    """The message about the first container of a wrong kind, in the order of the fields of the type; empty if there is none."""
    return _in_struct(value, layout(schema.name)) if has_layout(schema.name) else ""


def _container_kind(value: Any) -> str:
    if isinstance(value, list):
        return _SLICE
    return _MAP if isinstance(value, dict) else ""


def _in_struct(value: dict[str, Any], of: Layout) -> str:
    for field in of.json_fields.values():
        if value.get(field.json) is not None and (problem := _in_type(value[field.json], field.type)):
            return problem
    return ""


def _in_type(value: Any, expr: TypeExpr) -> str:
    kind = _container_kind(value)
    if expr.kind == "struct":
        if kind == _SLICE:
            return "cannot restore struct from: slice"
        return _in_struct(value, layout(expr.name)) if kind == _MAP else ""
    if expr.kind == "list" and expr.item is not None:
        if kind == _MAP:
            return "cannot restore slice from map"
        items = value if kind == _SLICE else ()
    elif expr.kind == "map" and expr.item is not None:
        if kind == _SLICE:
            return "cannot restore map from slice"
        items = value.values() if kind == _MAP else ()
    else:
        return ""
    return next((problem for item in items if item is not None and (problem := _in_type(item, expr.item))), "")
