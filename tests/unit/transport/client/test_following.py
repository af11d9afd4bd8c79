"""Streams break, servers die, fall silent or start cold: what the hub has arrives all the same, and nothing old is believed."""

import asyncio

import pytest

from muster.machinery.objects import Object
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import Forbidden, NotFound, Unreachable
from muster.runtime.client.builtin import LEASES
from muster.transport.client.client import TransportClient
from muster.transport.contract.event import RESYNC, CloudEvent
from muster.transport.contract.rows import CLUSTERS, LEASE_ROW
from muster.transport.contract.types import Action
from muster.transport.rpc.status import Code, RpcError
from tests.support.fake_clock import FakeClock
from tests.support.transport_hub import FakeHub
from tests.unit.transport.client.conftest import connected, lease, managed_cluster, passing, until

ONE, TWO = "one.example:8090", "two.example:8090"


async def renewal(client: TransportClient) -> str:
    found: Object = await client.get(LEASES, "managed-cluster-lease", "c1")
    return str(found["spec"]["renewTime"])


async def test_changes_and_deletions_while_nobody_listened_arrive_after_reconnecting(hub: FakeHub, clock: FakeClock) -> None:
    for name in ("a", "b"):
        hub.put(LEASE_ROW, lease(name=name))
    async with connected(hub) as client:
        await client.list(LEASES)
        hub.kill("hub.example:8090")
        hub.remove(LEASE_ROW, "a", "c1")
        hub.put(LEASE_ROW, lease("changed", name="b"))
        hub.put(LEASE_ROW, lease(name="c"))
        await clock.advance(20)
        hub.servers["hub.example:8090"].alive = True
        found = await passing(clock, asyncio.ensure_future(client.list(LEASES)))
        assert {one["metadata"]["name"]: one["spec"]["renewTime"][:7] for one in found.items} == {"b": "changed", "c": "2026-01"}


async def test_another_server_is_there_within_a_second_when_one_dies(clock: FakeClock) -> None:
    hub = FakeHub(ONE, TWO, clock=clock)
    hub.put(LEASE_ROW, lease())
    async with connected(hub) as client:
        await client.list(LEASES)
        await client.list(MANAGED_CLUSTERS)
        hub.kill(ONE)
        hub.put(LEASE_ROW, lease("meanwhile"))
        await clock.advance(1.0)
        assert len(hub.servers[TWO].streams) == 2
        assert hub.servers[TWO].dialed == 1
        assert await renewal(client) == "meanwhile"


async def test_a_write_goes_to_the_next_server_when_one_does_not_take_it(clock: FakeClock) -> None:
    hub = FakeHub(ONE, TWO, clock=clock)
    async with connected(hub) as client:
        hub.kill(ONE)
        await client.create(MANAGED_CLUSTERS, managed_cluster())
        assert hub.get(CLUSTERS, "c1") is not None


async def test_pauses_between_attempts_grow_and_differ(hub: FakeHub, clock: FakeClock) -> None:
    async with connected(hub) as client:
        await client.list(LEASES)
        attempts: list[float] = []
        hub.refuse = lambda method, row: attempts.append(clock.monotonic())
        subscription = client.subscription(LEASE_ROW)
        hub.kill("hub.example:8090")
        hub.servers["hub.example:8090"].alive = True
        for _ in range(12):
            hub.cut("hub.example:8090")
            await until(lambda: not subscription.live, "the end of the stream")
            while not subscription.live:
                await clock.advance(0.1)
        gaps = [later - earlier for earlier, later in zip(attempts[::2], attempts[2::2], strict=False)]
        assert gaps == sorted(gaps)
        assert gaps[0] < 2
        assert 10 < gaps[-1] <= 30.2


async def test_a_stream_that_lasted_makes_up_for_former_failures(hub: FakeHub, clock: FakeClock) -> None:
    async with connected(hub) as client:
        await client.list(LEASES)
        subscription = client.subscription(LEASE_ROW)
        for _ in range(5):
            await clock.advance(6.0)
            hub.cut("hub.example:8090")
            await until(lambda: not subscription.live, "the end of the stream")
            await clock.advance(0.5)
            assert subscription.live


async def test_a_silent_stream_is_left_once_heartbeats_are_known_to_come(hub: FakeHub, clock: FakeClock) -> None:
    async with connected(hub) as client:
        await client.list(LEASES)
        await clock.advance(120)
        first = hub.streams(LEASE_ROW)[0]
        hub.beat()
        await clock.advance(29)
        assert hub.streams(LEASE_ROW) == [first]
        await clock.advance(2)
        assert hub.streams(LEASE_ROW) != [first]
        assert len(hub.streams(LEASE_ROW)) == 1


async def test_a_server_that_falls_silent_before_its_first_heartbeat_is_asked_and_left(clock: FakeClock) -> None:
    hub = FakeHub(ONE, TWO, clock=clock)
    async with connected(hub) as client:
        await client.list(LEASES)
        hub.servers[ONE].deaf = True
        await clock.advance(35)
        assert len(hub.servers[ONE].streams) == 1, "it may have nothing to say"
        await clock.advance(10)
        assert len(hub.servers[TWO].streams) == 1


async def test_a_silent_connection_to_the_only_server_is_followed_by_another(hub: FakeHub, clock: FakeClock) -> None:
    """The old one would take calls for as long as the kernel believes in it."""
    (server,) = hub.servers.values()
    async with connected(hub) as client:
        await client.list(LEASES)
        hub.beat()
        dialed = server.dialed
        await clock.advance(31)
        assert server.dialed == dialed + 1
        assert client.subscription(LEASE_ROW).live


async def test_heartbeats_keep_a_stream_and_a_configured_timeout_is_held_from_the_start(hub: FakeHub, clock: FakeClock) -> None:
    async with connected(hub, health_timeout=15.0) as client:
        await client.list(LEASES)
        first = hub.streams(LEASE_ROW)[0]
        for _ in range(6):
            await clock.advance(10)
            hub.beat()
        assert hub.streams(LEASE_ROW) == [first]
        await clock.advance(16)
        assert hub.streams(LEASE_ROW) != [first]


async def test_a_cold_server_is_waited_for(hub: FakeHub, clock: FakeClock) -> None:
    hub.put(LEASE_ROW, lease("warm"))
    hub.servers["hub.example:8090"].cold = True
    async with connected(hub) as client:
        asked = asyncio.ensure_future(client.get(LEASES, "managed-cluster-lease", "c1"))
        await clock.advance(3)
        assert not asked.done()
        assert len(hub.streams(LEASE_ROW)) == 1
        hub.servers["hub.example:8090"].cold = False
        assert (await passing(clock, asked))["spec"]["renewTime"] == "warm"


async def test_a_server_that_stays_cold_is_left_for_another(clock: FakeClock) -> None:
    hub = FakeHub(ONE, TWO, clock=clock)
    hub.put(LEASE_ROW, lease("warm"))
    hub.servers[ONE].cold = True
    async with connected(hub) as client:
        client.subscription(LEASE_ROW)
        await clock.advance(12)
        assert await renewal(client) == "warm"
        assert hub.servers[TWO].streams


async def test_a_resync_of_an_upstream_server_ends_with_silence(go_hub: FakeHub, clock: FakeClock) -> None:
    go_hub.put(LEASE_ROW, lease())
    async with connected(go_hub) as client:
        asked = asyncio.ensure_future(client.list(LEASES))
        await clock.advance(1.5)
        assert not asked.done()
        await clock.advance(1.0)
        assert len((await asked).items) == 1


async def test_every_answer_puts_the_end_of_an_upstream_resync_off(go_hub: FakeHub, clock: FakeClock) -> None:
    async with connected(go_hub) as client:
        asked = asyncio.ensure_future(client.list(LEASES))
        for number in range(3):
            await clock.advance(1.5)
            go_hub.put(LEASE_ROW, lease(name=f"l{number}"))
        await clock.advance(1.5)
        assert not asked.done()
        await clock.advance(1.0)
        assert len((await asked).items) == 3


async def test_an_upstream_server_that_says_what_is_gone_without_a_version_is_understood(go_hub: FakeHub, clock: FakeClock) -> None:
    go_hub.put(LEASE_ROW, lease())
    async with connected(go_hub) as client:
        await passing(clock, asyncio.ensure_future(client.list(LEASES)))
        go_hub.kill("hub.example:8090")
        go_hub.remove(LEASE_ROW, "managed-cluster-lease", "c1")
        go_hub.servers["hub.example:8090"].alive = True
        await clock.advance(5)
        with pytest.raises(NotFound):
            await client.get(LEASES, "managed-cluster-lease", "c1")


async def test_what_a_resync_does_not_speak_of_stays(hub: FakeHub, clock: FakeClock) -> None:
    """A server that forgot to answer is not one that said that an object is gone."""
    hub.put(LEASE_ROW, lease("known"))
    async with connected(hub) as client:
        await client.list(LEASES)
        hub.resync = lambda row, event, channel: None  # type: ignore[method-assign]
        client.connection.markers = False
        hub.cut("hub.example:8090")
        await clock.advance(5)
        assert await renewal(client) == "known"


async def test_a_hub_restored_from_a_backup_is_followed_after_a_second_word(hub: FakeHub, clock: FakeClock) -> None:
    backup = hub.put(LEASE_ROW, lease("of the backup"))
    hub.put(LEASE_ROW, lease("later"))
    async with connected(hub) as client:
        assert await renewal(client) == "later"
        hub.kill("hub.example:8090")
        hub.restore(LEASE_ROW, backup)
        hub.servers["hub.example:8090"].alive = True
        await clock.advance(1.0)
        assert await renewal(client) == "later"
        await clock.advance(4.0)
        assert await renewal(client) == "of the backup"


async def test_a_server_that_lags_behind_is_not_followed_backwards(hub: FakeHub, clock: FakeClock) -> None:
    old = hub.put(LEASE_ROW, lease("old"))
    new = hub.put(LEASE_ROW, lease("new"))
    async with connected(hub) as client:
        seen: list[str] = []
        await client.list(LEASES)
        client.subscription(LEASE_ROW).mirror.on_change(lambda was, now: seen.append(now.document["spec"]["renewTime"]))  # type: ignore[union-attr]
        hub.restore(LEASE_ROW, old)
        hub.cut("hub.example:8090")
        await clock.advance(1.0)
        hub.restore(LEASE_ROW, new)
        await clock.advance(10.0)
        assert seen == []
        assert await renewal(client) == "new"


async def test_a_lower_version_on_a_live_stream_makes_an_upstream_server_be_asked(go_hub: FakeHub, clock: FakeClock) -> None:
    backup = go_hub.put(LEASE_ROW, lease("of the backup"))
    go_hub.put(LEASE_ROW, lease("later"))
    async with connected(go_hub) as client:
        await passing(clock, asyncio.ensure_future(client.list(LEASES)))
        go_hub.restore(LEASE_ROW, backup)
        go_hub.streams(LEASE_ROW)[0].send(go_hub.event(LEASE_ROW, Action.UPDATE, backup))
        await clock.advance(10)
        assert await renewal(client) == "of the backup"


async def test_an_answer_that_an_event_has_overtaken_does_not_count(hub: FakeHub, clock: FakeClock) -> None:
    old = hub.put(LEASE_ROW, lease("old"))
    async with connected(hub) as client:
        await client.list(LEASES)

        def overtaken(row: object, event: CloudEvent, channel: object) -> None:
            stream = hub.streams(LEASE_ROW)[0]
            stream.send(hub.event(LEASE_ROW, Action.DELETE, old))
            stale = hub.event(LEASE_ROW, Action.RESYNC_RESPONSE, {**old, "spec": {"renewTime": "stale"}})
            stream.send(stale)

        hub.resync = overtaken  # type: ignore[method-assign]
        client.connection.markers = False
        hub.cut("hub.example:8090")
        await clock.advance(5)
        with pytest.raises(NotFound):
            await client.get(LEASES, "managed-cluster-lease", "c1")


async def test_what_cannot_be_understood_costs_nothing_else(hub: FakeHub, client: TransportClient) -> None:
    hub.put(LEASE_ROW, lease("first"))
    await client.list(LEASES)
    stream = hub.streams(LEASE_ROW)[0]
    good = hub.event(LEASE_ROW, Action.UPDATE, hub.objects[LEASE_ROW].popitem()[1])
    stream.messages.put_nowait(b"\xff\xff")
    for kind in ("x", "coordination.k8s.io.v1.leases.spec.dance_request", "coordination.k8s.io.v1.leases.status.update_request"):
        stream.send(CloudEvent(id="1", source="kube", type=kind, attributes=good.attributes, data=good.data))
    for data in (b"[]", b"{", b'{"metadata":{}}', None):
        stream.send(CloudEvent(id="1", source="kube", type=good.type, attributes=good.attributes, data=data))
    changed = hub.put(LEASE_ROW, lease("second"))
    await until(lambda: not stream.messages.qsize(), "all read")
    assert await client.get(LEASES, "managed-cluster-lease", "c1") == changed
    assert hub.streams(LEASE_ROW) == [stream]


async def test_the_resync_names_what_is_known_and_asks_for_an_end(hub: FakeHub, clock: FakeClock) -> None:
    stored = hub.put(LEASE_ROW, lease())
    async with connected(hub) as client:
        await client.list(LEASES)
        asked: list[CloudEvent] = []
        resync = hub.resync
        hub.resync = lambda row, event, channel: (asked.append(event), resync(row, event, channel))  # type: ignore
        hub.cut("hub.example:8090")
        await clock.advance(1)
        assert client.subscription(LEASE_ROW).current
    uid, version = stored["metadata"]["uid"], stored["metadata"]["resourceVersion"]
    known = f'{{"resourceID":"{uid}","resourceVersion":{version},"name":"managed-cluster-lease"}}'
    assert asked[0].data == f'{{"resourceVersions":[{known}]}}'.encode()
    assert asked[0].attributes[RESYNC]
    assert asked[0].cluster == "c1"


async def test_a_new_credential_moves_streams_without_a_gap(hub: FakeHub, clock: FakeClock) -> None:
    credential = ["first"]
    async with connected(hub, credential=lambda: credential[0]) as client:
        await client.list(LEASES)
        old = hub.streams(LEASE_ROW)[0]
        credential[0] = "second"
        most = 0
        gaps: list[bool] = []
        subscription = client.subscription(LEASE_ROW)
        subscription.on_news(lambda: gaps.append(not subscription.live))
        for _ in range(60):
            await clock.advance(0.1)
            most = max(most, len(hub.streams(LEASE_ROW)))
        assert hub.streams(LEASE_ROW) != [old]
        assert len(hub.streams(LEASE_ROW)) == 1
        assert old.channel.closed
        assert not any(gaps)
        hub.put(LEASE_ROW, lease("over the new one"))
        await clock.advance(0.1)
        assert await renewal(client) == "over the new one"


async def test_the_old_stream_serves_as_long_as_the_new_credential_is_not_taken(hub: FakeHub, clock: FakeClock) -> None:
    credential = ["first"]
    async with connected(hub, credential=lambda: credential[0]) as client:
        await client.list(LEASES)
        old = hub.streams(LEASE_ROW)[0]
        alive, hub.servers["hub.example:8090"].alive = True, False
        credential[0] = "second"
        await clock.advance(20)
        assert hub.streams(LEASE_ROW) == [old]
        assert not old.channel.closed
        hub.put(LEASE_ROW, lease("over the old one"))
        await clock.advance(0.1)
        assert await renewal(client) == "over the old one"
        hub.servers["hub.example:8090"].alive = alive
        await clock.advance(40)
        assert hub.streams(LEASE_ROW) != [old]
        assert old.channel.closed


async def test_a_server_that_is_no_such_server_is_told_as_such(hub: FakeHub, client: TransportClient) -> None:
    hub.subscription_ids = False
    asked = asyncio.ensure_future(client.list(LEASES))
    await until(lambda: hub.streams(LEASE_ROW), "a stream")
    hub.streams(LEASE_ROW)[0].messages.put_nowait(None)
    with pytest.raises(Unreachable, match="subscription-id"):
        await asked


async def test_a_stream_that_is_refused_after_its_head_says_why(hub: FakeHub, client: TransportClient) -> None:
    hub.subscription_ids = False
    asked = asyncio.ensure_future(client.list(LEASES))
    await until(lambda: hub.streams(LEASE_ROW), "a stream")
    hub.cut("hub.example:8090", RpcError(Code.PERMISSION_DENIED, "not you"))
    with pytest.raises(Forbidden, match="not you"):
        await asked


async def test_an_end_by_expiry_is_mended_at_once_by_a_new_credential(hub: FakeHub, clock: FakeClock) -> None:
    credential = ["first"]
    async with connected(hub, credential=lambda: credential[0]) as client:
        await client.list(LEASES)
        expired = RpcError(Code.UNAUTHENTICATED, "the client certificate has ended")
        hub.refuse = lambda method, row: expired if credential == ["first"] else None
        hub.cut("hub.example:8090", expired)
        await clock.advance(60)
        assert not client.subscription(LEASE_ROW).live
        credential[0] = "second"
        await clock.advance(5.1)
        assert client.subscription(LEASE_ROW).current


async def test_a_server_that_hangs_costs_a_write_half_its_time(clock: FakeClock) -> None:
    hub = FakeHub(ONE, TWO, clock=clock)
    hub.servers[ONE].deaf = True
    async with connected(hub) as client:
        await client.connection.publish(hub.event(LEASE_ROW, Action.UPDATE, hub.put(LEASE_ROW, lease())), LEASES, timeout=0.02)
        assert client.connection.address == TWO


async def test_a_defect_costs_one_stream_and_not_the_following(hub: FakeHub, clock: FakeClock) -> None:
    async with connected(hub) as client:
        await client.list(LEASES)

        def defect(old: object, new: object) -> None:
            raise ZeroDivisionError

        ignore = client.subscription(LEASE_ROW).mirror.on_change(defect)
        hub.put(LEASE_ROW, lease())
        await until(lambda: not client.subscription(LEASE_ROW).live, "the end of the stream")
        ignore()
        await clock.advance(1)
        assert client.subscription(LEASE_ROW).current


async def test_what_goes_both_ways_is_counted_under_upstreams_names(hub: FakeHub, clock: FakeClock) -> None:
    hub.put(LEASE_ROW, lease())
    async with connected(hub) as client:
        await client.list(LEASES)
        hub.streams(LEASE_ROW)[0].messages.put_nowait(b"\xff")
        hub.cut("hub.example:8090")
        await clock.advance(1)
        assert client.subscription(LEASE_ROW).current
    page = hub.metrics.render().decode()
    leases = f'data_type="{LEASE_ROW.data_type}"'
    for line in (
        f"cloudevents_received_total{{{leases}}} 3",
        f"cloudevents_sent_total{{{leases}}} 2",
        f"muster_cloudevents_left_out_total{{{leases}}} 1",
        'cloudevents_client_reconnected_total{client_id="c1"} 1',
        f"resources_spec_resync_duration_seconds_count{{{leases}}} 2",
    ):
        assert line in page


async def test_who_has_reached_the_hub_again_wakes_the_others(hub: FakeHub, clock: FakeClock) -> None:
    async with connected(hub) as client:
        await client.list(LEASES)
        await client.list(MANAGED_CLUSTERS)
        hub.kill("hub.example:8090")
        await clock.advance(120)
        hub.servers["hub.example:8090"].alive = True
        client.subscription(LEASE_ROW).hurry()
        await until(lambda: client.subscription(CLUSTERS).current, "the other stream")
        assert client.subscription(LEASE_ROW).current


async def test_what_an_upstream_server_answers_before_it_serves_the_stream_is_asked_for_again(
    go_hub: FakeHub, clock: FakeClock
) -> None:
    go_hub.put(LEASE_ROW, lease("answered to nobody"))
    go_hub.registers_after = 0.3
    async with connected(go_hub) as client:
        listed = await passing(clock, asyncio.ensure_future(client.list(LEASES)), step=0.1)
        assert [one["spec"]["renewTime"] for one in listed.items] == ["answered to nobody"]


async def test_a_server_that_tells_the_end_is_asked_once(hub: FakeHub, clock: FakeClock) -> None:
    hub.put(LEASE_ROW, lease())
    asked: list[object] = []
    resync = hub.resync
    hub.resync = lambda row, event, channel: (asked.append(event), resync(row, event, channel))  # type: ignore
    async with connected(hub) as client:
        await client.list(LEASES)
        await clock.advance(5)
    assert len(asked) == 1
