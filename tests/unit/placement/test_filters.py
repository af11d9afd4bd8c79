"""Who may be chosen: predicates, taints and tolerations, and what is said of those who may not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from muster.placement.choice import Choice
from muster.placement.expressions import compiled
from tests.support.placement_world import NOW, Site, addon, built_in, cluster, named, placement, policy, scores, selector


def expression(text: str) -> dict[str, Any]:
    return {"predicates": [selector([text])]}


def removed(choice: Choice, by: str) -> dict[str, str]:
    return next(dict(one.removed) for one in choice.filters if one.name == by)


SITE = Site(
    [
        cluster("a", {"env": "prod"}, {"platform": "aws"}, status={"version": {"kubernetes": "v1.31.2"}}),
        cluster("b", {"env": "dev"}, {"platform": "gcp"}, status={"version": {"kubernetes": "v1.29.0"}}),
        cluster("c", claims={"props": '{"gpus": 4, "zones": ["x"]}'}),
    ],
    scores={("a", "load"): scores({"cpu": 30}), ("b", "load"): scores({"cpu": 70})},
)


@pytest.mark.parametrize(
    ("predicates", "expected"),
    [
        ([], "abc"),
        ([selector(env="prod")], "a"),
        ([selector(env="prod"), selector(env="dev")], "ab"),
        ([{}], "abc"),
        ([{"requiredClusterSelector": {"claimSelector": {"matchExpressions": [{"key": "platform", "operator": "Exists"}]}}}], "ab"),
        ([selector(["has(managedCluster.metadata.labels) && 'env' in managedCluster.metadata.labels"])], "ab"),
        ([selector(["semver(managedCluster.status.version.kubernetes, true).isGreaterThan(semver('1.30.0'))"])], "a"),
        ([selector(["managedCluster.scores('load').exists(s, s.name == 'cpu' && s.value < 50)"])], "a"),
        ([selector(["managedCluster.status.clusterClaims.exists(c, c.name=='props' && c.value.parseJSON().gpus >= 4)"])], "c"),
        ([selector(["true", "managedCluster.metadata.name == 'b'"])], "b"),
        ([selector(["'abc'"])], ""),
        ([selector(["managedCluster.nothing.at.all"])], ""),
        ([selector(["[1, 'mixed'].size() == 2"], env="prod")], "a"),
    ],
)
def test_a_cluster_must_meet_all_of_one_predicate(predicates: list[dict[str, Any]], expected: str) -> None:
    assert SITE.choose(predicates=predicates).clusters == set(expected)


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (
            {"requiredClusterSelector": {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}},
            'Predicate:"Like" is not a valid label selector operator',
        ),
        (selector(["managedCluster.metadata.name =="]), "Predicate:compilation failed: ERROR: <input>:1:32: Syntax error: "),
        (selector(["nobody.metadata"]), "Predicate:compilation failed: ERROR: <input>:1:1: undeclared reference to 'nobody'"),
        (selector(["sets.contains([1], [1])"]), "Predicate:compilation failed: "),
        (selector(["'a'.matches('(')"]), "Predicate:instantiation failed: "),
    ],
)
def test_a_predicate_that_cannot_be_read_is_misconfigured(predicate: dict[str, Any], message: str) -> None:
    choice = SITE.choose(predicates=[predicate])
    assert choice.misconfigured.status == "True"
    assert choice.misconfigured.message.startswith(message)


def test_defect_2_a_misconfigured_placement_keeps_its_decisions() -> None:
    choice = SITE.choose(**expression("managedCluster.metadata.name = 'a'"))
    assert choice.keeps_decisions
    assert [len(group.clusters) for group in choice.groups] == [0]


def test_defect_2_without_any_cluster_in_sight_there_is_nothing_to_keep() -> None:
    broken = placement(**expression("managedCluster.metadata.name = 'a'"))
    assert not Site(named("a"), present="a", bound=()).choose(broken).keeps_decisions


def test_defect_8_reasons_say_what_was_wanted_and_found() -> None:
    choice = SITE.choose(
        predicates=[selector(env="prod"), selector(["managedCluster.scores('load').size() > 5"])],
    )
    assert removed(choice, "Predicate") == {
        "b": "predicates[0]: label env is 'dev', wanted is env=prod; "
        "predicates[1]: expression \"managedCluster.scores('load').size() > 5\" is false",
        "c": "predicates[0]: label env is not set, wanted is env=prod; "
        "predicates[1]: expression \"managedCluster.scores('load').size() > 5\" fails: "
        "failed to get score: AddOnPlacementScore load of the cluster is missing",
    }


# Taints ----------------------------------------------------------------------------------------------------------------------


def taint(effect: str = "NoSelect", key: str = "t", value: str = "", added: str = "2026-11-16T11:59:00Z") -> dict[str, Any]:
    return {"key": key, "value": value, "effect": effect, "timeAdded": added}


@pytest.mark.parametrize(
    ("taints", "tolerations", "present", "passes"),
    [
        ([taint("PreferNoSelect")], [], False, True),
        ([taint("NoSelect")], [], False, False),
        ([taint("NoSelect")], [], True, False),
        ([taint("NoSelectIfNew")], [], False, False),
        ([taint("NoSelectIfNew")], [], True, True),
        ([taint()], [{"operator": "Exists"}], False, True),
        ([taint()], [{"key": "t", "operator": "Exists"}], False, True),
        ([taint()], [{"key": "other", "operator": "Exists"}], False, False),
        ([taint(value="v")], [{"key": "t", "value": "v"}], False, True),
        ([taint(value="v")], [{"key": "t", "operator": "", "value": "v"}], False, True),
        ([taint(value="v")], [{"key": "t"}], False, False),
        ([taint(value="v")], [{"key": "t", "operator": "Like", "value": "v"}], False, False),
        ([taint()], [{"key": "t", "operator": "Exists", "effect": "NoSelect"}], False, True),
        ([taint()], [{"key": "t", "operator": "Exists", "effect": "NoSelectIfNew"}], False, False),
        ([taint(), taint(key="u")], [{"key": "t", "operator": "Exists"}], False, False),
        ([taint()], [{"operator": "Exists", "tolerationSeconds": 61}], False, True),
        ([taint()], [{"operator": "Exists", "tolerationSeconds": 60}], False, False),
        ([taint()], [{"operator": "Exists", "tolerationSeconds": -1}], False, False),
        ([taint()], [{"operator": "Exists", "tolerationSeconds": 1}, {"key": "t", "operator": "Exists"}], False, True),
        ([taint(added="")], [{"operator": "Exists", "tolerationSeconds": 600}], False, False),
        ([taint()], [{"operator": "Exists", "tolerationSeconds": 2**62}], False, True),
        ([taint()], [{"operator": "Exists", "tolerationSeconds": -(2**62)}], False, False),
    ],
)
def test_taints_keep_those_away_who_do_not_tolerate_them(
    taints: list[dict[str, Any]], tolerations: list[dict[str, Any]], present: bool, passes: bool
) -> None:
    choice = Site([cluster("a", taints=taints)], present="a" if present else "").choose(tolerations=tolerations)
    assert (choice.clusters == {"a"}) == passes
    assert bool(removed(choice, "TaintToleration")) != passes


@pytest.mark.parametrize(
    ("toleration", "message"),
    [
        ({"operator": "Equal"}, "TaintToleration:If the key is empty, operator must be Exists."),
        ({"key": "a", "operator": "Exists", "value": "b"}, "TaintToleration:If the operator is Exists, the value should be empty."),
    ],
)
def test_a_toleration_that_makes_no_sense_is_misconfigured(toleration: dict[str, Any], message: str) -> None:
    assert SITE.choose(tolerations=[toleration]).misconfigured.message == message


def test_the_nearest_end_of_a_toleration_is_a_wake_up() -> None:
    clusters = [cluster("a", taints=[taint()]), cluster("b", taints=[taint(added="2026-11-16T11:59:30Z")])]
    site, asked = Site(clusters), placement(tolerations=[{"operator": "Exists", "tolerationSeconds": 90}])
    first = site.choose(asked)
    assert first.clusters == {"a", "b"}
    assert first.again == NOW + timedelta(seconds=30)
    site.now = NOW + timedelta(seconds=30)
    second = site.choose(asked)
    assert second.clusters == {"b"}
    assert second.again == NOW + timedelta(seconds=60)
    assert removed(second, "TaintToleration") == {"a": "taint t:NoSelect was tolerated for 90 s from 2026-11-16T11:59:00Z"}


def test_reasons_name_the_taint() -> None:
    choice = Site([cluster("a", taints=[taint(value="x")])]).choose()
    assert removed(choice, "TaintToleration") == {"a": "taint t=x:NoSelect is not tolerated"}


# Scores in expressions -------------------------------------------------------------------------------------------------------


def test_defect_6_an_expired_score_is_not_there_for_expressions_and_its_end_is_a_wake_up() -> None:
    site = Site(named("a"), scores={("a", "r"): scores({"s": 5}, until="2026-11-16T12:00:30Z")})
    asked = placement(**expression("managedCluster.scores('r').all(s, s.value > 1)"))
    first = site.choose(asked)
    assert first.clusters == {"a"}
    assert first.again is not None
    assert first.again > NOW + timedelta(seconds=30)
    site.now = first.again
    later = site.choose(asked)
    assert (later.clusters, later.again) == (frozenset(), None)


def test_expressions_see_the_scores_of_their_cluster_alone() -> None:
    site = Site(named("a"), scores={("b", "r"): scores({"s": 5})})
    assert not site.choose(**expression("{'metadata': {'name': 'b'}}.scores('r').size() > 0")).clusters


def test_numbers_of_parsed_json_are_doubles() -> None:
    assert SITE.choose(**expression("type('[1]'.parseJSON()[0]) == double && '[1]'.parseJSON() == [1.0]")).clusters


@pytest.mark.parametrize("text", ["NaN", "1e999", "[", '{"a":1}x', "[" * 100_000])
def test_text_that_is_no_json_selects_nobody(text: str) -> None:
    site = Site([cluster("a", claims={"j": text})])
    asked = "managedCluster.status.clusterClaims[0].value.parseJSON() != 'x'"
    choice = site.choose(**expression(asked))
    assert not choice.clusters
    assert "failed to parse json" in removed(choice, "Predicate")["a"]


def test_reading_scores_and_json_has_its_price() -> None:
    listed = {f"s{index}": 1 for index in range(10_000)}
    site = Site(named("a"), scores={("a", "r"): scores(listed)})
    # One reading costs 310,010; the limit of a call is a million.
    thrice = " && ".join(["managedCluster.scores('r').size() == 10000"] * 3)
    assert site.choose(**expression(thrice)).clusters == {"a"}
    more = site.choose(**expression(f"{thrice} && managedCluster.scores('r').size() > 0"))
    assert "cost limit exceeded" in removed(more, "Predicate")["a"]


def test_parsing_json_costs_its_text_its_lists_and_its_maps() -> None:
    assert compiled("""'{"a": [1, 2]}'.parseJSON()""").evaluate_with_cost({})[1] == 2 + 30 + 10


def test_all_expressions_of_a_selector_share_a_budget() -> None:
    listed = {f"s{index}": 1 for index in range(10_000)}
    site = Site(named("a"), scores={("a", "r"): scores(listed)})
    thrice = " && ".join(["managedCluster.scores('r').size() == 10000"] * 3)
    assert site.choose(predicates=[selector([thrice] * 10)]).clusters == {"a"}
    assert not site.choose(predicates=[selector([thrice] * 11)]).clusters


# Conditions ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("site", "spec", "reason", "message"),
    [
        (
            Site(named("a"), bound=()),
            {},
            "NoManagedClusterSetBindings",
            "No valid ManagedClusterSetBindings found in placement namespace",
        ),
        (
            Site(named("a"), bound=["gone"]),
            {},
            "NoManagedClusterSetBindings",
            "No valid ManagedClusterSetBindings found in placement namespace",
        ),
        (
            Site(named("a")),
            {"clusterSets": ["z", "b"]},
            "NoIntersection",
            "None of ManagedClusterSets [z,b] is bound to placement namespace",
        ),
        (
            Site([], members={"b": [], "a": ["unknown"]}),
            {},
            "AllManagedClusterSetsEmpty",
            "All ManagedClusterSets [a,b] have no member ManagedCluster",
        ),
        (
            Site([cluster("a", deleting=True)]),
            {},
            "AllManagedClusterSetsEmpty",
            "All ManagedClusterSets [all] have no member ManagedCluster",
        ),
        (
            Site(named("a")),
            {"predicates": [selector(env="prod")]},
            "NoManagedClusterMatched",
            "No ManagedCluster matches any of the cluster predicate",
        ),
        (
            Site(named("a")),
            {"numberOfClusters": 0},
            "NoManagedClusterMatched",
            "No ManagedCluster matches any of the cluster predicate",
        ),
        (Site(named("a")), {"numberOfClusters": 3}, "NotAllDecisionsScheduled", "2 cluster decisions unscheduled"),
        (Site(named("a")), {"numberOfClusters": 1}, "AllDecisionsScheduled", "All cluster decisions scheduled"),
    ],
)
def test_the_condition_names_the_first_that_stands_in_the_way(site: Site, spec: dict[str, Any], reason: str, message: str) -> None:
    choice = site.choose(**spec)
    assert (choice.satisfied.reason, choice.satisfied.message) == (reason, message)
    assert (choice.satisfied.status == "True") == (reason == "AllDecisionsScheduled")
    assert choice.misconfigured.message == "Placement configurations check pass"


def test_defect_1_a_negative_number_is_misconfigured() -> None:
    choice = Site(named("a", "b"), present="a").choose(numberOfClusters=-1)
    assert choice.misconfigured.status == "True"
    assert "numberOfClusters must not be negative" in choice.misconfigured.message
    assert choice.keeps_decisions


def test_clusters_come_from_the_sets_that_are_bound_and_wanted() -> None:
    members = {"x": ["a", "b"], "y": ["b", "c"], "z": ["d"]}
    site = Site(named("a", "b", "c", "d"), members=members, bound=["x", "y"])
    assert site.choose().clusters == {"a", "b", "c"}
    assert site.choose(clusterSets=["y", "z"]).clusters == {"b", "c"}


def test_misconfiguration_is_said_though_there_is_no_cluster() -> None:
    asked = placement(predicates=[selector(["1 +"])], prioritizerPolicy=policy(built_in("Steady"), addon("r", "s")))
    assert Site([]).choose(asked).misconfigured.status == "True"
