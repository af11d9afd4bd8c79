from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given

from muster.kube.fieldmanager.atoms import atom_of
from muster.kube.fieldmanager.fieldset import FieldSet, from_paths, paths
from muster.kube.fieldmanager.overlay import merge, reconcile_field_set_with_schema, remove, with_named_fields
from muster.kube.fieldmanager.typed import TypedError, check, compare, fields_of
from muster.kube.schema_node import Schema
from tests.unit.kube.strategies import SCHEMA, gadget, gadgets

ATOM = atom_of(SCHEMA, root=True)


def spec_of(fields: FieldSet) -> FieldSet:
    return fields.get("f:spec", {})


@pytest.mark.parametrize(
    ("spec", "owned"),
    [
        ({"text": "1"}, {"f:text": {}}),
        ({"parts": {"a": "1"}}, {"f:parts": {"f:a": {}}}),
        ({"parts": {}}, {"f:parts": {}}),
        ({"atomic": {"a": "1"}}, {"f:atomic": {}}),
        ({"whole": ["1"]}, {"f:whole": {}}),
        ({"tags": ["b", "a"]}, {"f:tags": {'v:"b"': {}, 'v:"a"': {}}}),
        ({"labels": {"l": "1"}}, {"f:labels": {"f:l": {}}}),
        ({"free": {"f": {"a": "1"}, "g": [1]}}, {"f:free": {"f:f": {".": {}, "f:a": {}}, "f:g": {}}}),
        (
            {"items": [{"name": "p", "value": "1"}]},
            {"f:items": {'k:{"name":"p","protocol":"TCP"}': {".": {}, "f:name": {}, "f:value": {}}}},
        ),
        ({"text": None}, {"f:text": {}}),
        ({"tags": []}, {}),
    ],
)
def test_a_configuration_owns_what_it_mentions(spec: Any, owned: Any) -> None:
    assert spec_of(fields_of(ATOM, gadget(spec))) == owned


@pytest.mark.parametrize(
    ("before", "after", "changed", "removed"),
    [
        ({}, {"text": "1"}, {"f:text": {}}, {}),
        ({"text": "1"}, {"text": "2"}, {"f:text": {}}, {}),
        ({"text": "1"}, {}, {}, {"f:text": {}}),
        ({}, {"parts": {"a": "1"}}, {"f:parts": {".": {}, "f:a": {}}}, {}),
        ({"parts": {"a": "1"}}, {"parts": {"b": "1"}}, {"f:parts": {"f:b": {}}}, {"f:parts": {"f:a": {}}}),
        ({"parts": {}}, {"parts": {"a": "1"}}, {"f:parts": {"f:a": {}}}, {}),
        ({"parts": None}, {"parts": {}}, {"f:parts": {}}, {}),
        ({"atomic": {"a": "1"}}, {"atomic": {"a": "2"}}, {"f:atomic": {}}, {}),
        ({"whole": ["1"]}, {"whole": ["1", "2"]}, {"f:whole": {}}, {}),
        ({"tags": ["w"]}, {"tags": ["x"]}, {"f:tags": {'v:"x"': {}}}, {"f:tags": {'v:"w"': {}}}),
        ({"tags": ["w", "w"]}, {"tags": ["w"]}, {"f:tags": {'v:"w"': {}}}, {"f:tags": {'v:"w"': {}}}),
        ({"tags": ["w", "x"]}, {"tags": ["x", "w"]}, {}, {}),
        (
            {"items": [{"name": "p", "value": "1"}]},
            {"items": [{"name": "p", "protocol": "TCP", "value": "2"}]},
            {"f:items": {'k:{"name":"p","protocol":"TCP"}': {"f:protocol": {}, "f:value": {}}}},
            {},
        ),
        ({"free": {"f": "1"}}, {"free": {"f": {"a": 1}}}, {"f:free": {"f:f": {".": {}, "f:a": {}}}}, {}),
        ({"free": {"f": True}}, {"free": {"f": 1}}, {"f:free": {"f:f": {}}}, {}),
        ({"free": {"f": 1}}, {"free": {"f": 1.0}}, {}, {}),
    ],
)
def test_a_comparison_lists_what_changed_and_what_is_gone(before: Any, after: Any, changed: Any, removed: Any) -> None:
    found = compare(ATOM, gadget(before), gadget(after))
    assert (spec_of(found.changed), spec_of(found.removed)) == (changed, removed)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"nope": 1}, ".spec.nope: field not declared in schema"),
        ({"text": 1}, ".spec.text: expected string, got &value.valueUnstructured{Value:1}"),
        (
            {"text": {"a": [True, None]}},
            '.spec.text: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":',
        ),
        ({"parts": "x"}, ".spec.parts: expected map, got &{x}"),
        ({"parts": {"a": 1}, "tags": {"x": 1}}, "errors:\n  .spec.parts.a: expected string"),
        ({"tags": {"x": 1}}, ".spec.tags: expected list, got &{map[x:1]}"),
        ({"tags": ["a", "a"]}, '.spec.tags: duplicate entries for key [="a"]'),
        ({"tags": [None]}, ".spec.tags: element 0: associative list without keys has an element that's an explicit null"),
        ({"tags": [{}]}, ".spec.tags: element 0: associative list without keys has an element that's a map type"),
        ({"tags": [[]]}, ".spec.tags: element 0: not supported: associative list with lists as elements"),
        ({"items": ["a"]}, ".spec.items: element 0: associative list with keys may not have non-map elements"),
        ({"items": [None]}, ".spec.items: element 0: associative list with keys may not have a null element"),
        (
            {"items": [{"name": "a"}, {"name": "a", "protocol": "TCP"}]},
            '.spec.items: duplicate entries for key [name="a",protocol="TCP"]',
        ),
        ({"items": [{"name": "a", "value": 1}]}, '.spec.items[name="a",protocol="TCP"].value: expected string'),
    ],
)
def test_what_does_not_fit_the_schema_is_told_with_its_path(spec: Any, message: str) -> None:
    with pytest.raises(TypedError) as caught:
        check(ATOM, gadget(spec))
    assert str(caught.value).startswith(message)


def test_an_item_must_have_one_of_its_keys() -> None:
    schema = Schema(
        {
            "type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "string"}}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"],
        }
    )
    with pytest.raises(TypedError) as caught:
        check(atom_of(schema), [{}])
    assert str(caught.value) == (
        'element 0: associative list with keys has an element that omits all key fields ["a"] '
        "(and doesn't have default values for any key fields)"
    )


def test_unknown_fields_are_fine_where_they_are_preserved_even_further_down() -> None:
    schema = Schema(
        {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
        }
    )
    check(atom_of(schema), {"any": [1], "known": {"a": "1", "b": {"c": 2}}})


def test_every_object_has_the_usual_metadata() -> None:
    check(ATOM, {"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"a": "b"}, "finalizers": ["x"], "ownerReferences": []}})
    with pytest.raises(TypedError, match=r"\.metadata\.labels\.a: expected string"):
        check(ATOM, {"metadata": {"labels": {"a": 1}}})


@pytest.mark.parametrize(
    ("left", "right", "merged"),
    [
        (["a", "b", "c"], ["x"], ["a", "b", "c", "x"]),
        (["a", "b", "c"], ["c", "a"], ["b", "c", "a"]),
        (["a", "b"], ["b", "x", "a"], ["b", "x", "a"]),
        (["a", "b", "c"], ["b"], ["a", "b", "c"]),
        (["a", "b", "c", "d"], ["x", "c", "y"], ["a", "b", "x", "c", "y", "d"]),
        ([], ["b", "a"], ["b", "a"]),
        (["a", "b", "a"], ["a"], ["a", "b"]),
    ],
)
def test_merged_lists_follow_the_right_side_where_it_names_items(left: list[str], right: list[str], merged: list[str]) -> None:
    result = merge(ATOM, gadget({"tags": left}), gadget({"tags": right}))
    assert sorted(result["spec"]["tags"]) == sorted(merged)
    named = [item for item in result["spec"]["tags"] if item in right]
    assert named == right


@given(gadgets, gadgets)
def test_a_merge_has_everything_of_both_and_the_right_side_wins(left: Any, right: Any) -> None:
    kept = deepcopy((left, right))
    merged = merge(ATOM, left, right)
    assert (left, right) == kept
    assert merge(ATOM, merged, right) == merged
    again = compare(ATOM, merged, merge(ATOM, merged, right))
    assert not again.changed
    assert not again.removed
    mine, both = set(paths(fields_of(ATOM, right))), set(paths(fields_of(ATOM, merged)))
    # What the right side mentions is in the result, except empty maps that the left side fills.
    assert {path for path in mine if path not in both} <= {path for path in mine if _filled(merged, path)}


def _filled(obj: Any, path: tuple[str, ...]) -> bool:
    """Whether a path of plain fields leads to a map with content."""
    for element in path:
        if not isinstance(obj, dict) or not element.startswith("f:"):
            return True
        obj = obj.get(element[2:])
    return bool(obj)


@given(gadgets)
def test_merging_and_comparing_with_itself_finds_nothing(obj: Any) -> None:
    assert merge(ATOM, obj, obj) == obj
    found = compare(ATOM, obj, obj)
    assert (found.changed, found.removed) == ({}, {})


@given(gadgets, gadgets)
def test_changes_and_removals_never_overlap_and_mirror_each_other(left: Any, right: Any) -> None:
    there, back = compare(ATOM, left, right), compare(ATOM, right, left)
    added = set(paths(there.changed))
    assert not added & set(paths(there.removed))
    assert set(paths(back.removed)) <= added
    assert set(paths(there.removed)) <= set(paths(back.changed))


@given(gadgets)
def test_removing_all_that_is_mentioned_leaves_only_empty_containers(obj: Any) -> None:
    owned = with_named_fields(ATOM, fields_of(ATOM, {"spec": obj["spec"]}))
    rest = remove(ATOM, obj, owned)
    assert not any((rest.get("spec") or {}).values())
    assert {key: value for key, value in rest.items() if key != "spec"} == {k: v for k, v in obj.items() if k != "spec"}


def test_removing_takes_items_and_fields_apart() -> None:
    obj = gadget({"tags": ["w", "x"], "items": [{"name": "p", "value": "1"}, {"name": "q"}], "parts": {"a": "1"}})
    fields = from_paths(
        [
            ("f:spec", "f:tags", 'v:"w"'),
            ("f:spec", "f:items", 'k:{"name":"p","protocol":"TCP"}', "f:value"),
            ("f:spec", "f:parts", "f:a"),
        ]
    )
    assert remove(ATOM, obj, fields)["spec"] == {"tags": ["x"], "items": [{"name": "p"}, {"name": "q"}], "parts": None}


def test_a_set_written_before_a_container_became_atomic_owns_the_container_now() -> None:
    stored: FieldSet = {"f:spec": {"f:atomic": {".": {}, "f:a": {}}, "f:whole": {"i:0": {}}, "f:parts": {"f:a": {}}}}
    assert reconcile_field_set_with_schema(ATOM, stored) == {"f:spec": {"f:atomic": {}, "f:whole": {}, "f:parts": {"f:a": {}}}}
    fitting: FieldSet = {"f:spec": {"f:atomic": {}, "f:parts": {"f:a": {}}}}
    assert reconcile_field_set_with_schema(ATOM, fitting) is fitting
