from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given

from muster.kube.patching.mergepatch import apply_merge_patch
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


def difference(before: Any, after: Any) -> Any:
    """The merge patch from one document without nulls to another."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    gone = dict.fromkeys(before.keys() - after.keys())
    return gone | {
        key: difference(before.get(key), value) for key, value in after.items() if key not in before or before[key] != value
    }


@given(documents, documents)
def test_applying_a_difference_gives_the_other_document(before: dict[str, Any], after: dict[str, Any]) -> None:
    kept = deepcopy(before)
    assert apply_merge_patch(before, difference(before, after)) == after
    assert before == kept


@given(values, documents)
def test_a_patch_applied_twice_is_a_patch_applied_once(document: Any, patch: dict[str, Any]) -> None:
    once = apply_merge_patch(document, patch)
    assert apply_merge_patch(once, patch) == once


@given(documents)
def test_an_empty_patch_changes_nothing_and_nulls_delete_everything(document: dict[str, Any]) -> None:
    assert apply_merge_patch(document, {}) == document
    assert apply_merge_patch(document, dict.fromkeys(document)) == {}
