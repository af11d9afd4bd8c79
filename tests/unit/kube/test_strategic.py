from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.patching.strategic import StrategicPatchError, apply_strategic_merge
from muster.kube.schema_node import Definitions

TEXT = {"type": "string"}
DEFINITIONS = Definitions(
    {
        "x.Thing": {
            "type": "object",
            "properties": {
                "name": TEXT,
                "labels": {"type": "object", "additionalProperties": TEXT},
                "words": {"type": "array", "items": TEXT},
                "tags": {"type": "array", "items": TEXT, "x-kubernetes-patch-strategy": "merge"},
                "parts": {
                    "type": "array",
                    "items": {"$ref": "#/components/schemas/x.Part"},
                    "x-kubernetes-patch-strategy": "merge",
                    "x-kubernetes-patch-merge-key": "name",
                },
                "keyless": {
                    "type": "array",
                    "items": {"$ref": "#/components/schemas/x.Part"},
                    "x-kubernetes-patch-strategy": "merge",
                },
                "plain": {"type": "array", "items": {"$ref": "#/components/schemas/x.Part"}},
                "swap": {"allOf": [{"$ref": "#/components/schemas/x.Part"}], "x-kubernetes-patch-strategy": "replace"},
                "nested": {"$ref": "#/components/schemas/x.Thing"},
                "union": {"allOf": [{"$ref": "#/components/schemas/x.Part"}], "x-kubernetes-patch-strategy": "retainKeys"},
            },
        },
        "x.Part": {
            "type": "object",
            "properties": {
                "name": TEXT,
                "value": TEXT,
                "other": {"type": "integer"},
                "tags": {"type": "array", "items": TEXT, "x-kubernetes-patch-strategy": "merge"},
            },
        },
    }
)
SCHEMA = DEFINITIONS["x.Thing"]


def parts(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "value": name.upper()} for name in names]


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        # Maps and scalars.
        ({"name": "a"}, {"name": "b"}, {"name": "b"}),
        ({"labels": {"a": "1", "b": "2"}}, {"labels": {"a": None, "c": "3"}}, {"labels": {"b": "2", "c": "3"}}),
        ({}, {"labels": {"a": None, "b": "1"}}, {"labels": {"b": "1"}}),
        ({"labels": {"a": "1"}}, {"labels": None}, {}),
        ({"nested": {"labels": {"a": "1"}}}, {"nested": {"name": "x"}}, {"nested": {"labels": {"a": "1"}, "name": "x"}}),
        ({"swap": {"name": "a", "value": "b"}}, {"swap": {"name": "c"}}, {"swap": {"name": "c"}}),
        # Lists without strategy are replaced.
        ({"words": ["a"]}, {"words": ["b"]}, {"words": ["b"]}),
        ({"plain": parts("a")}, {"plain": parts("b")}, {"plain": parts("b")}),
        # Lists of scalars are united, new ones first, known ones in place.
        ({"tags": ["a"]}, {"tags": ["b"]}, {"tags": ["b", "a"]}),
        ({"tags": ["a", "b", "c"]}, {"tags": ["c", "d"]}, {"tags": ["a", "b", "c", "d"]}),
        ({"tags": ["a", "b"]}, {"$deleteFromPrimitiveList/tags": ["a", "x"]}, {"tags": ["b"]}),
        ({"tags": ["a", "b", "c"]}, {"$setElementOrder/tags": ["c", "a"], "tags": ["c"]}, {"tags": ["b", "c", "a"]}),
        # Lists of objects merge by key.
        (
            {"parts": parts("a", "b")},
            {"parts": [{"name": "b", "other": 1}]},
            {"parts": [*parts("a"), {**parts("b")[0], "other": 1}]},
        ),
        ({"parts": parts("a")}, {"parts": parts("z")}, {"parts": parts("z", "a")}),
        ({"parts": parts("a", "b")}, {"parts": [{"name": "a", "$patch": "delete"}]}, {"parts": parts("b")}),
        ({"parts": parts("a", "b")}, {"parts": [{"$patch": "replace"}, *parts("c")]}, {"parts": parts("c")}),
        ({"parts": parts("a", "b")}, {"parts": [{"name": "a", "value": None}]}, {"parts": [{"name": "a"}, *parts("b")]}),
        (
            {"parts": parts("a", "b", "c")},
            {"$setElementOrder/parts": [{"name": "c"}, {"name": "a"}], "parts": [{"name": "c", "value": "!"}]},
            {"parts": [*parts("b"), {"name": "c", "value": "!"}, *parts("a")]},
        ),
        ({"parts": parts("a", "b")}, {"$setElementOrder/parts": [{"name": "b"}, {"name": "a"}]}, {"parts": parts("b", "a")}),
        ({}, {"$setElementOrder/parts": [{"name": "b"}]}, {}),
        # Directives.
        ({"nested": {"name": "a", "tags": ["t"]}}, {"nested": {"$patch": "replace", "name": "b"}}, {"nested": {"name": "b"}}),
        ({"nested": {"name": "a"}}, {"nested": {"$patch": "delete"}}, {"nested": {}}),
        ({}, {"nested": {"$patch": "delete"}}, {}),
        ({}, {"parts": [{"name": "a", "$patch": "delete"}, *parts("b")]}, {"parts": parts("b")}),
        (
            {"union": {"name": "a", "value": "v", "other": 1}},
            {"union": {"$retainKeys": ["name", "other"], "name": "b"}},
            {"union": {"name": "b", "other": 1}},
        ),
    ],
)
def test_a_patch_merges_as_the_schema_says(original: Any, patch: Any, result: Any) -> None:
    kept = deepcopy((original, patch))
    assert apply_strategic_merge(original, patch, SCHEMA) == result
    assert (original, patch) == kept


@pytest.mark.parametrize(
    ("original", "patch", "code", "message"),
    [
        ({"parts": parts("a")}, {"parts": [{"value": "x"}]}, 500, "map: map[value:x] does not contain declared merge key: name"),
        (
            {"parts": parts("a")},
            {"parts": [{"$patch": "delete"}]},
            500,
            "map: map[$patch:delete] does not contain declared merge key",
        ),
        ({"parts": parts("a")}, {"parts": [{"name": "a", "$patch": "wipe"}]}, 500, "unknown patch type: wipe in map: map["),
        ({"parts": parts("a")}, {"parts": [{"name": "a", "$patch": "merge"}]}, 500, "merging lists cannot yet be specified"),
        ({"nested": {}}, {"nested": {"$patch": "wipe"}}, 500, "unknown patch type: wipe in map: map[$patch:wipe]"),
        ({"keyless": parts("a")}, {"keyless": parts("b")}, 500, "cannot merge lists without merge key for object"),
        ({"tags": ["a"]}, {"tags": [1]}, 500, "list element types are not identical: [[a] [1]]"),
        ({"tags": [["a"]]}, {"tags": [["b"]]}, 422, "lists of lists are not supported"),
        ({"unknown": {}}, {"unknown": {"a": 1}}, 500, 'unable to find api field in struct Thing for the json field "unknown"'),
        ({"union": {"name": "a"}}, {"union": {"$retainKeys": ["name"], "value": "b"}}, 400, "invalid patch format of retainKeys"),
        ({"union": {"name": "a"}}, {"union": {"$retainKeys": "name"}}, 400, "invalid patch format of retainKeys"),
        ({"tags": ["a"]}, {"$deleteFromPrimitiveList": ["a"]}, 400, "invalid patch format of primitive list"),
        ({"tags": ["a"]}, {"$setElementOrder/tags": "a"}, 500, "expected a []interface {}, but received a string"),
        (
            {"parts": parts("a", "b")},
            {"$setElementOrder/parts": [{"name": "a"}, {"name": "b"}], "parts": parts("b", "a")},
            500,
            "The order in patch list:\n[map[name:b value:B] map[name:a value:A]]\n doesn't match $setElementOrder list:\n[",
        ),
    ],
)
def test_a_patch_that_makes_no_sense_is_refused(original: Any, patch: Any, code: int, message: str) -> None:
    with pytest.raises(StrategicPatchError) as caught:
        apply_strategic_merge(original, patch, SCHEMA)
    assert str(caught.value).startswith(message)
    assert caught.value.code == code


part_lists = st.lists(st.sampled_from("abcd"), unique=True).map(lambda names: parts(*names))


@given(part_lists, part_lists)
def test_merging_lists_loses_no_item_and_keeps_both_orders(original: list[Any], patch: list[Any]) -> None:
    merged = apply_strategic_merge({"parts": original}, {"parts": patch}, SCHEMA)["parts"]
    names = [item["name"] for item in merged]
    assert sorted(names) == sorted({item["name"] for item in original + patch})
    wanted = [item["name"] for item in patch]
    others = [item["name"] for item in original if item["name"] not in wanted]
    assert [name for name in names if name in wanted] == wanted
    assert [name for name in names if name in others] == others


@given(part_lists, part_lists)
def test_a_patch_applied_twice_changes_no_content(original: list[Any], patch: list[Any]) -> None:
    once = apply_strategic_merge({"parts": original}, {"parts": patch}, SCHEMA)
    assert apply_strategic_merge(once, {"parts": patch}, SCHEMA) == once


@given(part_lists.filter(bool), part_lists.filter(bool))
def test_an_order_directive_arranges_exactly_the_items_it_names(original: list[Any], order: list[Any]) -> None:
    directive = [{"name": item["name"]} for item in order]
    merged = apply_strategic_merge({"parts": original}, {"$setElementOrder/parts": directive}, SCHEMA)["parts"]
    listed = [item["name"] for item in order if item in original]
    assert [item["name"] for item in merged if item["name"] in listed] == listed
    assert sorted(item["name"] for item in merged) == sorted(item["name"] for item in original)
