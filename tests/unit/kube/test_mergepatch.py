from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given

from muster.kube.patching.mergepatch import apply_merge_patch, merge_patch_between
from tests.unit.kube.strategies import documents, values


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "x"}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({}, {"a": [None, {"b": None}]}, {"a": [None, {}]}),
        ({"a": {"x": 1}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
    ],
)
def test_a_patch_merges(document: Any, patch: Any, result: Any) -> None:
    assert apply_merge_patch(document, patch) == result


@given(documents, documents)
def test_the_patch_between_two_documents_turns_one_into_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    kept = deepcopy((before, after))
    assert apply_merge_patch(before, merge_patch_between(before, after)) == after
    assert merge_patch_between(after, deepcopy(after)) == {}
    assert (before, after) == kept


def test_a_patch_says_only_what_differs() -> None:
    old = {"a": {"b": 1, "c": {"d": [1, 2]}}, "gone": 1, "nothing": None, "e": {"f": 1}}
    new = {"a": {"b": 1, "c": {"d": [1]}}, "came": {"g": 2}, "e": {}}
    assert merge_patch_between(old, new) == {
        "a": {"c": {"d": [1]}}, "gone": None, "nothing": None, "came": {"g": 2}, "e": {"f": None},
    }  # fmt: skip


def test_null_means_absent() -> None:
    assert merge_patch_between({"a": 1, "b": None}, {"a": None, "b": None, "c": None}) == {"a": None}


def test_values_that_only_python_takes_for_equal_differ() -> None:
    old = {"a": True, "b": [1, {"c": 0}], "d": 1}
    new = {"a": 1, "b": [1, {"c": False}], "d": 1.0}
    assert merge_patch_between(old, new) == new
    assert [type(value) for value in merge_patch_between(old, new).values()] == [int, list, float]


@given(values, documents)
def test_a_patch_applied_twice_is_a_patch_applied_once(document: Any, patch: dict[str, Any]) -> None:
    once = apply_merge_patch(document, patch)
    assert apply_merge_patch(once, patch) == once


@given(documents)
def test_an_empty_patch_changes_nothing_and_nulls_delete_everything(document: dict[str, Any]) -> None:
    assert apply_merge_patch(document, {}) == document
    assert apply_merge_patch(document, dict.fromkeys(document)) == {}
