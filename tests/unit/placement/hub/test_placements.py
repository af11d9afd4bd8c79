"""Placements on an API server in this process: what wakes them, what is written, and what is not."""

from __future__ import annotations

import pytest

from muster.api.cluster.v1beta1 import Placement
from muster.placement import scheduler
from muster.placement.choice import Choice
from muster.placement.snapshot import PlacementSnapshot
from muster.placement.stopwatch import Stopwatch
from muster.runtime.client.builtin import EVENTS
from muster.runtime.client.errors import Forbidden
from tests.support.choosing import (
    BINDINGS,
    CLUSTERS,
    DECISIONS,
    GROUP,
    MISCONFIGURED,
    NS,
    PLACEMENTS,
    SATISFIED,
    SETS,
    built_in,
    condition,
    expressed,
    labelled,
    scored,
)
from tests.unit.placement.hub.conftest import Site


async def test_a_placement_chooses_and_says_so_in_one_decision_and_one_status(site: Site) -> None:
    for name in ("c1", "c2", "c3"):
        await site.cluster(name)
    await site.place("p", numberOfClusters=2)
    found = await site.until_chosen("p", "c1", "c2")
    assert found["status"]["decisionGroups"] == [{"decisions": ["p-decision-1"], "clusterCount": 2}]
    assert condition(found, SATISFIED)["reason"] == "AllDecisionsScheduled"
    decision = await site.admin.get(DECISIONS, "p-decision-1", NS)
    assert decision["metadata"]["labels"] == {
        f"{GROUP}/placement": "p",
        f"{GROUP}/decision-group-index": "0",
        f"{GROUP}/decision-group-name": "",
    }
    (owner,) = decision["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (found["metadata"]["uid"], True, True)
    assert decision["status"]["decisions"] == [{"clusterName": "c1", "reason": ""}, {"clusterName": "c2", "reason": ""}]
    await site.settled()
    assert [method for method, _ in site.life.writes] == ["POST", "PATCH", "PATCH"]
    assert site.passes == 1, "the echo of its own writes begins no pass"


async def test_a_change_costs_two_writes_and_one_pass(site: Site) -> None:
    for name in ("c1", "c2"):
        await site.cluster(name)
    await site.place("p")
    await site.until_chosen("p", "c1", "c2")
    await site.settled()
    before, passes = len(site.life.writes), site.passes
    await site.cluster("c3")
    await site.until_chosen("p", "c1", "c2", "c3")
    await site.settled()
    assert len(site.life.writes) - before == 2
    assert site.passes - passes == 1


async def test_decisions_of_all_come_before_the_status_of_most(site: Site) -> None:
    """Who follows decisions does not wait for what is only told of them."""
    names = [f"p{number:02d}" for number in range(40)]
    for name in ("c1", "c2"):
        await site.cluster(name)
    for name in names:
        await site.place(name)
    for name in names:
        await site.until_chosen(name, "c1", "c2")
    await site.settled()
    before = len(site.life.writes)
    await site.cluster("c3")
    for name in names:
        await site.until_chosen(name, "c1", "c2", "c3")
    await site.settled()
    written = ["placementdecisions" in path for _, path in site.life.writes[before:]]
    assert len(written) == 2 * len(names)
    assert sum(written) == len(names)
    assert all(written[: len(names) // 2])


async def test_defect_7_a_change_wakes_only_those_who_look_at_it(site: Site) -> None:
    """Upstream's defect 7: every status change of a cluster wakes every placement that could see it."""
    await site.namespace("other")
    await site.cluster("c1", env="prod")
    await site.place("by-label", predicates=labelled(env="prod"))
    await site.place("all")
    await site.place("elsewhere", namespace="other")
    await site.until_chosen("by-label", "c1")
    await site.until_chosen("all", "c1")
    await site.until_says("elsewhere", SATISFIED, "False", "NoManagedClusterSetBindings", namespace="other")
    await site.settled()
    passes = site.passes
    claim = {"clusterClaims": [{"name": "id", "value": "1"}]}
    await site.admin.patch(CLUSTERS, "c1", {"status": claim}, subresource="status")
    await site.change_cluster("c1", color="blue")
    await site.settled()
    assert site.passes == passes
    await site.change_cluster("c1", env="test")
    await site.until_chosen("by-label")
    await site.settled()
    assert site.passes - passes == 1, "of three that there are, one looks at this label"


async def test_a_decision_elsewhere_wakes_no_other_placement(site: Site) -> None:
    await site.cluster("c1")
    await site.cluster("c2")
    await site.place("p", numberOfClusters=1)
    await site.until_chosen("p", "c1")
    await site.settled()
    passes = site.passes
    await site.place("q", numberOfClusters=1)
    await site.until_chosen("q", "c2")
    await site.settled()
    assert site.passes - passes == 1
    # They count anew when something else wakes them.
    await site.admin.delete(PLACEMENTS, "p", NS)
    await site.place("r", numberOfClusters=1)
    await site.until_chosen("r", "c1")


async def test_what_somebody_edits_or_deletes_by_hand_is_set_right(site: Site) -> None:
    for name in ("c1", "c2"):
        await site.cluster(name)
    await site.place("p")
    await site.until_chosen("p", "c1", "c2")
    await site.admin.delete(DECISIONS, "p-decision-1", NS)
    await site.until_chosen("p", "c1", "c2")
    edited = {"status": {"decisions": [{"clusterName": "other", "reason": "hand"}]}}
    await site.admin.patch(DECISIONS, "p-decision-1", edited, NS, subresource="status")
    await site.until_chosen("p", "c1", "c2")
    await site.admin.patch(DECISIONS, "p-decision-1", {"metadata": {"labels": {f"{GROUP}/placement": "q", "mine": "1"}}}, NS)
    await site.until_chosen("p", "c1", "c2")
    assert (await site.admin.get(DECISIONS, "p-decision-1", NS))["metadata"]["labels"]["mine"] == "1"
    await site.admin.patch(PLACEMENTS, "p", {"status": {"numberOfSelectedClusters": 77}}, NS, subresource="status")
    await site.until_chosen("p", "c1", "c2")
    await site.settled()
    passes = site.passes
    await site.settled()
    assert site.passes == passes


async def test_a_disabled_placement_is_left_alone(site: Site) -> None:
    await site.cluster("c1")
    await site.place("p", annotations={f"{GROUP}/experimental-scheduling-disable": "true"})
    await site.place("q")
    await site.until_chosen("q", "c1")
    found = await site.admin.get(PLACEMENTS, "p", NS)
    assert (found.get("status") or {}, await site.decisions("p")) == ({}, {})
    await site.admin.patch(PLACEMENTS, "p", {"metadata": {"annotations": {f"{GROUP}/experimental-scheduling-disable": None}}}, NS)
    await site.until_chosen("p", "c1")


async def test_a_toleration_that_ends_removes_the_cluster_at_that_moment(site: Site) -> None:
    await site.cluster("c1", taints=[{"key": "gpu", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}])
    await site.cluster("c2")
    await site.place("p", tolerations=[{"key": "gpu", "operator": "Exists", "tolerationSeconds": 60}])
    await site.until_chosen("p", "c1", "c2")
    await site.settled()
    rest = 60 - site.clock.monotonic()
    await site.clock.advance(rest - 1)
    await site.settled()
    assert await site.chosen("p") == ["c1", "c2"]
    await site.clock.advance(2)
    await site.settled()
    assert await site.chosen("p") == ["c2"]


async def test_a_cluster_that_joins_makes_each_of_many_placements_choose_once_and_write_twice(site: Site) -> None:
    """Decisions first, and what is said of them later needs no second choice."""
    names = [f"p{number}" for number in range(60)]
    await site.cluster("a")
    for name in names:
        await site.place(name)
    for name in names:
        await site.until_chosen(name, "a")
    await site.settled()
    passes = site.passes
    site.life.asked.clear()
    await site.cluster("b")
    for name in names:
        await site.until_chosen(name, "a", "b")
    await site.settled()
    assert site.passes - passes == len(names)
    assert len(site.life.writes) == 2 * len(names)


async def test_defects_5_and_6_the_end_of_a_score_is_a_moment_to_choose_anew(site: Site) -> None:
    """Upstream's defect 6: validUntil is no wake-up."""
    for name in ("c1", "c2"):
        await site.namespace(name)
        await site.cluster(name)
    await site.score("c2", "usage", until="2026-01-01T00:01:00Z", cpu=80)
    policy = {"mode": "Exact", "configurations": [scored("usage", "cpu")]}
    await site.place("p", numberOfClusters=1, prioritizerPolicy=policy)
    await site.until_chosen("p", "c2")
    await site.settled()
    await site.clock.advance(61 - site.clock.monotonic())
    await site.until_chosen("p", "c1")
    await site.settled()
    before = len(site.life.asked)
    await site.clock.advance(600)
    await site.settled()
    writes = [one for one in site.life.asked[before:] if one[0] != "GET"]
    assert writes == [], "upstream's defect 5: a warning is no reason to try again and again"
    await site.score("c2", "usage", until="2026-01-02T00:00:00Z", cpu=80)
    await site.until_chosen("p", "c2")


async def test_defect_6_a_score_that_only_an_expression_reads_wakes_its_placement(site: Site) -> None:
    """Upstream's defect 6: a change of a score used only in CEL wakes nobody."""
    await site.namespace("c1")
    await site.cluster("c1")
    await site.score("c1", "usage", cpu=10)
    expression = 'managedCluster.scores("usage").filter(s, s.name == "cpu").all(e, e.value > 50)'
    await site.place("p", predicates=expressed(expression))
    await site.until_says("p", SATISFIED, "False", "NoManagedClusterMatched")
    await site.score("c1", "usage", cpu=90)
    await site.until_chosen("p", "c1")


async def test_defect_2_a_misconfigured_placement_keeps_its_decisions_and_says_so(site: Site) -> None:
    """Upstream's defect 2: a typo loses all decisions."""
    for name in ("c1", "c2"):
        await site.cluster(name)
    await site.place("p")
    await site.until_chosen("p", "c1", "c2")
    await site.change("p", tolerations=[{"operator": "Equal"}])
    found = await site.until_says("p", MISCONFIGURED, "True", "Misconfigured", "If the key is empty, operator must be Exists.")
    assert found["status"]["numberOfSelectedClusters"] == 2
    assert await site.chosen("p") == ["c1", "c2"]
    await site.place("fresh", tolerations=[{"operator": "Equal"}])
    await site.until_says("fresh", MISCONFIGURED, "True", "Misconfigured")
    assert await site.decisions("fresh") == {"fresh-decision-1": []}
    await site.change("p", tolerations=[])
    await site.until_says("p", MISCONFIGURED, "False", "Succeedconfigured")


async def test_defect_1_a_negative_number_of_clusters_is_misconfigured_and_harms_nobody_else(site: Site) -> None:
    """Upstream's defect 1: a panic, again and again."""
    await site.cluster("c1")
    await site.place("bad", numberOfClusters=-1)
    await site.place("good")
    await site.until_chosen("good", "c1")
    await site.until_says("bad", MISCONFIGURED, "True", "Misconfigured", "-1")


async def test_defect_9_a_name_too_long_for_a_label_is_misconfigured(site: Site) -> None:
    """Upstream's defect 9: creating decisions fails for ever."""
    name = "p" * 64
    await site.cluster("c1")
    await site.place(name)
    await site.until_says(name, MISCONFIGURED, "True", "Misconfigured", "shorter name")
    await site.settled()
    assert not [one for one in site.life.writes if "placementdecisions" in one[1]]


async def test_defect_3_an_error_of_writing_is_said_and_tried_again_and_the_status_follows_what_is_written(site: Site) -> None:
    """Upstream's defect 3: errors are dropped, and the status says what is not there."""
    await site.cluster("c1")
    await site.place("p")
    await site.until_chosen("p", "c1")
    refused = Forbidden(403, "Forbidden", "no more decisions for you")
    site.life.refuse = lambda method, path: refused if method == "PATCH" and "placementdecisions" in path else None
    await site.cluster("c2")
    found = await site.until_says("p", SATISFIED, "False", "NotAllDecisionsScheduled", "no more decisions for you")
    assert found["status"]["numberOfSelectedClusters"] == 1
    assert await site.chosen("p") == ["c1"]
    site.life.refuse = lambda method, path: None
    await site.until_chosen("p", "c1", "c2")
    await site.until_says("p", SATISFIED, "True", "AllDecisionsScheduled")


async def test_defect_10_decisions_of_others_are_left_alone_and_named(site: Site) -> None:
    """Upstream's defect 10: decisions are taken for one's own by their label alone."""
    await site.cluster("c1")
    kind = {"apiVersion": DECISIONS.api_version, "kind": DECISIONS.kind}
    for name in ("p-decision-1", "mine"):
        await site.admin.create(
            DECISIONS, {**kind, "metadata": {"name": name, "namespace": NS, "labels": {f"{GROUP}/placement": "p"}}}
        )
        status = {"status": {"decisions": [{"clusterName": "by-hand", "reason": ""}]}}
        await site.admin.patch(DECISIONS, name, status, NS, subresource="status")
    await site.place("p")
    await site.until_says("p", SATISFIED, "True", "AllDecisionsScheduled")
    await site.settled()
    assert await site.decisions("p") == {"mine": ["by-hand"], "p-decision-1": ["by-hand"], "p-decision-2": ["c1"]}

    async def told() -> bool:
        events = (await site.admin.list(EVENTS, NS)).items
        return any(one["reason"] == "ForeignDecision" and "mine, p-decision-1" in one["note"] for one in events)

    await site.until(told, "an event that names them")


async def test_what_a_placement_of_the_same_name_left_is_replaced(site: Site) -> None:
    await site.cluster("c1")
    owner = {"apiVersion": PLACEMENTS.api_version, "kind": "Placement", "name": "p", "uid": "of-another", "controller": True}
    metadata = {"name": "p-decision-1", "namespace": NS, "ownerReferences": [owner], "labels": {f"{GROUP}/placement": "p"}}
    await site.admin.create(DECISIONS, {"apiVersion": DECISIONS.api_version, "kind": DECISIONS.kind, "metadata": metadata})
    found = await site.place("p")

    async def replaced() -> bool:
        decision = await site.find(DECISIONS, "p-decision-1", NS)
        owners = (decision or {"metadata": {}})["metadata"].get("ownerReferences") or []
        return [one["uid"] for one in owners] == [found["metadata"]["uid"]]

    await site.until(replaced, "decisions of its own")
    await site.until_chosen("p", "c1")


async def test_groups_follow_labels_and_share_names(site: Site) -> None:
    for name in ("a", "b", "c", "d", "e"):
        await site.cluster(name, **({"canary": "1"} if name in "be" else {}))
    selector = {"labelSelector": {"matchLabels": {"canary": "1"}}}
    strategy = {
        "groupStrategy": {
            "decisionGroups": [{"groupName": "canary", "groupClusterSelector": selector}],
            "clustersPerDecisionGroup": 2,
        }
    }
    await site.place("p", decisionStrategy=strategy)
    found = await site.until_chosen("p", "a", "b", "c", "d", "e")
    groups = [
        (one.get("decisionGroupName", ""), one["clusterCount"], one["decisions"]) for one in found["status"]["decisionGroups"]
    ]
    assert groups == [("canary", 2, ["p-decision-1"]), ("", 2, ["p-decision-2"]), ("", 1, ["p-decision-3"])]
    assert await site.decisions("p") == {"p-decision-1": ["b", "e"], "p-decision-2": ["a", "c"], "p-decision-3": ["d"]}
    await site.change_cluster("e", canary=None)

    async def moved() -> bool:
        return await site.decisions("p") == {"p-decision-1": ["b"], "p-decision-2": ["a", "c"], "p-decision-3": ["d", "e"]}

    await site.until(moved, "e in another group")


async def test_scores_are_written_where_they_sort_and_no_oftener_than_their_limit(site: Site) -> None:
    for name in ("c1", "c2"):
        await site.namespace(name)
        await site.cluster(name)
        await site.score(name, "usage", cpu=10)
    policy = {"mode": "Exact", "configurations": [scored("usage", "cpu")]}
    await site.place("p", sortBy="Score", scoreRateLimit="30s", prioritizerPolicy=policy)
    await site.until_chosen("p", "c1", "c2")

    async def written() -> list[tuple[str, int]]:
        decision = await site.admin.get(DECISIONS, "p-decision-1", NS)
        return [(one["clusterName"], one.get("score", 0)) for one in decision["status"]["decisions"]]

    assert await written() == [("c1", 10), ("c2", 10)]
    await site.settled()
    await site.score("c2", "usage", cpu=90)
    await site.settled()
    assert await written() == [("c1", 10), ("c2", 10)], "within the limit"
    await site.clock.advance(31)
    await site.settled()
    assert await written() == [("c2", 90), ("c1", 10)]
    await site.score("c1", "usage", cpu=50)
    await site.settled()
    await site.cluster("c3")
    await site.until_chosen("p", "c1", "c2", "c3")
    assert await written() == [("c2", 90), ("c1", 50), ("c3", 0)], "any other change is written at once, with the newest scores"


async def test_sets_and_bindings_come_and_go(site: Site) -> None:
    await site.cluster("c1", region="east")
    await site.cluster("c2", of="none")
    await site.place("p", clusterSets=["east"])
    await site.until_says("p", SATISFIED, "False", "NoIntersection", "[east]")
    await site.cluster_set("east", {"matchLabels": {"region": "east"}})
    await site.bind("east")
    await site.until_chosen("p", "c1")
    await site.change_cluster("c2", region="east")
    await site.until_chosen("p", "c1", "c2")
    await site.admin.patch(SETS, "east", {"spec": {"clusterSelector": {"labelSelector": {"matchLabels": {"region": "west"}}}}})
    await site.until_says("p", SATISFIED, "False", "AllManagedClusterSetsEmpty")
    await site.admin.delete(SETS, "east")
    await site.until_says("p", SATISFIED, "False", "NoIntersection")
    await site.cluster_set("east", {})
    await site.until_chosen("p", "c1", "c2")
    await site.admin.delete(BINDINGS, "east", NS)
    await site.until_chosen("p")


async def test_a_cluster_that_is_being_deleted_leaves_at_once(site: Site) -> None:
    await site.cluster("c1")
    await site.cluster("c2")
    await site.admin.patch(CLUSTERS, "c1", {"metadata": {"finalizers": ["example.com/wait"]}})
    await site.place("p")
    await site.until_chosen("p", "c1", "c2")
    await site.admin.delete(CLUSTERS, "c1")
    await site.until_chosen("p", "c2")
    await site.admin.patch(CLUSTERS, "c1", {"metadata": {"finalizers": None}})


async def test_events_tell_of_decisions_and_scores(site: Site) -> None:
    await site.cluster("c1")
    await site.place("p")
    await site.until_chosen("p", "c1")

    async def told() -> list[tuple[str, str, str, str]]:
        events = [one for one in (await site.admin.list(EVENTS, NS)).items if one["regarding"]["name"] == "p"]
        found = [(one["reason"], one["action"], one["note"], (one.get("related") or {}).get("name", "")) for one in events]
        return sorted(found) if len(found) >= 2 else []

    assert await site.until(told, "two events") == [
        (
            "DecisionCreate",
            "DecisionCreated",
            "Decision p-decision-1 is created with placement p in namespace apps",
            "p-decision-1",
        ),
        ("ScoreUpdate", "ScoreUpdated", "c1:100", ""),
    ]


async def test_a_poisoned_object_of_every_kind_harms_itself_alone(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    original = scheduler.schedule

    def poisoned(placement: Placement, world: PlacementSnapshot, stopwatch: Stopwatch) -> Choice:
        if placement.metadata.name == "poisoned":
            raise RuntimeError("a defect")
        return original(placement, world, stopwatch)

    monkeypatch.setattr("muster.placement.hub.controller.schedule", poisoned)
    for name in ("c1", "c2"):
        await site.namespace(name)
    hostile = {"clusterClaims": [{"name": "a" * 253, "value": "\u2028"}], "allocatable": {"cpu": "-9e99"}, "capacity": {"cpu": "1"}}
    await site.cluster("c1", status=hostile)
    await site.cluster("c2")
    await site.cluster_set("odd", {"matchExpressions": [{"key": "a", "operator": "Nonsense"}]})
    await site.bind("odd")
    await site.score("c1", "usage", until="9999-12-31T23:59:59Z", cpu=100)
    await site.place("poisoned")
    policy = {"mode": "Exact", "configurations": [scored("usage", "cpu"), built_in("ResourceAllocatableCPU")]}
    await site.place("well", prioritizerPolicy=policy, numberOfClusters=1)
    await site.until_chosen_any("well")
    await site.place("all")
    await site.until_chosen("all", "c1", "c2")
    assert await site.decisions("poisoned") == {}


async def test_placements_that_choose_at_the_same_time_take_each_other_into_account(bare: Site) -> None:
    names = [f"c{number}" for number in range(6)]
    for name in names:
        await bare.cluster(name)
    for name in names:
        await bare.place(f"p-{name}", numberOfClusters=1)
    async with bare.controller():
        chosen = [await bare.until_chosen_any(f"p-{name}") for name in names]
    assert sorted(cluster for one in chosen for cluster in one) == names, "Balance spreads them over all clusters"
