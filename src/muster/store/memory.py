"""A store without a medium, for tests and temporary clusters: a write is "durable" at once.

The order is that of the durable backends: the write becomes visible, watchers are called, the writer continues. Nothing in it
waits, so synchronous code may write too. `after` is the revision before its first one: stores with disjoint ranges of revisions
never confuse each other's.
"""

from __future__ import annotations

from muster.store.api import ANY_REVISION, EncodeAt, Entry, StoreError
from muster.store.buckets import BASE_REVISION, DELETE, DROP, PUT, TOMBSTONE
from muster.store.resident import Change, ResidentStore, Retention


class MemoryStore(ResidentStore):
    _closed = False

    def __init__(self, retention: Retention | None = None, after: int = BASE_REVISION) -> None:
        super().__init__(retention)
        self._revision = after

    async def start(self) -> None:
        return

    async def close(self) -> None:
        self._closed = True

    async def synced(self) -> None:
        return

    async def commit(
        self, cluster: str, resource: str, key: str, encode: EncodeAt, expect: int = ANY_REVISION, delete: bool = False
    ) -> Entry:
        return self.write(cluster, resource, key, encode, expect, delete)

    def write(
        self, cluster: str, resource: str, key: str, encode: EncodeAt, expect: int = ANY_REVISION, delete: bool = False
    ) -> Entry:
        """`commit` for synchronous callers."""
        self._require_open()
        bucket = self._bucket(self._writable(cluster), resource)
        self._require_head(key, bucket.get(key), expect, delete)
        revision = self._revision + 1
        entry = Entry(key, revision, encode(revision))
        op = PUT if not delete else TOMBSTONE if bucket.has_base(key) else DELETE
        self.publish([Change(cluster, resource, entry, op)])
        return entry

    async def drop_cluster(self, cluster: str) -> None:
        self._require_open()
        if cluster in self._clusters:
            self.publish([Change(cluster, "", Entry("", self._revision + 1, b""), DROP)])

    async def compact(self, keep_after: int) -> None:
        self._discard_history(keep_after)

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")
