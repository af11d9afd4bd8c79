"""A cluster's addons and how they are can be seen by its labels, which placements select by."""

from typing import Any

from muster.api.cluster.v1 import AVAILABLE, ManagedCluster
from muster.registration.hub.health.feature_labels import LONGEST_NAME, FeatureLabels, with_feature_labels
from muster.registration.kinds import ADDONS, MANAGED_CLUSTERS
from tests.unit.registration.hub.conftest import Play
from tests.unit.registration.hub.health.test_addon_health import create_addon
from tests.unit.registration.hub.watched import Watched

PREFIX = "feature.open-cluster-management.io/addon-"
DATED = {"reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


async def labels(play: Play, cluster: str = "c1") -> dict[str, str]:
    found = (await play.admin.get(MANAGED_CLUSTERS, cluster))["metadata"].get("labels") or {}
    return {key.removeprefix(PREFIX): value for key, value in found.items() if key.startswith(PREFIX)}


async def report(play: Play, addon: str, status: str) -> None:
    conditions = [{"type": "Available", "status": status, **DATED}]
    await play.admin.patch(ADDONS, addon, {"status": {"conditions": conditions}}, "c1", subresource="status")


async def until_labelled(play: Play, **expected: Any) -> None:
    async def are() -> bool:
        return await labels(play) == expected

    await play.until(are)


async def test_labels_follow_the_addons(play: Play) -> None:
    cluster = Watched(play)
    await cluster.join()
    await cluster.report(**{AVAILABLE: "True"})
    await create_addon(play, "c1", "search")
    async with play.running(FeatureLabels):
        await until_labelled(play, search="unreachable")
        for status, value in (("True", "available"), ("False", "unhealthy"), ("Unknown", "unreachable")):
            await report(play, "search", status)
            await until_labelled(play, search=value)
        await create_addon(play, "c1", "other")
        await until_labelled(play, search="unreachable", other="unreachable")
        await play.admin.delete(ADDONS, "search", "c1")
        await until_labelled(play, other="unreachable")
        await play.at_rest()
        play.hub_client.requests.clear()
        await play.at_rest()
        assert play.hub_client.writes() == []


async def test_an_addon_that_is_being_deleted_has_no_label(play: Play) -> None:
    cluster = Watched(play)
    await cluster.join()
    await cluster.report(**{AVAILABLE: "True"})
    await create_addon(play, "c1", "search")
    async with play.running(FeatureLabels):
        await until_labelled(play, search="unreachable")
        await play.admin.patch(ADDONS, "search", {"metadata": {"finalizers": ["example.com/hold"]}}, "c1")
        await play.admin.delete(ADDONS, "search", "c1")
        await until_labelled(play)


async def test_labels_of_addons_that_went_unseen_go_and_others_stay(play: Play) -> None:
    cluster = Watched(play)
    await cluster.join()
    await cluster.report(**{AVAILABLE: "True"})
    mine = {"metadata": {"labels": {f"{PREFIX}gone": "available", "mine": "too"}}}
    await play.admin.patch(MANAGED_CLUSTERS, "c1", mine)
    async with play.running(FeatureLabels):
        await until_labelled(play)
    assert (await play.admin.get(MANAGED_CLUSTERS, "c1"))["metadata"]["labels"]["mine"] == "too"


def test_nothing_is_said_of_a_cluster_that_was_not_heard_of_or_that_goes() -> None:
    unheard = ManagedCluster.decode({"metadata": {"name": "c1"}, "spec": {}})
    assert with_feature_labels(unheard, {f"{PREFIX}search": "available"}) == unheard
    heard = {"conditions": [{"type": AVAILABLE, "status": "True", **DATED}]}
    going = {"name": "c1", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    leaving = ManagedCluster.decode({"metadata": going, "spec": {}, "status": heard})
    assert with_feature_labels(leaving, {f"{PREFIX}search": "available"}) == leaving


async def test_a_name_that_is_too_long_keeps_no_other_addon_from_its_label(play: Play) -> None:
    """Defect 33 of OCM's hub."""
    longest = "a" * LONGEST_NAME
    cluster = Watched(play)
    await cluster.join()
    await cluster.report(**{AVAILABLE: "True"})
    for name in (f"{longest}a", longest, "search"):
        await create_addon(play, "c1", name)
    async with play.running(FeatureLabels):
        await until_labelled(play, search="unreachable", **{longest: "unreachable"})
