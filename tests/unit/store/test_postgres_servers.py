"""Several servers on one database: one order of events for all, whoever writes and whatever connection breaks."""

from __future__ import annotations

import asyncio
import logging
import random

import asyncpg
import pytest

from muster.store import Compacted, Conflict, Entry, Store, StoreError, Unavailable
from muster.store.postgres import PostgresStore
from tests.unit.store.conftest import Medium
from tests.unit.store.histories import PODS, Watcher, contents, create, delete, put


async def two_servers(shared: Medium) -> tuple[Store, Store]:
    one, two = await asyncio.gather(shared.open(), shared.open())
    for store in (one, two):
        store.add_cluster("c")
    return one, two


async def break_connections(shared: Medium, role: str) -> int:
    """Have the database end connections of the servers, as a failing network or an administrator would."""
    connection = await asyncpg.connect(shared.place)
    try:
        ended = await connection.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE $1",
            f"muster {role}",
        )
        return len(ended)
    finally:
        await connection.close()


async def test_what_a_write_costs_does_not_grow_with_what_is_kept(shared: Medium) -> None:
    """Statements are prepared when the tables are empty, and a plan that is good then reads all of a large one."""
    store = await shared.open()
    store.add_cluster("c")
    objects = 250
    for n in range(objects):
        await put(store, f"object-{n}", "x" * 1_500)
    await store.close()
    connection = await asyncpg.connect(shared.place)
    try:
        async with asyncio.timeout(20):
            while True:
                written, read = await connection.fetchrow(
                    "SELECT n_tup_ins, seq_tup_read FROM pg_stat_user_tables WHERE relname = 'muster_obj'"
                )
                if written == objects:
                    break
                # What a connection has done is told when it ends, at the latest.
                await asyncio.sleep(0.05)
    finally:
        await connection.close()
    assert read < objects * 80, "a plan that is kept reads more than a hundred times as much"


async def test_a_write_on_one_server_is_seen_on_the_other_after_synced(shared: Medium) -> None:
    one, two = await two_servers(shared)
    for n in range(20):
        await put(one, "a", str(n))
        await two.synced()
        assert contents(two.list("c", PODS)) == [("a", str(n))]
    await delete(two, "a")
    await asyncio.gather(*(one.synced() for _ in range(50)))
    assert one.list("c", PODS) == []


async def test_watchers_of_all_servers_see_the_same_events(shared: Medium) -> None:
    one, two = await two_servers(shared)
    watchers = [Watcher(store, None, None, 0) for store in (one, two)]
    acknowledged: dict[int, str] = {}

    async def writer(store: Store, name: str) -> None:
        for n in range(60):
            entry = await put(store, f"{name}-{n % 5}" if n % 2 else "shared", f"{name}{n}")
            acknowledged[entry.revision] = f"{name}{n}"

    await asyncio.gather(*(writer(store, f"{index}{n}") for index, store in enumerate((one, two)) for n in range(4)))
    newest = max(acknowledged)
    for watcher in watchers:
        await watcher.until(newest)
    assert watchers[0].seen == watchers[1].seen
    assert {event[2]: event[4] for event in watchers[0].seen} == acknowledged
    assert [event[2] for event in watchers[0].seen] == [*range(2, newest + 1)]
    assert contents(one.list("c", PODS)) == contents(two.list("c", PODS))


async def test_of_two_servers_one_wins_a_key(shared: Medium) -> None:
    servers = await two_servers(shared)
    await create(servers[0], "count", "0")
    conflicts = 0

    async def count(store: Store) -> None:
        nonlocal conflicts
        for _ in range(15):
            while True:
                await store.synced()
                head = store.head("c", PODS, "count")
                assert head is not None
                try:
                    await put(store, "count", str(int(head.value) + 1), head.revision)
                    break
                except Conflict:
                    conflicts += 1

    await asyncio.gather(*(count(store) for store in servers for _ in range(3)))
    await asyncio.gather(*(store.synced() for store in servers))
    assert [contents(store.list("c", PODS)) for store in servers] == [[("count", "90")]] * 2
    assert conflicts > 0


async def test_no_event_is_lost_or_doubled_when_connections_break(shared: Medium, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    one, two = await two_servers(shared)
    watchers = [Watcher(store, None, None, 0) for store in (one, two)]
    acknowledged: dict[int, str] = {}
    refused: set[str] = set()
    writing = True

    async def writer(store: Store, name: str) -> None:
        n = 0
        while writing:
            n += 1
            value = f"{name}{n}"
            try:
                acknowledged[(await put(store, f"{name}-{n % 5}", value)).revision] = value
            except Unavailable:
                refused.add(value)
                await asyncio.sleep(0.01)

    writers = [asyncio.ensure_future(writer(store, f"{i}{n}-")) for i, store in enumerate((one, two)) for n in range(4)]
    broken = 0
    for role in ("follower", "%", "writer") * 4:
        await asyncio.sleep(random.uniform(0.01, 0.06))
        broken += await break_connections(shared, role)
    writing = False
    await asyncio.gather(*writers)
    last = await put(one, "last", "last")
    acknowledged[last.revision] = "last"
    for watcher in watchers:
        await watcher.until(last.revision)
    assert broken >= 6
    assert watchers[0].seen == watchers[1].seen
    assert not watchers[0].lost
    assert {event[2]: event[4] for event in watchers[0].seen} == acknowledged
    assert not refused & {event[4] for event in watchers[0].seen}
    await asyncio.gather(one.synced(), two.synced())
    assert contents(one.list("c", PODS)) == contents(two.list("c", PODS))


async def test_a_lost_notification_is_made_up_for_by_polling(shared: Medium, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PostgresStore, "_notified", lambda *arguments: None)
    one = await shared.open()
    assert isinstance(shared.place, str)
    two = PostgresStore(shared.place, poll_seconds=0.05)
    await two.start()
    shared.stores.append(two)
    one.add_cluster("c")
    watcher = Watcher(two, "c", PODS, None)
    entry = await create(one, "a", "1")
    await watcher.until(entry.revision)
    assert watcher.seen == [("ADDED", "a", entry.revision, None, "1")]


class Sleeper(PostgresStore):
    """A server that can be kept from following the log."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.awake = asyncio.Event()
        self.awake.set()
        self._following = asyncio.Lock()

    async def fall_asleep(self) -> None:
        """When a look at the log that is under way has ended: it would see what comes next."""
        async with self._following:
            self.awake.clear()

    async def _catch_up(self, connection: object) -> None:
        await self.awake.wait()
        async with self._following:
            await super()._catch_up(connection)


async def test_a_server_that_slept_past_compaction_loads_anew_and_tells_its_watchers(shared: Medium) -> None:
    one = await shared.open()
    assert isinstance(shared.place, str)
    two = Sleeper(shared.place)
    await two.start()
    shared.stores.append(two)
    for store in (one, two):
        store.add_cluster("c")
    first = await create(one, "a", "1")
    await create(one, "b", "1")
    await two.synced()
    watcher = Watcher(two, "c", PODS, None)
    generation = two.generation("c", PODS)
    await two.fall_asleep()
    await delete(one, "b")
    last = await put(one, "d", "2")
    await one.compact(last.revision)
    newest = await put(one, "d", "3")
    two.awake.set()
    await watcher.until(newest.revision)
    await two.synced()
    assert watcher.lost
    assert watcher.events == []
    assert contents(two.list("c", PODS)) == [("a", "1"), ("d", "3")]
    assert two.generation("c", PODS) > generation
    with pytest.raises(Compacted):
        two.subscribe("c", PODS, first.revision, lambda events: None)
    again = Watcher(two, "c", PODS, last.revision)
    assert [event[2] for event in again.seen] == [newest.revision]
    following = await put(one, "a", "4")
    await again.until(following.revision)


async def test_a_server_that_slept_catches_up_in_order(shared: Medium) -> None:
    one = await shared.open()
    assert isinstance(shared.place, str)
    two = Sleeper(shared.place)
    await two.start()
    shared.stores.append(two)
    for store in (one, two):
        store.add_cluster("c")
        store.add_cluster("d")
    watchers = [Watcher(store, "c", None, None) for store in (one, two)]
    await two.fall_asleep()
    for n in range(5):
        await put(one, "a", str(n))
        await put(one, "a", str(n), cluster="d")
    await delete(one, "a", value="bye")
    await put(one, "a", "again")
    await one.drop_cluster("d")
    slow = asyncio.ensure_future(put(two, "b", "from the sleeper"))
    await one.synced()
    two.awake.set()
    last = await slow
    await watchers[0].until(last.revision)
    assert watchers[0].seen == watchers[1].seen
    assert len(watchers[1].events) == 8
    assert [*two.clusters()] == ["c"]
    with pytest.raises(StoreError):
        await put(two, "a", "x", cluster="d")


@pytest.mark.parametrize("happened", [True, False])
async def test_a_commit_whose_answer_was_lost_is_looked_up(shared: Medium, happened: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = await two_servers(shared)
    transaction = asyncpg.transaction.Transaction
    commit = transaction.commit

    async def broken(self: asyncpg.transaction.Transaction) -> None:
        monkeypatch.setattr(transaction, "commit", commit)
        await (commit(self) if happened else self.rollback())
        raise ConnectionResetError("the network went away")

    monkeypatch.setattr(transaction, "commit", broken)
    result = (await asyncio.gather(create(one, "a", "1"), return_exceptions=True))[0]
    await asyncio.gather(one.synced(), two.synced())
    if happened:
        assert isinstance(result, Entry)
        assert [contents(store.list("c", PODS)) for store in (one, two)] == [[("a", "1")]] * 2
    else:
        assert isinstance(result, Unavailable)
        assert [contents(store.list("c", PODS)) for store in (one, two)] == [[]] * 2
    await put(two, "a", "2")
    await one.synced()
    assert contents(one.list("c", PODS)) == [("a", "2")]


async def test_a_database_of_a_newer_muster_is_refused(shared: Medium) -> None:
    await shared.reopen()
    connection = await asyncpg.connect(shared.place)
    await connection.execute("INSERT INTO muster_migration VALUES (99)")
    await connection.close()
    with pytest.raises(StoreError, match=r"newer Muster \(format 99"):
        await shared.make().start()
