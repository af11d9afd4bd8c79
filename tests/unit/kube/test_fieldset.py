from typing import Any

import orjson
import pytest
from hypothesis import given

from muster.kube.fieldmanager import fieldset as fs
from muster.kube.fieldmanager.fieldset import FieldSet, FieldSetError, Path
from tests.unit.kube.strategies import path_sets


def members(fields: FieldSet) -> set[Path]:
    return set(fs.paths(fields))


def well_formed(fields: FieldSet, top: bool = True) -> bool:
    """No node says it is a member twice, or holds nothing below a mark."""
    return all(
        (node == {} if name == fs.SELF else node != {fs.SELF: {}} and well_formed(node, False)) for name, node in fields.items()
    ) and not (top and fs.SELF in fields)


@given(path_sets)
def test_a_set_is_exactly_its_paths(paths: set[Path]) -> None:
    fields = fs.from_paths(paths)
    assert members(fields) == paths
    assert all(fs.has(fields, path) for path in paths)
    assert not fs.has(fields, ("f:absent",))
    assert well_formed(fields)


@given(path_sets, path_sets)
def test_the_algebra_is_that_of_sets_of_paths(left: set[Path], right: set[Path]) -> None:
    a, b = fs.from_paths(left), fs.from_paths(right)
    for made, expected in (
        (fs.union(a, b), left | right),
        (fs.intersection(a, b), left & right),
        (fs.difference(a, b), left - right),
    ):
        assert members(made) == expected
        assert well_formed(made)
    assert (members(a), members(b)) == (left, right)


@given(path_sets, path_sets)
def test_a_recursive_difference_takes_everything_below_too(left: set[Path], right: set[Path]) -> None:
    made = fs.recursive_difference(fs.from_paths(left), fs.from_paths(right))
    assert members(made) == {path for path in left if not any(path[:length] in right for length in range(1, len(path) + 1))}
    assert well_formed(made)


@given(path_sets, path_sets, path_sets)
def test_the_laws_of_sets_hold(left: set[Path], middle: set[Path], right: set[Path]) -> None:
    a, b, c = map(fs.from_paths, (left, middle, right))
    same = fs.in_order
    assert same(fs.union(a, b)) == same(fs.union(b, a))
    assert same(fs.union(a, fs.union(b, c))) == same(fs.union(fs.union(a, b), c))
    assert same(fs.intersection(a, fs.union(b, c))) == same(fs.union(fs.intersection(a, b), fs.intersection(a, c)))
    assert same(fs.difference(a, fs.union(b, c))) == same(fs.difference(fs.difference(a, b), c))
    assert fs.difference(a, a) == {}


@given(path_sets)
def test_leaves_are_the_members_with_nothing_below(paths: set[Path]) -> None:
    leaves = members(fs.leaves(fs.from_paths(paths)))
    assert leaves == {path for path in paths if not any(other[: len(path)] == path and other != path for other in paths)}


@given(path_sets)
def test_what_lies_below_an_element_is_the_subset_with_that_prefix(paths: set[Path]) -> None:
    fields = fs.from_paths(paths)
    for element in fields:
        assert members(fs.below(fields, element)) == {path[1:] for path in paths if path[0] == element and len(path) > 1}
        assert fs.is_member(fields, element) == ((element,) in paths)


@given(path_sets)
def test_reading_a_written_set_gives_it_back(paths: set[Path]) -> None:
    written = orjson.dumps(fs.in_order(fs.from_paths(paths)))
    assert orjson.dumps(fs.in_order(fs.canonical(orjson.loads(written)))) == written


def test_sets_are_written_fields_first_then_keys_values_and_positions_each_by_value() -> None:
    elements = ["i:10", "i:9", 'v:"b"', "v:10", "v:9", "v:true", 'k:{"port":443}', 'k:{"port":80}', 'k:{"name":"b"}', "f:b", "f:a"]
    assert list(fs.in_order({element: {} for element in [*elements, fs.SELF]})) == [
        ".",
        "f:a",
        "f:b",
        'k:{"name":"b"}',
        'k:{"port":80}',
        'k:{"port":443}',
        "v:9",
        "v:10",
        'v:"b"',
        "v:true",
        "i:9",
        "i:10",
    ]


def test_members_of_a_level_are_listed_before_those_below() -> None:
    fields = fs.from_paths([("f:a", "f:b"), ("f:a",), ("f:z",)])
    assert list(fs.paths(fields)) == [("f:a",), ("f:z",), ("f:a", "f:b")]


@pytest.mark.parametrize(
    ("sent", "canonical"),
    [
        ('k:{"b": 1, "a": "x"}', 'k:{"a":"x","b":1}'),
        ("v: 1.0", "v:1"),
        ('v:"<&>"', 'v:"\\u003c\\u0026\\u003e"'),
        ("i:007", "i:7"),
        ("f:a.b c", "f:a.b c"),
    ],
)
def test_elements_have_one_spelling(sent: str, canonical: str) -> None:
    assert fs.canonical({sent: {}}) == {canonical: {}}


def test_unknown_kinds_of_elements_are_dropped() -> None:
    assert fs.canonical({"x:new": {"f:a": {}}, "f:b": {}}) == {"f:b": {}}


@pytest.mark.parametrize("element", ["f", "fa", "k:{", "k:[1]", "v:", "i:x"])
def test_an_element_that_cannot_be_read_is_an_error(element: str) -> None:
    with pytest.raises(FieldSetError):
        fs.canonical({element: {}})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:x"), ".spec.x"),
        (('k:{"name":"a","port":80}',), '[name="a",port=80]'),
        (('v:"a"',), '[="a"]'),
        (("v:true",), "[=true]"),
        (("i:3",), "[3]"),
    ],
)
def test_paths_are_shown_as_messages_show_them(path: Path, text: str) -> None:
    assert fs.path_text(path) == text


def test_the_element_of_an_item_names_its_keys_in_order() -> None:
    key: dict[str, Any] = {"protocol": "TCP", "port": 80.0}
    assert fs.key_element(key) == 'k:{"port":80,"protocol":"TCP"}'
    assert fs.value_element("x") == 'v:"x"'
