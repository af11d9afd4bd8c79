"""What agents write must harm nobody else: odd and huge values, expressions that would run for ever."""

from __future__ import annotations

import time
from typing import Any

import pytest

from muster.api.cluster.v1 import ManagedCluster
from muster.api.cluster.v1alpha1 import AddOnPlacementScore
from muster.placement.candidates import candidate_of
from muster.placement.expressions import budget_of
from muster.placement.snapshot import Candidate
from tests.support.placement_world import Site, addon, built_in, cluster, named, policy, scores, selector


def written(name: str, **parts: Any) -> Candidate:
    """As it comes from the wire."""
    return candidate_of(ManagedCluster.decode({"metadata": {"name": name}, **parts}))


HOSTILE: dict[str, dict[str, Any]] = {
    "nulls": {"spec": {"taints": None}, "status": {"clusterClaims": None, "allocatable": None, "capacity": None}},
    "null parts": {"spec": {"taints": [None]}, "status": {"clusterClaims": [None, {"name": None}], "allocatable": {"cpu": None}}},
    "wrong types": {"spec": {"taints": "x"}, "status": {"clusterClaims": {"a": 1}, "allocatable": [1], "capacity": 5}},
    "half a taint": {"spec": {"taints": [{"key": "a"}, {"effect": 7, "key": []}]}},
    "no time": {"spec": {"taints": [{"key": "a", "effect": "NoSelect", "timeAdded": "yesterday"}]}},
    "negative": {"status": {"allocatable": {"cpu": "-5"}, "capacity": {"cpu": "-5"}}},
    "huge": {"status": {"allocatable": {"cpu": "9e999"}, "capacity": {"cpu": "1"}}},
    "as huge as it gets": {"status": {"allocatable": {"cpu": "9" * 300}, "capacity": {"cpu": "1"}}},
    "as small as it gets": {"status": {"allocatable": {"cpu": "-" + "9" * 300}, "capacity": {"cpu": "1"}}},
    "no number": {"status": {"allocatable": {"cpu": "many"}, "capacity": {"cpu": "1"}}},
    "a long text": {"status": {"allocatable": {"cpu": "9" * 100_000}, "capacity": {"cpu": "1"}}},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_an_agent_writes_harms_no_other_cluster(name: str) -> None:
    site = Site([cluster("a", cpu="4"), written("evil", **HOSTILE[name]), cluster("z", cpu="8")])
    choice = site.choose(
        prioritizerPolicy=policy(built_in("ResourceAllocatableCPU"), addon("r", "s")),
        tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 5}],
        predicates=[selector(["managedCluster.status.clusterClaims.size() >= 0"]), {}],
        spreadPolicy={"spreadConstraints": [{"topologyKey": "a", "topologyKeyType": "Claim"}]},
    )
    assert {"a", "z"} <= choice.clusters
    assert all(-100 <= score <= 100 for one in choice.prioritizers for score in one.scores.values())
    assert choice.satisfied.status in ("True", "False")


def test_two_ends_of_what_numbers_hold_leave_scores_in_their_range() -> None:
    site = Site(
        [written("a", **HOSTILE["as huge as it gets"]), written("b", **HOSTILE["as small as it gets"]), cluster("c", cpu="1")]
    )
    choice = site.choose(prioritizerPolicy=policy(built_in("ResourceAllocatableCPU"), mode="Exact"))
    assert all(-100 <= total <= 100 for total in choice.totals.values())


@pytest.mark.parametrize(
    "status",
    [
        {"scores": None},
        {"scores": [None, {"name": "s"}, {"value": 5}, {"name": 1, "value": "x"}, {"name": "s", "value": 1.5}]},
        {"scores": {"s": 5}},
        {"scores": [], "validUntil": "tomorrow"},
        {"validUntil": 7, "scores": []},
        {"scores": [], "validUntil": "9999-12-31T23:59:59.999999Z"},
        None,
    ],
)
def test_scores_that_cannot_be_read_are_not_there(status: Any) -> None:
    odd = AddOnPlacementScore.decode({"metadata": {"name": "r", "namespace": "a"}, "status": status})
    site = Site(named("a", "b"), scores={("a", "r"): odd, ("b", "r"): scores({"s": 5})})
    choice = site.choose(
        prioritizerPolicy=policy(addon("r", "s"), mode="Exact"),
        predicates=[selector(["managedCluster.scores('r').size() < 9"]), {}],
    )
    assert choice.totals == {"a": 0, "b": 5}


BOMBS = (
    "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, "
    "[0,1,2,3,4,5,6,7,8,9].all(e, [0,1,2,3,4,5,6,7,8,9].all(f, [0,1,2,3,4,5,6,7,8,9].all(g, a + b + c + d + e + f + g >= 0)))))))",
    "managedCluster.metadata.name.matches('(a+)+(a+)+(a+)+$')",
    "managedCluster.scores('r').all(a, managedCluster.scores('r').all(b, a.value <= b.value))",
    "managedCluster.status.clusterClaims[0].value.parseJSON().size() == 0",
    "('x' + managedCluster.status.clusterClaims[0].value).replace('[', '" + "[" * 100 + "').size() < 0",
)


@pytest.mark.parametrize("number", range(len(BOMBS)))
def test_expressions_end_though_clusters_are_made_to_keep_them_busy(number: int) -> None:
    listed = {f"s{index}": 1 for index in range(10_000)}
    deep = "[" * 100_000 + "]" * 100_000
    evil = cluster("a" * 60, claims={"deep": deep})
    site = Site([evil, *named("z")], scores={(evil.name, "r"): scores(listed)})
    begun = time.process_time()
    choice = site.choose(predicates=[selector([BOMBS[number]]), {"requiredClusterSelector": {"labelSelector": {}}}])
    # An evaluation may cost as much as Kubernetes allows for one: about a second here, and it is charged to this cluster alone.
    assert time.process_time() - begun < 10
    assert "z" in choice.clusters


def test_the_more_clusters_there_are_the_less_an_expression_may_cost_on_each() -> None:
    assert [budget_of(clusters) for clusters in (0, 1, 5, 1000, 10**6)] == [10_000_000, 10_000_000, 10_000_000, 50_000, 10_000]
    # Reading them costs 62,010.
    rated = {("c0000", "r"): scores({f"s{index}": 1 for index in range(2000)})}
    for clusters, expected in ((2, {"c0000"}), (1000, set())):
        site = Site(named(*(f"c{index:04}" for index in range(clusters))), scores=rated)
        choice = site.choose(predicates=[selector(["managedCluster.scores('r').size() > 0"])])
        assert choice.clusters == expected
    assert "cost limit exceeded" in choice.filters[0].removed["c0000"]


def test_more_expressions_than_are_remembered_are_misconfigured() -> None:
    few, many = ([selector([f"{number} > {number + 1}" for number in range(count)])] for count in (500, 501))
    assert Site(named("a")).choose(predicates=few).misconfigured.status == "False"
    assert "at most 500 are read" in Site(named("a")).choose(predicates=many).misconfigured.message


def test_what_one_cluster_costs_takes_nothing_from_another() -> None:
    listed = {f"s{index}": 1 for index in range(10_000)}
    large, small = scores(listed), scores({"s": 1})
    clusters = named(*(f"c{index:03}" for index in range(300)))
    rated = {(one.name, "r"): large if index < 200 else small for index, one in enumerate(clusters)}
    choice = Site(clusters, scores=rated).choose(predicates=[selector(["managedCluster.scores('r').size() > 0"])])
    assert choice.clusters == {one.name for one in clusters[200:]}


def test_ten_thousand_scores_on_one_cluster_are_read_at_once() -> None:
    listed = {f"s{index}": 1 for index in range(10_000)}
    site = Site(named("a", "b"), scores={("a", "r"): scores({**listed, "s": 7})})
    begun = time.process_time()
    for _ in range(10):
        assert site.choose(prioritizerPolicy=policy(addon("r", "s"), mode="Exact")).totals == {"a": 7, "b": 0}
    assert time.process_time() - begun < 2


def test_a_thousand_topologies_are_spread_over_in_time() -> None:
    site = Site([cluster(f"c{index:04}", {"host": str(index), "zone": str(index % 3)}) for index in range(1000)])
    terms = [{"topologyKey": key, "topologyKeyType": "Label", "whenUnsatisfiable": "DoNotSchedule"} for key in ("zone", "host")]
    begun = time.process_time()
    assert len(site.choose(spreadPolicy={"spreadConstraints": terms}).clusters) >= 999
    assert time.process_time() - begun < 10
