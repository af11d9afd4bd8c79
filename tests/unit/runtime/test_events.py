"""Events are noted without waiting, gathered into series, and bounded."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from muster.fleet.in_process import InProcessClient
from muster.machinery.objects import Object
from muster.runtime.client.builtin import CONFIG_MAPS, EVENTS
from muster.runtime.client.errors import Unreachable
from muster.runtime.client.rest import JSON, Query
from muster.runtime.controller.events import YIELD_TIMEOUT, EventRecorder
from tests.support.fake_clock import FakeClock, settle
from tests.unit.runtime.conftest import config_map


class Flaky(InProcessClient):
    failing = False

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if self.failing:
            raise Unreachable(self.server, "away")
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)


@pytest.fixture
def flaky(client: InProcessClient) -> Flaky:
    return Flaky(client._client)


@pytest.fixture
async def recorder(flaky: Flaky, clock: FakeClock) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(flaky, "muster.io/test", "pod-1", clock=clock)
    task = asyncio.create_task(recorder.run())
    yield recorder
    task.cancel()


@pytest.fixture
async def subject(client: InProcessClient) -> Object:
    return await client.create(CONFIG_MAPS, config_map("subject"))


async def events(client: InProcessClient) -> list[Object]:
    return (await client.list(EVENTS, "default")).items


async def test_an_event_says_who_did_what_to_whom(client: InProcessClient, recorder: EventRecorder, subject: Object) -> None:
    recorder.event(subject, "Warning", "NotAccepted", "waiting for an administrator", action="Accepting")
    await recorder.flushed()
    (event,) = await events(client)
    assert (event["type"], event["reason"], event["action"]) == ("Warning", "NotAccepted", "Accepting")
    assert event["note"] == "waiting for an administrator"
    assert event["regarding"]["uid"] == subject["metadata"]["uid"]
    assert (event["reportingController"], event["reportingInstance"]) == ("muster.io/test", "pod-1")


async def test_events_give_way_to_what_is_more_urgent_but_not_for_ever(
    client: InProcessClient, recorder: EventRecorder, subject: Object, clock: FakeClock
) -> None:
    busy = True
    recorder.yield_to(lambda: busy)
    recorder.event(subject, "Normal", "First", "one")
    await clock.advance(YIELD_TIMEOUT - 0.5)
    await settle()
    assert await events(client) == []
    busy = False
    await clock.advance(0.1)
    await recorder.flushed()
    assert [one["reason"] for one in await events(client)] == ["First"]
    busy = True
    for reason in ("Second", "Third"):
        recorder.event(subject, "Normal", reason, "more")
    await settle()
    assert len(await events(client)) == 1
    await clock.advance(YIELD_TIMEOUT + 0.1)
    await recorder.flushed()
    assert len(await events(client)) == 3


async def test_what_repeats_is_one_event_with_a_count(
    client: InProcessClient, recorder: EventRecorder, subject: Object, clock: FakeClock
) -> None:
    for _ in range(2):
        recorder.event(subject, "Normal", "Tried", "again")
        await recorder.flushed()
    assert (await events(client))[0]["series"]["count"] == 2
    for _ in range(50):
        recorder.event(subject, "Normal", "Tried", "again")
        await settle()
    assert (await events(client))[0]["series"]["count"] == 2
    await clock.advance(61)
    await recorder.flushed()
    (event,) = await events(client)
    assert event["series"]["count"] == 52


async def test_after_a_silence_it_is_a_new_event(
    client: InProcessClient, recorder: EventRecorder, subject: Object, clock: FakeClock
) -> None:
    recorder.event(subject, "Normal", "Tried", "again")
    await recorder.flushed()
    await clock.advance(400)
    recorder.event(subject, "Normal", "Tried", "again")
    await recorder.flushed()
    assert len(await events(client)) == 2


async def test_an_object_that_talks_too_much_is_cut_short_and_others_are_not(
    client: InProcessClient, recorder: EventRecorder, subject: Object, clock: FakeClock
) -> None:
    other = await client.create(CONFIG_MAPS, config_map("other"))
    for number in range(100):
        recorder.event(subject, "Normal", "Chatter", f"number {number}")
    recorder.event(other, "Normal", "Said", "once")
    await recorder.flushed()
    found = await events(client)
    assert len([event for event in found if event["reason"] == "Chatter"]) == 25
    assert len([event for event in found if event["reason"] == "Said"]) == 1
    assert recorder.dropped == 75
    await clock.advance(301)
    recorder.event(subject, "Normal", "Chatter", "one more is allowed by now")
    recorder.event(subject, "Normal", "Chatter", "but not two")
    assert recorder.dropped == 76


async def test_a_server_that_is_away_blocks_nobody_and_gets_the_event_later(
    client: InProcessClient, flaky: Flaky, recorder: EventRecorder, subject: Object, clock: FakeClock
) -> None:
    flaky.failing = True
    recorder.event(subject, "Normal", "Happened", "while you were away")
    await clock.advance(5)
    flaky.failing = False
    await clock.advance(60)
    assert len(await events(client)) == 1


async def test_the_notes_waiting_to_be_written_are_bounded(flaky: Flaky, clock: FakeClock) -> None:
    recorder = EventRecorder(flaky, "muster.io/test", "pod-1", clock=clock)
    for number in range(1500):
        recorder.event(config_map(f"c{number}"), "Normal", "Happened", "x")
    assert recorder.dropped == 500


async def test_an_event_that_the_server_forgot_is_made_again(
    client: InProcessClient, recorder: EventRecorder, subject: Object
) -> None:
    recorder.event(subject, "Normal", "Tried", "again")
    await recorder.flushed()
    await client.delete_collection(EVENTS, "default")
    recorder.event(subject, "Normal", "Tried", "again")
    await recorder.flushed()
    (event,) = await events(client)
    assert event["series"]["count"] == 2


async def test_an_event_about_a_cluster_scoped_object_lies_in_default(client: InProcessClient, recorder: EventRecorder) -> None:
    recorder.event({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n" * 253}}, "Normal", "Seen", "x")
    await recorder.flushed()
    assert len(await events(client)) == 1


async def test_what_happens_during_a_write_is_written_after_it(client: InProcessClient, flaky: Flaky, clock: FakeClock) -> None:
    recorder = EventRecorder(flaky, "muster.io/test", "pod-1", clock=clock)
    recorder.event(config_map("a"), "Normal", "Tried", "again")
    flaky.failing = True
    task = asyncio.create_task(recorder.run())
    await settle()
    recorder.event(config_map("a"), "Normal", "Tried", "again")
    flaky.failing = False
    await clock.advance(2)
    await recorder.flushed()
    (event,) = await events(client)
    assert event["series"]["count"] == 2
    task.cancel()
