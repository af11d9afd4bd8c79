"""Declared data: names, lists with Kubernetes' semantics, JSON left alone."""

from __future__ import annotations

from typing import Any

import pytest

from muster.cel import Environment, EvaluationError, escape, from_structural_schema


def evaluate(expression: str, schema: dict[str, Any], value: Any, old: Any = None) -> Any:
    declared = from_structural_schema(schema)
    assert declared is not None
    program = Environment({"self": declared, "oldSelf": declared}).compile(expression)
    return program.evaluate({"self": value, "oldSelf": old})


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain", "plain"),
        ("namespace", "__namespace__"),
        ("in", "__in__"),
        ("a.b", "a__dot__b"),
        ("a-b", "a__dash__b"),
        ("a/b", "a__slash__b"),
        ("a__b", "a__underscores__b"),
        ("app.kubernetes.io/name", "app__dot__kubernetes__dot__io__slash__name"),
        ("9lives", None),
        ("a b", None),
        ("", None),
    ],
)
def test_property_names_are_escaped(name: str, escaped: str | None) -> None:
    assert escape(name) == escaped


SET = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
}


def test_sets_compare_without_order() -> None:
    assert evaluate("self == oldSelf", SET, ["a", "b"], ["b", "a"]) is True
    assert evaluate("self == oldSelf", SET, ["a", "b"], ["a", "c"]) is False
    assert evaluate("self == oldSelf", {**SET, "x-kubernetes-list-type": "atomic"}, ["a", "b"], ["b", "a"]) is False


def test_adding_sets_unites_them() -> None:
    assert evaluate("(self + oldSelf).map(x, x)", SET, ["a", "b"], ["c", "b"]) == ["a", "b", "c"]


def test_keyed_lists_compare_by_key() -> None:
    first, second = {"k": "a", "v": 1}, {"k": "b", "v": 2}
    assert evaluate("self == oldSelf", KEYED, [first, second], [second, first]) is True
    assert evaluate("self == oldSelf", KEYED, [first, second], [{**second, "v": 3}, first]) is False


def test_adding_keyed_lists_merges_them() -> None:
    merged = evaluate("(self + oldSelf).map(x, x.v)", KEYED, [{"k": "a", "v": 1}], [{"k": "b", "v": 2}, {"k": "a", "v": 9}])
    assert merged == [9, 2]


def test_evaluation_leaves_the_data_alone() -> None:
    value = [{"k": "a", "v": 1}]
    evaluate("(self + oldSelf).size() == 2", KEYED, value, [{"k": "b", "v": 2}])
    assert value == [{"k": "a", "v": 1}]


def test_whole_numbers_are_doubles_where_the_schema_says_number() -> None:
    assert evaluate("self / 2.0", {"type": "number"}, 3) == 1.5


def test_null_is_absent_in_objects_and_a_value_in_maps() -> None:
    nullable = {"type": "string", "nullable": True}
    assert evaluate("has(self.a)", {"type": "object", "properties": {"a": nullable}}, {"a": None}) is False
    assert evaluate("has(self.a)", {"type": "object", "additionalProperties": nullable}, {"a": None}) is True


def test_a_forbidden_null_is_an_error() -> None:
    lists = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}
    with pytest.raises(EvaluationError, match="invalid data, got null for schema with nullable=false"):
        evaluate("self.a.size() == 0", lists, {"a": None})


@pytest.mark.parametrize(
    "schema",
    [
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "array"},
        {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
        {"type": "object", "additionalProperties": {"type": "array"}},
    ],
)
def test_data_without_a_type_is_not_exposed(schema: dict[str, Any]) -> None:
    assert from_structural_schema(schema) is None
