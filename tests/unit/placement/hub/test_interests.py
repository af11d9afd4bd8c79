"""What a placement looks at, and which changes of a cluster concern it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from muster.api.cluster.v1beta1 import PlacementSpec
from muster.placement.hub.interests import Interests, interests_of, touches
from muster.placement.snapshot import Candidate
from tests.support.placement_world import addon, built_in, cluster, placement, policy, selector


def spec(**fields: Any) -> PlacementSpec:
    return placement(**fields).spec


def paths(*texts: str) -> set[str]:
    return {".".join(path) for path in interests_of(spec(predicates=[selector(texts)])).paths}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("managedCluster.status.version.kubernetes == '1'", {"status.version.kubernetes"}),
        ("managedCluster.metadata.labels['a/b'] == managedCluster.metadata.name", {"metadata.labels.a/b", "metadata.name"}),
        ("has(managedCluster.status.capacity)", {"status.capacity"}),
        ("managedCluster.metadata.?labels[?'x'].hasValue()", {"metadata.labels.x"}),
        ("managedCluster.status.clusterClaims.exists(c, c.name == 'x')", {"status.clusterClaims"}),
        ("managedCluster.status.clusterClaims[0].value == 'x'", {"status.clusterClaims"}),
        ("managedCluster.metadata.labels[managedCluster.metadata.name] == 'x'", {"metadata.labels", "metadata.name"}),
        ("managedCluster.size() > 2", {""}),
        ("[managedCluster].exists(m, m.metadata.name == 'x')", {""}),
        ("true ? managedCluster.spec.a : {'k': managedCluster.spec.b}.k", {"spec.a", "spec.b"}),
        ("managedCluster.scores('load').size() > 0", set()),
        ("1 < 2", set()),
    ],
)
def test_fields_that_expressions_read_are_found_in_their_text(text: str, expected: set[str]) -> None:
    assert paths(text) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["managedCluster.scores('load').size() > 0"], {"load"}),
        (["managedCluster.scores('load').exists(a, managedCluster.scores('cost').exists(b, a.value > b.value))"], {"load", "cost"}),
        (["managedCluster.scores(managedCluster.metadata.name).size() > 0", "managedCluster.scores('x').size() > 0"], None),
        (["managedCluster.scores('a' + 'b').size() > 0"], None),
        (["true"], set()),
        (["managedCluster.scores("], set()),
    ],
)
def test_names_of_scores_that_expressions_read_are_found_in_their_text(texts: list[str], expected: set[str] | None) -> None:
    assert interests_of(spec(predicates=[selector(texts)])).scores == expected


def test_a_placement_looks_at_all_that_its_spec_names() -> None:
    requirement = [{"key": "c1", "operator": "Exists"}]
    both = {"labelSelector": {"matchLabels": {"l1": "x"}, "matchExpressions": [{"key": "l2", "operator": "Exists"}]}}
    group = {
        "labelSelector": {"matchLabels": {"l3": "x"}},
        "claimSelector": {"matchExpressions": [{"key": "c2", "operator": "Exists"}]},
    }
    terms = [{"topologyKey": "l4", "topologyKeyType": "Label"}, {"topologyKey": "c3", "topologyKeyType": "Claim"}]
    found = interests_of(
        spec(
            predicates=[{"requiredClusterSelector": {**both, "claimSelector": {"matchExpressions": requirement}}}],
            decisionStrategy={"groupStrategy": {"decisionGroups": [{"groupName": "gg", "groupClusterSelector": group}]}},
            spreadPolicy={"spreadConstraints": terms},
            prioritizerPolicy=policy(
                built_in("ResourceAllocatableCPU"),
                built_in("ResourceAllocatableMemory", 0),
                addon("load", "x"),
                addon("off", "x", 0),
            ),
        )
    )
    assert found == Interests(
        labels=frozenset({"l1", "l2", "l3", "l4"}),
        claims=frozenset({"c1", "c2", "c3"}),
        resources=frozenset({"cpu"}),
        scores=frozenset({"load"}),
    )


NOSELECT = {"key": "a", "effect": "NoSelect"}
PREFER = {"key": "b", "effect": "PreferNoSelect"}
BASE = cluster(
    "a", {"env": "prod", "x": "1"}, {"platform": "aws", "y": "1"}, status={"version": {"kubernetes": "1"}}, cpu="4", disk="1"
)


@pytest.mark.parametrize(
    ("asked", "changed", "expected"),
    [
        ({}, {"labels": {}}, False),
        ({"predicates": [selector(env="prod")]}, {"labels": {"env": "dev"}}, True),
        ({"predicates": [selector(env="prod")]}, {"labels": {"env": "prod", "x": "2"}}, False),
        ({}, {"taints": [NOSELECT]}, True),
        ({}, {"taints": [PREFER]}, False),
        ({"prioritizerPolicy": policy(built_in("ResourceAllocatableCPU"))}, {"cpu": "5"}, True),
        ({"prioritizerPolicy": policy(built_in("ResourceAllocatableCPU"))}, {"disk": "2"}, False),
        ({}, {"cpu": "5"}, False),
        ({"predicates": [selector(["managedCluster.status.version.kubernetes == '1'"])]}, {"version": "2"}, True),
        ({"predicates": [selector(["managedCluster.status.version.kubernetes == '1'"])]}, {"cpu": "5"}, False),
        ({"predicates": [selector(["managedCluster.size() > 1"])]}, {"cpu": "5"}, True),
    ],
)
def test_defect_7_a_placement_is_touched_by_what_it_looks_at_alone(
    asked: dict[str, Any], changed: dict[str, Any], expected: bool
) -> None:
    fields: dict[str, Any] = {
        "labels": {"env": "prod", "x": "1"},
        "claims": {"platform": "aws", "y": "1"},
        "cpu": "4",
        "disk": "1",
        "version": "1",
        **changed,
    }
    new = cluster("a", status={"version": {"kubernetes": fields.pop("version")}}, **fields)
    assert touches(interests_of(spec(**asked)), BASE, new) == expected


def test_coming_and_going_touches_every_placement_and_a_cluster_that_goes_touches_none() -> None:
    nothing, going = Interests(), dataclasses.replace(BASE, deleting=True)
    changes: list[tuple[Candidate | None, Candidate | None, bool]] = [
        (None, BASE, True),
        (BASE, None, True),
        (BASE, going, True),
        (going, None, False),
        (None, going, False),
        (going, going, False),
    ]
    for old, new, expected in changes:
        assert touches(nothing, old, new) == expected
