"""What every store does, whatever it is kept in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from muster.store import ABSENT, Compacted, Conflict, Event, Retention, StoreError
from tests.unit.store.conftest import Medium
from tests.unit.store.histories import PODS, Watcher, contents, create, delete, put


async def test_a_write_is_read_back_with_its_revision(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    written = await store.commit("c", PODS, "ns/a", lambda revision: f"at {revision}".encode())
    found = store.get("c", PODS, "ns/a")
    assert found is not None
    assert (found.key, found.revision, found.value) == ("ns/a", written.revision, f"at {written.revision}".encode())
    assert store.revision == written.revision > 1
    assert store.get("c", PODS, "ns/b") is None
    assert store.get("c", "/secrets", "ns/a") is None


async def test_revisions_grow_over_all_clusters_and_resources(medium: Medium) -> None:
    store = await medium.open()
    revisions = []
    for cluster in ("a", "b"):
        store.add_cluster(cluster)
        for resource in (PODS, "apps/deployments"):
            revisions.append((await create(store, "x", "1", cluster, resource)).revision)
    assert revisions == sorted(set(revisions))
    assert [store.generation(c, r) for c in ("a", "b") for r in (PODS, "apps/deployments")] == revisions


async def test_a_write_with_a_stale_expectation_conflicts_and_changes_nothing(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    first = await create(store, "a", "1")
    second = await put(store, "a", "2", first.revision)
    for expect in (first.revision, ABSENT, second.revision + 1):
        with pytest.raises(Conflict) as conflict:
            await put(store, "a", "3", expect)
        assert conflict.value.head is not None
        assert conflict.value.head.revision == second.revision
    with pytest.raises(Conflict) as conflict:
        await put(store, "b", "3", first.revision)
    assert conflict.value.head is None
    assert contents(store.list("c", PODS)) == [("a", "2")]
    assert store.revision == second.revision


async def test_of_many_writers_with_one_expectation_exactly_one_wins(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    first = await create(store, "a", "0")
    results = await asyncio.gather(*(put(store, "a", str(n), first.revision) for n in range(20)), return_exceptions=True)
    winners = [result for result in results if not isinstance(result, BaseException)]
    assert len(winners) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 19
    found = store.get("c", PODS, "a")
    assert found is not None
    assert found.value == winners[0].value


async def test_deleting_what_is_not_there_conflicts(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    with pytest.raises(Conflict) as conflict:
        await delete(store, "a")
    assert conflict.value.head is None


async def test_a_deleted_key_is_gone_and_may_be_created_again(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    first = await create(store, "a", "1")
    gone = await delete(store, "a", first.revision)
    assert gone.revision > first.revision
    assert store.get("c", PODS, "a") is None
    assert store.list("c", PODS) == []
    again = await create(store, "a", "2")
    assert again.revision > gone.revision


async def test_an_encoder_that_fails_fails_its_own_write_only(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")

    def broken(revision: int) -> bytes:
        raise ValueError("no bytes")

    results = await asyncio.gather(
        create(store, "a", "1"), store.commit("c", PODS, "b", broken), create(store, "d", "2"), return_exceptions=True
    )
    assert isinstance(results[1], ValueError)
    assert contents(store.list("c", PODS)) == [("a", "1"), ("d", "2")]


async def test_a_cancelled_writer_leaves_the_store_working(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    writer = asyncio.ensure_future(create(store, "a", "1"))
    await asyncio.sleep(0)
    writer.cancel()
    await asyncio.gather(writer, return_exceptions=True)
    last = await create(store, "b", "2")
    assert store.revision == last.revision
    assert ("b", "2") in contents(store.list("c", PODS))


async def test_lists_are_in_key_order_and_take_prefix_start_and_limit(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    keys = ["ns2/b", "ns1/c", "ns1/a", "ns10/a", "ns1/b", "ns2/a", "zz"]
    for key in keys:
        await create(store, key, key)

    def names(prefix: str = "", start: str = "", limit: int = 0) -> list[str]:
        found = [entry.key for entry in store.list("c", PODS, prefix, start, limit)]
        assert limit or store.count("c", PODS, prefix, start) == len(found)
        return found

    assert names() == sorted(keys)
    assert names("ns1/") == ["ns1/a", "ns1/b", "ns1/c"]
    assert names("ns1/", "ns1/b") == ["ns1/b", "ns1/c"]
    assert names("ns1/", "ns1/b", 1) == ["ns1/b"]
    assert names("ns1/", "ns2/a") == []
    assert names("ns3/") == []
    assert names(start="ns2/aa", limit=2) == ["ns2/b", "zz"]
    assert names("ns2/", "a") == ["ns2/a", "ns2/b"]
    await delete(store, "ns1/b")
    await create(store, "ns1/aa", "x")
    await create(store, "ns1/zz~é", "x")
    assert names("ns1/") == ["ns1/a", "ns1/aa", "ns1/c", "ns1/zz~é"]


async def test_resources_names_what_has_entries(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    await create(store, "a", "1")
    await create(store, "a", "1", resource="apps/deployments")
    await delete(store, "a")
    assert [*store.resources("c")] == ["apps/deployments"]
    assert [*store.resources("other")] == []


async def test_writing_to_a_cluster_that_was_not_added_is_an_error_and_reading_gives_nothing(medium: Medium) -> None:
    store = await medium.open()
    with pytest.raises(StoreError, match="nowhere"):
        await create(store, "a", "1", "nowhere")
    assert store.get("nowhere", PODS, "a") is None
    assert store.list("nowhere", PODS) == []
    assert store.generation("nowhere", PODS) == 0


async def test_writing_to_a_closed_store_is_an_error(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    await store.close()
    with pytest.raises(StoreError):
        await create(store, "a", "1")


async def test_closing_lets_queued_writes_finish(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    writers = [asyncio.ensure_future(create(store, str(n), "x")) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*writers)
    assert store.count("c", PODS) == 50


# Watches


async def test_a_watcher_sees_every_event_of_its_scope_once_in_order(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    store.add_cluster("d")
    one = Watcher(store, "c", PODS, None)
    cluster = Watcher(store, "c", None, None)
    resource = Watcher(store, None, PODS, None)
    everything = Watcher(store, None, None, None)
    a = await create(store, "a", "1")
    b = await create(store, "a", "2", resource="/secrets")
    c = await create(store, "a", "3", "d")
    d = await put(store, "a", "4")
    e = await delete(store, "a", value="bye")
    first = ("ADDED", "a", a.revision, None, "1")
    fourth = ("MODIFIED", "a", d.revision, "1", "4")
    fifth = ("DELETED", "a", e.revision, "4", "bye")
    secret = ("ADDED", "a", b.revision, None, "2")
    other = ("ADDED", "a", c.revision, None, "3")
    assert one.seen == [first, fourth, fifth]
    assert cluster.seen == [first, secret, fourth, fifth]
    assert resource.seen == [first, other, fourth, fifth]
    assert everything.seen == [first, secret, other, fourth, fifth]


async def test_a_watcher_resumes_from_a_revision(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    store.add_cluster("d")
    written = [
        await put(store, "ab"[n % 2], str(n), cluster="cd"[n % 3 == 0], resource=[PODS, "/x"][n % 5 == 0]) for n in range(20)
    ]
    for scope in [("c", PODS), ("c", None), (None, PODS), (None, None)]:
        full = Watcher(store, *scope, 0)
        assert len(full.events) > 5
        for entry in written:
            resumed = Watcher(store, *scope, entry.revision)
            assert resumed.seen == [event for event in full.seen if event[2] > entry.revision]


async def test_a_watcher_that_already_has_newer_events_gets_none_twice(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    first = await create(store, "a", "1")
    ahead = Watcher(store, "c", PODS, first.revision + 1)
    second = await put(store, "a", "2")
    third = await put(store, "a", "3")
    assert second.revision == first.revision + 1
    assert [event[2] for event in ahead.seen] == [third.revision]


async def test_a_listener_may_subscribe_and_close_while_it_is_called(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    late: list[Watcher] = []

    def listener(events: object) -> None:
        if not late:
            late.append(Watcher(store, None, None, store.revision - 1))
            closing.close()
            other.subscription.close()

    closing = store.subscribe("c", PODS, None, listener)
    other = Watcher(store, None, None, None)
    first = await create(store, "a", "1")
    second = await create(store, "b", "2")
    assert [event[2] for event in late[0].seen] == [first.revision, second.revision]
    assert other.seen == []


async def test_a_listener_that_fails_harms_nobody_else(medium: Medium, caplog: pytest.LogCaptureFixture) -> None:
    store = await medium.open()
    store.add_cluster("c")

    def broken(events: object) -> None:
        raise RuntimeError("listener is broken")

    store.subscribe("c", PODS, None, broken)
    watcher = Watcher(store, "c", PODS, None)
    await create(store, "a", "1")
    assert len(watcher.events) == 1
    assert "listener is broken" in caplog.text


async def test_watchers_share_the_event_objects(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    one, two = Watcher(store, "c", PODS, None), Watcher(store, "c", None, None)
    await create(store, "a", "1")
    assert isinstance(one.events[0], Event)
    assert one.events[0] is two.events[0]


# History


async def test_earlier_states_are_listed_as_they_were(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    states = {}
    for step in range(30):
        key = f"ns{step % 2}/{step % 7}"
        if step % 5 == 4 and store.get("c", PODS, key) is not None:
            entry = await delete(store, key)
        else:
            entry = await put(store, key, str(step))
        states[entry.revision] = contents(store.list("c", PODS))
    for revision, state in states.items():
        assert contents(store.list_at("c", PODS, revision)) == state
        inside = [pair for pair in state if pair[0].startswith("ns1/") and pair[0] >= "ns1/2"]
        assert contents(store.list_at("c", PODS, revision, "ns1/", "ns1/2")) == inside
        assert contents(store.list_at("c", PODS, revision, limit=3)) == state[:3]


async def test_compaction_ends_history_and_keeps_the_present(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    entries = [await put(store, "a", str(n)) for n in range(10)]
    middle = entries[5].revision
    await store.compact(middle)
    assert contents(store.list("c", PODS)) == [("a", "9")]
    assert contents(store.list_at("c", PODS, middle)) == [("a", "5")]
    assert len(Watcher(store, "c", PODS, middle).events) == 4
    with pytest.raises(Compacted) as compacted:
        store.list_at("c", PODS, middle - 1)
    assert compacted.value.oldest == middle
    for scope in [("c", PODS), ("c", None), (None, None), ("c", "/untouched")]:
        with pytest.raises(Compacted):
            store.subscribe(*scope, middle - 1, lambda events: None)


async def test_a_busy_bucket_loses_its_own_history_only(medium: Medium) -> None:
    store = await medium.open(Retention(bucket_events=8, events=1_000))
    store.add_cluster("c")
    quiet = await create(store, "a", "1", resource="/quiet")
    for n in range(20):
        busy = await put(store, "a", str(n))
    assert len(Watcher(store, "c", "/quiet", quiet.revision - 1).events) == 1
    assert len(Watcher(store, "c", PODS, busy.revision - 8).events) == 8
    for scope in [("c", PODS), ("c", None), (None, None)]:
        with pytest.raises(Compacted):
            store.subscribe(*scope, busy.revision - 9, lambda events: None)


@pytest.mark.parametrize("retention", [Retention(events=40), Retention(bytes=40 * 100)])
async def test_the_whole_history_is_bounded(medium: Medium, retention: Retention) -> None:
    store = await medium.open(retention)
    store.add_cluster("c")
    for n in range(300):
        last = await put(store, f"{n % 10}", "x" * 100, resource=f"/r{n % 3}")
    with pytest.raises(Compacted):
        store.subscribe("c", "/r0", last.revision - 60, lambda events: None)
    retained = Watcher(store, "c", None, last.revision - 30)
    assert [event[2] for event in retained.seen] == [*range(last.revision - 29, last.revision + 1)]


async def test_history_keeps_nothing_that_readers_made_of_it(medium: Medium) -> None:
    """Decoded and rendered forms are larger than the bytes that history is bounded by; the present may keep its own."""
    store = await medium.open()
    store.add_cluster("c")
    events: list[Event] = []

    def read(batch: Sequence[Event]) -> None:
        for event in batch:
            event.memo = "rendered"
            for entry in (event.entry, event.previous):
                if entry is not None:
                    entry.memo = "decoded"
        events.extend(batch)

    first = await create(store, "a", "0")
    store.subscribe("c", PODS, None, read)
    for n in range(20):
        await put(store, "a", str(n))
    await delete(store, "a")
    last = await put(store, "b", "1")
    for _ in ("live", "replayed"):
        assert len(events) == 22
        assert [event.memo for event in events] == [None] * 22
        held = [entry for event in events for entry in (event.entry, event.previous) if entry is not None and entry.memo]
        assert {entry.revision for entry in held} == {last.revision}
        events.clear()
        store.subscribe("c", PODS, first.revision, read)


# Clusters


async def test_clusters_are_apart(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("a")
    store.add_cluster("b")
    await create(store, "x", "in a", "a")
    await create(store, "x", "in b", "b")
    await delete(store, "x", cluster="a")
    assert sorted(store.clusters()) == ["a", "b"]
    assert contents(store.list("a", PODS)) == []
    assert contents(store.list("b", PODS)) == [("x", "in b")]


async def test_a_dropped_cluster_is_gone_and_its_watchers_are_told(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("a")
    store.add_cluster("b")
    before = await create(store, "x", "1", "a")
    await create(store, "x", "2", "b")
    watcher, all_pods, other = Watcher(store, "a", PODS, None), Watcher(store, None, PODS, None), Watcher(store, "b", PODS, None)
    await store.drop_cluster("a")
    assert [*store.clusters()] == ["b"]
    assert store.list("a", PODS) == []
    assert watcher.lost
    assert not all_pods.lost
    assert not other.lost
    with pytest.raises(StoreError):
        await create(store, "y", "3", "a")
    store.add_cluster("a")
    assert store.list("a", PODS) == []
    assert store.generation("a", PODS) > before.revision
    with pytest.raises(Compacted):
        store.subscribe("a", PODS, before.revision, lambda events: None)
    after = await create(store, "x", "4", "a")
    assert after.revision > before.revision + 2
    assert [event[4] for event in all_pods.seen] == ["4"]
    await store.drop_cluster("unknown")


async def test_a_subscription_to_one_key_hears_of_no_other(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    before = await create(store, "ns/a", "1")
    await create(store, "ns/ab", "1")
    heard: list[str] = []
    store.subscribe("c", PODS, before.revision - 1, lambda events: heard.extend(event.entry.key for event in events), prefix="ns/a")
    assert heard == ["ns/a"]
    for key in ("ns/ab", "other/a", "a"):
        await put(store, key, "2")
    await put(store, "ns/a", "2")
    assert heard == ["ns/a", "ns/a"]


async def test_a_subscription_to_a_namespace_hears_of_what_is_in_it(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("c")
    before = await create(store, "ns/a", "1")
    await create(store, "nsx/a", "1")
    heard: list[str] = []
    subscription = store.subscribe(
        "c", PODS, before.revision - 1, lambda events: heard.extend(event.entry.key for event in events), prefix="ns/"
    )
    for key in ("ns/b", "nsx/b", "b"):
        await create(store, key, "1")
    assert heard == ["ns/a", "ns/b"]
    subscription.close()
    await create(store, "ns/c", "1")
    assert heard == ["ns/a", "ns/b"]
