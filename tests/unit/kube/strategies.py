"""Hypothesis strategies for JSON values, field paths and small custom resources."""

from typing import Any

from hypothesis import strategies as st

from muster.kube.schema_node import Schema

keys = st.sampled_from(["a", "b", "c", "a/b", "~x", "0"])
scalars = st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from(["", "x", "y"]), st.floats(0.5, 2.5, width=16))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.dictionaries(keys, inner, max_size=3), st.lists(inner, max_size=3)),
    max_leaves=10,
)
documents = st.dictionaries(keys, values, max_size=4)

elements = st.sampled_from(
    ["f:a", "f:b", "f:c.d", 'k:{"name":"x"}', 'k:{"port":80}', 'k:{"port":443}', 'v:"x"', "v:2", "v:10", "i:0"]
)
path_sets = st.sets(st.lists(elements, min_size=1, max_size=4).map(tuple), max_size=8)

TEXT = {"type": "string"}
PAIR = {"type": "object", "properties": {"a": TEXT, "b": TEXT}}
SCHEMA = Schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "text": TEXT,
                    "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
                    "whole": {"type": "array", "items": TEXT},
                    "atomic": {**PAIR, "x-kubernetes-map-type": "atomic"},
                    "parts": PAIR,
                    "labels": {"type": "object", "additionalProperties": TEXT},
                    "free": {"x-kubernetes-preserve-unknown-fields": True},
                    "items": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"name": TEXT, "protocol": {**TEXT, "default": "TCP"}, "value": TEXT, "parts": PAIR},
                        },
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name", "protocol"],
                    },
                },
            }
        },
    }
)

texts = st.sampled_from(["1", "2"])
pairs = st.fixed_dictionaries({}, optional={"a": texts, "b": texts})


def _items(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"name": st.just(name)}, optional={"protocol": st.sampled_from(["TCP", "UDP"]), "value": texts, "parts": pairs}
    )


specs = st.fixed_dictionaries(
    {},
    optional={
        "text": texts,
        "tags": st.lists(st.sampled_from("wxyz"), unique=True, max_size=4),
        "whole": st.lists(texts, max_size=2),
        "atomic": pairs,
        "parts": pairs,
        "labels": st.dictionaries(st.sampled_from("lmn"), texts, max_size=3),
        "free": st.dictionaries(st.sampled_from("fg"), st.one_of(texts, pairs), max_size=2),
        "items": st.permutations("pqr")
        .flatmap(lambda order: st.tuples(*map(_items, order)))
        .flatmap(lambda made: st.integers(0, len(made)).map(lambda count: list(made[:count]))),
    },
)


def gadget(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": spec}


gadgets = specs.map(gadget)
