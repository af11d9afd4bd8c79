"""Defaults: absent fields are filled, forbidden nulls go first, shared values are never aliased."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.schema_node import Schema
from muster.kube.structural_schema.defaulting import default

CASES: list[tuple[str, dict[str, Any], Any, Any]] = [
    ("absent", {"properties": {"a": {"type": "string", "default": "x"}}}, {}, {"a": "x"}),
    ("present", {"properties": {"a": {"type": "string", "default": "x"}}}, {"a": ""}, {"a": ""}),
    ("false and zero are defaults too", {"properties": {"a": {"default": False}, "b": {"default": 0}}}, {}, {"a": False, "b": 0}),
    ("no default inside an absent object", {"properties": {"o": {"properties": {"a": {"default": 1}}}}}, {}, {}),
    ("inside a present object", {"properties": {"o": {"properties": {"a": {"default": 1}}}}}, {"o": {}}, {"o": {"a": 1}}),
    (
        "a default is defaulted itself",
        {"properties": {"o": {"default": {}, "properties": {"a": {"default": 1}}}}},
        {},
        {"o": {"a": 1}},
    ),
    ("null without default is dropped", {"properties": {"a": {"type": "string"}}}, {"a": None}, {}),
    ("null with default is replaced", {"properties": {"a": {"type": "string", "default": "x"}}}, {"a": None}, {"a": "x"}),
    ("nullable null stays", {"properties": {"a": {"nullable": True, "default": "x"}}}, {"a": None}, {"a": None}),
    ("unknown null stays", {"x-kubernetes-preserve-unknown-fields": True}, {"a": None}, {"a": None}),
    ("null in a map of strings", {"additionalProperties": {"type": "string"}}, {"a": None, "b": "x"}, {"b": "x"}),
    ("null in a map with default", {"additionalProperties": {"type": "string", "default": "d"}}, {"a": None}, {"a": "d"}),
    ("map values", {"additionalProperties": {"properties": {"a": {"default": 1}}}}, {"k": {}}, {"k": {"a": 1}}),
    ("list items", {"items": {"properties": {"a": {"default": 1}}}}, [{}, {"a": 2}, 3], [{"a": 1}, {"a": 2}, 3]),
    ("null item takes the item default", {"items": {"default": "d"}}, [None], ["d"]),
    ("null item without default stays", {"items": {"type": "string"}}, [None], [None]),
    ("nested null in a list", {"items": {"properties": {"a": {"type": "string"}}}}, [{"a": None}], [{}]),
]


@pytest.mark.parametrize(("schema", "given", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_defaults_are_filled(schema: dict[str, Any], given: Any, expected: Any) -> None:
    obj = {"spec": given}
    default(obj, Schema({"properties": {"spec": schema}}))
    assert obj == {"spec": expected}


def test_each_object_gets_its_own_copy_of_a_default() -> None:
    schema = Schema({"properties": {"spec": {"default": {"list": []}, "x-kubernetes-preserve-unknown-fields": True}}})
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    default(first, schema)
    first["spec"]["list"].append(1)
    default(second, schema)
    assert second == {"spec": {"list": []}}
