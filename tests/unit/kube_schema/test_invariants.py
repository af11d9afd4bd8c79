"""Laws that hold for every schema and every value: idempotence, no crash, and agreement of the quick and the exact check."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.kube.schema_node import Schema
from muster.kube.structural_schema.accept import accept
from muster.kube.structural_schema.constraints import Constraints
from muster.kube.structural_schema.defaulting import default
from muster.kube.structural_schema.embedded import check_embedded, coerce
from muster.kube.structural_schema.formats import FORMATS
from muster.kube.structural_schema.keywords import check_keywords
from muster.kube.structural_schema.listtypes import duplicates
from muster.kube.structural_schema.openapi import Walk
from muster.kube.structural_schema.prune import prune
from muster.kube.structural_schema.structural import check_structural
from muster.kube.structural_schema.validation import validate

NAMES = ["a", "b", "metadata", "kind"]
TEXTS = ["", "a", "ab", "abc", "x.y", "1.2.3.4", "2024-01-01T00:00:00Z", "é"]
present = st.booleans() | st.integers(-3, 12) | st.sampled_from([0.5, 1.0, 2.5, 1e30]) | st.sampled_from(TEXTS)
scalars = st.none() | present


def nested(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        max_leaves=12,
    )


values = nested(scalars)
defaults = nested(present)
"""A default with a null where none is allowed is refused with its definition."""


def optional(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name.replace("_", "-"): strategy for name, strategy in keywords.items()})


restrictions = optional(
    minimum=st.integers(-2, 5) | st.just(1.5),
    maximum=st.integers(0, 10),
    exclusiveMinimum=st.booleans(),
    exclusiveMaximum=st.booleans(),
    multipleOf=st.sampled_from([2, 0.5, 3]),
    minLength=st.integers(0, 2),
    maxLength=st.integers(1, 3),
    pattern=st.sampled_from(["^a", "b$", "[xyz]"]),
    minItems=st.integers(0, 2),
    maxItems=st.integers(0, 2),
    minProperties=st.integers(0, 2),
    maxProperties=st.integers(0, 2),
    required=st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
    enum=st.lists(scalars, min_size=1, max_size=3),
    format=st.sampled_from([*FORMATS, "int32"]),
)


def merged(*parts: dict[str, Any]) -> dict[str, Any]:
    return {keyword: value for part in parts for keyword, value in part.items()}


def nodes(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    fields = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    combos = optional(
        anyOf=st.lists(restrictions, min_size=1, max_size=2),
        oneOf=st.lists(restrictions, min_size=1, max_size=2),
        allOf=st.lists(restrictions, min_size=1, max_size=2),
    )
    extras = optional(nullable=st.booleans(), default=defaults, **{"x-kubernetes-preserve-unknown-fields": st.just(True)})
    shapes = st.one_of(
        st.builds(lambda p: {"type": "object", "properties": p}, fields),
        st.builds(lambda p: {"type": "object", "additionalProperties": p}, inner | st.booleans()),
        st.builds(lambda i: {"type": "array", "items": i}, inner),
        st.builds(lambda i: {"type": "array", "items": i, "x-kubernetes-list-type": "set"}, inner),
        st.builds(
            lambda i: {"type": "array", "items": i, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}, inner
        ),
        st.just({"x-kubernetes-int-or-string": True}),
        st.builds(lambda p: {"type": "object", "properties": p, "x-kubernetes-embedded-resource": True}, fields),
    )
    return st.builds(merged, shapes, combos, extras)


leaves = st.builds(merged, optional(type=st.sampled_from(["string", "integer", "number", "boolean"])), restrictions)
schemas = st.recursive(leaves, nodes, max_leaves=8)
objects = st.dictionaries(st.sampled_from(["spec", *NAMES]), values, max_size=4)


def root(schema: dict[str, Any]) -> Schema:
    return Schema({"type": "object", "properties": {"spec": schema, "a": schema}})


@given(schemas, objects)
@settings(deadline=None)
def test_pruning_twice_is_pruning_once(schema: dict[str, Any], obj: dict[str, Any]) -> None:
    node = root(schema)
    prune(obj, node)
    once = copy.deepcopy(obj)
    assert prune(obj, node) == []
    assert obj == once


@given(schemas, objects)
@settings(deadline=None)
def test_defaulting_twice_is_defaulting_once(schema: dict[str, Any], obj: dict[str, Any]) -> None:
    node = root(schema)
    default(obj, node)
    once = copy.deepcopy(obj)
    default(obj, node)
    assert obj == once


@given(schemas, objects, st.none() | objects)
@settings(max_examples=200, deadline=None)
def test_judging_never_fails_whatever_the_object(schema: dict[str, Any], obj: dict[str, Any], old: dict[str, Any] | None) -> None:
    node = root(schema)
    coerce(obj, node)
    for error in [*validate(obj, node, old), *duplicates(obj, node), *check_embedded(obj, node)]:
        assert str(error)


@given(schemas, values)
@settings(max_examples=300, deadline=None)
def test_the_quick_answer_and_the_exact_one_agree(schema: dict[str, Any], value: Any) -> None:
    node = Constraints(schema)
    assert accept(node)(value) is (Walk().errors(node, value) == [])


@given(leaves, scalars, scalars)
@settings(deadline=None)
def test_an_unchanged_field_is_never_refused(schema: dict[str, Any], kept: Any, changed: Any) -> None:
    node = root(schema)
    errors = validate({"spec": kept, "a": changed}, node, {"spec": kept, "a": 77})
    assert not [error for error in errors if error.field == "spec"]


@given(schemas)
@settings(deadline=None)
def test_checking_a_schema_never_fails(schema: dict[str, Any]) -> None:
    raw = {"type": "object", "properties": {"spec": schema}}
    for error in [*check_structural(raw, "schema"), *check_keywords(raw, "schema")]:
        assert error.field.startswith("schema")


def test_items_of_a_map_without_any_of_its_keys_are_one_and_the_same() -> None:
    items = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    node = root({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]})
    for first, second in (({}, {"b": "x"}), ({"b": "x"}, {}), ({}, {})):
        (error,) = duplicates({"spec": [first, {"a": ""}, second]}, node)
        assert str(error) == "spec[2]: Duplicate value: {}"
