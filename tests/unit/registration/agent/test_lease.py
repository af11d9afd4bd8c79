"""The lease: one request per renewal, in time, only while accepted, and made up for when the hub missed one."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.authentication import UserInfo
from muster.registration.agent.reports.lease import LeaseKeeper, lease_seconds, missed_at
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import LEASE
from muster.runtime.cache.informer import Informer
from muster.runtime.client.builtin import LEASES
from tests.unit.registration.agent.conftest import Fleet, Link, until
from tests.unit.registration.agent.contexts import context_of

AGENT = UserInfo("system:open-cluster-management:c1:a", groups=("system:open-cluster-management:c1", "system:authenticated"))


@pytest.fixture
async def keeper(fleet: Fleet) -> AsyncIterator[LeaseKeeper]:
    """A running keeper for a cluster that is not accepted yet."""
    await fleet.hub.admin.create(MANAGED_CLUSTERS, _cluster())
    await fleet.hub.grant()
    hub = Link(fleet.hub, AGENT)
    clusters: Informer[ManagedCluster] = Informer(
        hub, MANAGED_CLUSTERS, field_selector="metadata.name=c1", decode=ManagedCluster.decode, clock=fleet.clock
    )
    keeper = LeaseKeeper(context_of(fleet), hub, clusters)
    tasks = [asyncio.create_task(clusters.run()), asyncio.create_task(keeper.run())]
    yield keeper
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_nothing_is_asked_while_the_hub_does_not_accept(fleet: Fleet, keeper: LeaseKeeper) -> None:
    await fleet.advance(600)
    assert fleet.hub.count("GET", "/leases/") + fleet.hub.count("PUT", "/leases/") == 0


async def test_a_renewal_is_one_request(fleet: Fleet, keeper: LeaseKeeper) -> None:
    await fleet.hub.accept()
    await _renewals(fleet, 1)
    await fleet.advance(76 * 4)
    await _renewals(fleet, 4)
    assert fleet.hub.count("GET", "/leases/") == 1
    lease = await fleet.hub.admin.get(LEASES, LEASE, "c1")
    assert lease["metadata"]["managedFields"]


async def test_renewals_are_one_to_one_and_a_quarter_durations_apart(fleet: Fleet, keeper: LeaseKeeper) -> None:
    await fleet.hub.accept(lease_seconds=100)
    await _renewals(fleet, 1)
    await fleet.advance(99)
    assert fleet.hub.count("PUT", "/leases/") == 1
    await fleet.advance(27)
    await _renewals(fleet, 2)
    assert fleet.hub.count("PUT", "/leases/") == 2


async def test_another_duration_counts_at_once(fleet: Fleet, keeper: LeaseKeeper) -> None:
    await fleet.hub.accept(lease_seconds=1000)
    await _renewals(fleet, 1)
    await fleet.hub.admin.patch(MANAGED_CLUSTERS, "c1", {"spec": {"leaseDurationSeconds": 10}})
    await _renewals(fleet, 2)
    await fleet.advance(13)
    await _renewals(fleet, 3)


async def test_a_lease_that_somebody_else_wrote_is_read_again(fleet: Fleet, keeper: LeaseKeeper) -> None:
    await fleet.hub.accept()
    await _renewals(fleet, 1)
    await fleet.hub.admin.patch(LEASES, LEASE, {"metadata": {"labels": {"a": "b"}}}, "c1")
    before = await fleet.hub.renewed()
    await fleet.advance(80)
    await until(lambda: _later(fleet, before), "a renewal")
    assert (await fleet.hub.admin.get(LEASES, LEASE, "c1"))["metadata"]["labels"] == {"a": "b"}
    assert fleet.hub.count("GET", "/leases/") == 2


async def test_a_renewal_after_an_outage_brings_the_watch_of_the_cluster_back_too(fleet: Fleet, keeper: LeaseKeeper) -> None:
    await fleet.hub.accept(lease_seconds=1)
    await _renewals(fleet, 1)
    fleet.hub.cut.set()
    await fleet.advance(300)
    watches, renewals = fleet.hub.count("WATCH", "/managedclusters"), fleet.hub.count("PUT", "/leases/")
    fleet.hub.cut.clear()
    await fleet.advance(1.3)
    await _renewals(fleet, renewals + 1)
    await until(lambda: fleet.hub.count("WATCH", "/managedclusters") > watches, "the watch")


async def test_a_failed_renewal_is_tried_again_before_the_next_would_be_due(fleet: Fleet, keeper: LeaseKeeper) -> None:
    await fleet.hub.accept(lease_seconds=1000)
    await _renewals(fleet, 1)
    last_success = keeper.last_success
    fleet.hub.cut.set()
    await fleet.advance(1300)
    fleet.hub.cut.clear()
    await fleet.advance(40)
    await until(lambda: keeper.last_success > last_success, "a renewal")


async def test_a_missing_lease_is_waited_for(fleet: Fleet, keeper: LeaseKeeper) -> None:
    await fleet.hub.accept()
    await _renewals(fleet, 1)
    await fleet.hub.admin.delete(LEASES, LEASE, "c1")
    await fleet.advance(100)
    await fleet.hub.accept()
    await fleet.advance(40)
    assert fleet.hub.count("PUT", "/leases/") >= 3


async def test_what_the_hub_missed_is_made_up_for_soon_and_only_then_vouched_for(fleet: Fleet, keeper: LeaseKeeper) -> None:
    await fleet.hub.accept(lease_seconds=1000)
    await _renewals(fleet, 1)
    await fleet.advance(600)
    await fleet.hub.set_condition("ManagedClusterConditionAvailable", "Unknown", "ManagedClusterLeaseUpdateStopped")
    cluster = ManagedCluster.decode(await fleet.hub.cluster() or {})
    assert not keeper.vouched(cluster)
    await until(lambda: keeper.vouched(cluster), "a renewal")
    assert fleet.hub.count("PUT", "/leases/") == 2


async def test_a_hub_that_gives_up_at_once_again_and_again_does_not_make_us_hurry(fleet: Fleet, keeper: LeaseKeeper) -> None:
    await fleet.hub.accept(lease_seconds=100)
    await _renewals(fleet, 1)
    for _ in range(50):
        await fleet.hub.set_condition("ManagedClusterConditionAvailable", "Unknown", "ManagedClusterLeaseUpdateStopped")
        await fleet.advance(2)
    assert fleet.hub.count("PUT", "/leases/") <= 4


def test_a_duration_of_nought_is_a_minute() -> None:
    accepted = [{"type": "HubAcceptedManagedCluster", "status": "True"}]
    cluster = {"metadata": {"name": "c1"}, "spec": {"leaseDurationSeconds": 0}, "status": {"conditions": accepted}}
    assert lease_seconds(ManagedCluster.decode(cluster)) == 60
    assert lease_seconds(ManagedCluster.decode({**cluster, "status": {}})) is None
    assert lease_seconds(None) is None
    assert missed_at(None) == ""


def _cluster() -> dict[str, object]:
    kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
    return {**kind, "metadata": {"name": "c1"}}


async def _renewals(fleet: Fleet, count: int) -> None:
    await until(lambda: fleet.hub.count("PUT", "/leases/") >= count, f"{count} renewals")


async def _later(fleet: Fleet, before: str) -> bool:
    return await fleet.hub.renewed() > before
