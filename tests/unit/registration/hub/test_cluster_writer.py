"""Whoever changes the same cluster at the same time shares one write, and nobody pays for another's mistake."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
import pytest

from muster.api.cluster.v1 import ManagedCluster
from muster.registration.hub.cluster_writer import Change, ClusterWriter, WriteInterrupted, with_finalizers
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.errors import Conflict
from muster.runtime.client.rest import JSON, Query
from tests.unit.registration.hub.conftest import CountingClient, Play


class Gated(CountingClient):
    """Writes wait while the gate is shut."""

    passing: asyncio.Event
    waiting = 0
    """How many do."""

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if method == "PATCH":
            self.waiting += 1
            try:
                await self.passing.wait()
            finally:
                self.waiting -= 1
        return await super().exchange(method, path, query, body, media, idempotent=idempotent)


@dataclass
class Desk:
    play: Play
    client: Gated
    writer: ClusterWriter

    async def change(self, change: Change, name: str = "c1", *, status: bool = False) -> bool:
        return await self.writer.change(name, change, status=status)

    async def until_writing(self) -> None:
        """Until a write waits at the gate."""
        async with asyncio.timeout(20):
            while not self.client.waiting:  # noqa: ASYNC110
                await asyncio.sleep(0)


@pytest.fixture
async def desk(play: Play) -> AsyncIterator[Desk]:
    client = Gated(play.server.client(play.server.clusters["default"]))
    client.passing = asyncio.Event()
    client.passing.set()
    play.hub_client = client
    await play.create_cluster("c1")
    async with play.running() as world:
        clusters = world.clusters
        await clusters.synced()
        yield Desk(play, client, world.writer)


def label(key: str) -> Change:
    def change(cluster: ManagedCluster) -> ManagedCluster:
        metadata = msgspec.structs.replace(cluster.metadata, labels={**cluster.metadata.labels, key: "yes"})
        return msgspec.structs.replace(cluster, metadata=metadata)

    return change


def finalizer(name: str) -> Change:
    return lambda cluster: with_finalizers(cluster, add=name)


async def test_changes_at_the_same_time_are_one_patch(desk: Desk) -> None:
    wishes = [finalizer("example.com/a"), finalizer("example.com/b"), label("c"), finalizer("example.com/a")]
    altered = await asyncio.gather(*(desk.change(wish) for wish in wishes))
    assert altered == [True, True, True, False]
    assert len(desk.client.writes()) == 1
    found = await desk.play.admin.get(MANAGED_CLUSTERS, "c1")
    assert found["metadata"]["finalizers"] == ["example.com/a", "example.com/b"]
    assert found["metadata"]["labels"]["c"] == "yes"


async def test_what_every_cluster_should_have_comes_with_any_write(desk: Desk) -> None:
    def broken(cluster: ManagedCluster) -> ManagedCluster:
        raise LookupError("nothing to see")

    desk.writer.always(broken)
    desk.writer.always(finalizer("example.com/a"))
    assert await desk.change(label("b")) is True
    found = await desk.play.admin.get(MANAGED_CLUSTERS, "c1")
    assert found["metadata"]["finalizers"] == ["example.com/a"]
    assert await desk.change(finalizer("example.com/a")) is False
    assert len(desk.client.writes()) == 1


async def test_what_is_there_already_costs_nothing(desk: Desk) -> None:
    await desk.change(label("a"))
    desk.client.writes()
    assert await desk.change(label("a")) is False
    assert desk.client.writes() == []


async def test_who_comes_during_a_write_goes_on_from_its_answer(desk: Desk) -> None:
    desk.client.passing.clear()
    first = asyncio.create_task(desk.change(label("a")))
    await desk.until_writing()
    later = [asyncio.create_task(desk.change(label(key))) for key in ("b", "c")]
    await asyncio.sleep(0.01)
    desk.client.passing.set()
    assert await asyncio.gather(first, *later) == [True, True, True]
    assert len(desk.client.writes()) == 2
    assert (desk.writer.get("c1") or ManagedCluster()).metadata.labels == {"a": "yes", "b": "yes", "c": "yes"}


async def test_somebody_elses_write_is_a_conflict_for_all(desk: Desk) -> None:
    desk.client.passing.clear()
    both = [asyncio.create_task(desk.change(label(key))) for key in ("a", "b")]
    await desk.until_writing()
    await desk.play.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"labels": {"theirs": "yes"}}})
    desk.client.passing.set()
    results = await asyncio.gather(*both, return_exceptions=True)
    assert [type(result) for result in results] == [Conflict, Conflict]


async def test_a_change_that_fails_is_its_authors_problem_alone(desk: Desk) -> None:
    def broken(cluster: ManagedCluster) -> ManagedCluster:
        raise LookupError("nothing to see")

    results = await asyncio.gather(desk.change(broken), desk.change(label("a")), return_exceptions=True)
    assert isinstance(results[0], LookupError)
    assert results[1] is True


async def test_when_the_one_who_writes_is_stopped_the_others_are_told_and_can_try_again(desk: Desk) -> None:
    desk.client.passing.clear()
    first = asyncio.create_task(desk.change(label("a")))
    same = asyncio.create_task(desk.change(label("b")))
    await desk.until_writing()
    late = asyncio.create_task(desk.change(label("c")))
    await asyncio.sleep(0.01)
    first.cancel()
    results = await asyncio.gather(first, same, late, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError, WriteInterrupted, WriteInterrupted]
    desk.client.passing.set()
    assert await desk.change(label("b")) is True


async def test_a_cluster_that_is_gone_is_not_altered(desk: Desk) -> None:
    assert await desk.change(label("a"), "nobody") is False
    await desk.play.admin.delete(MANAGED_CLUSTERS, "c1")
    assert await desk.change(label("a")) is False


async def test_a_cluster_being_deleted_takes_no_new_finalizer(desk: Desk) -> None:
    await desk.change(finalizer("example.com/a"))
    await desk.play.admin.delete(MANAGED_CLUSTERS, "c1")

    async def going() -> bool:
        cluster = desk.writer.get("c1")
        return cluster is not None and bool(cluster.metadata.deletion_timestamp)

    await desk.play.until(going)
    assert await desk.change(finalizer("example.com/b")) is False


async def test_status_and_the_rest_are_written_one_after_the_other_without_conflict(desk: Desk) -> None:
    def claims(cluster: ManagedCluster) -> ManagedCluster:
        status = msgspec.structs.replace(cluster.status, capacity={"cpu": "1"})
        return msgspec.structs.replace(cluster, status=status)

    assert all(await asyncio.gather(desk.change(claims, status=True), desk.change(label("a"))))
    found = await desk.play.admin.get(MANAGED_CLUSTERS, "c1")
    assert found["status"]["capacity"] == {"cpu": "1"}
    assert found["metadata"]["labels"]["a"] == "yes"
