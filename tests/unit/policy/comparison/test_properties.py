"""What holds of comparing and merging whatever is compared."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.objects import Object
from muster.policy.comparison import compare, identical, matches

_keys = st.sampled_from(("a", "b", "name", "key2"))
_scalars = st.one_of(
    st.sampled_from(("a", "b", "", "1", "1000m", "1Gi", "1024Mi", "80")), st.integers(-2, 100), st.booleans(), st.just(0.5)
)
_names = st.sampled_from(("x", "y", "z"))


def _values(items: Any) -> Any:
    """Texts, numbers, maps and lists, whose items are scalars or maps as `items` makes them of maps."""

    def nested(inner: Any) -> Any:
        maps = st.dictionaries(_keys, inner, min_size=1, max_size=3)
        return st.one_of(maps, st.lists(_scalars, max_size=4), items(maps))

    return st.recursive(_scalars, nested, max_leaves=12)


def _unnamed(maps: Any) -> Any:
    return st.lists(maps, max_size=3)


def _named(maps: Any) -> Any:
    """Each item has a name of its own: of others, one may be part of another, and which of them is meant depends on the order."""
    return st.dictionaries(_names, maps, max_size=3).map(lambda named: [{**item, "name": name} for name, item in named.items()])


_specs = st.dictionaries(_keys, _values(_unnamed), max_size=4)
_named_specs = st.dictionaries(_keys, _values(_named), max_size=4)
_rules = st.sampled_from(("musthave", "mustonlyhave"))


def _object(spec: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def _shuffled(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, dict):
        return {key: _shuffled(item, data) for key, item in value.items()}
    return [_shuffled(item, data) for item in data.draw(st.permutations(value))] if isinstance(value, list) else value


@given(_specs, _specs, _rules)
def test_what_was_merged_has_no_mismatch(wanted: Any, existing: Any, rule: str) -> None:
    template = _object(wanted)
    merged = compare(template, _object(existing), compliance=rule).merged
    assert not compare(template, merged, compliance=rule).mismatch


@given(_specs, _specs, _rules)
def test_merging_again_changes_nothing_but_the_order_of_lists(wanted: Any, existing: Any, rule: str) -> None:
    template = _object(wanted)
    once = compare(template, _object(existing), compliance=rule).merged
    twice = compare(template, once, compliance=rule).merged
    assert not compare(once, twice, compliance="mustonlyhave").mismatch
    assert not compare(twice, once, compliance="mustonlyhave").mismatch


@given(_named_specs, st.data(), _rules)
def test_the_order_of_lists_is_no_mismatch(spec: Any, data: st.DataObject, rule: str) -> None:
    found = compare(_object(spec), _object(_shuffled(spec, data)), compliance=rule)
    assert not found.mismatch


@given(_specs, _specs, _rules)
def test_nothing_that_is_compared_is_changed(wanted: Any, existing: Any, rule: str) -> None:
    template, obj = _object(wanted), _object(existing)
    before = copy.deepcopy((template, obj))
    compare(template, obj, compliance=rule)
    matches(template, obj, compliance=rule)
    assert identical(template, before[0])
    assert identical(obj, before[1])


@given(_specs)
def test_an_object_is_what_its_own_template_says(spec: Any) -> None:
    assert matches(_object(spec), _object(spec), compliance="mustonlyhave")
    found = compare(_object(spec), _object(spec), compliance="mustonlyhave")
    assert not found.mismatch
    assert not found.missing_key
