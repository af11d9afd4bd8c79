"""The scenarios P1 to P12 of placement, each in a corner of one hub, by `muster placement` as a process."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object
from muster.runtime.client.errors import KubeError
from tests.e2e.placement.conftest import Corner
from tests.support.choosing import (
    BINDINGS,
    CLUSTERS,
    DECISIONS,
    GROUP,
    MISCONFIGURED,
    PLACEMENTS,
    SATISFIED,
    SETS,
    built_in,
    condition,
    expressed,
    labelled,
    scored,
)


def exact(*configurations: Object) -> Object:
    return {"mode": "Exact", "configurations": list(configurations)}


def allocatable(cpu: int, memory: str = "16Gi") -> Object:
    amount = {"cpu": str(cpu), "memory": memory}
    return {"allocatable": amount, "capacity": amount}


async def test_p1_each_reason_for_no_choice_is_said_over_one_empty_decision(corner: Corner) -> None:
    a, b = corner.named("a", "b")
    empty = f"{corner.own_set}-empty"
    await corner.cluster_set(empty)
    await corner.bind(empty)
    other = f"{corner.ns}-unbound"
    await corner.namespace(other)
    await corner.place("none", namespace=other)
    await corner.until_says("none", SATISFIED, "False", "NoManagedClusterSetBindings", namespace=other)
    await corner.place("apart", clusterSets=["nowhere", "elsewhere"])
    found = await corner.until_says("apart", SATISFIED, "False", "NoIntersection")
    text = "None of ManagedClusterSets [nowhere,elsewhere] is bound to placement namespace"
    assert condition(found, SATISFIED)["message"] == text
    await corner.place("empty", clusterSets=[empty])
    await corner.until_says("empty", SATISFIED, "False", "AllManagedClusterSetsEmpty", f"[{empty}]")
    await corner.cluster(a)
    await corner.cluster(b)
    await corner.place("nobody", predicates=labelled(no="such"))
    await corner.until_says("nobody", SATISFIED, "False", "NoManagedClusterMatched")
    await corner.place("more", numberOfClusters=5)
    await corner.until_says("more", SATISFIED, "False", "NotAllDecisionsScheduled", "3 cluster decisions unscheduled")
    await corner.until_chosen("more", a, b)
    for name in ("apart", "empty", "nobody"):
        assert await corner.decisions(name) == {f"{name}-decision-1": []}
    await corner.admin.delete(PLACEMENTS, "none", other)


async def test_p2_predicates_by_labels_claims_and_expressions_follow_every_change(corner: Corner) -> None:
    a, b = corner.named("a", "b")
    for name in (a, b):
        await corner.namespace(name)
        await corner.cluster(name, status={"version": {"kubernetes": "v1.30.1"}})
    claimed = [{"requiredClusterSelector": {"claimSelector": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}}]
    newer = expressed('semver(managedCluster.status.version.kubernetes, true).isGreaterThan(semver("1.30.5"))')
    busy = expressed('managedCluster.scores("usage").exists(s, s.name == "cpu" && s.value > 50)')
    for name, predicates in (("labels", labelled(env="prod")), ("claims", claimed), ("version", newer), ("scores", busy)):
        await corner.place(name, predicates=predicates)
        await corner.until_says(name, SATISFIED, "False", "NoManagedClusterMatched")
    await corner.place("either", predicates=[*labelled(env="prod"), *claimed])
    await corner.change_cluster(a, env="prod")
    await corner.until_chosen("labels", a)
    status = {"clusterClaims": [{"name": "gpu", "value": "8"}], "version": {"kubernetes": "v1.31.0"}}
    await corner.admin.patch(CLUSTERS, b, {"status": status}, subresource="status")
    await corner.until_chosen("claims", b)
    await corner.until_chosen("version", b)
    await corner.until_chosen("either", a, b)
    await corner.score(a, "usage", cpu=90)
    await corner.until_chosen("scores", a)
    await corner.change_cluster(a, env=None)
    await corner.until_chosen("labels")


async def test_p3_taints_filter_by_their_effect_and_tolerations_end_in_time(corner: Corner) -> None:
    a, b, c = corner.named("a", "b", "c")
    await corner.cluster(a)
    await corner.cluster(b)
    await corner.place("p")
    await corner.until_chosen("p", a, b)
    await corner.change_cluster(a, taints=[{"key": "new", "effect": "NoSelectIfNew"}])
    await corner.change_cluster(b, taints=[{"key": "rather", "effect": "PreferNoSelect"}])
    await corner.cluster(c, taints=[{"key": "new", "effect": "NoSelectIfNew"}])
    await corner.place("q")
    await corner.until_chosen("q", b)
    assert await corner.chosen("p") == [a, b], "it has a already, and may not take c"
    await corner.place("patient", tolerations=[{"key": "down", "operator": "Exists", "tolerationSeconds": 2}])
    await corner.until_chosen("patient", b)
    now = datetime.now(UTC).replace(microsecond=0)
    await corner.change_cluster(b, taints=[{"key": "down", "effect": "NoSelect", "timeAdded": format_time(now)}])
    await corner.until_chosen("q")
    await corner.until_chosen("patient")
    assert datetime.now(UTC) >= now + timedelta(seconds=2), "tolerated until then"


async def test_p4_scores_rank_and_rank_again(corner: Corner) -> None:
    a, b, c = corner.named("a", "b", "c")
    for name, cpu in ((a, 4), (b, 16), (c, 8)):
        await corner.namespace(name)
        await corner.cluster(name, status=allocatable(cpu))
    await corner.place("cpu", numberOfClusters=1, prioritizerPolicy=exact(built_in("ResourceAllocatableCPU")))
    await corner.until_chosen("cpu", b)
    await corner.place("least", numberOfClusters=1, prioritizerPolicy=exact(built_in("ResourceAllocatableCPU", -1)))
    await corner.until_chosen("least", a)
    await corner.place("balanced", numberOfClusters=1)
    await corner.until_chosen("balanced", c)
    await corner.score(a, "usage", cpu=80)
    await corner.place("scored", numberOfClusters=1, prioritizerPolicy=exact(scored("usage", "cpu")))
    await corner.until_chosen("scored", a)
    await corner.score(c, "usage", cpu=90)
    await corner.until_chosen("scored", c)
    await corner.score(c, "usage", until=format_time(datetime.now(UTC) + timedelta(seconds=2)), cpu=90)
    await corner.until_chosen("scored", a)
    await corner.admin.patch(CLUSTERS, a, {"status": allocatable(32)}, subresource="status")
    await corner.until_chosen("cpu", a)
    steady = {"mode": "Additive", "configurations": [built_in("Steady", 3)]}
    await corner.place("steady", numberOfClusters=1, prioritizerPolicy=steady)
    found = await corner.until_chosen_any("steady")
    await corner.place("crowd", numberOfClusters=3)
    await corner.until_chosen("crowd", a, b, c)
    await corner.change("steady", tolerations=[{"key": "x", "operator": "Exists"}])
    await corner.until_says("steady", SATISFIED, "True", "AllDecisionsScheduled")
    assert await corner.chosen("steady") == found


async def test_p5_groups_are_cut_labelled_and_followed(corner: Corner) -> None:
    names = corner.named(*(f"{number:03}" for number in range(250)))
    at_once = asyncio.Semaphore(16)

    async def make(name: str, **labels: str) -> None:
        async with at_once:
            await corner.cluster(name, **labels)

    await asyncio.gather(*(make(name, **({"canary": "1"} if name in names[:2] else {})) for name in names))
    await corner.place("all")
    found = await corner.until_chosen("all", *names)
    assert [len(clusters) for _, clusters in sorted((await corner.decisions("all")).items())] == [100, 100, 50]
    assert [one["clusterCount"] for one in found["status"]["decisionGroups"]] == [250]
    canary = {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "1"}}}}
    await corner.place(
        "grouped", decisionStrategy={"groupStrategy": {"decisionGroups": [canary], "clustersPerDecisionGroup": "50%"}}
    )
    found = await corner.until_chosen("grouped", *names)
    groups = [(one.get("decisionGroupName", ""), one["clusterCount"]) for one in found["status"]["decisionGroups"]]
    assert groups == [("canary", 2), ("", 125), ("", 123)]
    await corner.change_cluster(names[0], canary=None)

    async def moved() -> bool:
        status = await corner.find_status("grouped")
        return [one["clusterCount"] for one in status["decisionGroups"]] == [1, 125, 124]

    await corner.until(moved, "a cluster in another group")
    first = await corner.admin.list(DECISIONS, corner.ns, label_selector=f"{GROUP}/decision-group-name=canary")
    assert [len(one["status"]["decisions"]) for one in first.items] == [1]


async def test_p6_sets_and_bindings_come_and_go(corner: Corner) -> None:
    a, b = corner.named("a", "b")
    east, everyone = f"{corner.own_set}-east", f"{corner.own_set}-global"
    await corner.cluster(a, region=east)
    await corner.cluster(b)
    await corner.place("p", clusterSets=[east])
    await corner.until_says("p", SATISFIED, "False", "NoIntersection")
    await corner.cluster_set(east, {"matchLabels": {"region": east}})
    await corner.bind(east)
    await corner.until_chosen("p", a)
    await corner.admin.delete(SETS, east)
    await corner.until_says("p", SATISFIED, "False", "NoIntersection")
    await corner.cluster_set(
        everyone, {"matchExpressions": [{"key": f"{GROUP}/clusterset", "operator": "In", "values": [corner.own_set]}]}
    )
    await corner.bind(everyone)
    await corner.place("global", clusterSets=[everyone])
    await corner.until_chosen("global", a, b)
    await corner.admin.delete(BINDINGS, everyone, corner.ns)
    await corner.until_chosen("global")


async def test_p7_a_terminating_cluster_leaves(corner: Corner) -> None:
    a, b = corner.named("a", "b")
    for name in (a, b):
        await corner.cluster(name)
    await corner.admin.patch(CLUSTERS, a, {"metadata": {"finalizers": ["example.com/wait"]}})
    await corner.place("p")
    await corner.until_chosen("p", a, b)
    await corner.admin.delete(CLUSTERS, a)
    await corner.until_chosen("p", b)
    await corner.admin.patch(CLUSTERS, a, {"metadata": {"finalizers": None}})


async def test_p8_decisions_deleted_or_edited_by_hand_are_set_right(corner: Corner) -> None:
    (a,) = corner.named("a")
    await corner.cluster(a)
    await corner.place("p")
    await corner.until_chosen("p", a)
    await corner.admin.delete(DECISIONS, "p-decision-1", corner.ns)
    await corner.until_chosen("p", a)
    edited = {"status": {"decisions": [{"clusterName": "by-hand", "reason": ""}]}}
    await corner.admin.patch(DECISIONS, "p-decision-1", edited, corner.ns, subresource="status")
    await corner.until_chosen("p", a)


async def test_p9_misconfigured_placements_keep_what_they_have_and_harm_nobody(corner: Corner) -> None:
    (a,) = corner.named("a")
    await corner.cluster(a)
    await corner.place("p")
    await corner.until_chosen("p", a)
    await corner.change("p", predicates=expressed("managedCluster.metadata.name =="))
    found = await corner.until_says("p", MISCONFIGURED, "True", "Misconfigured", "Predicate:")
    assert found["status"]["numberOfSelectedClusters"] == 1
    assert await corner.chosen("p") == [a]
    await corner.place("below", numberOfClusters=-1)
    await corner.until_says("below", MISCONFIGURED, "True", "Misconfigured")
    await corner.place("n" * 64)
    await corner.until_says("n" * 64, MISCONFIGURED, "True", "Misconfigured")
    await corner.place("fine")
    await corner.until_chosen("fine", a)


async def test_p10_whoever_watches_decisions_never_misses_a_cluster_that_stays(corner: Corner) -> None:
    names = corner.named(*(f"b{number:03}" for number in range(100)))
    first, last = corner.named("a", "c")
    for start in range(0, 100, 20):
        await asyncio.gather(*(corner.cluster(name) for name in names[start : start + 20]))
    await corner.place("p")
    await corner.until_chosen("p", *names)
    known: dict[str, set[str]] = {}
    missed: list[set[str]] = []
    begun = asyncio.Event()

    async def watch() -> None:
        begun.set()
        async for event in corner.admin.watch(DECISIONS, corner.ns, initial_events=True):
            if event.type == "BOOKMARK":
                continue
            one = event.object
            clusters = {entry["clusterName"] for entry in (one.get("status") or {}).get("decisions") or []}
            known[one["metadata"]["name"]] = set() if event.type == "DELETED" else clusters
            missing = set(names) - set().union(*known.values())
            if missing:
                missed.append(missing)

    watching = asyncio.create_task(watch())
    await begun.wait()

    async def seen() -> bool:
        return set(names) <= set().union(*known.values())

    await corner.until(seen, "the watch to have begun")
    missed.clear()
    await corner.cluster(first)
    await corner.until_chosen("p", first, *names)
    await corner.cluster(last)
    await corner.until_chosen("p", first, last, *names)
    await corner.admin.delete(CLUSTERS, first)
    await corner.until_chosen("p", last, *names)
    watching.cancel()
    with suppress(asyncio.CancelledError, KubeError):
        await watching
    assert missed == []


@pytest.mark.parametrize("by", ["Label", "Claim"])
async def test_p11_clusters_are_spread(corner: Corner, by: str) -> None:
    names = corner.named("c1", "c2", "c3", "c4", "c5")
    where = [("east", "1a", 50), ("east", "1a", 50), ("east", "1b", 0), ("west", "1a", 0), ("west", "1a", 50)]
    for name, (region, zone, score) in zip(names, where, strict=True):
        await corner.namespace(name)
        claims = [{"name": "region", "value": region}, {"name": "zone", "value": zone}]
        labels = {"region": region, "zone": zone} if by == "Label" else {}
        await corner.cluster(name, status={"clusterClaims": claims} if by == "Claim" else None, **labels)
        await corner.score(name, "s", s=score)
    terms: list[Object] = [
        {"topologyKey": "region", "topologyKeyType": by},
        {"topologyKey": "zone", "topologyKeyType": by, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
    ]
    policy: Any = {"mode": "Exact", "configurations": [scored("s", "s"), built_in("Spread", 2)]}
    await corner.place("p", numberOfClusters=2, spreadPolicy={"spreadConstraints": terms}, prioritizerPolicy=policy)
    await corner.until_chosen("p", names[0], names[4])


async def test_p12_scores_are_written_in_their_order(corner: Corner) -> None:
    a, b = corner.named("a", "b")
    for name, value in ((a, 10), (b, 20)):
        await corner.namespace(name)
        await corner.cluster(name)
        await corner.score(name, "s", s=value)
    policy = exact(scored("s", "s"))
    await corner.place("p", sortBy="Score", scoreRateLimit="2s", prioritizerPolicy=policy)

    async def written() -> list[tuple[str, int]]:
        found = await corner.find(DECISIONS, "p-decision-1", corner.ns)
        return [(one["clusterName"], one.get("score", 0)) for one in ((found or {}).get("status") or {}).get("decisions") or []]

    async def is_now(*wanted: tuple[str, int]) -> bool:
        return await written() == list(wanted)

    await corner.until(lambda: is_now((b, 20), (a, 10)), "scores in their order")
    for value in (30, 40, 50):
        await corner.score(a, "s", s=value)
    await corner.until(lambda: is_now((a, 50), (b, 20)), "the newest score, once the limit is over")
    assert (await corner.find_status("p"))["lastScoreUpdateTime"]
