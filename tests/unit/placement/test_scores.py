"""What clusters score: the fact sheet's vectors, and what prioritizers make of odd input."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from muster.placement.choice import Choice
from tests.support.placement_world import NOW, Site, addon, built_in, chosen, cluster, named, placement, policy, scores

FOUR = named("a", "b", "c", "d")
BUSY = {"a": 3, "b": 1, "c": 2}
RATED = {("a", "r"): scores({"s": 80}), ("b", "r"): scores({"s": -30})}

VECTORS: dict[str, tuple[Site, dict[str, Any], str, dict[str, int]]] = {
    "S1": (Site(FOUR), {"n": 2}, "a b", {"a": 100, "b": 100, "c": 100, "d": 100}),
    "S2": (Site(FOUR, present="cd"), {"n": 2}, "c d", {"c": 200, "d": 200, "a": 100, "b": 100}),
    "S3": (Site(FOUR, others=BUSY), {"n": 2}, "d b", {"d": 100, "b": 32, "c": -32, "a": -100}),
    "S4": (Site(FOUR, present="a", others=BUSY), {"n": 2}, "d b", {"d": 100, "b": 32, "a": 0, "c": -32}),
    "S5": (
        Site(FOUR, present="a", others=BUSY),
        {"n": 2, "policy": policy(built_in("Steady", 3))},
        "a d",
        {"a": 200, "d": 100, "b": 32, "c": -32},
    ),
    "S6": (
        Site([cluster("a", cpu="4"), cluster("b", cpu="16"), cluster("c", cpu="8"), cluster("d")]),
        {"n": 2, "policy": policy(built_in("ResourceAllocatableCPU"), mode="Exact")},
        "b d",
        {"b": 100, "d": 0, "c": -33, "a": -100},
    ),
    "S7": (
        Site(FOUR, scores=RATED),
        {"n": 2, "policy": policy(addon("r", "s", -2))},
        "b c",
        {"b": 160, "c": 100, "d": 100, "a": -60},
    ),
    "S8": (
        Site(FOUR, present="d", scores={**RATED, ("c", "r"): scores({"s": 80})}),
        {"n": 3, "policy": policy(addon("r", "s"), mode="Exact")},
        "a c d",
        {"a": 80, "c": 80, "d": 0, "b": -30},
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_of_scheduling(name: str) -> None:
    site, asked, expected, totals = VECTORS[name]
    choice = site.choose(numberOfClusters=asked["n"], prioritizerPolicy=asked.get("policy", {}))
    assert chosen(choice) == expected.split()
    assert choice.totals == totals


def of(choice: Choice, name: str) -> list[int]:
    return next(list(one.scores.values()) for one in choice.prioritizers if one.name == name)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (range(4), [100, 32, -32, -100]),
        (range(8), [100, 70, 42, 14, -14, -42, -70, -100]),
        # Doubles, as upstream reckons: 0.5 - 0.4 is less than a tenth.
        (range(6), [100, 60, 18, -18, -60, -100]),
    ],
)
def test_balance_goes_by_the_cluster_that_most_have_chosen(counts: range, expected: list[int]) -> None:
    site = Site(named(*(f"c{count}" for count in counts)), others={f"c{count}": count for count in counts})
    assert of(site.choose(), "Balance") == expected


def test_balance_measures_by_clusters_it_does_not_see() -> None:
    assert of(Site(named("a"), others={"a": 1, "elsewhere": 4}).choose(), "Balance") == [50]


def test_allocatable_resources_are_compared_as_quantities() -> None:
    found = [1, "2000m", "3", "4", 5, "6e0", "0.007k"]
    site = Site([cluster(f"c{index}", cpu=text) for index, text in enumerate(found)])
    choice = site.choose(prioritizerPolicy=policy(built_in("ResourceAllocatableCPU", 1)))
    assert of(choice, "ResourceAllocatableCPU") == [-100, -66, -33, 0, 33, 66, 100]


def test_equal_resources_all_score_best() -> None:
    site = Site([cluster("a", memory="1Gi"), cluster("b", memory="1024Mi")])
    choice = site.choose(prioritizerPolicy=policy(built_in("ResourceAllocatableMemory")))
    assert of(choice, "ResourceAllocatableMemory") == [100, 100]


def test_what_is_only_capacity_or_only_allocatable_has_no_score() -> None:
    half = cluster("a", status={"allocatable": {"cpu": "4"}, "capacity": {}})
    other = cluster("b", status={"allocatable": {}, "capacity": {"cpu": "4"}})
    choice = Site([half, other]).choose(prioritizerPolicy=policy(built_in("ResourceAllocatableCPU")))
    assert of(choice, "ResourceAllocatableCPU") == []


def test_of_one_builtin_prioritizer_the_last_weight_counts() -> None:
    choice = Site(FOUR, present="a").choose(prioritizerPolicy=policy(built_in("Steady", 5), built_in("Steady", 2)))
    assert [(one.name, one.weight) for one in choice.prioritizers] == [("Balance", 1), ("Steady", 2)]


def test_equal_scores_of_addons_all_count() -> None:
    choice = Site(FOUR, scores=RATED).choose(prioritizerPolicy=policy(addon("r", "s", 1), addon("r", "s", 2), mode="Exact"))
    assert choice.totals == {"a": 240, "b": -90, "c": 0, "d": 0}


def test_weight_zero_turns_a_prioritizer_off() -> None:
    asked = policy(built_in("Steady", 0), built_in("Balance", 0), built_in("NoSuch", 0), addon("r", "s", 0))
    choice = Site(FOUR, scores=RATED).choose(prioritizerPolicy=asked)
    assert choice.prioritizers == ()
    assert choice.misconfigured.status == "False"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"mode": "Best"}, ":incorrect prioritizer policy mode: Best"),
        (policy(built_in("NoSuch")), ":incorrect builtin prioritizer: NoSuch"),
        (policy({"scoreCoordinate": {"type": "AddOn"}, "weight": 1}), ":addOn should not be empty"),
    ],
)
def test_a_policy_that_makes_no_sense_is_misconfigured(asked: dict[str, Any], message: str) -> None:
    choice = Site(FOUR).choose(prioritizerPolicy=asked)
    assert (choice.misconfigured.status, choice.misconfigured.message) == ("True", message)
    assert not choice.clusters


def test_defect_5_an_expired_score_is_a_warning_and_no_error() -> None:
    rated = {("a", "r"): scores({"s": 80}, until="2026-11-16T11:59:59Z"), ("b", "r"): scores({"s": 10})}
    choice = Site(FOUR, scores=rated).choose(prioritizerPolicy=policy(addon("r", "s"), mode="Exact"))
    assert choice.totals == {"a": 0, "b": 10, "c": 0, "d": 0}
    assert choice.warnings == ("AddOnPlacementScores a/r expired in plugin AddOn/r/s",)
    assert choice.misconfigured.status == "False"
    assert choice.satisfied.status == "True"


def test_many_expired_scores_are_counted() -> None:
    many = named(*(f"c{index:02}" for index in range(30)))
    rated = {(one.name, "r"): scores({"s": 1}, until="2020-01-01T00:00:00Z") for one in many}
    (warning,) = Site(many, scores=rated).choose(prioritizerPolicy=policy(addon("r", "s"))).warnings
    assert warning.endswith("c09/r and 20 more expired in plugin AddOn/r/s")


def test_defect_6_the_end_of_a_score_is_a_wake_up() -> None:
    rated = {
        ("a", "r"): scores({"s": 80}, until="2026-11-16T12:00:10Z"),
        ("b", "r"): scores({"s": 9}, until="2026-11-16T12:00:05Z"),
    }
    site, asked = Site(FOUR, scores=rated), placement(prioritizerPolicy=policy(addon("r", "s"), mode="Exact"))
    first = site.choose(asked)
    assert first.again is not None
    assert NOW + timedelta(seconds=5) < first.again < NOW + timedelta(seconds=6)
    site.now = first.again
    later = site.choose(asked)
    assert (later.totals["a"], later.totals["b"]) == (80, 0)
    assert later.again is not None
    site.now = later.again
    last = site.choose(asked)
    assert (last.totals["a"], last.again) == (0, None)


def test_scores_beyond_the_range_count_as_its_ends() -> None:
    rated = {("a", "r"): scores({"s": 2**31 - 1}), ("b", "r"): scores({"s": -(2**31)})}
    assert Site(FOUR, scores=rated).choose(prioritizerPolicy=policy(addon("r", "s"), mode="Exact")).totals == {
        "a": 100,
        "b": -100,
        "c": 0,
        "d": 0,
    }
