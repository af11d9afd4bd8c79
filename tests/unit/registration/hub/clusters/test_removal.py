"""Clusters denied long ago are removed at their time, and nobody else is."""

import pytest

from muster.machinery.golang.timestamps import format_time
from muster.registration.hub.clusters.acceptance import Acceptance
from muster.registration.hub.clusters.removal import Removal
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.builtin import EVENTS
from tests.unit.registration.hub.conftest import Play

WEEK = 7 * 86_400.0


async def put_out(play: Play, name: str) -> None:
    await play.create_cluster(name, accepts=True)
    await play.until_condition(name, "True", "HubClusterAdminAccepted")
    await play.deny(name)
    await play.until_condition(name, "False", "HubClusterAdminDenied")


async def test_a_cluster_denied_for_long_enough_is_removed_at_its_time_and_not_before(play: Play) -> None:
    async with play.running(Acceptance, Removal, remove_denied_after=WEEK) as world:
        await put_out(play, "c1")
        await play.at_rest()
        await play.clock.advance(WEEK - 60)
        await play.at_rest()
        assert await play.get(MANAGED_CLUSTERS, "c1")
        await play.clock.advance(60)
        await play.until_gone(MANAGED_CLUSTERS, "c1")
        await world.context.events.flushed()
        events = (await play.admin.list(EVENTS, "default")).items
        (removed,) = [event for event in events if event["reason"] == "ManagedClusterRemoved"]
        assert "denied since 2026-01-01T" in removed["note"]


async def test_the_time_counts_from_the_denial_across_restarts_of_the_hub(play: Play) -> None:
    async with play.running(Acceptance):
        await put_out(play, "c1")
    await play.clock.advance(WEEK + 1)
    async with play.running(Acceptance, Removal, remove_denied_after=WEEK):
        await play.until_gone(MANAGED_CLUSTERS, "c1")


async def test_a_cluster_accepted_again_is_kept(play: Play) -> None:
    async with play.running(Acceptance, Removal, remove_denied_after=WEEK):
        await put_out(play, "c1")
        await play.accept("c1")
        await play.until_condition("c1", "True", "HubClusterAdminAccepted")
        await play.clock.advance(2 * WEEK)
        await play.at_rest()
        assert "deletionTimestamp" not in (await play.admin.get(MANAGED_CLUSTERS, "c1"))["metadata"]


@pytest.mark.parametrize(
    ("accepts", "condition"),
    [
        (False, None),
        (True, ("True", "HubClusterAdminAccepted")),
        (True, ("False", "Error")),
        (False, ("False", "Error")),
        (True, ("False", "HubClusterAdminDenied")),
    ],
    ids=["never accepted", "accepted", "failed", "failed and not yet denied", "accepted again just now"],
)
async def test_only_denied_clusters_are_removed(play: Play, accepts: bool, condition: tuple[str, str] | None) -> None:
    await play.create_cluster("c1", accepts=accepts)
    if condition is not None:
        status, reason = condition
        told = {"type": "HubAcceptedManagedCluster", "status": status, "reason": reason, "message": ""}
        dated = {**told, "lastTransitionTime": format_time(play.clock.now())}
        await play.admin.patch(MANAGED_CLUSTERS, "c1", {"status": {"conditions": [dated]}}, subresource="status")
    await play.clock.advance(2 * WEEK)
    async with play.running(Removal, remove_denied_after=WEEK) as world:
        await world.context.informers.synced()
        await play.at_rest()
        assert await play.get(MANAGED_CLUSTERS, "c1")


async def test_by_default_nothing_is_ever_removed(play: Play) -> None:
    async with play.running(Acceptance, Removal):
        await put_out(play, "c1")
        await play.clock.advance(520 * WEEK)
        await play.at_rest()
        assert await play.get(MANAGED_CLUSTERS, "c1")
