"""A durable store for one server: a SQLite file behind one writer thread, with group commit.

Writes queue on the event loop with their revision and bytes already fixed; a write competes with the head of its key, queued or
visible, so writers need not wait for each other. What one turn of the loop queued goes to the thread as one piece; the thread
joins what has piled up (at most 512 writes) into one transaction and reports back with a single wake-up. While it syncs, the
loop fills the next one.

If a commit fails, everything queued behind it was built on versions that never came to be: the batch and all writes queued
since fail together with `Unavailable` and the heads fall back to the visible state. `_epoch` tells the thread which pieces
belong to that past. Revisions given to failed writes are not given out again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

from muster.store.api import ANY_REVISION, BaseLayer, EncodeAt, Entry, StoreError, Unavailable
from muster.store.buckets import BASE_REVISION, DELETE, DROP, PUT, TOMBSTONE
from muster.store.datafile import DataFile, LoggedChange, Synchronous
from muster.store.resident import ResidentStore, Retention

logger = logging.getLogger(__name__)

_GROUP: Final = 512
_MARKS_PER_AGE: Final = 20


class _Write(LoggedChange):
    __slots__ = ("done",)

    def __init__(
        self,
        cluster: str,
        resource: str,
        entry: Entry,
        op: int,
        previous: Entry | None,
        done: asyncio.Future[Entry],
    ) -> None:
        super().__init__(cluster, resource, entry, op, previous)
        self.done = done


class _Piece:
    """Writes for the thread, and the epoch they were queued in."""

    __slots__ = ("epoch", "writes")

    def __init__(self, epoch: int, writes: Sequence[_Write]) -> None:
        self.epoch = epoch
        self.writes = writes


class _Compaction:
    __slots__ = ("done", "keep_after")

    def __init__(self, keep_after: int, done: asyncio.Future[None]) -> None:
        self.keep_after = keep_after
        self.done = done


class _Backup:
    __slots__ = ("done", "path")

    def __init__(self, path: Path, done: asyncio.Future[None]) -> None:
        self.path = path
        self.done = done


class _End:
    """The last item for the thread."""


_Item = _Piece | _Compaction | _Backup | _End


class SQLiteStore(ResidentStore):
    """`synchronous`: FULL survives power loss; NORMAL survives a crash of the process, faster, for simulated clusters."""

    def __init__(
        self,
        path: Path,
        synchronous: Synchronous = "FULL",
        retention: Retention | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(retention)
        self._file = DataFile(path, synchronous)
        self._clock = clock
        self._next_revision = BASE_REVISION + 1
        self._heads: dict[tuple[str, str, str], _Write] = {}
        self._outstanding: deque[_Write] = deque()
        self._turn: list[_Write] = []
        self._epoch = 0
        self._inbox: SimpleQueue[_Item] = SimpleQueue()
        self._marks: deque[tuple[float, int]] = deque()
        self._compaction: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None
        self._closed = True
        self._ended = False

    # Lifecycle

    async def start(self) -> None:
        if self._thread is not None:
            return
        if self._ended:
            raise StoreError("a closed store is not opened again; make a new one")
        self._loop = asyncio.get_running_loop()
        started: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._serve, args=(started,), name=f"store {self._file.path.name}", daemon=True)
        self._thread.start()
        await started
        self._next_revision = self._revision + 1
        self._closed = False
        self._keep_time()

    async def close(self) -> None:
        """Let everything queued finish, then release the file."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._closed = self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._hand_over()
        self._inbox.put(_End())
        await asyncio.to_thread(thread.join)
        # The thread's last reports were scheduled before it ended, so they run before this continues.
        await asyncio.sleep(0)

    async def synced(self) -> None:
        return

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("the store is not open")

    # Writes, on the loop

    def add_cluster(self, cluster: str, base: BaseLayer | None = None) -> None:
        known = self._clusters.get(cluster)
        if known is not None and known.dropping:
            raise StoreError(f"cluster {cluster} is being dropped; add it again after that")
        super().add_cluster(cluster, base)

    def head(self, cluster: str, resource: str, key: str) -> Entry | None:
        queued = self._heads.get((cluster, resource, key))
        if queued is None:
            return self.get(cluster, resource, key)
        return queued.entry if queued.op == PUT else None

    async def commit(
        self, cluster: str, resource: str, key: str, encode: EncodeAt, expect: int = ANY_REVISION, delete: bool = False
    ) -> Entry:
        self._require_open()
        bucket = self._bucket(self._writable(cluster), resource)
        head = self.head(cluster, resource, key)
        self._require_head(key, head, expect, delete)
        revision = self._next_revision
        entry = Entry(key, revision, encode(revision))
        op = PUT if not delete else TOMBSTONE if bucket.has_base(key) else DELETE
        write = _Write(cluster, bucket.resource, entry, op, head, self._loop.create_future())
        self._heads[cluster, resource, key] = write
        return await self._queue(write)

    async def drop_cluster(self, cluster: str) -> None:
        self._require_open()
        known = self._clusters.get(cluster)
        if known is None:
            return
        if known.dropping:
            raise StoreError(f"cluster {cluster} is already being dropped")
        known.dropping = True
        try:
            entry = Entry("", self._next_revision, b"")
            await self._queue(_Write(cluster, "", entry, DROP, None, self._loop.create_future()))
        except Unavailable:
            known.dropping = False
            raise

    def _queue(self, write: _Write) -> asyncio.Future[Entry]:
        self._next_revision += 1
        self._outstanding.append(write)
        if not self._turn:
            self._loop.call_soon(self._hand_over)
        self._turn.append(write)
        return write.done

    def _hand_over(self) -> None:
        writes, self._turn = self._turn, []
        for begin in range(0, len(writes), _GROUP):
            self._inbox.put(_Piece(self._epoch, writes[begin : begin + _GROUP]))

    def _committed(self, writes: Sequence[_Write]) -> None:
        heads = self._heads
        for write in writes:
            self._outstanding.popleft()
            key = (write.cluster, write.resource, write.entry.key)
            if heads.get(key) is write:
                del heads[key]
        self.publish(writes)
        for write in writes:
            if not write.done.done():
                write.done.set_result(write.entry)
        if self._revision - self._floor > self.retention.log_rows * 5 // 4:
            self._compact_in_background(self._revision - self.retention.log_rows)

    def _failed(self, error: Exception) -> None:
        failed, self._outstanding = self._outstanding, deque()
        self._epoch += 1
        self._heads.clear()
        self._turn = []
        logger.error("%d writes failed: %s: %s", len(failed), self._file.path, error)
        for write in failed:
            if not write.done.done():
                write.done.set_exception(Unavailable(self._file.path, error))

    async def backup(self, path: Path) -> None:
        """Copy all that is durable into a new file, between two commits; writers wait meanwhile. Raises StoreError."""
        self._require_open()
        done: asyncio.Future[None] = self._loop.create_future()
        self._inbox.put(_Backup(path, done))
        await done

    def _backed_up(self, request: _Backup, error: Exception | None) -> None:
        if request.done.done():
            return
        if error is None:
            request.done.set_result(None)
        else:
            request.done.set_exception(error if isinstance(error, StoreError) else Unavailable(request.path, error))

    # Compaction

    async def compact(self, keep_after: int) -> None:
        self._require_open()
        done: asyncio.Future[None] = self._loop.create_future()
        self._inbox.put(_Compaction(min(keep_after, self._revision), done))
        await done

    def _compact_in_background(self, keep_after: int) -> None:
        if self._compaction is None and keep_after > self._floor:
            self._compaction = self._loop.create_future()
            self._compaction.add_done_callback(self._compaction_ended)
            self._inbox.put(_Compaction(keep_after, self._compaction))

    def _compaction_ended(self, done: asyncio.Future[None]) -> None:
        self._compaction = None
        if not done.cancelled() and (error := done.exception()) is not None:
            logger.warning("compaction failed, it will be tried again: %s", error)

    def _compacted(self, request: _Compaction, error: Exception | None) -> None:
        if error is None:
            self._discard_history(request.keep_after)
        if request.done.done():
            return
        if error is None:
            request.done.set_result(None)
        else:
            request.done.set_exception(Unavailable(self._file.path, error))

    def _keep_time(self) -> None:
        self.mark_time()
        self._timer = self._loop.call_later(self.retention.age_seconds / _MARKS_PER_AGE, self._keep_time)

    def mark_time(self) -> None:
        """Record the current revision; the one of `age_seconds` ago is the limit of compaction."""
        now = self._clock()
        self._marks.append((now, self._revision))
        old = None
        while self._marks and self._marks[0][0] <= now - self.retention.age_seconds:
            old = self._marks.popleft()[1]
        if old is not None:
            self._compact_in_background(old)

    # The writer thread

    def _serve(self, started: asyncio.Future[None]) -> None:
        try:
            revision, floor = self._file.revisions()
            self._adopt(self._file.objects(), self._file.log(), revision, floor)
        except Exception as error:
            self._file.close()
            failure = error if isinstance(error, StoreError) else StoreError(f"cannot read {self._file.path}: {error}")
            self._report(started.set_exception, failure)
            return
        self._report(started.set_result, None)
        self._serve_inbox()
        self._file.close()

    def _serve_inbox(self) -> None:
        failed_epoch = -1
        item: _Item | None = None
        while not isinstance(item := item or self._inbox.get(), _End):
            if isinstance(item, _Compaction):
                self._compact_now(item)
                item = None
                continue
            if isinstance(item, _Backup):
                self._back_up_now(item)
                item = None
                continue
            writes, following = self._join(item)
            if item.epoch > failed_epoch:
                try:
                    self._file.write(writes)
                except Exception as error:
                    failed_epoch = item.epoch
                    self._report(self._failed, error)
                else:
                    self._report(self._committed, writes)
            item = following
        while not self._inbox.empty():
            left = self._inbox.get()
            if isinstance(left, _Compaction):
                self._report(self._compacted, left, StoreError("the store was closed"))
            elif isinstance(left, _Backup):
                self._report(self._backed_up, left, StoreError("the store was closed"))

    def _join(self, piece: _Piece) -> tuple[Sequence[_Write], _Item | None]:
        """What can share a transaction with `piece`, and the next item, if one was met that cannot."""
        writes = [*piece.writes]
        while True:
            try:
                item = self._inbox.get_nowait()
            except Empty:
                return writes, None
            if not isinstance(item, _Piece) or item.epoch != piece.epoch or len(writes) + len(item.writes) > _GROUP:
                return writes, item
            writes += item.writes

    def _compact_now(self, request: _Compaction) -> None:
        try:
            finished = self._file.compact_some(request.keep_after)
        except Exception as error:
            self._report(self._compacted, request, error)
            return
        if finished:
            self._report(self._compacted, request, None)
        else:
            self._inbox.put(request)

    def _back_up_now(self, request: _Backup) -> None:
        try:
            self._file.backup(request.path)
        except Exception as error:
            self._report(self._backed_up, request, error)
        else:
            self._report(self._backed_up, request, None)

    def _report(self, callback: Callable[..., Any], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            logger.warning("the event loop ended before the store %s was closed", self._file.path)
