"""What holds of every choice, whatever the clusters and the placement."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.placement.choice import Choice
from muster.placement.hub.interests import interests_of, touches
from muster.placement.snapshot import Candidate
from tests.support.placement_world import Site, addon, built_in, cluster, placement, policy, scores, selector

_values = st.sampled_from(["", "x", "y"])
_labels = st.dictionaries(st.sampled_from(["env", "zone"]), _values)
_taint = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["t", "u"]),
        "effect": st.sampled_from(["NoSelect", "PreferNoSelect", "NoSelectIfNew"]),
        "timeAdded": st.sampled_from(["2026-11-16T11:59:00Z", "2026-11-16T10:00:00Z"]),
    }
)


@st.composite
def sites(draw: st.DrawFn) -> Site:
    names = [f"c{index}" for index in range(draw(st.integers(0, 9)))]
    clusters = [
        cluster(
            name,
            draw(_labels),
            draw(st.dictionaries(st.just("zone"), _values)),
            draw(st.lists(_taint, max_size=1)),
            deleting=draw(st.integers(0, 9)) == 0,
            cpu=draw(st.sampled_from(["1", "2", "500m"])),
        )
        for name in names
    ]
    rated = {(name, "r"): scores({"s": draw(st.integers(-100, 100))}) for name in names if draw(st.booleans())}
    present = [name for name in names if draw(st.booleans())]
    return Site(clusters, present, {name: draw(st.integers(0, 4)) for name in names}, rated)


_predicates = st.lists(
    st.sampled_from([selector(env="x"), selector(env="y"), selector(["managedCluster.scores('r').exists(s, s.value > 0)"])]),
    min_size=1,
    max_size=2,
)
_terms = st.lists(
    st.fixed_dictionaries(
        {
            "topologyKey": st.sampled_from(["env", "zone"]),
            "topologyKeyType": st.sampled_from(["Label", "Claim"]),
            "maxSkew": st.integers(1, 3),
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        }
    ),
    max_size=3,
)
_group = st.fixed_dictionaries(
    {"groupName": st.sampled_from(["g1", "g2"]), "groupClusterSelector": st.just({"labelSelector": {"matchLabels": {"env": "x"}}})}
)
_specs = st.fixed_dictionaries(
    {
        "numberOfClusters": st.one_of(st.none(), st.integers(0, 10)),
        "predicates": st.one_of(st.just([]), _predicates),
        "tolerations": st.lists(
            st.sampled_from([{"key": "t", "operator": "Exists"}, {"operator": "Exists", "tolerationSeconds": 90}])
        ),
        "prioritizerPolicy": st.builds(
            lambda some, mode: policy(*some, mode=mode),
            st.lists(
                st.sampled_from(
                    [built_in("Steady", 3), built_in("ResourceAllocatableCPU", -1), addon("r", "s", 2), built_in("Spread", 1)]
                )
            ),
            st.sampled_from(["Additive", "Exact"]),
        ),
        "spreadPolicy": st.builds(lambda some: {"spreadConstraints": some}, _terms),
        "decisionStrategy": st.builds(
            lambda groups, per: {"groupStrategy": {"decisionGroups": groups, "clustersPerDecisionGroup": per}},
            st.lists(_group, max_size=2),
            st.sampled_from([1, 2, 100, "1%", "50%", "100%"]),
        ),
        "sortBy": st.sampled_from(["ClusterName", "Score"]),
    }
)


def same(one: Choice, other: Choice) -> bool:
    reasons = [[dict(part.removed) for part in choice.filters] for choice in (one, other)]
    rest = [(c.groups, c.satisfied, c.misconfigured, c.totals, c.unscheduled, c.warnings, c.again) for c in (one, other)]
    return reasons[0] == reasons[1] and rest[0] == rest[1]


@given(sites(), _specs, st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_order_of_what_there_is_changes_nothing(site: Site, spec: dict[str, Any], rng: random.Random) -> None:
    shuffled = list(site.clusters)
    rng.shuffle(shuffled)
    other = Site(shuffled, list(site.present)[::-1], dict(reversed(list(site.others.items()))), site.scores)
    assert same(site.choose(**spec), other.choose(**spec))


@given(sites(), _specs)
@settings(max_examples=40)
def test_groups_hold_every_chosen_cluster_once(site: Site, spec: dict[str, Any]) -> None:
    choice = site.choose(**spec)
    members = [one.cluster for group in choice.groups for one in group.clusters]
    assert len(members) == len(set(members)) == len(choice.clusters)
    assert choice.clusters <= set(choice.filters[-1].left)
    assert len(members) <= (len(members) if spec["numberOfClusters"] is None else spec["numberOfClusters"])
    assert [len(group.clusters) > 0 for group in choice.groups] == [True] * len(choice.groups) or len(choice.groups) == 1


@given(sites(), _specs, _predicates)
@settings(max_examples=40)
def test_a_filter_never_adds_a_cluster(site: Site, spec: dict[str, Any], predicates: list[dict[str, Any]]) -> None:
    without, with_one = site.choose(**{**spec, "predicates": []}), site.choose(**{**spec, "predicates": predicates})
    assert set(with_one.filters[-1].left) <= set(without.filters[-1].left)
    for choice in (without, with_one):
        before = {one.name for one in site.clusters if not one.deleting}
        for one in choice.filters:
            assert set(one.left) | set(one.removed) == before
            assert not set(one.left) & set(one.removed)
            assert all(one.removed.values())
            before = set(one.left)


@given(sites(), _specs)
@settings(max_examples=60)
def test_spread_never_breaks_a_term_that_must_hold(site: Site, spec: dict[str, Any]) -> None:
    choice = site.choose(**spec)
    terms = spec["spreadPolicy"]["spreadConstraints"]
    left = [one for one in site.clusters if one.name in choice.filters[-1].left]
    for depth, term in enumerate(terms):
        if term["whenUnsatisfiable"] != "DoNotSchedule":
            continue
        counts = Counter({_path(one, terms[: depth + 1]): 0 for one in left})
        counts.update(_path(one, terms[: depth + 1]) for one in left if one.name in choice.clusters)
        for parent in {path[:-1] for path in counts}:
            siblings = [count for path, count in counts.items() if path[:-1] == parent]
            assert max(siblings) - min(siblings) <= term["maxSkew"]


def _path(one: Candidate, terms: list[dict[str, Any]]) -> tuple[str | None, ...]:
    return tuple((one.labels if term["topologyKeyType"] == "Label" else one.claims).get(term["topologyKey"]) for term in terms)


@given(sites(), _specs, _labels, st.lists(_taint, max_size=1), st.data())
@settings(max_examples=60)
def test_a_change_that_touches_nothing_changes_no_choice(
    site: Site, spec: dict[str, Any], labels: dict[str, str], taints: list[dict[str, Any]], data: st.DataObject
) -> None:
    clusters = list(site.clusters)
    if not clusters:
        return
    index = data.draw(st.integers(0, len(clusters) - 1))
    old = clusters[index]
    new = cluster(old.name, labels, old.claims, taints, old.deleting, cpu=data.draw(st.sampled_from(["1", "2"])))
    asked = placement(**{name: value for name, value in spec.items() if value is not None})
    before = site.choose(asked)
    clusters[index] = new
    after = Site(clusters, site.present, site.others, site.scores).choose(asked)
    if not touches(interests_of(asked.spec), old, new):
        assert same(before, after)
