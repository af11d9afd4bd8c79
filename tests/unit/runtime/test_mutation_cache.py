"""A writer sees its own writes at once, the watch's news as soon as they are newer, and forgets what is never confirmed."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from muster.fleet.in_process import InProcessClient
from muster.machinery.objects import ObjectKey
from muster.runtime.cache.informer import Informer
from muster.runtime.cache.mutation_cache import CONFIRM_TIMEOUT, MutationCache
from muster.runtime.cache.store import Snapshot
from muster.runtime.client.builtin import CONFIG_MAPS
from tests.support.fake_clock import FakeClock
from tests.unit.runtime.conftest import config_map, eventually

A = ObjectKey("default", "a")


@pytest.fixture
async def informer(client: InProcessClient) -> AsyncIterator[Informer[Snapshot]]:
    """Synced, and then deaf until a test runs it again: what it says is old."""
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, "default", label_selector="seen")
    await follow(informer)
    return informer  # type: ignore[return-value]


async def follow(informer: Informer[Snapshot], until: str = "") -> None:
    task = asyncio.create_task(informer.run())

    def arrived() -> bool:
        found = informer.cache.snapshot(A)
        return informer.has_synced and (not until or (until == "gone" if found is None else found.resource_version == until))

    await eventually(arrived)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def value(found: Snapshot | None) -> str | None:
    return None if found is None else found.data["data"]["k"]


def labelled(k: str) -> dict[str, object]:
    return config_map("a", labels={"seen": "y"}, k=k)


async def test_what_was_created_and_changed_is_seen_before_the_watch_tells(
    client: InProcessClient, informer: Informer[Snapshot], clock: FakeClock
) -> None:
    latest = MutationCache(informer, clock=clock)
    assert latest.get(A) is None
    latest.record_write(await client.create(CONFIG_MAPS, labelled("1")))
    assert value(latest.get(A)) == "1"
    assert value(latest.record_write(await client.patch(CONFIG_MAPS, "a", {"data": {"k": "2"}}, "default"))) == "2"
    assert value(latest.get(A)) == "2"


async def test_what_somebody_else_wrote_later_wins(client: InProcessClient, informer: Informer[Snapshot], clock: FakeClock) -> None:
    latest = MutationCache(informer, clock=clock)
    latest.record_write(await client.create(CONFIG_MAPS, labelled("1")))
    theirs = await client.patch(CONFIG_MAPS, "a", {"data": {"k": "theirs"}}, "default")
    await follow(informer, theirs["metadata"]["resourceVersion"])
    assert value(latest.get(A)) == "theirs"
    await client.delete(CONFIG_MAPS, "a", "default")
    await follow(informer, "gone")
    assert latest.get(A) is None


async def test_what_was_deleted_is_gone_at_once_and_its_successor_is_seen(
    client: InProcessClient, informer: Informer[Snapshot], clock: FakeClock
) -> None:
    latest = MutationCache(informer, clock=clock)
    made = await client.create(CONFIG_MAPS, labelled("1"))
    await follow(informer, made["metadata"]["resourceVersion"])
    uid = made["metadata"]["uid"]
    latest.record_delete(A, uid, await client.delete(CONFIG_MAPS, "a", "default"))
    assert latest.get(A) is None
    again = await client.create(CONFIG_MAPS, labelled("2"))
    await follow(informer, again["metadata"]["resourceVersion"])
    assert value(latest.get(A)) == "2"


async def test_what_is_held_by_a_finalizer_is_there_until_that_is_taken_off(
    client: InProcessClient, informer: Informer[Snapshot], clock: FakeClock
) -> None:
    latest = MutationCache(informer, clock=clock)
    body = labelled("1")
    body["metadata"]["finalizers"] = ["test/held"]  # type: ignore[index]
    made = await client.create(CONFIG_MAPS, body)
    await follow(informer, made["metadata"]["resourceVersion"])
    latest.record_delete(A, made["metadata"]["uid"], await client.delete(CONFIG_MAPS, "a", "default"))
    held = latest.get(A)
    assert held is not None
    assert held.data["metadata"]["deletionTimestamp"]
    latest.record_write(await client.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, "default"))
    assert latest.get(A) is None


async def test_what_the_watch_never_confirms_is_forgotten(
    client: InProcessClient, informer: Informer[Snapshot], clock: FakeClock
) -> None:
    latest = MutationCache(informer, clock=clock)
    latest.record_write(await client.create(CONFIG_MAPS, labelled("1")))
    await client.delete(CONFIG_MAPS, "a", "default")
    assert value(latest.get(A)) == "1"
    await clock.advance(CONFIRM_TIMEOUT)
    assert latest.get(A) is None


async def test_what_nobody_asks_for_again_takes_no_room(
    client: InProcessClient, informer: Informer[Snapshot], clock: FakeClock
) -> None:
    latest = MutationCache(informer, clock=clock)
    for number in range(50):
        latest.record_write(await client.create(CONFIG_MAPS, config_map(f"n{number}", k="v")))
        await clock.advance(1)
    assert len(latest._own) <= CONFIRM_TIMEOUT + 1


async def test_everything_is_listed_as_it_was_last_written(
    client: InProcessClient, informer: Informer[Snapshot], clock: FakeClock
) -> None:
    latest = MutationCache(informer, clock=clock)
    assert latest.snapshots() == []
    latest.record_write(await client.create(CONFIG_MAPS, labelled("1")))
    assert [value(one) for one in latest.snapshots()] == ["1"]
    assert latest.snapshots("elsewhere") == []
    made = await client.get(CONFIG_MAPS, "a", "default")
    latest.record_delete(A, made["metadata"]["uid"], await client.delete(CONFIG_MAPS, "a", "default"))
    assert latest.snapshots("default") == []


def test_a_pod_that_has_its_time_to_end_is_still_there(informer: Informer[Snapshot], clock: FakeClock) -> None:
    latest = MutationCache(informer, clock=clock)
    metadata = {
        "name": "a",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "9",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    leaving = {"metadata": {**metadata, "deletionGracePeriodSeconds": 30}}
    assert latest.record_write(leaving) is not None
    latest.record_delete(A, "u", leaving)
    assert latest.get(A) is not None
    latest.record_delete(A, "u", {"metadata": {**metadata, "deletionGracePeriodSeconds": 0}})
    assert latest.get(A) is None


async def test_what_the_watch_tells_to_be_gone_is_gone_whatever_was_answered(
    informer: Informer[Snapshot], clock: FakeClock
) -> None:
    latest = MutationCache(informer, clock=clock)
    latest.record_write({"metadata": {"name": "a", "namespace": "default", "uid": "second", "resourceVersion": "9"}})
    latest.confirm_delete(A, "first")
    assert latest.get(A) is not None, "another object of that name went"
    latest.confirm_delete(A, "second")
    assert latest.get(A) is None


async def test_an_answer_from_before_the_end_that_comes_after_it_brings_nothing_back(
    informer: Informer[Snapshot], clock: FakeClock
) -> None:
    """A write was under way while somebody deleted the object, and the watch was faster."""
    latest = MutationCache(informer, clock=clock)
    latest.confirm_delete(A, "first")
    assert latest.record_write({"metadata": {"name": "a", "namespace": "default", "uid": "first", "resourceVersion": "9"}}) is None
    assert latest.get(A) is None
    assert latest.snapshots() == []
    latest.record_write({"metadata": {"name": "a", "namespace": "default", "uid": "second", "resourceVersion": "11"}})
    assert latest.get(A) is not None, "the next of that name is another object"
    await clock.advance(CONFIRM_TIMEOUT)
    assert not latest._gone, "ends take no room for long"
