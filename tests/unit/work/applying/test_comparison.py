"""Saying and being so: laws that hold for any manifest and any live object, and the cases behind them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.work.agent.applying.applied_shapes import AppliedShapes
from muster.work.agent.applying.comparison import ComparisonRules, agrees, drop_nulls, drop_unspecified, overlay, replacement, shape
from muster.work.agent.applying.update import agreed, creation, merged
from tests.support.manifests import manifest
from tests.unit.work.applying.conftest import OTHER, OWNER

NAMES = st.sampled_from(["a", "b", "name", "limits", "matchLabels", "data", "spec"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["", "x", "y", "1", "1000m"]), st.floats(0, 1))
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)), max_leaves=12
)
LIVE = st.dictionaries(NAMES, VALUES, max_size=4)
SAID = LIVE.map(drop_nulls)
RULES = st.sampled_from([ComparisonRules(), ComparisonRules(builtin=True, closed=frozenset(("matchLabels", "data")))])


@given(said=SAID, live=LIVE, rules=RULES)
def test_after_an_overlay_all_is_as_said(said: Any, live: Any, rules: ComparisonRules) -> None:
    before = copy.deepcopy((said, live))
    assert agrees(said, overlay(said, live, rules), rules)
    assert (said, live) == before


@given(said=SAID, live=LIVE, rules=RULES)
def test_an_overlay_of_what_is_so_changes_nothing_more(said: Any, live: Any, rules: ComparisonRules) -> None:
    once = overlay(said, live, rules)
    assert overlay(said, once, rules) == once


@given(said=SAID, live=LIVE, rules=RULES)
def test_fields_that_are_not_said_survive(said: Any, live: Any, rules: ComparisonRules) -> None:
    after = overlay(said, live, rules)
    for key, value in live.items():
        if key not in said:
            assert after[key] == value
        elif isinstance(said[key], dict) and isinstance(value, dict) and key not in rules.closed:
            for below, deep in value.items():
                if below not in said[key]:
                    assert after[key][below] == deep


@given(said=SAID, live=LIVE, rules=RULES)
def test_a_replacement_says_the_same(said: Any, live: Any, rules: ComparisonRules) -> None:
    assert agrees(said, replacement(said, live, rules), rules)


@given(before=SAID, said=SAID, live=LIVE, rules=RULES)
def test_what_is_still_said_is_not_taken_away(before: Any, said: Any, live: Any, rules: ComparisonRules) -> None:
    present = overlay(said, live, rules)
    left = drop_unspecified(shape(before, rules), said, present)
    assert agrees(said, left, rules)
    assert all(key in left for key in present if key not in before)
    assert not any(key in left for key in before if key not in said)


@given(said=SAID, live=LIVE, rules=RULES)
def test_saying_the_same_again_takes_nothing_away(said: Any, live: Any, rules: ComparisonRules) -> None:
    present = overlay(said, live, rules)
    assert drop_unspecified(shape(said, rules), said, present) is present


@given(
    said=LIVE,
    live=LIVE,
    labels=st.dictionaries(st.sampled_from(["a", "a-", "b", "b-"]), st.just("1")),
    present=st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["1", "2"])),
    owned=st.booleans(),
)
def test_a_second_merge_writes_nothing(said: Any, live: Any, labels: Any, present: Any, owned: bool) -> None:
    wanted = manifest({**said, "apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x", "labels": labels}}, owned=owned)
    found = {**live, "metadata": {"name": "x", "uid": "u", "resourceVersion": "1", "labels": present}}
    written = merged(wanted, found, OWNER) or found
    assert merged(wanted, written, OWNER) is None
    kept = written["metadata"]["labels"]
    assert not any(key[:-1] in kept for key in labels if key.endswith("-") and key[:-1] not in labels)
    assert kept.get("c") == present.get("c")
    assert not any(key.endswith("-") for key in creation(wanted, OWNER)["metadata"]["labels"])


@pytest.mark.parametrize(
    ("said", "live"),
    [
        ({"hostNetwork": False}, {}),
        ({"args": []}, {}),
        ({"limits": {"cpu": 1, "memory": "1024Mi"}}, {"limits": {"cpu": "1", "memory": "1Gi"}}),
        ({"limits": {}}, {}),
        ({"list": [{"a": 1}]}, {"list": [{"a": 1, "defaulted": 2}]}),
        ({"n": 1.0}, {"n": 1}),
    ],
)
def test_what_a_server_does_to_its_own_kinds_is_no_difference(said: Any, live: Any) -> None:
    assert agrees(said, live, ComparisonRules(builtin=True))


@pytest.mark.parametrize(
    ("said", "live"),
    [
        ({"emptyDir": {}}, {"configMap": {}}),
        ({"list": [1]}, {"list": [1, 2]}),
        ({"list": [2, 1]}, {"list": [1, 2]}),
        ({"list": []}, {"list": [1]}),
        ({"list": [{"a": 1}]}, {"list": [{"b": 1}]}),
        ({"flag": True}, {"flag": 1}),
        ({"matchLabels": {"a": "1"}}, {"matchLabels": {"a": "1", "b": "2"}}),
        ({"name": "1000m"}, {"name": "1"}),
        ({"limits": {"cpu": "x"}}, {"limits": {"cpu": "1"}}),
        ({"map": {"a": 1}}, {"map": [1]}),
    ],
)
def test_what_is_not_as_said_differs(said: Any, live: Any) -> None:
    assert not agrees(said, live, ComparisonRules(builtin=True, closed=frozenset(("matchLabels",))))


def test_a_null_says_nothing() -> None:
    assert drop_nulls({"a": None, "b": [{"c": None, "d": 1}, None]}) == {"b": [{"d": 1}, None]}


@pytest.mark.parametrize("said", [{"on": False}, {"list": []}, {"map": {}}, {"limits": {}}])
def test_of_custom_resources_even_an_empty_value_counts(said: Any) -> None:
    assert not agrees(said, {}, ComparisonRules())


def test_elements_are_found_by_their_key_whatever_their_order() -> None:
    said = {"ports": [{"name": "b", "port": 2}, {"name": "a", "port": 1}, {"name": "c", "port": 3}]}
    live = {"ports": [{"name": "a", "port": 1, "node": 30001}, {"name": "b", "port": 9, "node": 30002}]}
    assert overlay(said, live, ComparisonRules())["ports"] == [
        {"name": "b", "port": 2, "node": 30002},
        {"name": "a", "port": 1, "node": 30001},
        {"name": "c", "port": 3},
    ]


def test_a_shape_holds_names_and_no_values() -> None:
    said = {"data": {"password": "secret"}, "list": [{"name": "a", "value": "secret"}], "token": "secret"}
    assert "secret" not in str(shape(said, ComparisonRules(closed=frozenset(("data",)))))


def test_what_is_remembered_is_of_one_work_and_bounded() -> None:
    memory = AppliedShapes(capacity=2)
    documents = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}} for name in "abc"]
    for document in documents:
        memory.keep(manifest(document), OWNER)
    assert [memory.confirmed(manifest(document), OWNER) for document in documents] == [False, True, True]
    assert not memory.confirmed(manifest(documents[2]), OTHER)
    changed = {**documents[2], "data": {"b": "1"}}
    assert memory.before(manifest(documents[2]), OWNER) is None
    assert memory.before(manifest(changed), OWNER) == {"data": 0}


def test_labels_count_when_it_is_asked_whether_all_is_so() -> None:
    wanted = manifest({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {"a": "1"}}})
    assert agreed(wanted, {"metadata": {"labels": {"a": "1", "b": "2"}}})
    assert not agreed(wanted, {"metadata": {}})
