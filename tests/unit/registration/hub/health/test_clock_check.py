"""Clocks are compared when a lease is renewed, and the condition is written when the answer changes."""

from datetime import timedelta

import pytest

from muster.api.cluster.v1 import CLOCK_SYNCED, ManagedCluster
from muster.registration.hub.health.clock_check import IN_STEP, OUT_OF_STEP, ClockCheck, verdict
from muster.registration.hub.health.leases import Leases
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import SKIP_CLOCK_CHECK
from tests.unit.registration.hub.conftest import Play
from tests.unit.registration.hub.watched import Watched


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, IN_STEP), (299, IN_STEP), (-299, IN_STEP), (300, OUT_OF_STEP), (-300, OUT_OF_STEP)]
)
def test_five_lease_durations_apart_is_out_of_step(seconds: int, expected: object) -> None:
    assert verdict(ManagedCluster.decode({"metadata": {"name": "c1"}}), timedelta(seconds=seconds)) is expected


def test_a_cluster_may_be_excused() -> None:
    cluster = ManagedCluster.decode({"metadata": {"name": "c1", "annotations": {SKIP_CLOCK_CHECK: "true"}}})
    assert verdict(cluster, timedelta(days=3)) is IN_STEP


async def test_the_condition_follows_the_clock_both_ways_and_is_written_only_then(play: Play) -> None:
    cluster = Watched(play)
    await cluster.join()
    async with play.running(Leases, ClockCheck):
        await play.until(cluster.lease)
        await play.at_rest()
        assert await play.condition("c1", CLOCK_SYNCED) == {}, "a lease that the hub made itself tells nothing"
        await cluster.renew(play.clock.now() + timedelta(seconds=1))
        await play.until_condition("c1", "True", "ManagedClusterClockSynced", CLOCK_SYNCED)
        play.hub_client.writes()
        for _ in range(5):
            await play.clock.advance(60)
            await cluster.renew()
            await play.at_rest()
        assert play.hub_client.writes() == []
        await cluster.renew(play.clock.now() - timedelta(minutes=10))
        await play.until_condition("c1", "False", "ManagedClusterClockOutOfSync", CLOCK_SYNCED)
        await cluster.renew()
        await play.until_condition("c1", "True", "ManagedClusterClockSynced", CLOCK_SYNCED)


async def test_a_shorter_lease_makes_the_check_stricter(play: Play) -> None:
    cluster = Watched(play)
    await cluster.join()
    async with play.running(Leases, ClockCheck):
        await play.until(cluster.lease)
        await cluster.renew(play.clock.now() + timedelta(seconds=30))
        await play.until_condition("c1", "True", "ManagedClusterClockSynced", CLOCK_SYNCED)
        await play.admin.patch(MANAGED_CLUSTERS, "c1", {"spec": {"leaseDurationSeconds": 2}})
        await play.until_condition("c1", "False", "ManagedClusterClockOutOfSync", CLOCK_SYNCED)
