"""What is wrong with a document that a strategic patch left in a shape its type cannot have.

A strategic patch works on maps, which the real server turns back into the type field by field instead of reading JSON; only where a
container of one sort stands in the place of another does that step speak for itself. Everything else is worded as for JSON.
"""

from __future__ import annotations

from typing import Any

from muster.kube.schema_node import Schema

from .layouts import Layout, TypeExpr, has_layout, layout

_SLICE, _MAP = "slice", "map"


def from_unstructured_problem(value: Any, schema: Schema) -> str:
    """The first container that does not fit, in the order of the type's fields; empty if all do."""
    return _in_struct(value, layout(schema.name)) if has_layout(schema.name) else ""


def _sort(value: Any) -> str:
    if isinstance(value, list):
        return _SLICE
    return _MAP if isinstance(value, dict) else ""


def _in_struct(value: dict[str, Any], of: Layout) -> str:
    for field in of.json_fields.values():
        if value.get(field.json) is not None and (problem := _in_type(value[field.json], field.type)):
            return problem
    return ""


def _in_type(value: Any, expr: TypeExpr) -> str:
    sort = _sort(value)
    if expr.kind == "struct":
        if sort == _SLICE:
            return "cannot restore struct from: slice"
        return _in_struct(value, layout(expr.name)) if sort == _MAP else ""
    if expr.kind == "list" and expr.item is not None:
        if sort == _MAP:
            return "cannot restore slice from map"
        items = value if sort == _SLICE else ()
    elif expr.kind == "map" and expr.item is not None:
        if sort == _SLICE:
            return "cannot restore map from slice"
        items = value.values() if sort == _MAP else ()
    else:
        return ""
    return next((problem for item in items if item is not None and (problem := _in_type(item, expr.item))), "")
