"""What listeners are told, and who is told what."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from muster.api.agents import CSR_USER
from muster.runtime.client import NotFound
from muster.transport.contract.errors import from_rpc
from muster.transport.contract.event import RESOURCE_ID, CloudEvent
from muster.transport.contract.rows import ADDONS_BETA, CLUSTERS, LEASE_ROW, SIGNING_REQUEST_ROW, TOKENS, WORKS
from muster.transport.contract.types import HEARTBEAT, Action
from muster.transport.rpc.status import RpcError
from muster.transport.server.broker import BEATS_PER_TURN, Broker
from tests.support.fake_clock import FakeClock, settle
from tests.unit.transport.server.fakes import FakeCall, FakeService, FakeStream, agent, newcomer, object_of
from tests.unit.transport.server.hub import TestHub


async def test_the_head_has_the_subscriptions_id_and_comes_with_being_told(hub: TestHub) -> None:
    await hub.accept("cluster1")
    service = hub.services[WORKS.data_type]
    listener = hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1")

    def start(metadata: dict[str, str]) -> None:
        listener.stream.metadata = metadata
        service.put(object_of(WORKS, "cluster1", "at-once"))

    listener.stream.start = start  # type: ignore[method-assign]
    await listener.started()
    assert listener.stream.metadata is not None
    assert set(listener.stream.metadata) == {"subscription-id"}
    await settle()
    assert listener.stream.told == ["at-once"]


async def test_a_change_is_encoded_once_for_all_who_listen_and_not_at_all_for_nobody(hub: TestHub) -> None:
    await hub.accept("cluster1")
    service = hub.services[WORKS.data_type]
    service.put(object_of(WORKS, "cluster1", "before"))
    listeners = [await hub.subscribe(agent("cluster1", name), WORKS.data_type, "cluster1").started() for name in ("a", "b")]
    service.put(object_of(WORKS, "cluster2", "of-another"))
    assert service.encoded == 0
    service.put(object_of(WORKS, "cluster1", "w1"))
    await settle()
    assert service.encoded == 1
    assert [listener.stream.told for listener in listeners] == [["w1"], ["w1"]]
    assert listeners[0].stream.messages[0] is listeners[1].stream.messages[0]


async def test_who_has_gone_is_told_nothing_and_leaves_nothing(hub: TestHub) -> None:
    await hub.accept("cluster1")
    for _ in range(100):
        listener = await hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1").started()
        listener.task.cancel()
        await asyncio.gather(listener.task, return_exceptions=True)
    broker = hub.broker
    assert len(broker) == 0
    assert [broker.counts(), broker._by_connection, broker._by_user, broker._users] == [{}] * 4


async def test_actions_say_what_happened(hub: TestHub) -> None:
    await hub.accept("cluster1")
    service = hub.services[WORKS.data_type]
    listener = await hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1").started()
    for step in (
        lambda: service.put(object_of(WORKS, "cluster1", "w1")),
        lambda: service.put(object_of(WORKS, "cluster1", "w1", version=2)),
        lambda: service.remove("w1"),
    ):
        step()
        await settle()
    assert [event.event_type.action for event in listener.stream.events] == [Action.CREATE, Action.UPDATE, Action.DELETE]


async def test_an_event_that_no_agent_can_receive_is_left_out_and_the_stream_goes_on(hub: TestHub) -> None:
    await hub.accept("cluster1")
    service = hub.services[WORKS.data_type]
    listener = await hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1").started()
    service.put(object_of(WORKS, "cluster1", "large", spec="x" * (5 << 20)))
    service.put(object_of(WORKS, "cluster1", "small"))
    await settle()
    assert listener.stream.told == ["small"]
    assert service.too_large == ["large"]
    assert b'grpc_server_ce_oversized_total{data_type="io.open-cluster-management.works.v1alpha1.manifestbundles"} 1' in (
        hub.metrics.render()
    )
    assert not listener.task.done()


async def test_a_kind_that_the_hub_does_not_serve_is_refused_by_a_status_that_says_so_until_it_is(hub: TestHub) -> None:
    await hub.accept("cluster1")
    service = hub.services[ADDONS_BETA.data_type]
    service.synced = service.served = False
    assert [hub.broker.synced] == [True], "the others are served"
    gauge = b'grpc_server_ce_unserved{data_type="addon.open-cluster-management.io.v1beta1.managedclusteraddons"} %d'
    assert gauge % 1 in hub.metrics.render()
    refused = hub.subscribe(agent("cluster1"), ADDONS_BETA.data_type, "cluster1")
    with pytest.raises(RpcError) as raised:
        await refused.task
    problem = from_rpc(raised.value, "hub", ADDONS_BETA.resource)
    assert isinstance(problem, NotFound)
    assert "does not serve" in str(problem)
    service.served = True
    assert [hub.broker.synced] == [False], "it is about to be known"
    service.synced = True
    await hub.subscribe(agent("cluster1"), ADDONS_BETA.data_type, "cluster1").started()
    assert gauge % 0 in hub.metrics.render()


async def test_a_newcomer_sees_its_own_requests_only(hub: TestHub) -> None:
    await hub.invite("bootstrap")
    service = hub.services[SIGNING_REQUEST_ROW.data_type]
    who = newcomer()
    for uid, user in (("others", "system:serviceaccount:hub:other"), ("own", who.user.name)):
        service.put(object_of(SIGNING_REQUEST_ROW, "cluster1", f"{uid}-before", annotations={CSR_USER: user}))
    service.put(object_of(SIGNING_REQUEST_ROW, "cluster1", "unmarked-before"))
    call = FakeCall(who)
    listener = await hub.subscribe(who, SIGNING_REQUEST_ROW.data_type, "cluster1", call=call).started()
    await hub.publish(who, SIGNING_REQUEST_ROW, Action.RESYNC, "cluster1", {"resourceVersions": []}, call=call)
    for uid, user in (("others", "system:serviceaccount:hub:other"), ("own", who.user.name)):
        service.put(object_of(SIGNING_REQUEST_ROW, "cluster1", uid, annotations={CSR_USER: user}))
    await settle()
    service.remove("others")
    service.remove("own")
    await settle()
    assert listener.stream.told == ["own-before", "own", "own"]


async def test_the_answer_to_a_token_request_goes_to_its_asker_alone(hub: TestHub) -> None:
    await hub.accept("cluster1")
    hub.services[TOKENS.data_type].answer = CloudEvent(
        id="1", source="kube", type=f"{TOKENS.data_type}.spec.create_request", attributes={RESOURCE_ID: "t1"}, data=b"{}"
    )
    call = FakeCall(agent("cluster1"))
    asker = await hub.subscribe(agent("cluster1"), TOKENS.data_type, "cluster1", call=call).started()
    twin = await hub.subscribe(agent("cluster1"), TOKENS.data_type, "cluster1").started()
    other = await hub.subscribe(agent("cluster1", "agent2"), TOKENS.data_type, "cluster1").started()
    await hub.publish(agent("cluster1"), TOKENS, Action.CREATE, "cluster1", object_of(TOKENS, "cluster1", "sa"), call=call)
    await settle()
    assert (asker.stream.told, twin.stream.told, other.stream.told) == (["t1"], [], [])


async def test_an_asker_on_a_new_connection_is_answered_on_its_old_one(hub: TestHub) -> None:
    await hub.accept("cluster1")
    hub.services[LEASE_ROW.data_type].put(object_of(LEASE_ROW, "cluster1", "lease"))
    own = await hub.subscribe(agent("cluster1"), LEASE_ROW.data_type, "cluster1").started()
    other = await hub.subscribe(agent("cluster1", "agent2"), LEASE_ROW.data_type, "cluster1").started()
    await hub.publish(agent("cluster1"), LEASE_ROW, Action.RESYNC, "cluster1", {"resourceVersions": []})
    await settle()
    assert (own.stream.told, other.stream.told) == (["lease"], [])


async def test_a_certificates_end_ends_its_streams(hub: TestHub, clock: FakeClock) -> None:
    await hub.accept("cluster1")
    who = agent("cluster1", not_after=datetime(2026, 1, 1, 0, 1, tzinfo=UTC))
    listener = await hub.subscribe(who, WORKS.data_type, "cluster1").started()
    await clock.advance(59.0)
    assert not listener.task.done()
    await clock.advance(1.0)
    assert await listener.code() == "UNAUTHENTICATED"


async def test_a_silent_reader_costs_nobody_else_anything(hub: TestHub) -> None:
    await hub.accept("cluster1")
    await hub.accept("cluster2")
    service = hub.services[WORKS.data_type]
    silent = await hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1").started()
    reading = await hub.subscribe(agent("cluster2"), WORKS.data_type, "cluster2").started()
    silent.stream.pause()
    silent.stream.send(b"x" * (1 << 17))
    for version in range(1, 10_001):
        service.put(object_of(WORKS, "cluster1", f"w{version % 50}", version=version))
        if version % 100 == 0:
            service.put(object_of(WORKS, "cluster2", f"v{version}"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert reading.stream.told[-1] == f"v{version}"
    (subscriber,) = (one for one in hub.broker if one.cluster == "cluster1")
    assert subscriber.waiting == 50
    silent.stream.messages.clear()
    silent.stream.unread.clear()
    silent.stream.resume()
    await settle()
    assert sorted(silent.stream.told) == sorted(f"w{number}" for number in range(50))
    assert {event.attributes["resourceversion"] for event in silent.stream.events} == set(range(9951, 10_001))


async def test_when_the_server_stops_streams_end_so_that_agents_connect_again(hub: TestHub) -> None:
    await hub.accept("cluster1")
    listener = await hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1").started()
    hub.broker.stop()
    assert await listener.code() == "UNAVAILABLE"
    assert await hub.subscribe(agent("cluster1"), WORKS.data_type, "cluster1").code() == "UNAVAILABLE"


async def test_heartbeats_come_to_all_from_one_timer(clock: FakeClock) -> None:
    broker = Broker([FakeService(CLUSTERS)], heartbeat=10.0, clock=clock)
    streams = [FakeStream() for _ in range(BEATS_PER_TURN + 10)]
    for stream in streams:
        broker.subscribe(FakeCall(agent("cluster1")), agent("cluster1"), CLUSTERS, "cluster1", stream)
    running = asyncio.create_task(broker.run())
    await clock.advance(9.9)
    assert not any(stream.messages for stream in streams)
    assert len(clock.pending) == 1
    await clock.advance(10.2)
    assert {tuple(event.type for event in stream.events) for stream in streams} == {(HEARTBEAT, HEARTBEAT)}
    running.cancel()


async def test_heartbeats_can_be_off(clock: FakeClock) -> None:
    broker = Broker([FakeService(CLUSTERS)], heartbeat=None, clock=clock)
    running = asyncio.create_task(broker.run())
    await settle()
    assert clock.pending == []
    running.cancel()


async def test_an_object_of_which_no_event_can_be_made_harms_itself_alone(hub: TestHub, monkeypatch: pytest.MonkeyPatch) -> None:
    await hub.accept("cluster1")
    service = hub.services[LEASE_ROW.data_type]
    make = service.event

    def broken(obj: Any, action: Action) -> CloudEvent:
        if obj["metadata"]["name"] == "broken":
            raise RuntimeError("broken")
        return make(obj, action)

    monkeypatch.setattr(service, "event", broken)
    call = FakeCall(agent("cluster1"))
    listener = await hub.subscribe(agent("cluster1"), LEASE_ROW.data_type, "cluster1", call=call).started()
    for uid in ("broken", "lease"):
        service.put(object_of(LEASE_ROW, "cluster1", uid))
    await hub.publish(agent("cluster1"), LEASE_ROW, Action.RESYNC, "cluster1", {"resourceVersions": []}, call=call)
    await settle()
    assert set(listener.stream.told) == {"lease"}
    assert hub.broker.unfit[LEASE_ROW.data_type] == 2
    assert not listener.task.done()
