"""What held rules grant of a wanted one, told without looking at every combination."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.kube.rbac import Rule
from muster.kube.rule_cover import MOST_MISSING, path_matches, uncovered

VALUES = ["a", "b", "c/d", "e/d", "*", "*/d"]
RULES = st.one_of(
    st.fixed_dictionaries(
        {name: st.lists(st.sampled_from(VALUES), max_size=3) for name in ("verbs", "apiGroups", "resources", "resourceNames")}
    ),
    st.fixed_dictionaries(
        {
            "verbs": st.lists(st.sampled_from(VALUES), max_size=2),
            "nonResourceURLs": st.lists(st.sampled_from(["/a", "/a/*", "*", "/a/b", "/*"]), max_size=2),
        }
    ),
)


def one_by_one(held: list[dict[str, Any]], wanted: dict[str, Any]) -> set[tuple[str, ...]]:
    """As upstream does it: break the rule into its atoms and compare each with every rule."""
    missing: set[tuple[str, ...]] = set()
    for verb in wanted.get("verbs") or ():
        for path in wanted.get("nonResourceURLs") or ():
            if not any(
                _has(rule, "verbs", verb) and any(path_matches(pattern, path) for pattern in rule.get("nonResourceURLs") or ())
                for rule in held
            ):
                missing.add((verb, path))
        for group in wanted.get("apiGroups") or ():
            for resource in wanted.get("resources") or ():
                for name in wanted.get("resourceNames") or [""]:
                    if not any(_grants(rule, verb, group, resource, name) for rule in held):
                        missing.add((verb, group, resource, name))
    return missing


def _has(rule: dict[str, Any], field: str, value: str) -> bool:
    return value in (rule.get(field) or ()) or "*" in (rule.get(field) or ())


def _grants(rule: dict[str, Any], verb: str, group: str, resource: str, name: str) -> bool:
    names, slash, sub = rule.get("resourceNames"), *resource.partition("/")[1:]
    return (
        _has(rule, "verbs", verb)
        and _has(rule, "apiGroups", group)
        and (_has(rule, "resources", resource) or (bool(slash) and f"*/{sub}" in (rule.get("resources") or ())))
        and (not names or name in names)
    )


def atoms(found: list[Any]) -> set[tuple[str, ...]]:
    return {
        (atom["verbs"][0], atom["nonResourceURLs"][0])
        if "nonResourceURLs" in atom
        else (atom["verbs"][0], atom["apiGroups"][0], atom["resources"][0], atom.get("resourceNames", [""])[0])
        for atom in found
    }


@given(st.lists(RULES, max_size=4), RULES)
def test_missing_is_what_a_look_at_every_combination_finds_missing(held: list[dict[str, Any]], wanted: dict[str, Any]) -> None:
    assert atoms(uncovered([Rule(rule) for rule in held], wanted)) == one_by_one(held, wanted)


def cube(side: int) -> dict[str, Any]:
    return {key: [f"{key[0]}{number}" for number in range(side)] for key in ("verbs", "apiGroups", "resources", "resourceNames")}


def test_a_rule_of_a_billion_permissions_is_judged_at_once() -> None:
    wanted = cube(180)
    began = time.process_time()
    assert len(uncovered([], wanted)) == MOST_MISSING
    assert uncovered([Rule(wanted)], wanted) == []
    halves = [Rule({**wanted, "verbs": wanted["verbs"][at::2]}) for at in (0, 1)]
    assert uncovered(halves, wanted) == []
    assert len(uncovered([*halves[:1], Rule(cube(10))], wanted)) == MOST_MISSING
    assert time.process_time() - began < 0.5


def test_what_is_missing_keeps_the_order_of_the_verbs_asked_for() -> None:
    held = [Rule({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]})]
    wanted = {"verbs": ["watch", "list", "get"], "apiGroups": [""], "resources": ["pods"]}
    assert [atom["verbs"] for atom in uncovered(held, wanted)] == [["watch"], ["get"]]
