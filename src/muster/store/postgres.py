"""A durable store for several servers: one PostgreSQL database, with the state in the memory of each server.

Writing: the writes that were queued during the last group's commit are the next group, one transaction. It locks the revision
counter first, so groups of all servers commit one after the other and revisions appear in order without gaps; expectations are
checked against the rows under that lock, and only then is the revision known and the object encoded. Hence the head of a key is its
visible version here, and conflicts between servers are resolved in the database.

Reading: one task follows the log. A notification (or, if those fail, a poll) makes it fetch everything after the newest visible
revision and publish it; own writes are published directly if there is nothing in between. As revisions have no gaps, a missing one
means that this server was suspended for longer than history is kept: it loads everything again and ends its subscriptions
(`on_lost`). `synced` reads the counter from the database, once for all waiting callers, and waits until it is visible.

A commit whose response was lost is looked up by its `origin` before the writer gets a result. Any exception of a connection counts
as its loss: a connection that is cut in the middle of a message fails in more ways than the driver documents.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit

from muster.machinery.backoff import Backoff
from muster.store import database
from muster.store.api import ANY_REVISION, BaseLayer, Conflict, EncodeAt, Entry, StoreError, Unavailable
from muster.store.buckets import Bucket
from muster.store.resident import Change, ResidentStore, Retention
from muster.store.write_groups import WriteRequest, WriteResult, decide, next_group

logger = logging.getLogger(__name__)

_RELOAD_LAG: Final = 10_000
"""Above this number of missing revisions, loading everything is cheaper."""
_DATABASE_TIMEOUT: Final = 10.0
_MIN_RETRY_INTERVAL: Final = 0.05
_MAX_RETRY_INTERVAL: Final = 5.0
_MARKS_PER_AGE: Final = 20


class PostgresStore(ResidentStore):
    shared = True

    def __init__(
        self,
        dsn: str,
        retention: Retention | None = None,
        poll_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(retention)
        self._asyncpg = _import_asyncpg()
        self._dsn = dsn
        self.name = f"PostgreSQL {urlsplit(dsn).hostname or 'local'} {urlsplit(dsn).path.lstrip('/')}".strip()
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._pool: Any = None
        self._requests: deque[WriteRequest] = deque()
        self._work = asyncio.Event()
        self._news = asyncio.Event()
        self._questions: list[asyncio.Future[int]] = []
        self._revision_wanted = asyncio.Event()
        self._expecting: list[tuple[int, asyncio.Future[None]]] = []
        self._log_floor = 0
        self._writer: asyncio.Task[None] | None = None
        self._others: list[asyncio.Task[None]] = []
        self._compaction: asyncio.Task[None] | None = None
        self._open = False

    # Lifecycle

    async def start(self) -> None:
        if self._open:
            return
        if self._pool is not None:
            raise StoreError("a closed store is not opened again; make a new one")
        try:
            self._pool = await self._asyncpg.create_pool(
                self._dsn,
                min_size=1,
                max_size=4,
                command_timeout=30.0,
                timeout=_DATABASE_TIMEOUT,
                reset=_leave_as_is,
                **self._settings("writer"),
            )
            async with self._pool.acquire() as connection:
                await database.migrate(connection)
                await self._load(connection)
        except StoreError:
            if self._pool is not None:
                self._pool.terminate()
            raise
        except Exception as error:
            raise Unavailable(self.name, str(error) or type(error).__name__) from error
        self._open = True
        self._writer = asyncio.create_task(self._write_forever())
        self._others = [asyncio.create_task(work()) for work in (self._follow, self._answer_forever, self._compact_by_age)]

    def _settings(self, role: str) -> dict[str, Any]:
        return {
            "server_settings": {
                "application_name": f"muster {role}",
                # A server that hangs inside its transaction must not block the others.
                "idle_in_transaction_session_timeout": "15000",
                # A cached plan would be that for the small tables of the beginning, with full scans for every write.
                "plan_cache_mode": "force_custom_plan",
            }
        }

    async def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._work.set()
        if self._writer is not None:
            await self._writer
        await self._settle_expectations()
        if self._compaction is not None:
            self._others.append(self._compaction)
        for task in self._others:
            task.cancel()
        await asyncio.gather(*self._others, return_exceptions=True)
        try:
            async with asyncio.timeout(_DATABASE_TIMEOUT):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    async def _settle_expectations(self) -> None:
        """Wait a moment for writes that are durable but not yet visible here; their writers are answered in any case."""
        expected = [future for _, future in self._expecting]
        if expected:
            await asyncio.wait(expected, timeout=_DATABASE_TIMEOUT)
        for future in expected:
            if not future.done():
                future.set_result(None)

    def _require_open(self) -> None:
        if not self._open:
            raise StoreError("the store is not open")

    async def _load(self, connection: Any, back_in_time: bool = False) -> None:
        objects, log, revision, compacted = await database.load(connection, self.retention.events)
        while revision < self._revision and not back_in_time:
            # Own writes became visible meanwhile; acknowledged writes must not disappear again.
            objects, log, revision, compacted = await database.load(connection, self.retention.events)
        self._reset()
        self._adopt(objects, log, revision, compacted)
        self._log_floor = compacted

    # Writing

    def add_cluster(self, cluster: str, base: BaseLayer | None = None) -> None:
        known = self._clusters.get(cluster)
        if known is not None and known.dropping:
            raise StoreError(f"cluster {cluster} is being dropped; add it again after that")
        super().add_cluster(cluster, base)

    async def commit(
        self, cluster: str, resource: str, key: str, encode: EncodeAt, expect: int = ANY_REVISION, delete: bool = False
    ) -> Entry:
        self._require_open()
        self._writable(cluster)
        return await self._request(cluster, resource, key, encode, expect, delete)

    async def drop_cluster(self, cluster: str) -> None:
        self._require_open()
        known = self._clusters.get(cluster)
        if known is None:
            return
        if known.dropping:
            raise StoreError(f"cluster {cluster} is already being dropped")
        known.dropping = True
        try:
            await self._request(cluster, "", "", None, ANY_REVISION, True)
        except Unavailable:
            known.dropping = False
            raise

    def _request(
        self, cluster: str, resource: str, key: str, encode: EncodeAt | None, expect: int, delete: bool
    ) -> asyncio.Future[Entry]:
        done: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        self._requests.append(WriteRequest(cluster, resource, key, encode, expect, delete, done))
        self._work.set()
        return done

    async def _write_forever(self) -> None:
        while self._open or self._requests:
            if not self._requests:
                self._work.clear()
                await self._work.wait()
                continue
            group = next_group(self._requests)
            try:
                await self._commit_group(group)
            except Exception as error:
                logger.error("%d writes failed: %s: %r", len(group), self.name, error)
                for request in group:
                    request.fail(Unavailable(self.name, str(error) or type(error).__name__))

    async def _commit_group(self, group: Sequence[WriteRequest]) -> None:
        origin = secrets.randbits(63)
        outcome: WriteResult | None = None
        try:
            async with self._pool.acquire(timeout=_DATABASE_TIMEOUT) as connection:
                transaction = connection.transaction()
                await transaction.start()
                try:
                    outcome = await decide(connection, group, origin, self._bucket_to_write)
                except BaseException:
                    await transaction.rollback()
                    raise
                await transaction.commit()
        except Exception as error:
            if outcome is None or not await self._took_effect(outcome, origin, error):
                raise
        assert outcome is not None
        self._settle(outcome)

    async def _took_effect(self, outcome: WriteResult, origin: int, error: BaseException) -> bool:
        if not outcome.changes:
            return False
        logger.warning("%s: the result of a transaction is unknown (%r), reading it", self.name, error)
        deadline = time.monotonic() + _DATABASE_TIMEOUT
        while True:
            try:
                async with self._pool.acquire(timeout=_DATABASE_TIMEOUT) as connection:
                    return await database.was_written(connection, outcome.changes[0].entry.revision, origin)
            except Exception as again:
                if time.monotonic() > deadline:
                    raise Unavailable(self.name, f"whether the write took effect is not known: {again}") from again
                await asyncio.sleep(_MIN_RETRY_INTERVAL)

    def _bucket_to_write(self, cluster: str, resource: str) -> Bucket:
        """Unlike a new write, one that was queued before its cluster's drop may still precede it."""
        known = self._clusters.get(cluster)
        if known is None:
            raise StoreError(f"cluster {cluster} was dropped")
        return self._bucket(known, resource)

    def _settle(self, outcome: WriteResult) -> None:
        """Publish a committed group, and answer its requests once it is visible."""
        if outcome.changes and self._revision == outcome.revision:
            self._show(outcome.changes)
        for request, change in zip(outcome.requests, outcome.changes, strict=True):
            self._when_visible(change.entry.revision, _answer(request, change.entry))
        for request in outcome.conflicts:
            self._when_visible(outcome.revision, self._refuse(request))
        if self._revision - self._log_floor > self.retention.log_rows * 5 // 4 and (
            self._compaction is None or self._compaction.done()
        ):
            self._compaction = asyncio.create_task(self._compact_quietly(self._revision - self.retention.log_rows))

    def _refuse(self, request: WriteRequest) -> Callable[[], None]:
        return lambda: request.fail(Conflict(request.key, self.get(request.cluster, request.resource, request.key)))

    # Reading

    def _show(self, changes: Sequence[Change]) -> None:
        self.publish(changes)
        self._fulfil()

    def _fulfil(self) -> None:
        ready = [future for revision, future in self._expecting if revision <= self._revision]
        if ready:
            self._expecting = [expected for expected in self._expecting if expected[0] > self._revision]
        for future in ready:
            if not future.done():
                future.set_result(None)

    def _visible(self, revision: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if revision <= self._revision:
            future.set_result(None)
        else:
            self._expecting.append((revision, future))
            self._news.set()
        return future

    def _when_visible(self, revision: int, then: Callable[[], None]) -> None:
        if revision <= self._revision:
            then()
        else:
            self._visible(revision).add_done_callback(lambda future: then())

    async def synced(self) -> None:
        self._require_open()
        question: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._questions.append(question)
        self._revision_wanted.set()
        try:
            async with asyncio.timeout(_DATABASE_TIMEOUT):
                newest = await question
                await self._visible(newest)
                if self._revision < newest:
                    raise StoreError("the store was closed")
        except TimeoutError as error:
            raise Unavailable(self.name, "the newest state could not be read in time") from error

    async def _answer_forever(self) -> None:
        """One read of the counter serves all callers that requested it before it began."""
        while True:
            await self._revision_wanted.wait()
            self._revision_wanted.clear()
            questions, self._questions = self._questions, []
            try:
                async with self._pool.acquire(timeout=_DATABASE_TIMEOUT) as connection:
                    revision = await database.counter(connection)
            except Exception as error:
                for question in questions:
                    if not question.done():
                        question.set_exception(Unavailable(self.name, str(error) or type(error).__name__))
                continue
            for question in questions:
                if not question.done():
                    question.set_result(revision)

    async def _follow(self) -> None:
        """Follow the log over successive connections, forever."""
        backoff = Backoff(_MIN_RETRY_INTERVAL, _MAX_RETRY_INTERVAL)
        while True:
            connection = None
            try:
                connection = await self._asyncpg.connect(self._dsn, timeout=_DATABASE_TIMEOUT, **self._settings("follower"))
                connection.add_termination_listener(lambda _: self._news.set())
                await connection.add_listener(database.CHANNEL, self._notified)
                if await database.counter(connection) < self._revision:
                    await self._load_anew(connection, "the database went back in time", back_in_time=True)
                while True:
                    self._news.clear()
                    await self._catch_up(connection)
                    backoff.reset()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._poll_seconds):
                            await self._news.wait()
            except Exception as error:
                logger.warning("%s: lost the connection that follows the log (%r), trying again", self.name, error)
            finally:
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(backoff.next())

    def _notified(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        if int(payload) > self._revision:
            self._news.set()

    async def _catch_up(self, connection: Any) -> None:
        newest = await database.counter(connection)
        if newest - self._revision > _RELOAD_LAG:
            await self._load_anew(connection, f"this server is {newest - self._revision} revisions behind")
            return
        if newest <= self._revision:
            return
        after = self._revision
        first, changes = await database.tail(connection, after, _DATABASE_TIMEOUT)
        if first != after + 1:
            await self._load_anew(connection, f"history after revision {after} is gone")
            return
        # Own writes may have been published during the query.
        fresh = [change for change in changes if change.entry.revision > self._revision]
        if fresh:
            self._show(fresh)

    async def _load_anew(self, connection: Any, why: str, back_in_time: bool = False) -> None:
        logger.warning("%s: %s; loading everything anew and ending all subscriptions", self.name, why)
        await self._load(connection, back_in_time)
        self._lose_watches()
        self._fulfil()

    # Compaction

    async def compact(self, keep_after: int) -> None:
        self._require_open()
        keep_after = min(keep_after, self._revision)
        try:
            async with self._pool.acquire(timeout=_DATABASE_TIMEOUT) as connection:
                await database.compact(connection, keep_after)
        except Exception as error:
            raise Unavailable(self.name, str(error) or type(error).__name__) from error
        self._log_floor = max(self._log_floor, keep_after)
        self._discard_history(keep_after)

    async def _compact_quietly(self, keep_after: int) -> None:
        try:
            await self.compact(keep_after)
        except StoreError as error:
            logger.warning("compaction failed, it will be tried again: %s", error)

    async def _compact_by_age(self) -> None:
        """The revision that was current `age_seconds` ago is the limit of compaction."""
        marks: deque[tuple[float, int]] = deque()
        while True:
            now = self._clock()
            marks.append((now, self._revision))
            old = None
            while marks and marks[0][0] <= now - self.retention.age_seconds:
                old = marks.popleft()[1]
            if old is not None and old > self._log_floor:
                await self._compact_quietly(old)
            await asyncio.sleep(self.retention.age_seconds / _MARKS_PER_AGE)


def _answer(request: WriteRequest, entry: Entry) -> Callable[[], None]:
    def answer() -> None:
        if not request.done.done():
            request.done.set_result(entry)

    return answer


async def _leave_as_is(connection: Any) -> None:
    """Our transactions leave no state on a connection, so its return to the pool needs no reset."""


def _import_asyncpg() -> ModuleType:
    try:
        import asyncpg
    except ImportError as error:
        raise StoreError("PostgreSQL needs the asyncpg package: install muster[postgres]") from error
    module: ModuleType = asyncpg
    return module
