from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.patching.jsonpatch import MAX_COPIED_BYTES, MAX_OPERATIONS, PatchError, TooManyOperations, apply_json_patch
from tests.unit.kube.strategies import documents, values


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


@pytest.mark.parametrize(
    ("document", "operations", "result"),
    [
        ({"a": 1}, [op("add", "/b", value=2)], {"a": 1, "b": 2}),
        ({"a": 1}, [op("add", "/a", value=None)], {"a": None}),
        ({"a": [1, 3]}, [op("add", "/a/1", value=2)], {"a": [1, 2, 3]}),
        ({"a": [1]}, [op("add", "/a/-", value=2)], {"a": [1, 2]}),
        ({"a": [1]}, [op("add", "/a/1", value=2)], {"a": [1, 2]}),
        ({"a": [1, 2]}, [op("add", "/a/-1", value=3)], {"a": [1, 2, 3]}),
        ({"a": {"b": 1}}, [op("remove", "/a/b")], {"a": {}}),
        ({"a": [1, 2]}, [op("remove", "/a/0")], {"a": [2]}),
        ({"a": [1, 2]}, [op("remove", "/a/-1")], {"a": [1]}),
        ({"a": 1}, [op("replace", "/a", value=[2])], {"a": [2]}),
        ({}, [op("replace", "/new", value=1)], {"new": 1}),
        ({"a": 1}, [op("replace", "", value={"b": 2})], {"b": 2}),
        ({"a": {"b": 1}}, [op("move", "/c", **{"from": "/a/b"})], {"a": {}, "c": 1}),
        ({"a": [1, 2, 3]}, [op("move", "/a/2", **{"from": "/a/0"})], {"a": [2, 3, 1]}),
        ({"a": {"b": 1}}, [op("copy", "/c", **{"from": "/a"})], {"a": {"b": 1}, "c": {"b": 1}}),
        ({}, [op("copy", "/b", **{"from": "/a"})], {"b": None}),
        ({"a/b": {"~": 1}}, [op("replace", "/a~1b/~0", value=2)], {"a/b": {"~": 2}}),
        ({"~1": 1}, [op("remove", "/~01")], {}),
        ({"a": 1}, [op("remove", "anything/a")], {}),
        ({"a": 1}, [op("test", "/a", value=1)], {"a": 1}),
        ({"a": None}, [op("test", "/a", value=None)], {"a": None}),
        ({}, [op("test", "/absent")], {}),
        ({"a": {"x": [1]}}, [op("test", "/a", value={"x": [1]})], {"a": {"x": [1]}}),
        ({"": 1}, [op("test", "/", value=1)], {"": 1}),
    ],
)
def test_operations_apply(document: Any, operations: list[Any], result: Any) -> None:
    assert apply_json_patch(document, operations) == result


@pytest.mark.parametrize(
    ("document", "operation", "message"),
    [
        ({}, op("add", "/a/b", value=1), 'add operation does not apply: doc is missing path: "/a/b": missing value'),
        ({}, op("add", "", value=1), 'add operation does not apply: doc is missing path: "": missing value'),
        ({"a": 1}, op("add", "/a/b", value=1), 'add operation does not apply: doc is missing path: "/a/b": missing value'),
        ({"a": []}, op("add", "/a/1", value=1), "error in add for path: '/a/1': Unable to access invalid index: 1"),
        ({"a": []}, op("add", "/a/x", value=1), "error in add for path: '/a/x': value was not a proper array index: 'x'"),
        ({}, op("remove", "/a"), "error in remove for path: '/a': Unable to remove nonexistent key: a: missing value"),
        ({"a": [1]}, op("remove", "/a/1"), "error in remove for path: '/a/1': Unable to access invalid index: 1"),
        ({"a": [1]}, op("replace", "/a/1", value=2), "replace operation does not apply: doc is missing key: /a/1"),
        ({}, op("replace", "/a/b", value=2), "replace operation does not apply: doc is missing path: /a/b"),
        ({}, op("replace", "", value=2), "replace operation value must be object or array"),
        ({}, op("move", "/b", **{"from": "/a"}), "error in move for path: 'a': Unable to remove nonexistent key: a"),
        ({}, op("copy", "/b", **{"from": "/a/x"}), "copy operation does not apply: doc is missing from path: /a/x"),
        ({"a": 1}, op("test", "/a", value=1.0), "testing value /a failed: test failed"),
        ({"a": 1}, op("test", "/a", value=True), "testing value /a failed: test failed"),
        ({"a": 1}, op("test", "/a"), "testing value /a failed: test failed"),
        ({"a": []}, op("test", "/a/0", value=1), "error in test for path: '/a/0': Unable to access invalid index: 0"),
        ({}, {"op": "add"}, "add operation failed to decode path: missing value"),
        ({}, {"op": "spy", "path": "/a"}, "Unexpected kind: spy"),
        ({}, {"path": "/a"}, "Unexpected kind: unknown"),
    ],
)
def test_an_operation_that_does_not_apply_is_refused(document: Any, operation: Any, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply_json_patch(document, [operation])
    assert str(caught.value).startswith(message)


def test_a_copy_is_a_copy() -> None:
    document = {"a": {"x": 1}}
    assert apply_json_patch(document, [op("copy", "/b", **{"from": "/a"}), op("replace", "/b/x", value=2)]) == {
        "a": {"x": 1},
        "b": {"x": 2},
    }


def test_values_of_the_patch_are_not_changed_by_later_operations() -> None:
    value = {"x": 1}
    apply_json_patch({}, [op("add", "/a", value=value), op("add", "/a/y", value=2)])
    assert value == {"x": 1}


def test_copies_that_multiply_are_stopped() -> None:
    document = {"a": "x" * 1024}
    bomb = [op("copy", f"/b{number}", **{"from": ""}) for number in range(1)]
    with pytest.raises(PatchError, match="missing from path"):
        apply_json_patch(document, bomb)
    nested = [op("copy", f"/a{number}", **{"from": f"/a{number - 1}"}) for number in range(1, 4000)]
    with pytest.raises(PatchError, match=f"exceeding the limit {MAX_COPIED_BYTES}"):
        apply_json_patch({"a0": "x" * 1024}, nested)


def test_too_many_operations_are_refused_before_any_runs() -> None:
    with pytest.raises(TooManyOperations):
        apply_json_patch({}, [op("test", "/a")] * (MAX_OPERATIONS + 1))


def pointers(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Every place in a document with its value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: list[tuple[str, Any]] = []
    for key, item in items:
        below = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
        found += [(below, item), *pointers(item, below)]
    return found


@given(documents.filter(bool), st.data())
def test_adding_back_what_was_removed_restores_the_document(document: dict[str, Any], data: st.DataObject) -> None:
    path, value = data.draw(st.sampled_from(pointers(document)))
    before = deepcopy(document)
    without = apply_json_patch(document, [op("remove", path)])
    assert apply_json_patch(without, [op("add", path, value=value)]) == document
    assert document == before


@given(documents.filter(bool), st.data(), values)
def test_replacing_twice_is_replacing_once(document: dict[str, Any], data: st.DataObject, value: Any) -> None:
    path, was = data.draw(st.sampled_from(pointers(document)))
    changed = apply_json_patch(document, [op("test", path, value=was), op("replace", path, value=value)])
    assert apply_json_patch(changed, [op("test", path, value=value), op("replace", path, value=was)]) == document


@given(documents.filter(bool), st.data())
def test_moving_there_and_back_changes_nothing(document: dict[str, Any], data: st.DataObject) -> None:
    path, _ = data.draw(st.sampled_from(pointers(document)))
    there = op("move", "/aside", **{"from": path})
    back = op("move", path, **{"from": "/aside"})
    assert apply_json_patch(document, [there, back]) == document
