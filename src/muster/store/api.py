"""The store's interface: an ordered, revisioned log of keyed bytes, many logical clusters in one.

One revision counter orders every write of every cluster. A write is a compare-and-swap against the *head* of its key (committed or
queued); revision and bytes are fixed when it is queued, and it becomes visible — to `get`, `list`, `watch` and the writer itself —
only after it is durable. Reads are synchronous because the whole state is in memory; `synced()` is awaited before a read that must
be the latest when several servers share one database.

Invariants of every backend, each with a test: an acknowledged write is durable; a failed commit is never visible; revisions are
never reused; a watcher gets every event of its resource once, in revision order, or `Compacted` or `on_lost`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

ANY_REVISION: Final = -1
"""Expectation: any head, so the write is unconditional."""
ABSENT: Final = 0
"""Expectation: the key must not exist (create)."""


class StoreError(Exception):
    """Base of all store failures."""


class Conflict(StoreError):
    """The head of the key is not what the writer expected; `head` is the entry found, or None."""

    def __init__(self, key: str, head: Entry | None) -> None:
        super().__init__(f"{key}: the head changed")
        self.key = key
        self.head = head


class Compacted(StoreError):
    """History before `oldest` is gone; the reader must list again."""

    def __init__(self, requested: int, oldest: int) -> None:
        super().__init__(f"revision {requested} is older than the retained history from {oldest}")
        self.requested = requested
        self.oldest = oldest


class Unavailable(StoreError):
    """The medium refused the write (disk full, database unreachable); nothing was written. A retry may succeed. `place` names the
    file or database for the operator; `problem` is the text for clients."""

    def __init__(self, source: object, problem: object) -> None:
        super().__init__(f"{source}: {problem}")
        self.problem = str(problem)


class Entry:
    """One version of one key. `memo` belongs to the reader: it caches the decoded form of `value`, set at most once."""

    __slots__ = ("key", "memo", "revision", "value")

    def __init__(self, key: str, revision: int, value: bytes) -> None:
        self.key = key
        self.revision = revision
        self.value = value
        self.memo: Any = None


class Event:
    """One committed write. `entry` is the new version (for a deletion: the last version, carrying the deletion's revision and
    the bytes given to `commit`), `previous` the version before it (None for a creation). `memo` is the readers' shared scratch
    place (a rendered watch event is made once for all watchers)."""

    __slots__ = ("cluster", "deleted", "entry", "memo", "previous", "resource")

    def __init__(self, cluster: str, resource: str, entry: Entry, previous: Entry | None, deleted: bool) -> None:
        self.cluster = cluster
        self.resource = resource
        self.entry = entry
        self.previous = previous
        self.deleted = deleted
        self.memo: Any = None


EncodeAt = Callable[[int], bytes]
"""Returns the bytes to store once the revision is known (objects contain their own resourceVersion)."""
Listener = Callable[[Sequence[Event]], None]
"""Called on the event loop with a non-empty batch of committed events in revision order; must not block or raise. The batch is
shared with other listeners: do not change it."""
Lost = Callable[[], None]
"""Called on the event loop, once, when a subscription ends from the store's side: its cluster was dropped, or this server fell
behind the retained history of a shared database. The subscription is closed by then; list and subscribe again."""


class BaseLayer(Protocol):
    """Immutable entries that every cluster has until it writes or deletes (tombstones) one of them.

    `template` entries are shared; `materialize` returns a cluster's own rendering (with its own uid) of one.
    """

    entries: Mapping[str, Mapping[str, Entry]]
    """resource → key → template entry (revision 1)."""

    def materialize(self, cluster: str, resource: str, template: Entry) -> Entry: ...


class Subscription(Protocol):
    def close(self) -> None: ...


class Store(Protocol):
    """See the module docstring. `resource` is `group/plural` (core group: `/plural`), `key` is `name` or `namespace/name`."""

    @property
    def revision(self) -> int:
        """The newest visible revision."""

    @property
    def shared(self) -> bool:
        """Whether other processes may use the medium at the same time."""

    async def start(self) -> None:
        """Open the medium and load the state, also after a crash."""

    async def close(self) -> None:
        """Flush what is queued and release the medium."""

    async def synced(self) -> None:
        """Wait until everything acknowledged by any server before this call is visible here."""

    def add_cluster(self, cluster: str, base: BaseLayer | None = None) -> None:
        """Register a cluster (cheap: no rows); required before it is read or written."""

    async def drop_cluster(self, cluster: str) -> None:
        """Remove a cluster and durably delete all its rows."""

    def clusters(self) -> Sequence[str]:
        """Names of all clusters that have rows or were added."""

    def get(self, cluster: str, resource: str, key: str) -> Entry | None:
        """The visible entry."""

    def head(self, cluster: str, resource: str, key: str) -> Entry | None:
        """The entry a new write competes with: queued if there is one, else the visible one."""

    def list(self, cluster: str, resource: str, prefix: str = "", start: str = "", limit: int = 0) -> Sequence[Entry]:
        """Visible entries in key order whose key starts with `prefix` and is >= `start`; at most `limit` if positive."""

    def count(self, cluster: str, resource: str, prefix: str = "", start: str = "") -> int:
        """The number of entries of `list` without a limit (fast if prefix and start are empty)."""

    def list_at(
        self, cluster: str, resource: str, revision: int, prefix: str = "", start: str = "", limit: int = 0
    ) -> Sequence[Entry]:
        """As `list`, but the state as of `revision`, rolled back over retained events; raises Compacted."""

    def generation(self, cluster: str, resource: str) -> int:
        """Revision of the last visible change to this resource in this cluster (cheap cache-validity check)."""

    def resources(self, cluster: str) -> Iterable[str]:
        """Resources that have at least one entry in this cluster."""

    async def commit(
        self, cluster: str, resource: str, key: str, encode: EncodeAt, expect: int = ANY_REVISION, delete: bool = False
    ) -> Entry:
        """Queue one write and return its entry once it is durable and visible. With `delete`, `encode` gives the bytes
        the DELETED event carries. Raises Conflict at once if the head's revision is not `expect` (with delete: also if
        absent), Unavailable if the medium fails."""

    def subscribe(
        self,
        cluster: str | None,
        resource: str | None,
        from_revision: int | None,
        listener: Listener,
        on_lost: Lost | None = None,
        prefix: str | None = None,
    ) -> Subscription:
        """Deliver events of one cluster (None: all) and resource (None: all) after `from_revision` (None: from now on). With a
        `prefix`, only those of that key, or of all keys in that namespace if it ends in a slash: such subscriptions cost nothing
        for other keys, so that thousands may watch one object each. Retained past events are delivered synchronously, before this
        returns; raises Compacted if they are gone. `on_lost` is called if the store itself has to end the subscription."""

    async def compact(self, keep_after: int) -> None:
        """Drop history up to and including revision `keep_after`. Backends also do it by age and number on their own."""
