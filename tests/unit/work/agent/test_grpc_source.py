"""Works over gRPC: the hub confirms before anything is applied, statuses carry what tells old from new, deletions are final."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import msgspec
import orjson
import pytest

from muster.api import Condition, condition_of
from muster.api.work.v1 import ManifestWork, ManifestWorkStatus
from muster.machinery.objects import Object
from muster.runtime.client import Conflict, NotFound, Unreachable
from muster.transport.client.client import TransportClient
from muster.transport.codecs.sequence import REPORTED, Sequence, reason_of
from muster.transport.codecs.works import decode_status
from muster.transport.contract.event import METADATA, ORIGINAL_SOURCE
from muster.transport.contract.rows import WORKS
from muster.transport.contract.types import Action
from muster.work.agent.grpc_source import GrpcWorkSource
from muster.work.agent.source import hash_of
from muster.work.names import WORK_FINALIZER
from tests.support.fake_clock import FakeClock, settle
from tests.support.transport_hub import FakeHub

APPLIED = ManifestWorkStatus(conditions=(Condition(type="Applied", status="True", reason="R", message="m"),))
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}}


def a_work(name: str = "w1", *manifests: Object) -> Object:
    return {"metadata": {"name": name, "namespace": "c1"}, "spec": {"workload": {"manifests": list(manifests) or [CONFIG_MAP]}}}


async def until(condition: Callable[[], Any], what: str) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError(f"never: {what}")


class Agent:
    """A source and what it tells."""

    def __init__(self, hub: FakeHub) -> None:
        self.client: TransportClient = hub.connect(source="c1-work-agent", random=lambda: 0.5)
        self.source = GrpcWorkSource(self.client, "c1", clock=hub.clock)
        self.told: list[str] = []

    async def start(self) -> None:
        await self.source.until_synced()
        self.source.on_change(self.told.append)

    def work(self, name: str = "w1") -> ManifestWork:
        found = self.source.get(name)
        assert found is not None
        return found


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hub(clock: FakeClock) -> FakeHub:
    return FakeHub(clock=clock)


@pytest.fixture
async def agent(hub: FakeHub) -> AsyncIterator[Agent]:
    made = Agent(hub)
    await made.start()
    yield made
    await made.client.close()


def finalizers(hub: FakeHub, name: str = "w1") -> list[str]:
    stored = hub.get(WORKS, name, "c1")
    assert stored is not None
    return list(stored["metadata"].get("finalizers") or ())


async def test_works_come_as_they_are_on_the_hub(hub: FakeHub, agent: Agent) -> None:
    stored = hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    work = agent.work()
    assert agent.told == ["w1"]
    assert agent.source.names() == ["w1"]
    assert (work.metadata.uid, work.metadata.generation) == (stored["metadata"]["uid"], 1)
    assert [orjson.loads(bytes(one)) for one in work.spec.workload.manifests] == [CONFIG_MAP]
    assert agent.source.hub_hash == hash_of("hub.example:8090")


async def test_a_hold_is_confirmed_by_the_hub_and_is_no_news(hub: FakeHub, agent: Agent) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    held = await agent.source.hold(agent.work())
    assert held.metadata.finalizers == (WORK_FINALIZER,)
    assert finalizers(hub) == [WORK_FINALIZER]
    assert agent.work().metadata.finalizers == (WORK_FINALIZER,)
    assert agent.told == ["w1"]


async def test_a_hold_that_the_hub_does_not_take_is_none(hub: FakeHub, agent: Agent) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    hub.servers["hub.example:8090"].alive = False
    with pytest.raises(Unreachable):
        await agent.source.hold(agent.work())
    assert agent.work().metadata.finalizers == ()


async def test_a_hold_of_an_old_generation_does_not_count_for_the_new(hub: FakeHub, agent: Agent) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    old = agent.work()
    hub.mute.add(WORKS)
    changed = hub.put(WORKS, a_work("w1", CONFIG_MAP, CONFIG_MAP))
    await agent.source.hold(old)
    assert finalizers(hub) == [], "the hub says OK to what is about an old generation, and does nothing"
    hub.streams(WORKS)[0].send(hub.event(WORKS, Action.UPDATE, changed))
    await until(lambda: agent.work().metadata.generation == 2, "the new generation")
    assert agent.work().metadata.finalizers == ()
    with pytest.raises(Conflict):
        await agent.source.hold(old)
    await agent.source.hold(agent.work())
    assert finalizers(hub) == [WORK_FINALIZER]


async def test_a_hold_of_a_work_that_is_gone_is_not_found(hub: FakeHub, agent: Agent) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    work = agent.work()
    hub.remove(WORKS, "w1", "c1")
    await until(lambda: agent.source.get("w1") is None, "the end")
    with pytest.raises(NotFound):
        await agent.source.hold(work)


async def test_a_report_carries_generation_source_and_a_growing_number(hub: FakeHub, agent: Agent) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    first = await agent.source.report(agent.work(), APPLIED)
    second = msgspec.structs.replace(APPLIED, conditions=(*APPLIED.conditions, Condition(type="Available", status="True")))
    await agent.source.report(first, second)
    reports = [decode_status(event) for event in hub.published]
    assert [report.generation for report in reports] == [1, 1]
    assert reports[0].sequence < reports[1].sequence
    assert {event.source for event in hub.published} == {"c1-work-agent"}
    assert {event.attributes[ORIGINAL_SOURCE] for event in hub.published} == {"kube"}
    assert "resourceVersion" not in str(hub.published[0].attributes[METADATA])
    assert agent.work().status == second
    stored = hub.get(WORKS, "w1", "c1")
    assert stored is not None
    assert [one["type"] for one in stored["status"]["conditions"]] == ["Applied", "Available"]


async def test_what_the_hub_was_told_already_is_not_sent_again(hub: FakeHub, agent: Agent) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    for _ in range(3):
        await agent.source.report(agent.work(), APPLIED)
    assert len(hub.published) == 1


async def test_a_report_that_did_not_arrive_is_sent_again(hub: FakeHub, agent: Agent) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    hub.servers["hub.example:8090"].alive = False
    with pytest.raises(Unreachable):
        await agent.source.report(agent.work(), APPLIED)
    hub.servers["hub.example:8090"].alive = True
    await agent.source.report(agent.work(), APPLIED)
    assert len(hub.published) == 1


async def test_a_status_stays_when_the_spec_changes_and_a_stale_report_conflicts(hub: FakeHub, agent: Agent) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    old = await agent.source.report(agent.work(), APPLIED)
    hub.put(WORKS, {**a_work("w1", CONFIG_MAP, CONFIG_MAP)})
    await until(lambda: agent.work().metadata.generation == 2, "the new generation")
    assert agent.work().status == APPLIED
    with pytest.raises(Conflict):
        await agent.source.report(old, ManifestWorkStatus())


async def test_a_deleted_work_is_seen_to_the_end_and_never_comes_back(hub: FakeHub, agent: Agent, clock: FakeClock) -> None:
    alive = hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    await agent.source.hold(agent.work())
    hub.delete(WORKS, "w1", "c1")
    await until(lambda: agent.work().metadata.deletion_timestamp, "the deletion")
    assert len(agent.work().spec.workload.manifests) == 1
    stream = hub.streams(WORKS)[0]
    # Late messages of before the deletion, also as answers to a resync.
    stream.send(hub.event(WORKS, Action.UPDATE, alive))
    stream.send(hub.event(WORKS, Action.RESYNC_RESPONSE, alive))
    await settle()
    assert agent.work().metadata.deletion_timestamp
    await agent.source.release(agent.work())
    assert hub.get(WORKS, "w1", "c1") is None
    assert condition_of(decode_conditions(hub), "Deleted") is not None
    assert agent.source.get("w1") is None
    stream.send(hub.event(WORKS, Action.UPDATE, alive))
    stream.send(hub.event(WORKS, Action.RESYNC_RESPONSE, alive))
    await settle()
    assert agent.source.get("w1") is None


def decode_conditions(hub: FakeHub) -> tuple[Condition, ...]:
    conditions = decode_status(hub.published[-1]).status["conditions"]
    return tuple(Condition(type=one["type"], status=one["status"]) for one in conditions)


async def test_a_release_that_did_not_arrive_is_no_release(hub: FakeHub, agent: Agent) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    await agent.source.hold(agent.work())
    hub.delete(WORKS, "w1", "c1")
    await until(lambda: agent.work().metadata.deletion_timestamp, "the deletion")
    hub.servers["hub.example:8090"].alive = False
    with pytest.raises(Unreachable):
        await agent.source.release(agent.work())
    assert agent.work().metadata.deletion_timestamp
    hub.servers["hub.example:8090"].alive = True
    await agent.source.release(agent.work())
    assert hub.get(WORKS, "w1", "c1") is None


async def test_a_deletion_that_was_missed_arrives_with_the_resync(hub: FakeHub, agent: Agent, clock: FakeClock) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    await agent.source.hold(agent.work())
    hub.kill("hub.example:8090")
    hub.delete(WORKS, "w1", "c1")
    hub.servers["hub.example:8090"].alive = True
    await clock.advance(5)
    assert agent.work().metadata.deletion_timestamp
    assert agent.told[-1] == "w1"


async def test_a_restarted_agent_learns_of_a_work_that_is_being_deleted(hub: FakeHub, agent: Agent) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    await agent.source.hold(agent.work())
    hub.delete(WORKS, "w1", "c1")
    other = Agent(hub)
    await other.start()
    work = other.work()
    assert work.metadata.deletion_timestamp
    assert work.metadata.finalizers == (WORK_FINALIZER,)
    await other.source.release(work)
    assert hub.get(WORKS, "w1", "c1") is None
    await other.client.close()


async def test_a_held_work_that_was_removed_by_force_is_seen_to_its_end(hub: FakeHub, agent: Agent) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    await agent.source.hold(agent.work())
    hub.remove(WORKS, "w1", "c1")
    await until(lambda: agent.work().metadata.deletion_timestamp, "the deletion")
    await agent.source.release(agent.work())
    assert agent.source.get("w1") is None


async def test_a_held_work_that_was_removed_by_force_while_away_is_seen_to_its_end(
    hub: FakeHub, agent: Agent, clock: FakeClock
) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    await agent.source.hold(agent.work())
    hub.kill("hub.example:8090")
    hub.remove(WORKS, "w1", "c1")
    hub.servers["hub.example:8090"].alive = True
    await clock.advance(5)
    assert agent.work().metadata.deletion_timestamp
    await agent.source.release(agent.work())
    assert agent.source.get("w1") is None


async def test_a_work_that_was_never_held_is_simply_gone(hub: FakeHub, agent: Agent) -> None:
    hub.put(WORKS, a_work())
    await until(lambda: agent.told, "the work")
    hub.remove(WORKS, "w1", "c1")
    await until(lambda: agent.source.get("w1") is None, "the end")
    assert agent.told == ["w1", "w1"]


async def test_an_upstream_server_that_has_lost_a_work_only_makes_it_missing(clock: FakeClock) -> None:
    """It says so of all works while it starts: they are evicted after their time of grace if they stay away, not deleted now."""
    hub = FakeHub(clock=clock, go=True)
    hub.put(WORKS, a_work())
    agent = Agent(hub)
    agent.source.names()
    await clock.advance(3)
    await agent.start()
    await agent.source.hold(agent.work())
    hub.kill("hub.example:8090")
    stored = hub.objects[WORKS].popitem()
    hub.servers["hub.example:8090"].alive = True
    await clock.advance(5)
    assert agent.source.get("w1") is None
    hub.objects[WORKS][stored[0]] = stored[1]
    hub.streams(WORKS)[0].send(hub.event(WORKS, Action.CREATE, stored[1]))
    await clock.advance(0.1)
    assert agent.work().metadata.finalizers == (WORK_FINALIZER,)
    await agent.client.close()


async def test_nothing_is_known_before_the_first_resync_has_ended(hub: FakeHub, clock: FakeClock) -> None:
    hub.servers["hub.example:8090"].cold = True
    agent = Agent(hub)
    waiting = asyncio.ensure_future(agent.source.until_synced())
    await clock.advance(3)
    assert not waiting.done()
    hub.servers["hub.example:8090"].cold = False
    await clock.advance(6)
    await waiting
    assert agent.source.synced
    await agent.client.close()


class TestRestart:
    """Another process of the same agent begins with what the hub was told."""

    @staticmethod
    async def restarted(hub: FakeHub) -> Agent:
        former = Agent(hub)
        await former.start()
        hub.put(WORKS, a_work())
        await until(lambda: former.told, "the work")
        await former.source.report(await former.source.hold(former.work()), APPLIED)
        await former.client.close()
        hub.published.clear()
        return Agent(hub)

    async def test_a_report_that_says_nothing_new_is_not_sent(self, hub: FakeHub) -> None:
        agent = await self.restarted(hub)
        await agent.start()
        assert agent.work().status == APPLIED
        await agent.source.report(agent.work(), APPLIED)
        assert hub.published == []
        await agent.client.close()

    async def test_reports_are_numbered_higher_than_the_last_though_the_clock_is_behind(
        self, hub: FakeHub, clock: FakeClock
    ) -> None:
        """The agent before it was on another machine."""
        agent = await self.restarted(hub)
        stored = hub.get(WORKS, "w1", "c1")
        assert stored is not None
        last = Sequence(FakeClock(clock.now() + timedelta(seconds=5))).next()
        noted = {"type": REPORTED, "status": "True", "reason": reason_of(last)}
        hub.restore(WORKS, {**stored, "status": {"conditions": [*stored["status"]["conditions"], noted]}})
        await agent.start()
        assert agent.work().status == APPLIED
        await agent.source.report(agent.work(), ManifestWorkStatus())
        assert decode_status(hub.published[-1]).sequence > last
        await agent.client.close()

    async def test_a_status_survives_changes_that_come_without(self, hub: FakeHub) -> None:
        agent = await self.restarted(hub)
        await agent.source.until_synced()
        hub.put(WORKS, a_work("w1", CONFIG_MAP, CONFIG_MAP))
        agent.source.on_change(agent.told.append)
        await until(lambda: agent.work().metadata.generation == 2, "the new generation")
        assert agent.work().status == APPLIED
        await agent.client.close()

    async def test_a_break_of_the_first_stream_does_not_cost_the_status(self, hub: FakeHub, clock: FakeClock) -> None:
        agent = await self.restarted(hub)
        hub.servers["hub.example:8090"].cold = True
        task = asyncio.create_task(agent.start())
        await clock.advance(1)
        hub.cut("hub.example:8090")
        hub.servers["hub.example:8090"].cold = False
        await clock.advance(5)
        await task
        assert agent.work().status == APPLIED
        await agent.client.close()

    @pytest.mark.parametrize("status", [[], "odd"])
    async def test_a_status_that_cannot_be_read_is_reported_anew(self, hub: FakeHub, status: Any) -> None:
        agent = await self.restarted(hub)
        stored = hub.get(WORKS, "w1", "c1")
        assert stored is not None
        hub.restore(WORKS, {**stored, "status": status or {"conditions": "odd"}})
        await agent.start()
        await agent.source.report(agent.work(), APPLIED)
        assert len(hub.published) == 1
        await agent.client.close()
