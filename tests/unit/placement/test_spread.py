"""Spreading over topologies: enhancement 70's example and use cases, hard and soft terms."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.placement_world import Site, addon, built_in, chosen, cluster, named, policy, scores


def term(key: str, hard: bool = False, skew: int = 1, kind: str = "Label") -> dict[str, Any]:
    action = "DoNotSchedule" if hard else "ScheduleAnyway"
    return {"topologyKey": key, "topologyKeyType": kind, "maxSkew": skew, "whenUnsatisfiable": action}


def terms(*some: dict[str, Any]) -> dict[str, Any]:
    return {"spreadConstraints": list(some)}


def at(name: str, region: str, zone: str) -> Any:
    return cluster(name, {"region": region, "zone": zone})


FIVE = [at("c1", "east", "1a"), at("c2", "east", "1a"), at("c3", "east", "1b"), at("c4", "west", "1a"), at("c5", "west", "1a")]
RATED = {(name, "r"): scores({"s": 50}) for name in ("c1", "c2", "c5")}


def test_the_worked_example() -> None:
    asked = policy(addon("r", "s"), built_in("Spread", 2), mode="Exact")
    choice = Site(FIVE, scores=RATED).choose(
        numberOfClusters=2, prioritizerPolicy=asked, spreadPolicy=terms(term("region"), term("zone", hard=True))
    )
    assert chosen(choice) == ["c5", "c1"]
    assert {one.cluster: one.score for group in choice.groups for one in group.clusters} == {"c1": 50, "c5": 250}
    assert (choice.prioritizers[-1].name, choice.prioritizers[-1].scores) == ("Spread", {"c1": 0, "c5": 100})


def test_use_case_4_first_across_regions_then_across_zones() -> None:
    many = [
        at(f"{region}-{zone}-{index}", region, zone) for region, zone in (("e", "a"), ("e", "b"), ("w", "a")) for index in range(3)
    ]
    choice = Site(many).choose(numberOfClusters=4, spreadPolicy=terms(term("region"), term("zone")))
    assert sorted(name[:3] for name in choice.clusters) == ["e-a", "e-b", "w-a", "w-a"]


@pytest.mark.parametrize(("skew", "expected"), [(1, 3), (2, 4), (3, 4)])
def test_use_case_3_fewer_are_chosen_than_would_break_a_hard_term(skew: int, expected: int) -> None:
    site = Site([at("a1", "e", "a"), at("a2", "e", "a"), at("a3", "e", "a"), at("b1", "e", "b")])
    choice = site.choose(numberOfClusters=4, spreadPolicy=terms(term("zone", hard=True, skew=skew)))
    assert len(choice.clusters) == expected
    if expected < 4:
        assert choice.satisfied.reason == "NotAllDecisionsScheduled"
        assert choice.satisfied.message == "1 cluster decisions unscheduled"


def test_all_that_a_hard_term_allows_where_no_number_is_asked_for() -> None:
    site = Site([at("a1", "e", "a"), at("a2", "e", "a"), at("a3", "e", "a"), at("b1", "e", "b")])
    choice = site.choose(spreadPolicy=terms(term("zone", hard=True)))
    assert len(choice.clusters) == 3
    assert (choice.unscheduled, choice.satisfied.status) == (1, "False")


def test_a_soft_term_takes_all_where_no_number_is_asked_for() -> None:
    assert len(Site(FIVE).choose(spreadPolicy=terms(term("zone"))).clusters) == 5


def test_topologies_may_be_claims() -> None:
    site = Site([cluster("a", claims={"z": "1"}), cluster("b", claims={"z": "1"}), cluster("c", claims={"z": "2"})])
    assert site.choose(numberOfClusters=2, spreadPolicy=terms(term("z", kind="Claim"))).clusters == {"a", "c"}


def test_clusters_without_the_key_are_a_topology_of_their_own() -> None:
    site = Site([*named("a", "b"), cluster("c", {"zone": ""}), cluster("d", {"zone": "z"})])
    assert site.choose(numberOfClusters=3, spreadPolicy=terms(term("zone"))).clusters == {"a", "c", "d"}


def test_in_exact_mode_only_hard_terms_count_unless_spread_has_a_weight() -> None:
    soft = Site(FIVE).choose(numberOfClusters=2, prioritizerPolicy=policy(mode="Exact"), spreadPolicy=terms(term("region")))
    assert soft.clusters == {"c1", "c2"}
    hard = Site(FIVE).choose(
        numberOfClusters=2, prioritizerPolicy=policy(mode="Exact"), spreadPolicy=terms(term("region", hard=True))
    )
    assert hard.clusters == {"c1", "c4"}


def test_spread_without_terms_is_no_prioritizer() -> None:
    choice = Site(FIVE).choose(numberOfClusters=2, prioritizerPolicy=policy(built_in("Spread", 5)))
    assert [one.name for one in choice.prioritizers] == ["Balance", "Steady"]
    assert choice.misconfigured.status == "False"


def test_what_is_chosen_stays_where_topologies_are_alike() -> None:
    choice = Site(FIVE, present=["c2", "c5"]).choose(numberOfClusters=2, spreadPolicy=terms(term("region")))
    assert choice.clusters == {"c2", "c5"}
