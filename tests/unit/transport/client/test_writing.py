"""What an agent writes goes to the hub as events, and is answered with the object as the hub has it then."""

import asyncio
import copy

import pytest

from muster.machinery.objects import Object
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import AlreadyExists, Conflict, Invalid, NotFound, StatusError, Unreachable
from muster.runtime.client.builtin import EVENTS, LEASES, SERVICE_ACCOUNTS, SIGNING_REQUESTS
from muster.transport.client.client import TransportClient
from muster.transport.contract.rows import CLUSTERS, EVENT_ROW, LEASE_ROW, SIGNING_REQUEST_ROW, TOKENS, WORKS
from muster.transport.contract.types import Action, Subresource
from muster.transport.rpc.status import Code, RpcError
from muster.work.kinds import MANIFEST_WORKS
from tests.support.fake_clock import FakeClock
from tests.support.transport_hub import FakeHub
from tests.unit.transport.client.conftest import connected, lease, managed_cluster, passing


def renewed(stored: Object, moment: str) -> Object:
    return {**stored, "spec": {**stored["spec"], "renewTime": moment}}


async def test_an_update_answers_with_the_new_version_so_that_another_can_follow(hub: FakeHub, client: TransportClient) -> None:
    hub.put(LEASE_ROW, lease())
    known = await client.get(LEASES, "managed-cluster-lease", "c1")
    for moment in ("one", "two", "three"):
        known = await client.update(LEASES, renewed(known, moment))
        stored = hub.get(LEASE_ROW, "managed-cluster-lease", "c1")
        assert known == stored
        assert known["spec"]["renewTime"] == moment
    assert [event.event_type.action for event in hub.published] == [Action.UPDATE] * 3


async def test_a_stale_update_conflicts_and_the_next_read_is_fresh(hub: FakeHub, client: TransportClient) -> None:
    hub.put(LEASE_ROW, lease())
    stale = await client.get(LEASES, "managed-cluster-lease", "c1")
    hub.put(LEASE_ROW, lease("of somebody else"))
    with pytest.raises(Conflict):
        await client.update(LEASES, renewed(stale, "mine"))
    fresh = await client.get(LEASES, "managed-cluster-lease", "c1")
    assert (await client.update(LEASES, renewed(fresh, "mine")))["spec"]["renewTime"] == "mine"


async def test_a_conflict_that_the_stream_does_not_explain_is_healed_by_asking(hub: FakeHub, clock: FakeClock) -> None:
    hub.put(LEASE_ROW, lease())
    async with connected(hub) as client:
        known = await client.get(LEASES, "managed-cluster-lease", "c1")
        hub.mute.add(LEASE_ROW)
        changed = hub.put(LEASE_ROW, lease("unheard"))
        hub.mute.clear()
        with pytest.raises(Conflict):
            await passing(clock, asyncio.ensure_future(client.update(LEASES, renewed(known, "mine"))))
        await clock.advance(0.1)
        assert await client.get(LEASES, "managed-cluster-lease", "c1") == changed


async def test_a_write_of_what_is_gone_unheard_is_not_found_and_then_neither_read(hub: FakeHub, clock: FakeClock) -> None:
    hub.put(LEASE_ROW, lease())
    async with connected(hub) as client:
        known = await client.get(LEASES, "managed-cluster-lease", "c1")
        hub.mute.add(LEASE_ROW)
        hub.remove(LEASE_ROW, "managed-cluster-lease", "c1")
        with pytest.raises(NotFound):
            await passing(clock, asyncio.ensure_future(client.update(LEASES, renewed(known, "mine"))))
        await clock.advance(0.1)
        with pytest.raises(NotFound, match="not found"):
            await client.get(LEASES, "managed-cluster-lease", "c1")


async def test_without_an_echo_an_update_answers_what_was_sent_after_a_while(hub: FakeHub, clock: FakeClock) -> None:
    hub.put(LEASE_ROW, lease())
    async with connected(hub) as client:
        known = await client.get(LEASES, "managed-cluster-lease", "c1")
        hub.mute.add(LEASE_ROW)
        began = clock.monotonic()
        answer = await passing(clock, asyncio.ensure_future(client.update(LEASES, renewed(known, "mine"))))
        assert answer == renewed(known, "mine")
        assert clock.monotonic() - began < 10


async def test_a_status_patch_is_worked_out_here_and_sent_whole(hub: FakeHub, client: TransportClient) -> None:
    hub.put(CLUSTERS, managed_cluster(version={"kubernetes": "v1"}))
    before = await client.get(MANAGED_CLUSTERS, "c1")
    versions = {key: before["metadata"][key] for key in ("uid", "resourceVersion")}
    patch = {"metadata": versions, "status": {"conditions": [{"type": "Joined", "status": "True"}]}, "spec": {"ignored": True}}
    after = await client.patch(MANAGED_CLUSTERS, "c1", patch, subresource="status")
    stored = hub.get(CLUSTERS, "c1")
    assert stored is not None
    assert after == stored
    assert stored["status"] == {"conditions": [{"type": "Joined", "status": "True"}], "version": {"kubernetes": "v1"}}
    assert "ignored" not in stored["spec"]
    assert hub.published[-1].event_type.subresource is Subresource.STATUS


async def test_a_patch_for_another_version_conflicts_without_being_sent(hub: FakeHub, client: TransportClient) -> None:
    hub.put(CLUSTERS, managed_cluster())
    for metadata in ({"resourceVersion": "1"}, {"uid": "another"}):
        with pytest.raises(Conflict):
            await client.patch(MANAGED_CLUSTERS, "c1", {"metadata": metadata, "status": {"x": 1}}, subresource="status")
    assert hub.published == []


async def test_a_patch_without_a_version_is_worked_out_again_after_others_wrote(hub: FakeHub, client: TransportClient) -> None:
    hub.put(CLUSTERS, managed_cluster())
    await client.get(MANAGED_CLUSTERS, "c1")
    others = iter(("a", "b"))
    publish = hub.publish

    def faster(event: object, channel: object) -> None:
        if (status := next(others, "")) and "status.update" in event.type:  # type: ignore[attr-defined]
            hub.change(CLUSTERS, "c1", status={"theirs": status})
        publish(event, channel)  # type: ignore[arg-type]

    hub.publish = faster  # type: ignore[method-assign]
    answer = await client.patch(MANAGED_CLUSTERS, "c1", {"status": {"ours": 1}}, subresource="status")
    assert answer["status"] == {"theirs": "b", "ours": 1}


async def test_a_patch_that_changes_nothing_is_not_sent(hub: FakeHub, client: TransportClient) -> None:
    stored = hub.put(CLUSTERS, managed_cluster())
    patch: Object = {"status": {"conditions": []}}
    assert await client.patch(MANAGED_CLUSTERS, "c1", patch, subresource="status") == stored
    assert hub.published == []


async def test_json_patches_and_their_errors(hub: FakeHub, client: TransportClient) -> None:
    hub.put(CLUSTERS, managed_cluster())
    patch = [{"op": "add", "path": "/spec/leaseDurationSeconds", "value": 30}]
    answer = await client.patch(MANAGED_CLUSTERS, "c1", patch, kind="json")
    assert answer["spec"]["leaseDurationSeconds"] == 30
    with pytest.raises(Invalid):
        await client.patch(MANAGED_CLUSTERS, "c1", [{"op": "remove", "path": "/spec/nothing"}], kind="json")


async def test_a_created_object_comes_back_as_the_hub_has_it(hub: FakeHub, client: TransportClient) -> None:
    labels = {"open-cluster-management.io/cluster-name": "c1"}
    request = {"metadata": {"name": "c1-x", "labels": labels}, "spec": {"request": "eA=="}}
    created = await client.create(SIGNING_REQUESTS, copy.deepcopy(request))
    assert created == hub.get(SIGNING_REQUEST_ROW, "c1-x")
    assert created["metadata"]["uid"]
    with pytest.raises(AlreadyExists):
        await client.create(SIGNING_REQUESTS, request)


async def test_creating_does_not_wait_for_a_stream_that_is_refused(hub: FakeHub, client: TransportClient) -> None:
    hub.refuse = lambda method, row: RpcError(Code.PERMISSION_DENIED, "no") if method == "Subscribe" else None
    created = await client.create(MANAGED_CLUSTERS, managed_cluster())
    assert created["metadata"] == {"name": "c1"}
    assert hub.get(CLUSTERS, "c1") is not None


async def test_events_are_created_and_their_series_updated_without_a_stream(hub: FakeHub, client: TransportClient) -> None:
    await client.create(EVENTS, {"metadata": {"name": "e", "namespace": "c1"}, "reason": "R"})
    await client.patch(EVENTS, "e", {"series": {"count": 2}}, "c1")
    stored = hub.get(EVENT_ROW, "e", "c1")
    assert stored is not None
    assert (stored["reason"], stored["series"]) == ("R", {"count": 2})
    assert hub.streams() == []


async def test_a_token_comes_back_on_a_stream_that_is_left_then(hub: FakeHub, client: TransportClient) -> None:
    request = {"spec": {"expirationSeconds": 3600}}
    answer = await client.create(SERVICE_ACCOUNTS, request, "c1", name="addon", subresource="token")
    assert answer["status"]["token"] == "token-of-addon"
    assert hub.streams(TOKENS) == []
    sent = hub.published[0]
    assert sent.attributes["resourceid"]
    assert b'"expirationSeconds":3600' in (sent.data or b"")


async def test_a_token_that_was_sent_to_nobody_is_asked_for_again(hub: FakeHub, clock: FakeClock) -> None:
    hub.registers_after = 0.3
    async with connected(hub) as client:
        asked = asyncio.ensure_future(client.create(SERVICE_ACCOUNTS, {}, "c1", name="addon", subresource="token"))
        assert (await passing(clock, asked))["status"]["token"] == "token-of-addon"
    assert len(hub.published) == 2


async def test_a_token_that_does_not_come_is_given_up(hub: FakeHub, clock: FakeClock) -> None:
    hub._token = lambda event, channel: None  # type: ignore[method-assign]
    async with connected(hub) as client:
        asked = asyncio.ensure_future(client.create(SERVICE_ACCOUNTS, {}, "c1", name="addon", subresource="token"))
        with pytest.raises(Unreachable, match="no token for c1/addon within 10 s"):
            await passing(clock, asked)
        assert hub.streams(TOKENS) == []


async def test_what_does_not_travel_is_refused_with_verb_and_kind(hub: FakeHub, client: TransportClient) -> None:
    hub.put(LEASE_ROW, lease())
    work = {"metadata": {"name": "w", "namespace": "c1"}}
    for verb, attempt in (
        ("delete", client.delete(LEASES, "managed-cluster-lease", "c1")),
        ("apply", client.apply(LEASES, lease(), manager="m")),
        ("create", client.create(LEASES, lease())),
        ("update", client.update(SIGNING_REQUESTS, {"metadata": {"name": "c1-x"}})),
        ("dry run", client.create(MANAGED_CLUSTERS, managed_cluster(), dry_run=True)),
        ("strict create", client.create(MANAGED_CLUSTERS, managed_cluster(), field_validation="Strict")),
        ("strict patch", client.patch(MANAGED_CLUSTERS, "c1", {}, field_validation="Strict")),
        ("strict update", client.update(MANAGED_CLUSTERS, managed_cluster(), field_validation="Strict")),
        ("create", client.create(MANIFEST_WORKS, work)),
        ("patch", client.patch(MANIFEST_WORKS, "w", {"status": {}}, "c1", subresource="status")),
        ("strategic", client.patch(MANAGED_CLUSTERS, "c1", {}, kind="strategic")),
    ):
        with pytest.raises(StatusError, match=verb) as caught:
            await attempt
        assert caught.value.code == 405
    assert hub.published == []
    assert hub.streams(WORKS) == []


async def test_health_is_that_streams_live_and_publishing_works(hub: FakeHub, clock: FakeClock) -> None:
    cluster = hub.put(CLUSTERS, managed_cluster())
    async with connected(hub) as client:
        await client.check_health()
        hub.kill("hub.example:8090")
        with pytest.raises(Unreachable):
            await client.create(EVENTS, {"metadata": {"name": "e", "namespace": "c1"}})
        with pytest.raises(Unreachable):
            await passing(clock, asyncio.ensure_future(client.check_health()))
        hub.servers["hub.example:8090"].alive = True
        await clock.advance(5.0)
        await client.check_health()
        hub.servers["hub.example:8090"].deaf = True
        with pytest.raises(Unreachable, match="DEADLINE_EXCEEDED"):
            await client.connection.publish(hub.event(CLUSTERS, Action.UPDATE, cluster), LEASES, timeout=0.01)
        with pytest.raises(Unreachable, match="DEADLINE_EXCEEDED"):
            await client.check_health()
