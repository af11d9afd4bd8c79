"""The hub says Unknown at the moment a lease runs out, never earlier, and renewals cost it nothing."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster.api.cluster.v1 import AVAILABLE, ManagedCluster
from muster.registration.hub.health.leases import Leases, alive_until, grace
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import CLUSTER_LABEL, LEASE
from muster.runtime.client.builtin import EVENTS, LEASES
from tests.unit.registration.hub.conftest import DeafClient, Play
from tests.unit.registration.hub.watched import Watched

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINUTES = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("renewed", "seen", "until"),
    [
        (NOW, None, NOW + 5 * MINUTES),
        (NOW, NOW + timedelta(seconds=2), NOW + 5 * MINUTES),
        (NOW - 60 * MINUTES, None, NOW - 55 * MINUTES),
        (NOW - 60 * MINUTES, NOW, NOW + 5 * MINUTES),
        (NOW + 60 * MINUTES, NOW, NOW + 5 * MINUTES),
        (None, NOW, NOW + 5 * MINUTES),
    ],
    ids=[
        "as written",
        "as written though seen later",
        "long ago",
        "seen, by a clock that is behind",
        "seen, by a clock that is ahead",
        "unreadable",
    ],
)
def test_a_lease_holds_for_five_durations_of_whichever_clock_can_be_trusted(
    renewed: datetime | None, seen: datetime | None, until: datetime
) -> None:
    assert alive_until(renewed, seen, 5 * MINUTES) == until


@pytest.mark.parametrize(("seconds", "expected"), [(None, 300), (0, 300), (60, 300), (2, 10), (-1, 300)])
def test_no_duration_counts_as_a_minute(seconds: int | None, expected: int) -> None:
    spec = {} if seconds is None else {"leaseDurationSeconds": seconds}
    cluster = ManagedCluster.decode({"metadata": {"name": "c1"}, "spec": spec})
    assert grace(cluster).total_seconds() == expected


@pytest.fixture
def cluster(play: Play) -> Watched:
    return Watched(play)


async def test_an_accepted_cluster_gets_its_lease_labelled_and_fresh(play: Play, cluster: Watched) -> None:
    await cluster.join()
    async with play.running(Leases, labels={"team": "blue"}):
        lease = await play.until(cluster.lease)
        assert lease["metadata"]["labels"] == {CLUSTER_LABEL: "c1", "team": "blue"}
        assert lease["spec"]["holderIdentity"] == LEASE
        assert lease["spec"]["renewTime"].startswith("2026-01-01T00:00:0")


async def test_a_cluster_that_was_never_accepted_gets_none(play: Play) -> None:
    async with play.running(Leases):
        await play.create_cluster("c1")
        await play.at_rest()
        assert play.hub_client.writes() == []


async def test_unknown_comes_when_the_lease_runs_out_and_not_before(play: Play, cluster: Watched) -> None:
    await cluster.join()
    async with play.running(Leases):
        await play.until(cluster.lease)
        await play.at_rest()
        await play.clock.advance(298)
        await play.at_rest()
        assert await cluster.available() == "True"
        await play.clock.advance(2)
        condition = await play.until_condition("c1", "Unknown", "ManagedClusterLeaseUpdateStopped", AVAILABLE)
        assert condition["message"] == "Registration agent stopped updating its lease."

        async def told() -> list[Any]:
            events = (await play.admin.list(EVENTS, "c1")).items
            return [event for event in events if event["reason"] == "AvailableUnknown" and event["type"] == "Warning"]

        assert await play.until(told)


async def test_renewals_cost_no_write_and_keep_the_cluster(play: Play, cluster: Watched) -> None:
    await cluster.join()
    async with play.running(Leases):
        await play.until(cluster.lease)
        await play.at_rest()
        play.hub_client.writes()
        reconciles = play.metrics.histogram("controller_runtime_reconcile_time_seconds", "", controller="leases")
        before = reconciles.count
        for _ in range(20):
            await play.clock.advance(60)
            await cluster.renew()
            await play.at_rest()
        assert await cluster.available() == "True"
        assert play.hub_client.writes() == []
        # One look per five minutes, at the moments when the lease would have run out.
        assert reconciles.count - before <= 6


async def test_a_shorter_duration_counts_at_once(play: Play, cluster: Watched) -> None:
    await cluster.join()
    async with play.running(Leases):
        await play.until(cluster.lease)
        await play.admin.patch(MANAGED_CLUSTERS, "c1", {"spec": {"leaseDurationSeconds": 1}})
        await play.at_rest()
        await play.clock.advance(5)
        await play.until_condition("c1", "Unknown", "ManagedClusterLeaseUpdateStopped", AVAILABLE)


async def test_after_an_outage_the_next_one_is_noticed_too(play: Play, cluster: Watched) -> None:
    await cluster.join()
    async with play.running(Leases):
        await play.until(cluster.lease)
        for _ in range(2):
            await play.clock.advance(301)
            await play.until_condition("c1", "Unknown", "ManagedClusterLeaseUpdateStopped", AVAILABLE)
            await cluster.renew()
            await cluster.report(HubAcceptedManagedCluster="True", **{AVAILABLE: "True"})
            await play.at_rest()
            assert await cluster.available() == "True"


async def test_a_hub_that_was_cut_off_takes_nobody_for_dead_who_renewed_meanwhile(play: Play, cluster: Watched) -> None:
    client = play.hub_client = play.as_hub(DeafClient)
    await cluster.join()
    async with play.running(Leases):
        await play.until(cluster.lease)
        await play.at_rest()
        client.deaf_to("/leases")
        await play.clock.advance(200)
        await cluster.renew()
        await play.clock.advance(110)
        await play.at_rest()
        assert await cluster.available() == "True"
        client.deaf_to()
        await play.at_rest()
        assert await cluster.available() == "True"
        await play.clock.advance(200)
        await play.until_condition("c1", "Unknown", "ManagedClusterLeaseUpdateStopped", AVAILABLE)


@pytest.mark.parametrize("hours", [-1, 1], ids=["behind", "ahead"])
async def test_an_agent_whose_clock_is_wrong_lives_while_it_renews_and_dies_when_it_stops(
    play: Play, cluster: Watched, hours: int
) -> None:
    wrong = timedelta(hours=hours)
    await cluster.join()
    async with play.running(Leases):
        await play.until(cluster.lease)
        for _ in range(8):
            await cluster.renew(play.clock.now() + wrong)
            await play.at_rest()
            await play.clock.advance(60)
        assert await cluster.available() == "True"
        await play.clock.advance(301)
        await play.until_condition("c1", "Unknown", "ManagedClusterLeaseUpdateStopped", AVAILABLE)


async def test_a_lease_from_the_future_that_nobody_renews_does_not_last_for_ever(play: Play, cluster: Watched) -> None:
    await cluster.join()
    async with play.running(Leases):
        await play.until(cluster.lease)
    await cluster.renew(play.clock.now() + timedelta(days=365))
    async with play.running(Leases):
        await play.at_rest()
        await play.clock.advance(301)
        await play.until_condition("c1", "Unknown", "ManagedClusterLeaseUpdateStopped", AVAILABLE)


async def test_a_cluster_being_deleted_without_lease_is_unknown_at_once(play: Play, cluster: Watched) -> None:
    await cluster.join()
    await play.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"finalizers": ["example.com/held"]}})
    await play.admin.delete(MANAGED_CLUSTERS, "c1")
    async with play.running(Leases):
        await play.until_condition("c1", "Unknown", "ManagedClusterLeaseUpdateStopped", AVAILABLE)
        assert await cluster.lease() is None


async def test_a_lease_that_somebody_deletes_is_made_again(play: Play, cluster: Watched) -> None:
    await cluster.join()
    async with play.running(Leases):
        lease = await play.until(cluster.lease)
        await play.admin.delete(LEASES, LEASE, "c1")

        async def another() -> bool:
            found = await cluster.lease()
            return found is not None and found["metadata"]["uid"] != lease["metadata"]["uid"]

        await play.until(another)


async def test_a_lease_with_nonsense_in_it_harms_nobody_else(play: Play, cluster: Watched) -> None:
    other = Watched(play, "c2")
    await cluster.join()
    await other.join()
    async with play.running(Leases):
        await play.until(cluster.lease)
        await play.until(other.lease)
        await play.admin.patch(LEASES, LEASE, {"spec": {"renewTime": None}}, "c1")
        await play.at_rest()
        await play.clock.advance(301)
        await play.until_condition("c1", "Unknown", "ManagedClusterLeaseUpdateStopped", AVAILABLE)
        await play.until_condition("c2", "Unknown", "ManagedClusterLeaseUpdateStopped", AVAILABLE)
