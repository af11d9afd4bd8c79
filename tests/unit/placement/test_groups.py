"""Decision groups: the fact sheet's vectors, orders, and strategies that make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from muster.placement.choice import Choice
from tests.support.placement_world import Site, addon, cluster, named, placement, policy, scores

FIVE = [cluster(name, {"canary": "yes"} if name in "be" else {}) for name in "abcde"]
MANY = named(*(f"c{index:03}" for index in range(250)))
CANARY = {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "yes"}}}}
NOBODY = {"groupName": "xx", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "no"}}}}


def groups(per: int | str, *named_groups: dict[str, Any]) -> dict[str, Any]:
    return {"groupStrategy": {"clustersPerDecisionGroup": per, "decisionGroups": list(named_groups)}}


def sizes(choice: Choice) -> list[tuple[str, int]]:
    return [(group.name, len(group.clusters)) for group in choice.groups]


@pytest.mark.parametrize(
    ("site", "strategy", "expected"),
    [
        pytest.param(Site(FIVE), groups("100%"), [("", 5)], id="D1"),
        pytest.param(Site(FIVE), groups(2, CANARY), [("canary", 2), ("", 2), ("", 1)], id="D2"),
        pytest.param(Site(FIVE), groups("40%", NOBODY), [("", 2), ("", 2), ("", 1)], id="D3"),
        pytest.param(Site(MANY), groups("100%"), [("", 250)], id="D4"),
        pytest.param(Site(MANY), groups("50%"), [("", 125), ("", 125)], id="D5"),
        pytest.param(Site([]), groups("100%"), [("", 0)], id="D6"),
        pytest.param(Site(FIVE), groups(0), [("", 5)], id="a length of nothing is all"),
        pytest.param(Site(FIVE), groups(-2), [("", 5)], id="a negative length is all"),
        pytest.param(Site(FIVE), groups(9), [("", 5)], id="more than there are is all"),
        pytest.param(Site(FIVE), groups("1%", CANARY), [("canary", 1), ("canary", 1), ("", 1), ("", 1), ("", 1)], id="rounded up"),
        pytest.param(Site(FIVE), groups("nan%"), [("", 5)], id="no number is all"),
    ],
)
def test_vectors_of_groups(site: Site, strategy: dict[str, Any], expected: list[tuple[str, int]]) -> None:
    assert sizes(site.choose(decisionStrategy=strategy)) == expected


def test_members_are_in_the_order_of_names() -> None:
    choice = Site(list(reversed(FIVE))).choose(decisionStrategy=groups(2, CANARY))
    assert [[one.cluster for one in group.clusters] for group in choice.groups] == [["b", "e"], ["a", "c"], ["d"]]


def test_a_cluster_belongs_to_the_first_group_that_selects_it() -> None:
    everybody = {"groupName": "rest", "groupClusterSelector": {}}
    choice = Site(FIVE).choose(decisionStrategy=groups("100%", CANARY, everybody, CANARY))
    assert sizes(choice) == [("canary", 2), ("rest", 3)]


def test_groups_select_by_claims() -> None:
    site = Site([cluster("a", claims={"platform": "aws"}), cluster("b")])
    by_claim = {"claimSelector": {"matchExpressions": [{"key": "platform", "operator": "Exists"}]}}
    choice = site.choose(decisionStrategy=groups("100%", {"groupName": "aws", "groupClusterSelector": by_claim}))
    assert [[one.cluster for one in group.clusters] for group in choice.groups] == [["a"], ["b"]]


def test_sorted_by_score_members_are_ordered_before_they_are_cut() -> None:
    rated = {("a", "r"): scores({"s": -5}), ("d", "r"): scores({"s": 50}), ("e", "r"): scores({"s": 7})}
    site = Site(FIVE, scores=rated)
    asked: dict[str, Any] = {"prioritizerPolicy": policy(addon("r", "s"), mode="Exact"), "decisionStrategy": groups(2, CANARY)}
    by_score = site.choose(**asked, sortBy="Score")
    assert [[(one.cluster, one.score) for one in group.clusters] for group in by_score.groups] == [
        [("e", 7), ("b", 0)],
        [("d", 50), ("c", 0)],
        [("a", -5)],
    ]
    by_name = site.choose(**asked)
    assert [[one.cluster for one in group.clusters] for group in by_name.groups] == [["b", "e"], ["a", "c"], ["d"]]


@pytest.mark.parametrize("per", ["two", "x%", "1_%", "%"])
def test_a_length_that_is_no_percentage_is_misconfigured(per: str) -> None:
    choice = Site(FIVE).choose(decisionStrategy=groups(per))
    assert choice.misconfigured.message == f":{per} invalid type: string is not a percentage"
    assert choice.keeps_decisions


def test_a_group_selector_that_cannot_be_read_is_misconfigured() -> None:
    bad = {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}}
    choice = Site(FIVE).choose(decisionStrategy=groups("100%", {"groupName": "gg", "groupClusterSelector": bad}))
    assert choice.misconfigured.message == ':"Like" is not a valid label selector operator'


def test_a_group_name_that_cannot_be_a_label_is_misconfigured() -> None:
    choice = Site(FIVE).choose(decisionStrategy=groups("100%", {"groupName": "x" * 64, "groupClusterSelector": {}}))
    assert "cannot label a decision" in choice.misconfigured.message


def test_defect_9_a_name_too_long_for_a_label_is_misconfigured_with_the_remedy() -> None:
    choice = Site(FIVE).choose(placement("p" * 64))
    assert choice.misconfigured.status == "True"
    assert "use a shorter name" in choice.misconfigured.message
    assert Site(FIVE).choose(placement("p" * 63)).misconfigured.status == "False"
