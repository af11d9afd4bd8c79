"""What a durable store still knows after a restart."""

from __future__ import annotations

import pytest

from muster.store import Compacted, Retention
from tests.unit.store.conftest import Medium
from tests.unit.store.histories import PODS, Watcher, contents, create, delete, put


async def test_everything_acknowledged_is_there_again(durable: Medium) -> None:
    store = await durable.open()
    store.add_cluster("c")
    await create(store, "a", "1")
    kept = await put(store, "b", "2")
    await create(store, "d", "3", resource="/secrets")
    last = await delete(store, "a")
    store = await durable.reopen()
    assert [*store.clusters()] == ["c"]
    assert contents(store.list("c", PODS)) == [("b", "2")]
    found = store.get("c", PODS, "b")
    assert found is not None
    assert found.revision == kept.revision
    assert contents(store.list("c", "/secrets")) == [("d", "3")]
    assert store.revision == last.revision
    assert store.generation("c", PODS) == last.revision


async def test_watches_and_old_states_go_on_where_they_were(durable: Medium) -> None:
    store = await durable.open()
    store.add_cluster("c")
    states = {}
    for n in range(20):
        key = "abc"[n % 3]
        last = await (delete(store, key) if n % 4 == 3 and store.get("c", PODS, key) else put(store, key, str(n)))
        states[last.revision] = contents(store.list("c", PODS))
    before = Watcher(store, "c", PODS, 0).seen
    store = await durable.reopen()
    assert Watcher(store, "c", PODS, 0).seen == before
    for revision, state in states.items():
        assert contents(store.list_at("c", PODS, revision)) == state
    resumed = Watcher(store, "c", PODS, last.revision)
    new = await put(store, "new", "x")
    assert [event[2] for event in resumed.seen] == [new.revision]


async def test_revisions_go_on_even_when_nothing_is_left(durable: Medium) -> None:
    store = await durable.open()
    store.add_cluster("c")
    await create(store, "a", "1")
    last = await delete(store, "a")
    await store.compact(last.revision)
    store = await durable.reopen()
    assert store.revision == last.revision
    store.add_cluster("c")
    with pytest.raises(Compacted):
        store.subscribe("c", PODS, last.revision - 1, lambda events: None)
    assert (await create(store, "a", "1")).revision > last.revision


async def test_a_dropped_cluster_stays_dropped(durable: Medium) -> None:
    store = await durable.open()
    store.add_cluster("a")
    store.add_cluster("b")
    await create(store, "x", "old", "a")
    kept = await create(store, "x", "kept", "b")
    await store.drop_cluster("a")
    store = await durable.reopen()
    assert [*store.clusters()] == ["b"]
    with pytest.raises(Compacted):
        store.subscribe("a", PODS, kept.revision, lambda events: None)
    assert [event[4] for event in Watcher(store, "b", PODS, 0).seen] == ["kept"]
    store.add_cluster("a")
    new = await create(store, "x", "new", "a")
    store = await durable.reopen()
    assert contents(store.list("a", PODS)) == [("x", "new")]
    assert Watcher(store, "a", PODS, new.revision - 1).seen == [("ADDED", "x", new.revision, None, "new")]


@pytest.mark.parametrize("retention", [Retention(events=10), Retention(bucket_events=10), Retention(bytes=10)])
async def test_history_is_read_back_no_further_than_it_is_kept(durable: Medium, retention: Retention) -> None:
    store = await durable.open()
    store.add_cluster("c")
    for n in range(40):
        last = await put(store, "a", str(n))
    store = await durable.reopen(retention)
    assert contents(store.list("c", PODS)) == [("a", "39")]
    assert len(Watcher(store, "c", PODS, last.revision - 4).events) == 4
    with pytest.raises(Compacted):
        store.subscribe("c", PODS, last.revision - 20, lambda events: None)
    assert len(Watcher(store, "c", "/untouched", last.revision - 1).events) == 0


async def test_the_log_is_compacted_by_number(durable: Medium) -> None:
    store = await durable.open(Retention(log_rows=100))
    store.add_cluster("c")
    for n in range(400):
        last = await put(store, "a", str(n))
    store = await durable.reopen()
    with pytest.raises(Compacted):
        store.subscribe("c", PODS, last.revision - 300, lambda events: None)
    assert len(Watcher(store, "c", PODS, last.revision - 50).events) == 50
