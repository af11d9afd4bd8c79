"""Pruning: unknown fields disappear and are named; what a schema preserves stays."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.schema_node import Definitions, Schema
from muster.kube.structural_schema.prune import prune, unknown_field

OBJECT: dict[str, Any] = {"type": "object"}
STRING: dict[str, Any] = {"type": "string"}


def spec(schema: dict[str, Any]) -> Schema:
    return Schema({"type": "object", "properties": {"spec": schema}})


CASES: list[tuple[str, dict[str, Any], Any, Any, list[str]]] = [
    ("unknown field", {**OBJECT, "properties": {"a": STRING}}, {"a": "1", "b": 2}, {"a": "1"}, ["spec.b"]),
    ("no properties at all", OBJECT, {"a": 1}, {}, ["spec.a"]),
    ("preserved", {**OBJECT, "x-kubernetes-preserve-unknown-fields": True}, {"a": {"b": 1}}, {"a": {"b": 1}}, []),
    (
        "named fields below preserved ones are pruned",
        {"x-kubernetes-preserve-unknown-fields": True, "properties": {"a": OBJECT}},
        {"a": {"x": 1}, "b": {"y": 2}},
        {"a": {}, "b": {"y": 2}},
        ["spec.a.x"],
    ),
    (
        "map values",
        {**OBJECT, "additionalProperties": {**OBJECT, "properties": {"a": STRING}}},
        {"k": {"b": 1}},
        {"k": {}},
        ["spec.k.b"],
    ),
    (
        "a map of anything keeps keys but not what is inside",
        {**OBJECT, "additionalProperties": True},
        {"k": {"b": 1}, "s": 1},
        {"k": {}, "s": 1},
        ["spec.k.b"],
    ),
    (
        "list items",
        {"type": "array", "items": {**OBJECT, "properties": {"a": STRING}}},
        [{"a": "1"}, {"b": 1}],
        [{"a": "1"}, {}],
        ["spec[1].b"],
    ),
    (
        "items of a preserving list are preserved",
        {"type": "array", "x-kubernetes-preserve-unknown-fields": True, "items": {**OBJECT, "properties": {"a": OBJECT}}},
        [{"b": 1, "a": {"c": 1}}],
        [{"b": 1, "a": {}}],
        ["spec[0].a.c"],
    ),
    ("a list in a scalar's place", STRING, [{"a": 1}, [{"b": 1}]], [{}, [{}]], ["spec[0].a", "spec[1][0].b"]),
    (
        "an embedded resource keeps its type and metadata",
        {**OBJECT, "x-kubernetes-embedded-resource": True, "properties": {"data": OBJECT}},
        {"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}, "data": {"a": 1}, "y": 1},
        {"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}, "data": {}},
        ["spec.data.a", "spec.y"],
    ),
    ("int or string", {"x-kubernetes-int-or-string": True}, {"a": 1}, {}, ["spec.a"]),
]


@pytest.mark.parametrize(("schema", "given", "expected", "removed"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_unknown_fields_are_removed_and_named(schema: dict[str, Any], given: Any, expected: Any, removed: list[str]) -> None:
    obj = {"apiVersion": "x/v1", "kind": "X", "metadata": {"anything": 1}, "spec": given}
    assert prune(obj, spec(schema)) == removed
    assert obj == {"apiVersion": "x/v1", "kind": "X", "metadata": {"anything": 1}, "spec": expected}


def test_paths_come_sorted_and_read_as_strict_decoding_says_them() -> None:
    obj = {"spec": {"z": 1, "b": 1}, "a": 1}
    paths = prune(obj, spec(OBJECT))
    assert paths == ["a", "spec.b", "spec.z"]
    assert unknown_field(paths[1]) == 'unknown field "spec.b"'


def test_a_recursive_builtin_type_is_pruned_at_every_depth() -> None:
    node = {"type": "object", "properties": {"child": {"$ref": "#/components/schemas/Node"}, "name": STRING}}
    obj = {"child": {"child": {"name": "x", "nome": "y"}}}
    assert prune(obj, Definitions({"Node": node})["Node"]) == ["child.child.nome"]
