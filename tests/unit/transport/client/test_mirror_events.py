"""What an agent reads comes from a mirror that follows the hub: gets, lists and watches as with an API server."""

import asyncio

import pytest

from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.objects import GVR
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.cache import Informer, Snapshot
from muster.runtime.client import BadRequest, Expired, Forbidden, NotFound, StatusError, Unauthorized, Unreachable
from muster.runtime.client.base import WatchEvent
from muster.runtime.client.builtin import CONFIG_MAPS, EVENTS, LEASES, SIGNING_REQUESTS
from muster.transport.client.client import TransportClient
from muster.transport.contract.rows import CLUSTERS, LEASE_ROW, SIGNING_REQUEST_ROW
from muster.transport.rpc.status import Code, RpcError
from tests.support.fake_clock import FakeClock
from tests.support.transport_hub import FakeHub
from tests.unit.transport.client.conftest import connected, lease, managed_cluster, passing, until


async def test_a_get_gives_what_the_hub_has_with_the_hubs_version(hub: FakeHub, client: TransportClient) -> None:
    stored = hub.put(LEASE_ROW, lease())
    assert await client.get(LEASES, "managed-cluster-lease", "c1") == stored


async def test_a_typed_get_gives_a_typed_object(hub: FakeHub, client: TransportClient) -> None:
    hub.put(CLUSTERS, managed_cluster())
    assert (await client.get(ManagedCluster, "c1")).metadata.name == "c1"


async def test_what_is_not_there_is_not_found(client: TransportClient) -> None:
    with pytest.raises(NotFound) as caught:
        await client.get(LEASES, "managed-cluster-lease", "c1")
    assert caught.value.details["name"] == "managed-cluster-lease"


async def test_what_a_server_answered_before_it_served_the_stream_is_found_by_looking_again(
    go_hub: FakeHub, clock: FakeClock
) -> None:
    go_hub.registers_after = 1.0
    stored = go_hub.put(LEASE_ROW, lease())
    async with connected(go_hub) as client:
        with pytest.raises(NotFound):
            await passing(clock, asyncio.ensure_future(client.get(LEASES, "managed-cluster-lease", "c1")))
        await clock.advance(1.0)
        assert await client.get(LEASES, "managed-cluster-lease", "c1") == stored


async def test_only_kinds_that_somebody_asked_for_have_a_stream(hub: FakeHub, client: TransportClient) -> None:
    await client.list(SIGNING_REQUESTS)
    await client.list(SIGNING_REQUESTS)
    await client.list(MANAGED_CLUSTERS)
    assert [stream.row for stream in hub.streams()] == [SIGNING_REQUEST_ROW, CLUSTERS]


@pytest.mark.parametrize("resource", [CONFIG_MAPS, EVENTS, GVR("apps/v1", "deployments", "Deployment")])
async def test_kinds_that_do_not_travel_are_refused_with_verb_and_kind(client: TransportClient, resource: GVR) -> None:
    with pytest.raises(StatusError) as caught:
        await client.get(resource, "x", "c1")
    assert caught.value.code == 405
    assert "get" in str(caught.value)
    assert str(resource) in str(caught.value)


async def test_lists_are_selected_by_labels_and_by_name(hub: FakeHub, client: TransportClient) -> None:
    labels = {"open-cluster-management.io/cluster-name": "c1"}
    for name, more in (("c1-a", {"x": "1"}), ("c1-b", {})):
        hub.put(SIGNING_REQUEST_ROW, {"metadata": {"name": name, "labels": {**labels, **more}}, "spec": {}})
    by_label = await client.list(SIGNING_REQUESTS, label_selector="x=1")
    assert [one["metadata"]["name"] for one in by_label.items] == ["c1-a"]
    by_name = await client.list(SIGNING_REQUESTS, field_selector="metadata.name=c1-b")
    assert [one["metadata"]["name"] for one in by_name.items] == ["c1-b"]
    with pytest.raises(BadRequest, match=r"spec\.signerName"):
        await client.list(SIGNING_REQUESTS, field_selector="spec.signerName=x")


async def test_pages_are_as_long_as_was_asked_for(hub: FakeHub, client: TransportClient) -> None:
    for number in range(5):
        hub.put(LEASE_ROW, lease(name=f"l{number}"))
    pages = [page async for page in client.pages(LEASES, limit=2)]
    assert [len(page.items) for page in pages] == [2, 2, 1]
    assert [bool(page.continuation) for page in pages] == [True, True, False]
    assert len({page.resource_version for page in pages}) == 1


@pytest.mark.parametrize(("code", "kind"), [(Code.UNAUTHENTICATED, Unauthorized), (Code.PERMISSION_DENIED, Forbidden)])
async def test_a_refused_subscription_is_the_answer_to_a_get(
    hub: FakeHub, client: TransportClient, code: Code, kind: type[StatusError]
) -> None:
    hub.refuse = lambda method, row: RpcError(code, "no") if method == "Subscribe" else None
    for _ in range(2):
        with pytest.raises(kind):
            await client.get(MANAGED_CLUSTERS, "c1")
    hub.refuse = lambda method, row: None
    hub.put(CLUSTERS, managed_cluster())
    assert await client.get(MANAGED_CLUSTERS, "c1")


async def test_a_refused_resync_is_the_answer_to_a_get(hub: FakeHub, client: TransportClient) -> None:
    hub.refuse = lambda method, row: RpcError(Code.PERMISSION_DENIED, "no") if method == "Publish" else None
    with pytest.raises(Forbidden):
        await client.get(MANAGED_CLUSTERS, "c1")


async def test_a_hub_that_is_away_is_unreachable(hub: FakeHub, client: TransportClient) -> None:
    hub.kill("hub.example:8090")
    with pytest.raises(Unreachable, match="connection refused"):
        await client.get(MANAGED_CLUSTERS, "c1")


async def test_whether_the_hub_lets_us_in_is_asked_by_a_list(hub: FakeHub, client: TransportClient) -> None:
    for resource in (MANAGED_CLUSTERS, SIGNING_REQUESTS):
        await client.list(resource)
    hub.refuse = lambda method, row: RpcError(Code.PERMISSION_DENIED, "no") if row is LEASE_ROW else None
    with pytest.raises(Forbidden):
        await client.list(LEASES)


async def collect(client: TransportClient, events: list[WatchEvent[dict[str, object]]], **options: object) -> None:
    async for event in client.watch(LEASES, "c1", initial_events=True, **options):  # type: ignore[arg-type]
        events.append(event)


async def test_a_watch_begins_with_what_there_is_and_goes_on_with_changes(hub: FakeHub, client: TransportClient) -> None:
    hub.put(LEASE_ROW, lease())
    events: list[WatchEvent[dict[str, object]]] = []
    task = asyncio.create_task(collect(client, events))
    await until(lambda: len(events) == 2, "the initial state")
    assert [event.type for event in events] == ["ADDED", "BOOKMARK"]
    changed = hub.put(LEASE_ROW, lease("2026-01-01T00:01:00.000000Z"))
    await until(lambda: len(events) == 3, "the change")
    assert (events[2].type, events[2].object) == ("MODIFIED", changed)
    hub.delete(LEASE_ROW, "managed-cluster-lease", "c1")
    await until(lambda: len(events) == 4, "the deletion")
    assert (events[3].type, events[3].object) == ("DELETED", changed)
    task.cancel()


async def test_an_object_that_is_made_anew_is_told_as_gone_and_new(hub: FakeHub, client: TransportClient) -> None:
    hub.put(LEASE_ROW, lease())
    events: list[WatchEvent[dict[str, object]]] = []
    task = asyncio.create_task(collect(client, events))
    await until(lambda: len(events) == 2, "the initial state")
    hub.remove(LEASE_ROW, "managed-cluster-lease", "c1")
    again = hub.put(LEASE_ROW, lease())
    await until(lambda: len(events) == 4, "the changes")
    assert [event.type for event in events[2:]] == ["DELETED", "ADDED"]
    assert events[3].object == again
    task.cancel()


async def test_a_watch_from_an_old_revision_is_expired(hub: FakeHub, client: TransportClient) -> None:
    hub.put(LEASE_ROW, lease())
    with pytest.raises(Expired):
        async for _ in client.watch(LEASES, "c1", resource_version="17"):
            pass


async def test_a_list_can_be_gone_on_from(hub: FakeHub, client: TransportClient) -> None:
    hub.put(LEASE_ROW, lease())
    listed = await client.list(LEASES, "c1")
    events = client.watch(LEASES, "c1", resource_version=listed.resource_version)
    following = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    changed = hub.put(LEASE_ROW, lease("later"))
    assert (await following).object == changed
    await events.aclose()


async def test_an_informer_follows_over_a_short_outage_without_noticing(hub: FakeHub, clock: FakeClock) -> None:
    hub.put(CLUSTERS, managed_cluster())
    async with connected(hub) as client:
        informer = Informer(client, MANAGED_CLUSTERS, field_selector="metadata.name=c1", decode=ManagedCluster.decode, clock=clock)
        task = asyncio.create_task(informer.run())
        await until(lambda: informer.has_synced, "synced")
        hub.cut("hub.example:8090")
        hub.change(CLUSTERS, "c1", spec={"hubAcceptsClient": True})
        await clock.advance(1.0)
        await until(lambda: informer.cache.named("c1") and informer.cache.named("c1").spec.hub_accepts_client, "the change")  # type: ignore[union-attr]
        assert informer.outage == ""
        assert informer.lists == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_informer_tells_of_an_outage_that_lasts_and_recovers(hub: FakeHub, clock: FakeClock) -> None:
    hub.put(CLUSTERS, managed_cluster())
    async with connected(hub) as client:
        informer: Informer[Snapshot] = Informer(client, MANAGED_CLUSTERS, clock=clock, random=lambda: 0.5)
        task = asyncio.create_task(informer.run())
        await until(lambda: informer.has_synced, "synced")
        hub.kill("hub.example:8090")
        hub.change(CLUSTERS, "c1", spec={"hubAcceptsClient": True})
        for _ in range(40):
            await clock.advance(1.0)
        assert "connection refused" in informer.outage
        hub.servers["hub.example:8090"].alive = True
        for _ in range(60):
            await clock.advance(1.0)
        assert informer.outage == ""
        snapshot = informer.cache.named("c1")
        assert snapshot is not None
        assert snapshot.data["spec"]["hubAcceptsClient"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_informer_hears_at_once_that_it_is_shut_out(hub: FakeHub, clock: FakeClock) -> None:
    hub.put(CLUSTERS, managed_cluster())
    async with connected(hub) as client:
        informer: Informer[Snapshot] = Informer(client, MANAGED_CLUSTERS, clock=clock)
        task = asyncio.create_task(informer.run())
        await until(lambda: informer.has_synced, "synced")
        hub.refuse = lambda method, row: RpcError(Code.PERMISSION_DENIED, "no longer accepted")
        hub.cut("hub.example:8090", RpcError(Code.PERMISSION_DENIED, "no longer accepted"))
        await until(lambda: "no longer accepted" in informer.outage, "the outage")
        with pytest.raises(Forbidden):
            await passing(clock, asyncio.ensure_future(client.get(MANAGED_CLUSTERS, "c1")))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_hub_that_cannot_say_what_it_has_is_not_waited_for_for_ever(hub: FakeHub, clock: FakeClock) -> None:
    hub.servers["hub.example:8090"].cold = True
    async with connected(hub) as client:
        began = clock.monotonic()
        with pytest.raises(Unreachable, match="leases were not to be had within 10 s"):
            await passing(clock, asyncio.ensure_future(client.get(LEASES, "managed-cluster-lease", "c1")))
        assert clock.monotonic() - began < 11


async def test_a_closed_client_reaches_nothing(hub: FakeHub) -> None:
    async with connected(hub) as client:
        await client.list(LEASES)
    with pytest.raises(Unreachable, match="closed"):
        await client.list(MANAGED_CLUSTERS)


async def test_discovery_tells_what_travels(client: TransportClient) -> None:
    assert await client.api_versions("addon.open-cluster-management.io") == [
        "addon.open-cluster-management.io/v1beta1",
        "addon.open-cluster-management.io/v1alpha1",
    ]
    assert await client.api_resources("coordination.k8s.io/v1") == [LEASES]
    with pytest.raises(NotFound):
        await client.api_resources("apps/v1")
    with pytest.raises(NotFound):
        await client.api_versions("apps")


async def test_a_watch_is_told_of_what_leaves_and_enters_its_selection(hub: FakeHub, client: TransportClient) -> None:
    labels = {"open-cluster-management.io/cluster-name": "c1"}
    hub.put(LEASE_ROW, lease())
    events: list[WatchEvent[dict[str, object]]] = []
    task = asyncio.create_task(collect(client, events, label_selector="x=1"))
    await until(lambda: len(events) == 1, "the initial state")
    for more in ({"x": "1"}, {}):
        stored = lease()
        stored["metadata"]["labels"] = {**labels, **more}
        hub.put(LEASE_ROW, stored)
        await until(lambda: not hub.streams(LEASE_ROW)[0].messages.qsize(), "the change being read")
        await asyncio.sleep(0)
    await until(lambda: len(events) == 3, "both changes")
    assert [event.type for event in events] == ["BOOKMARK", "ADDED", "DELETED"]
    task.cancel()
