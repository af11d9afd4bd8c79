"""An agent says what it has, and hears what it has not."""

import asyncio
import time
from typing import Any

import pytest

from muster.runtime.client.errors import Unreachable
from muster.transport.codecs.resync import resync_end
from muster.transport.contract.event import (
    DELETED,
    MAX_EVENT,
    METADATA,
    RESOURCE_ID,
    RESOURCE_VERSION,
    RESYNC,
    STATUS,
    WITH_STATUS,
    WITHHELD,
)
from muster.transport.contract.rows import EVENT_ROW, LEASE_ROW, ROWS, TOKENS, WORKS, Row
from muster.transport.contract.types import Action
from muster.transport.services.interfaces import ObjectVersion
from tests.support.fake_clock import FakeClock, settle
from tests.unit.transport.server.fakes import FakeCall, agent, code_of, object_of
from tests.unit.transport.server.hub import Listener, TestHub

EVERY_ROW = pytest.mark.parametrize(
    "row", [row for row in ROWS.values() if row.sends], ids=lambda row: row.data_type.resource + row.data_type.version
)


class Agent:
    """One that listens and resyncs on one connection."""

    def __init__(self, hub: TestHub, row: Row, name: str = "agent1") -> None:
        self.hub = hub
        self.row = row
        self.who = agent("cluster1", name)
        self.call = FakeCall(self.who)
        self.listener: Listener

    async def listen(self) -> "Agent":
        self.listener = await self.hub.subscribe(self.who, self.row.data_type, "cluster1", call=self.call).started()
        return self

    async def resync(self, *known: tuple[str, int] | tuple[str, int, str], **attributes: Any) -> None:
        entries = [
            {"resourceID": one[0], "resourceVersion": one[1], **({"name": one[2]} if len(one) == 3 else {})} for one in known
        ]
        body = {"resourceVersions": entries}
        await self.hub.publish(self.who, self.row, Action.RESYNC, "cluster1", body, call=self.call, **attributes)

    async def heard(self) -> list[str]:
        await settle()
        told, self.listener.stream.messages = self.listener.stream.told, []
        return told


@EVERY_ROW
async def test_what_is_new_changed_or_being_deleted_is_answered_and_nothing_else(hub: TestHub, row: Row) -> None:
    await hub.accept("cluster1")
    service = hub.services[row.data_type]
    for uid, version in (("same", 5), ("newer", 6), ("new", 1), ("restored", 2)):
        service.put(object_of(row, "cluster1", uid, version=version))
    deleting = object_of(row, "cluster1", "deleting", version=5)
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    service.put(deleting)
    service.put(object_of(row, "cluster2", "foreign"))
    asker = await Agent(hub, row).listen()
    await asker.resync(("same", 5), ("newer", 5), ("restored", 9), ("deleting", 5))
    assert sorted(await asker.heard()) == ["deleting", "new", "newer", "restored"]


async def test_only_the_asker_is_answered(hub: TestHub) -> None:
    await hub.accept("cluster1")
    hub.services[WORKS.data_type].put(object_of(WORKS, "cluster1", "w1"))
    asker, other = await Agent(hub, WORKS).listen(), await Agent(hub, WORKS, "agent2").listen()
    await asker.resync()
    assert (await asker.heard(), await other.heard()) == (["w1"], [])


async def test_nobody_is_answered_before_everything_is_known(hub: TestHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.transport.server.service.SYNC_CHECKS", 0)
    await hub.accept("cluster1")
    service = hub.services[WORKS.data_type]
    asker = await Agent(hub, WORKS).listen()
    service.synced = False
    assert await code_of(asker.resync(("w1", 1, "w1"))) == "UNAVAILABLE"
    assert await hub.subscribe(asker.who, WORKS.data_type, "cluster1").code() == "UNAVAILABLE"
    assert await asker.heard() == []
    service.synced = True
    await asker.resync(("w1", 1, "w1"))
    assert await asker.heard() == ["w1"]


async def test_a_server_that_has_just_begun_is_waited_for(hub: TestHub, clock: FakeClock) -> None:
    await hub.accept("cluster1")
    service = hub.services[WORKS.data_type]
    service.synced = False
    asker = Agent(hub, WORKS)
    listening = asyncio.create_task(asker.listen())
    await clock.advance(1.0)
    assert not listening.done()
    service.synced = True
    await clock.advance(0.05)
    await listening
    service.synced = False
    resyncing = asyncio.create_task(asker.resync(("w1", 1, "w1")))
    await clock.advance(1.0)
    assert not resyncing.done()
    service.synced = True
    await clock.advance(0.05)
    await resyncing
    assert await asker.heard() == ["w1"]


async def test_whoever_does_not_listen_is_told_to(hub: TestHub) -> None:
    await hub.accept("cluster1")
    assert await code_of(Agent(hub, WORKS).resync()) == "UNAVAILABLE"


@EVERY_ROW
async def test_what_was_seen_to_go_is_answered_as_deleted(hub: TestHub, row: Row) -> None:
    await hub.accept("cluster1")
    service = hub.services[row.data_type]
    service.put(object_of(row, "cluster1", "gone", version=7))
    service.put(object_of(row, "cluster2", "of-another", version=7))
    service.remove("gone")
    service.remove("of-another")
    asker = await Agent(hub, row).listen()
    await asker.resync(("gone", 7), ("of-another", 7))
    await settle()
    (event,) = asker.listener.stream.events
    assert event.text(RESOURCE_ID) == "gone"
    assert DELETED in event.attributes


async def test_what_the_agent_names_and_nobody_has_is_answered_as_deleted_by_that_name(hub: TestHub) -> None:
    await hub.accept("cluster1")
    asker = await Agent(hub, WORKS).listen()
    await asker.resync(("u1", 3, "web"))
    await settle()
    (event,) = asker.listener.stream.events
    assert event.event_type.action is Action.RESYNC_RESPONSE
    assert (event.text(RESOURCE_ID), event.attributes[RESOURCE_VERSION]) == ("u1", 3)
    assert '"name":"web"' in event.text(METADATA)
    assert '"namespace":"cluster1"' in event.text(METADATA)


class TestServersThatAreBehind:
    """Another server has told the agent what has not come here yet."""

    @EVERY_ROW
    async def test_what_the_hub_has_is_not_called_gone_though_it_is_not_known_here(self, hub: TestHub, row: Row) -> None:
        await hub.accept("cluster1")
        service = hub.services[row.data_type]
        service.unseen = [ObjectVersion("u1", 3)]
        asker = await Agent(hub, row).listen()
        await asker.resync(("u1", 3, "web"), ("u2", 3, "gone"), ("u3", 3, "gone-too"))
        assert sorted(await asker.heard()) == ["u2", "u3"]
        assert service.lists == 1

    @EVERY_ROW
    async def test_an_older_version_is_sent_only_where_it_is_the_hubs(self, hub: TestHub, row: Row) -> None:
        await hub.accept("cluster1")
        service = hub.services[row.data_type]
        for uid in ("late", "later", "restored"):
            service.put(object_of(row, "cluster1", uid, version=2))
        service.unseen = [ObjectVersion("late", 5), ObjectVersion("later", 6)]
        asker = await Agent(hub, row).listen()
        await asker.resync(("late", 5), ("later", 5), ("restored", 5))
        assert await asker.heard() == ["restored"]

    @EVERY_ROW
    async def test_an_agent_that_doubts_its_version_is_answered_only_with_the_hubs(self, hub: TestHub, row: Row) -> None:
        """It has 5, of which another server told, and has heard of 3 from here."""
        await hub.accept("cluster1")
        service = hub.services[row.data_type]
        for uid in ("late", "restored"):
            service.put(object_of(row, "cluster1", uid, version=3))
        service.unseen = [ObjectVersion("late", 5)]
        asker = await Agent(hub, row).listen()
        await asker.resync(("late", 0, "late"), ("restored", 0, "restored"))
        assert await asker.heard() == ["restored"]
        assert service.lists == 1

    async def test_the_hub_is_not_asked_where_nothing_is_in_doubt(self, hub: TestHub) -> None:
        await hub.accept("cluster1")
        service = hub.services[WORKS.data_type]
        for uid in ("same", "newer", "gone"):
            service.put(object_of(WORKS, "cluster1", uid, version=5))
        service.remove("gone")
        asker = await Agent(hub, WORKS).listen()
        await asker.resync(("same", 5, "same"), ("newer", 4, "newer"), ("gone", 5, "gone"), ("nobody", 5))
        assert sorted(await asker.heard()) == ["gone", "newer"]
        assert service.lists == 0

    async def test_a_hub_that_cannot_be_asked_leaves_nothing_told(self, hub: TestHub) -> None:
        await hub.accept("cluster1")
        service = hub.services[WORKS.data_type]
        service.failure = Unreachable("hub", "away")
        asker = await Agent(hub, WORKS).listen()
        assert await code_of(asker.resync(("u1", 3, "web"))) == "UNAVAILABLE"
        assert await asker.heard() == []


async def test_an_id_that_nobody_knows_is_left_alone_and_counted(hub: TestHub) -> None:
    await hub.accept("cluster1")
    asker = await Agent(hub, WORKS).listen()
    await asker.resync(("u1", 3), ("u2", 3), ("", 1, "not-heard-of-yet"))
    assert await asker.heard() == []
    counted = 'grpc_server_ce_resync_unknown_total{data_type="io.open-cluster-management.works.v1alpha1.manifestbundles"} 2'
    assert counted.encode() in hub.metrics.render()


async def test_the_end_comes_after_all_answers_to_whoever_asks_for_it(hub: TestHub) -> None:
    await hub.accept("cluster1")
    service = hub.services[WORKS.data_type]
    for number in range(200):
        service.put(object_of(WORKS, "cluster1", f"w{number}"))
    asker = await Agent(hub, WORKS).listen()
    await asker.resync(**{RESYNC: "r1"})
    service.put(object_of(WORKS, "cluster1", "w5", version=2))
    await settle(500)
    events = asker.listener.stream.events
    assert [resync_end(event) for event in events[:-1]] == [""] * 200
    assert resync_end(events[-1]) == "r1"
    await asker.resync()
    await settle(500)
    assert not any(resync_end(event) for event in asker.listener.stream.events[201:])


async def test_ids_that_come_twice_do_no_harm(hub: TestHub) -> None:
    await hub.accept("cluster1")
    hub.services[WORKS.data_type].put(object_of(WORKS, "cluster1", "w1", version=2))
    asker = await Agent(hub, WORKS).listen()
    await asker.resync(("w1", 1), ("w1", 1), ("gone", 1, "gone"), ("gone", 1, "gone"))
    assert await asker.heard() == ["w1", "gone"]


async def test_ten_thousand_entries_are_linear(hub: TestHub) -> None:
    await hub.accept("cluster1")
    service = hub.services[WORKS.data_type]
    for number in range(10_000):
        service.objects[f"w{number}"] = object_of(WORKS, "cluster1", f"w{number}")
    asker = await Agent(hub, WORKS).listen()
    began = time.process_time()
    await asker.resync(*((f"w{number}", 1) for number in range(10_000)), *((f"x{number}", 1) for number in range(10_000)))
    assert time.process_time() - began < 2.0, "compared with each other they would take minutes"
    assert await asker.heard() == []


@pytest.mark.parametrize("row", [EVENT_ROW, TOKENS], ids=["events", "tokens"])
async def test_of_what_is_not_kept_a_resync_has_no_answers(hub: TestHub, row: Row) -> None:
    await hub.accept("cluster1")
    await Agent(hub, row).resync(("u1", 1, "u1"))


@pytest.mark.parametrize("body", [None, [], {"resourceVersions": 1}, {"resourceVersions": [{"resourceVersion": "abc"}]}])
async def test_a_request_that_cannot_be_read_is_an_invalid_argument(hub: TestHub, body: Any) -> None:
    await hub.accept("cluster1")
    asker = await Agent(hub, LEASE_ROW).listen()
    call = hub.publish(asker.who, LEASE_ROW, Action.RESYNC, "cluster1", body, call=asker.call)
    assert await code_of(call) == "INVALID_ARGUMENT"


async def test_what_goes_between_a_request_and_its_answer_is_told_as_gone(hub: TestHub) -> None:
    await hub.accept("cluster1")
    service = hub.services[WORKS.data_type]
    service.put(object_of(WORKS, "cluster1", "w1"))
    asker = await Agent(hub, WORKS).listen()
    await asker.resync()
    service.remove("w1")
    await settle()
    (event,) = asker.listener.stream.events
    assert event.event_type.action is Action.DELETE


class TestStatuses:
    """An agent that has just started asks for what it reported before."""

    @staticmethod
    def statuses(asker: Agent) -> dict[str, str]:
        return {event.text(RESOURCE_ID): event.text(STATUS) for event in asker.listener.stream.events}

    async def test_every_work_that_has_a_status_comes_with_it_also_one_that_the_agent_has(self, hub: TestHub) -> None:
        await hub.accept("cluster1")
        service = hub.services[WORKS.data_type]
        for uid in ("had", "new", "unreported"):
            service.put(object_of(WORKS, "cluster1", uid, version=2))
        service.statuses = {"had": b'{"a":1}', "new": b'{"a":2}', "gone-since": b"{}"}
        asker = await Agent(hub, WORKS).listen()
        await asker.resync(("had", 2, "had"), **{WITH_STATUS: True})
        await settle()
        assert self.statuses(asker) == {"had": '{"a":1}', "new": '{"a":2}', "unreported": ""}
        assert service.lists == 1

    @pytest.mark.parametrize("wish", [{}, {WITH_STATUS: False}, {WITH_STATUS: "true"}])
    async def test_nobody_else_gets_any(self, hub: TestHub, wish: dict[str, Any]) -> None:
        await hub.accept("cluster1")
        service = hub.services[WORKS.data_type]
        service.put(object_of(WORKS, "cluster1", "w1"))
        service.statuses = {"w1": b"{}"}
        asker = await Agent(hub, WORKS).listen()
        await asker.resync(**wish)
        await settle()
        (event,) = asker.listener.stream.events
        assert STATUS not in event.attributes
        assert service.lists == 0

    async def test_a_change_that_comes_while_the_answer_waits_does_not_cost_the_status(self, hub: TestHub) -> None:
        await hub.accept("cluster1")
        service = hub.services[WORKS.data_type]
        service.put(object_of(WORKS, "cluster1", "w1"))
        service.statuses = {"w1": b'{"a":1}'}
        asker = await Agent(hub, WORKS).listen()
        await asker.resync(**{WITH_STATUS: True})
        service.put(object_of(WORKS, "cluster1", "w1", version=2))
        await settle()
        (event,) = asker.listener.stream.events
        assert (event.attributes[RESOURCE_VERSION], event.text(STATUS)) == (2, '{"a":1}')

    async def test_a_status_for_which_there_is_no_room_is_left_out_and_the_work_is_not(self, hub: TestHub) -> None:
        await hub.accept("cluster1")
        service = hub.services[WORKS.data_type]
        service.put(object_of(WORKS, "cluster1", "w1"))
        service.statuses = {"w1": b'{"a":"%s"}' % (b"x" * MAX_EVENT)}
        asker = await Agent(hub, WORKS).listen()
        await asker.resync(**{WITH_STATUS: True})
        await settle()
        assert self.statuses(asker) == {"w1": ""}
        assert service.too_large == []

    async def test_the_hub_is_asked_once_at_a_time_for_a_cluster(self, hub: TestHub) -> None:
        await hub.accept("cluster1")
        service = hub.services[WORKS.data_type]
        service.gate = asyncio.Event()
        asker = await Agent(hub, WORKS).listen()
        asking = [asyncio.create_task(asker.resync(**{WITH_STATUS: True})) for _ in range(5)]
        await settle()
        assert service.lists == 1
        service.gate.set()
        await asyncio.gather(*asking)
        assert service.lists == 5

    async def test_a_hub_that_cannot_be_asked_is_asked_again(self, hub: TestHub) -> None:
        await hub.accept("cluster1")
        service = hub.services[WORKS.data_type]
        service.failure = Unreachable("hub", "away")
        asker = await Agent(hub, WORKS).listen()
        assert await code_of(asker.resync(**{WITH_STATUS: True})) == "UNAVAILABLE"


async def test_agents_of_ocm_1_2_name_uids_with_generations_and_hear_everything_but_works_again(hub: TestHub) -> None:
    """What they have at a generation is not known: neither a lease nor a signed request has any."""
    await hub.accept("cluster1")
    service = hub.services[LEASE_ROW.data_type]
    for uid in ("u1", "u2"):
        service.put(object_of(LEASE_ROW, "cluster1", uid, version=700))
    asker = await Agent(hub, LEASE_ROW).listen()
    await asker.resync(("u1", 0), ("u2", 3), ("", 0))
    assert sorted(await asker.heard()) == ["u1", "u2"]
    assert service.lists == 0
    assert b'grpc_server_ce_resync_unknown_total{data_type="coordination.k8s.io.v1.leases"} 0' in hub.metrics.render()


class TestTooLarge:
    """What cannot be sent must not be taken for gone: the agent would remove what it has brought."""

    @staticmethod
    def large(uid: str) -> Any:
        return object_of(WORKS, "cluster1", uid, version=3, spec="x" * (MAX_EVENT + 1))

    async def test_our_agents_are_told_that_it_is_there(self, hub: TestHub) -> None:
        await hub.accept("cluster1")
        service = hub.services[WORKS.data_type]
        service.put(self.large("large"))
        service.statuses = {"large": b"{}"}
        asker = await Agent(hub, WORKS).listen()
        wishes: tuple[dict[str, Any], ...] = ({RESYNC: "r1"}, {RESYNC: "r1", WITH_STATUS: True})
        for wish in wishes:
            await asker.resync(**wish)
            await settle()
            told, end = asker.listener.stream.events
            asker.listener.stream.messages = []
            assert (told.text(RESOURCE_ID), told.attributes[RESOURCE_VERSION], told.data) == ("large", 3, None)
            assert told.attributes[WITHHELD] is True
            assert resync_end(end) == "r1"
        assert service.too_large == ["large"] * 2

    async def test_nobody_else_could_read_that(self, hub: TestHub) -> None:
        await hub.accept("cluster1")
        hub.services[WORKS.data_type].put(self.large("large"))
        asker = await Agent(hub, WORKS).listen()
        await asker.resync()
        assert await asker.heard() == []
