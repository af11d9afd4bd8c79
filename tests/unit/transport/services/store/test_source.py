"""A source tells what is in the store, what went before it was there, and every change once, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from muster.api.agents import CLUSTER_LABEL
from muster.apiserver.objects import stored
from muster.runtime.cache import Snapshot
from muster.store import Store, open_store
from muster.store.api import ABSENT
from muster.store.memory import MemoryStore
from muster.transport.contract.rows import ADDONS_ALPHA, ADDONS_BETA, LEASE_ROW, WORKS, Row
from muster.transport.services.store.source import StoreSource
from tests.support.fake_clock import settle

HUB = "hub"


async def put(store: Store, row: Row, name: str, *, cluster: str = "c1", labels: dict[str, str] | None = None, **rest: Any) -> int:
    key = f"{cluster}/{name}"
    head = store.head(HUB, stored(row.resource), key)

    def encode(revision: int) -> bytes:
        metadata = {"resourceVersion": str(revision), "name": name, "namespace": cluster, "uid": rest.get("uid", f"uid-{name}")}
        metadata |= {"labels": labels} if labels else {}
        body = {key: value for key, value in rest.items() if key != "uid"}
        return orjson.dumps({"kind": row.resource.kind, "apiVersion": row.resource.api_version, "metadata": metadata, **body})

    entry = await store.commit(HUB, stored(row.resource), key, encode, ABSENT if head is None else head.revision)
    return entry.revision


async def remove(store: Store, row: Row, name: str, cluster: str = "c1") -> None:
    key = f"{cluster}/{name}"
    head = store.head(HUB, stored(row.resource), key)
    assert head is not None
    await store.commit(HUB, stored(row.resource), key, lambda revision: head.value, head.revision, delete=True)


class Listener:
    def __init__(self, source: StoreSource) -> None:
        self.source = source
        self.told: list[tuple[str | None, str | None]] = []
        self.before_sync: list[tuple[str | None, str | None]] = []
        self.snapshots: list[Snapshot | None] = []
        source.on_change(self._on_change)

    def _on_change(self, old: Snapshot | None, new: Snapshot | None) -> None:
        step = (None if old is None else old.name, None if new is None else new.name)
        (self.told if self.source.synced else self.before_sync).append(step)
        self.snapshots.append(new)


@asynccontextmanager
async def following(row: Row, store: Store) -> AsyncIterator[Listener]:
    source = StoreSource(row, store, HUB)
    listener = Listener(source)
    was_synced = source.synced
    task = asyncio.create_task(source.run())
    await settle()
    assert (was_synced, source.synced) == (False, True)
    try:
        yield listener
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = MemoryStore()
    await store.start()
    store.add_cluster(HUB)
    yield store
    await store.close()


async def test_what_is_there_is_told_before_it_is_synced_and_changes_after(store: Store) -> None:
    await put(store, WORKS, "old")
    async with following(WORKS, store) as listener:
        assert listener.before_sync == [(None, "old")]
        await put(store, WORKS, "new")
        await put(store, WORKS, "old", spec={"changed": True})
        await remove(store, WORKS, "old")
        assert listener.told == [(None, "new"), ("old", "old"), ("old", None)]


async def test_whoever_comes_later_is_told_what_is_there(store: Store) -> None:
    async with following(WORKS, store) as listener:
        await put(store, WORKS, "one")
        assert Listener(listener.source).told == [(None, "one")]


async def test_deletions_in_the_history_are_told_as_having_come_and_gone(store: Store) -> None:
    await put(store, WORKS, "stays")
    await put(store, WORKS, "went")
    await remove(store, WORKS, "went")
    async with following(WORKS, store) as listener:
        assert listener.before_sync == [(None, "went"), ("went", None), (None, "stays")]


async def test_history_that_is_gone_is_no_failure(store: Store) -> None:
    await put(store, WORKS, "first")
    await remove(store, WORKS, "first")
    await put(store, WORKS, "second")
    await store.compact(store.revision)
    await put(store, WORKS, "third")
    await remove(store, WORKS, "third")
    async with following(WORKS, store) as listener:
        assert listener.before_sync == [(None, "third"), ("third", None), (None, "second")]


async def test_events_that_were_missed_are_made_up_for_by_comparing(store: Store) -> None:
    assert isinstance(store, MemoryStore)
    for name in ("same", "changed", "gone"):
        await put(store, WORKS, name)
    async with following(WORKS, store) as listener:
        subscription, listener.source._on_events = listener.source._subscription, lambda events: None  # type: ignore[method-assign]
        assert subscription is not None
        subscription.close()
        await put(store, WORKS, "changed", spec={})
        await put(store, WORKS, "came")
        await remove(store, WORKS, "gone")
        assert listener.told == []
        del listener.source._on_events
        listener.source._on_lost()
        assert sorted(listener.told, key=str) == sorted([("gone", None), ("changed", "changed"), (None, "came")], key=str)
        await put(store, WORKS, "later")
        assert listener.told[-1] == (None, "later")


async def test_only_what_carries_the_rows_label_is_told(store: Store) -> None:
    label = {CLUSTER_LABEL: "c1"}
    async with following(LEASE_ROW, store) as listener:
        await put(store, LEASE_ROW, "other")
        await put(store, LEASE_ROW, "mine", labels=label)
        await put(store, LEASE_ROW, "mine", labels=label, spec={"renewTime": "now"})
        await put(store, LEASE_ROW, "mine")
        await remove(store, LEASE_ROW, "mine")
        assert listener.told == [(None, "mine"), ("mine", "mine"), ("mine", None)]


async def test_an_object_is_told_in_the_version_of_the_row(store: Store) -> None:
    spec = {"installNamespace": "somewhere"}
    async with following(ADDONS_BETA, store) as beta, following(ADDONS_ALPHA, store) as alpha:
        await put(store, ADDONS_ALPHA, "addon", spec=spec)
        (told,) = beta.snapshots
        assert told is not None
        converted = told.decode()
        assert converted["apiVersion"] == ADDONS_BETA.resource.api_version
        assert "installNamespace" not in converted["spec"]
        assert "somewhere" in converted["metadata"]["annotations"].values()
        (same,) = alpha.snapshots
        assert same is not None
        assert same.decode()["spec"] == spec
        await remove(store, ADDONS_ALPHA, "addon")
        assert beta.told[-1] == ("addon", None)


async def test_an_object_that_cannot_be_read_harms_no_other(store: Store) -> None:
    async with following(WORKS, store) as listener:
        await store.commit(HUB, stored(WORKS.resource), "c1/odd", lambda revision: b"{not json", ABSENT)
        await store.commit(HUB, stored(WORKS.resource), "c1/foreign", lambda revision: b'{"kind":"Work","apiVersion":"v9"}', ABSENT)
        await put(store, WORKS, "fine")
        await remove(store, WORKS, "odd")
        assert listener.told == [(None, "fine")]


async def test_changes_of_another_process_arrive(postgres: str) -> None:
    stores = [open_store(postgres) for _ in range(2)]
    for each in stores:
        await each.start()
        each.add_cluster(HUB)
    one, two = stores
    try:
        await put(one, WORKS, "before")
        await two.synced()
        async with following(WORKS, two) as listener:
            for number in range(20):
                await put(one, WORKS, f"work-{number}")
            await two.synced()
            assert listener.told == [(None, f"work-{number}") for number in range(20)]
            await remove(one, WORKS, "before")
            await two.synced()
            assert listener.told[-1] == ("before", None)
        async with following(WORKS, two) as again:
            assert ("before", None) in again.before_sync
    finally:
        for each in stores:
            await each.close()
