"""The common part of all stores: the visible state in memory, its history and its watchers.

A backend derives from `ResidentStore`, adds `commit` and its helpers, and calls `publish` with durable writes, in revision order;
only then are they visible in reads and delivered to subscriptions. Everything here runs on the event loop and never waits.

History is bounded in three ways: events per bucket, events in the process, and bytes that only history refers to (a superseded
version is counted by the event that superseded it). Decoded forms of a version (`memo`) are often larger than its bytes and not
counted, so history keeps none: a replay decodes again. `_order` has one mark per retained event, oldest first, so the oldest event
of the process can be dropped in constant time; a mark whose event its bucket trimmed earlier is counted in `Bucket.stale` and
skipped.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.store.api import ANY_REVISION, BaseLayer, Compacted, Conflict, Entry, Event, Listener, Lost, StoreError
from muster.store.buckets import BASE_REVISION, DROP, PUT, BaseIndex, Bucket, Cluster, Renderings
from muster.store.watches import Scope, Watch

ObjectRow = tuple[str, str, str, int, bytes | None]
"""cluster, resource, key, revision, value (None: tombstone over the base layer)."""
LogRow = tuple[int, str, str, str, int, int | None, bytes | None, bytes | None]
"""revision, cluster, resource, key, op, previous revision, previous value, value (of deletions only)."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention of history: in memory, and (`log_rows`, `age_seconds`) on the medium."""

    bucket_events: int = 4_096
    events: int = 65_536
    bytes: int = 64 << 20
    log_rows: int = 65_536
    age_seconds: float = 600.0


class Change:
    """One durable write before it is published."""

    __slots__ = ("cluster", "entry", "op", "resource")

    def __init__(self, cluster: str, resource: str, entry: Entry, op: int) -> None:
        self.cluster = cluster
        self.resource = resource
        self.entry = entry
        self.op = op


class ResidentStore:
    """Reads, history and subscriptions of the `Store` interface."""

    shared = False

    def __init__(self, retention: Retention | None = None) -> None:
        self.retention = retention or Retention()
        self._revision = BASE_REVISION
        self._floor = 0
        self._reset_at = 0
        self._clusters: dict[str, Cluster] = {}
        self._dropped: dict[str, int] = {}
        self._bases: dict[int, BaseIndex] = {}
        self._renderings = Renderings()
        self._watches: dict[Scope, dict[Watch, None]] = {}
        self._order: deque[Bucket] = deque()
        self._retained = 0
        self._retained_bytes = 0

    # Clusters

    @property
    def revision(self) -> int:
        return self._revision

    def add_cluster(self, cluster: str, base: BaseLayer | None = None) -> None:
        known = self._cluster(cluster)
        if base is None or (known.base is not None and known.base.layer is base):
            return
        if known.base is not None:
            self._renderings.forget(known)
        index = self._bases.get(id(base))
        if index is None:
            index = self._bases[id(base)] = BaseIndex(base)
        known.set_base(index)

    def clusters(self) -> Sequence[str]:
        return [*self._clusters]

    def _cluster(self, name: str) -> Cluster:
        cluster = self._clusters.get(name)
        if cluster is None:
            cluster = self._clusters[name] = Cluster(name)
        return cluster

    def _writable(self, name: str) -> Cluster:
        cluster = self._clusters.get(name)
        if cluster is None or cluster.dropping:
            raise StoreError(f"cluster {name} does not exist: add it before writing to it")
        return cluster

    def _bucket(self, cluster: Cluster, resource: str) -> Bucket:
        bucket = cluster.buckets.get(resource)
        if bucket is None:
            bucket = Bucket(cluster, resource, self._renderings)
            cluster.buckets[bucket.resource] = bucket
        return bucket

    def _readable(self, cluster: str, resource: str) -> Bucket | None:
        """The bucket if it may have entries; a read creates one only over a base."""
        known = self._clusters.get(cluster)
        if known is None:
            return None
        bucket = known.buckets.get(resource)
        if bucket is None and known.templates(resource):
            bucket = self._bucket(known, resource)
        return bucket

    # Reads

    def get(self, cluster: str, resource: str, key: str) -> Entry | None:
        bucket = self._readable(cluster, resource)
        return bucket.get(key) if bucket is not None else None

    def head(self, cluster: str, resource: str, key: str) -> Entry | None:
        return self.get(cluster, resource, key)

    def list(self, cluster: str, resource: str, prefix: str = "", start: str = "", limit: int = 0) -> Sequence[Entry]:
        bucket = self._readable(cluster, resource)
        return bucket.list(prefix, start, limit) if bucket is not None else []

    def count(self, cluster: str, resource: str, prefix: str = "", start: str = "") -> int:
        bucket = self._readable(cluster, resource)
        return bucket.count(prefix, start) if bucket is not None else 0

    def list_at(
        self, cluster: str, resource: str, revision: int, prefix: str = "", start: str = "", limit: int = 0
    ) -> Sequence[Entry]:
        self._require_history((cluster, resource, None), revision)
        bucket = self._readable(cluster, resource)
        return bucket.list_at(revision, prefix, start, limit) if bucket is not None else []

    def generation(self, cluster: str, resource: str) -> int:
        known = self._clusters.get(cluster)
        own = known.generation(resource) if known is not None else 0
        if own >= self._reset_at and not self._dropped:
            return own
        return max(own, self._dropped.get(cluster, 0), self._reset_at)

    def resources(self, cluster: str) -> Iterable[str]:
        known = self._clusters.get(cluster)
        if known is None:
            return []
        names = set(known.buckets)
        if known.base is not None:
            names.update(known.base.layer.entries)
        return [
            name
            for name in sorted(names)
            if (bucket.count("", "") if (bucket := known.buckets.get(name)) is not None else known.templates(name))
        ]

    # Subscriptions

    def subscribe(
        self,
        cluster: str | None,
        resource: str | None,
        from_revision: int | None,
        listener: Listener,
        on_lost: Lost | None = None,
        prefix: str | None = None,
    ) -> Watch:
        scope = (cluster, resource, prefix)
        missed: Sequence[Event] = ()
        if from_revision is not None and from_revision < self._revision:
            self._require_history(scope, from_revision)
            parts = [found for bucket in self._in_scope(scope) if (found := bucket.since(from_revision))]
            missed = parts[0] if len(parts) == 1 else [*heapq.merge(*parts, key=_revision_of)]
            if prefix is not None:
                missed = [event for event in missed if _is_in(event.entry.key, prefix)]
        watch = Watch(self._watches, scope, from_revision or 0, listener, on_lost)
        if missed:
            watch.deliver(missed)
            for event in missed:
                _lighten(event)
        watch.after = max(from_revision or 0, self._revision)
        return watch

    def _in_scope(self, scope: Scope) -> Iterable[Bucket]:
        cluster, resource, _ = scope
        if cluster is None:
            clusters: Iterable[Cluster] = self._clusters.values()
        else:
            known = self._clusters.get(cluster)
            clusters = (known,) if known is not None else ()
        for known in clusters:
            if resource is None:
                yield from known.buckets.values()
            elif (bucket := known.buckets.get(resource)) is not None:
                yield bucket

    def _require_history(self, scope: Scope, revision: int) -> None:
        if scope[0] is None:
            dropped = max(self._dropped.values(), default=0)
        else:
            dropped = self._dropped.get(scope[0], 0)
        floor = max(self._floor, dropped, max((bucket.floor for bucket in self._in_scope(scope)), default=0))
        if revision < floor:
            raise Compacted(revision, floor)

    # Writes, for the backends

    def _require_head(self, key: str, head: Entry | None, expect: int, delete: bool) -> None:
        if (delete and head is None) or (expect != ANY_REVISION and (head.revision if head else 0) != expect):
            raise Conflict(key, head)

    def publish(self, changes: Sequence[Change]) -> None:
        """Publish durable writes, given in revision order and newer than everything visible, and call the watchers."""
        events: list[Event] = []
        for change in changes:
            if change.op == DROP:
                self._deliver(events)
                events = []
                self._revision = change.entry.revision
                self._forget(change.cluster)
                continue
            bucket = self._bucket(self._cluster(change.cluster), change.resource)
            event = bucket.apply(change.entry, change.op)
            self._revision = event.entry.revision
            self._retain(bucket, event)
            events.append(event)
        self._deliver(events)

    def _deliver(self, events: Sequence[Event]) -> None:
        watches = self._watches
        batches: dict[Scope, list[Event]] = {}
        for event in events if watches else ():
            for scope in _scopes_of(event):
                if scope in watches:
                    batches.setdefault(scope, []).append(event)
        for scope, batch in batches.items():
            for watch in tuple(watches.get(scope, ())):
                watch.deliver(batch)
        for event in events:
            _lighten(event)

    def _forget(self, name: str) -> None:
        """Drop a cluster's state and history; the change's revision is already the visible one."""
        cluster = self._clusters.pop(name, None)
        self._dropped[name] = self._revision
        if cluster is not None:
            self._renderings.forget(cluster)
            for bucket in cluster.buckets.values():
                for event in bucket.ring or ():
                    self._retained -= 1
                    self._retained_bytes -= _cost(event)
                    bucket.stale += 1
                bucket.ring = None
                # Its marks in `_order` are skipped later, and refer to it until then.
                bucket.entries, bucket.keys = {}, None
        for scope in [scope for scope in self._watches if scope[0] == name]:
            for watch in tuple(self._watches.get(scope, ())):
                watch.lose()

    # History

    def _retain(self, bucket: Bucket, event: Event) -> None:
        ring = bucket.ring
        if ring is None:
            ring = bucket.ring = deque()
        ring.append(event)
        self._order.append(bucket)
        self._retained += 1
        self._retained_bytes += _cost(event)
        limits = self.retention
        if len(ring) > limits.bucket_events:
            self._trim(bucket)
            bucket.stale += 1
        while self._order and (
            self._retained > limits.events or self._retained_bytes > limits.bytes or len(self._order) > 2 * limits.events
        ):
            self._expire_oldest()

    def _trim(self, bucket: Bucket) -> None:
        assert bucket.ring
        event = bucket.ring.popleft()
        bucket.floor = event.entry.revision
        self._retained -= 1
        self._retained_bytes -= _cost(event)
        if not bucket.ring:
            bucket.ring = None

    def _expire_oldest(self) -> None:
        bucket = self._order.popleft()
        if bucket.stale:
            bucket.stale -= 1
        else:
            self._trim(bucket)

    def _discard_history(self, keep_after: int) -> None:
        while self._order:
            bucket = self._order[0]
            if not bucket.stale and bucket.ring and bucket.ring[0].entry.revision > keep_after:
                break
            self._expire_oldest()
        self._floor = max(self._floor, min(keep_after, self._revision))
        self._dropped = {name: revision for name, revision in self._dropped.items() if revision > self._floor}

    # Loading

    def _reset(self) -> None:
        """Clear the state except the registered clusters and their bases, before the medium's state is loaded again."""
        known, self._clusters = self._clusters, {}
        for cluster in known.values():
            self._renderings.forget(cluster)
            self._clusters[cluster.name] = fresh = Cluster(cluster.name, cluster.base)
            fresh.dropping = cluster.dropping
        self._dropped = {}
        self._order.clear()
        self._retained = self._retained_bytes = 0

    def _lose_watches(self) -> None:
        self._reset_at = self._revision
        for watches in [*self._watches.values()]:
            for watch in tuple(watches):
                watch.lose()

    def _adopt(self, objects: Iterable[ObjectRow], log: Iterable[LogRow], revision: int, floor: int) -> None:
        """Load the state of the medium. `log` is newest first: it has what each write replaced, so walking back from the current
        state yields the new and the previous version of every event. Reading stops where retention ends."""
        entry_key: tuple[str, str] | None = None
        bucket: Bucket | None = None
        for cluster, resource, key, written, value in objects:
            if bucket is None or entry_key != (cluster, resource):
                entry_key = (cluster, resource)
                bucket = self._bucket(self._cluster(cluster), resource)
            if value is None:
                bucket.hide(key)
            else:
                bucket.entries[key] = Entry(key, written, value)
            bucket.generation = max(bucket.generation, written)
        self._revision = revision
        self._floor = floor
        history: list[tuple[Bucket, Event]] = []
        versions: dict[tuple[Bucket, str], Entry | None] = {}
        size = 0
        for read, (written, cluster, resource, key, op, previous_revision, previous_value, value) in enumerate(log):
            if read >= self.retention.events or size > self.retention.bytes:
                self._floor = max(floor, written)
                break
            if op == DROP:
                self._dropped.setdefault(cluster, written)
            if cluster in self._dropped:
                continue
            bucket = self._bucket(self._cluster(cluster), resource)
            if op == PUT:
                entry = versions[bucket, key] if (bucket, key) in versions else bucket.entries.get(key)
            else:
                entry = Entry(key, written, value or b"")
            if entry is None or entry.revision != written:
                raise StoreError(f"the log and the objects disagree about {cluster} {resource} {key} at revision {written}")
            previous = None
            if previous_value is not None and previous_revision is not None:
                previous = Entry(key, previous_revision, previous_value)
            versions[bucket, key] = previous
            bucket.generation = max(bucket.generation, written)
            event = Event(cluster, resource, entry, previous, op != PUT)
            history.append((bucket, event))
            size += _cost(event)
        for bucket, event in reversed(history):
            self._retain(bucket, event)


def _revision_of(event: Event) -> int:
    return event.entry.revision


def _scopes_of(event: Event) -> tuple[Scope, ...]:
    """All scopes of watches that include this event."""
    cluster, resource, key = event.cluster, event.resource, event.entry.key
    namespace, slash, _ = key.rpartition("/")
    named: tuple[Scope, ...] = ((cluster, resource, None), (cluster, resource, key))
    if slash:
        named = (*named, (cluster, resource, namespace + slash))
    return (*named, (cluster, None, None), (None, resource, None), (None, None, None))


def _is_in(key: str, prefix: str) -> bool:
    return key.startswith(prefix) if prefix.endswith("/") else key == prefix


def _lighten(event: Event) -> None:
    """After all watchers were called: drop the decoded forms, and those of versions that are no longer current."""
    event.memo = None
    if event.previous is not None:
        event.previous.memo = None
    if event.deleted:
        event.entry.memo = None


def _cost(event: Event) -> int:
    held = len(event.previous.value) if event.previous is not None else 0
    return held + len(event.entry.value) if event.deleted else held
