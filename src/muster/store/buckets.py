"""One server's in-memory state of one resource in one logical cluster, and the base layer under it.

A bucket has the cluster's own entries in a dict and, after the first list, their keys in a sorted list, so that a prefix is a slice
found by bisection. Below the own entries is the cluster's base layer: immutable templates shared by many clusters, rendered for the
cluster until it writes the key or deletes it, which leaves the key in `hidden`. A bucket with base entries only shares the base's
key list, so an untouched cluster costs a few hundred bytes.

The ring has the last events with the version before each; the state of an earlier revision is the current one rolled back over
them. Invariant: `ring` has every event of the bucket after `floor`, in revision order.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Final

from muster.store.api import BaseLayer, Entry, Event

PUT: Final = 0
DELETE: Final = 1
TOMBSTONE: Final = 2
"""Delete a key that the base layer has: its tombstone stays."""
DROP: Final = 3
"""Remove the whole cluster."""

BASE_REVISION: Final = 1
_LAST_CHARACTER: Final = chr(sys.maxunicode)


class Renderings:
    """A bounded cache of base entries rendered for single clusters; the oldest are dropped, since they can be rendered again."""

    __slots__ = ("entries", "limit")

    def __init__(self, limit: int = 16_384) -> None:
        self.entries: OrderedDict[tuple[Bucket, str], Entry] = OrderedDict()
        self.limit = limit

    def render(self, bucket: Bucket, base: BaseLayer, template: Entry) -> Entry:
        entry_key = (bucket, template.key)
        entry = self.entries.get(entry_key)
        if entry is None:
            entry = base.materialize(bucket.cluster.name, bucket.resource, template)
            self.entries[entry_key] = entry
            if len(self.entries) > self.limit:
                self.entries.popitem(last=False)
        return entry

    def forget(self, cluster: Cluster) -> None:
        for entry_key in [entry_key for entry_key in self.entries if entry_key[0].cluster is cluster]:
            del self.entries[entry_key]


class BaseIndex:
    """A base layer with the sorted keys of each resource, made once and shared by all its clusters."""

    __slots__ = ("_keys", "layer")

    def __init__(self, layer: BaseLayer) -> None:
        self.layer = layer
        self._keys: dict[str, Sequence[str]] = {}

    def keys(self, resource: str) -> Sequence[str]:
        keys = self._keys.get(resource)
        if keys is None:
            keys = self._keys[resource] = sorted(self.layer.entries.get(resource, ()))
        return keys


class Cluster:
    """One logical cluster: its base and the buckets in use."""

    __slots__ = ("base", "buckets", "dropping", "name")

    def __init__(self, name: str, base: BaseIndex | None = None) -> None:
        self.name = name
        self.base = base
        self.buckets: dict[str, Bucket] = {}
        self.dropping = False

    def templates(self, resource: str) -> Mapping[str, Entry] | None:
        return self.base.layer.entries.get(resource) if self.base is not None else None

    def generation(self, resource: str) -> int:
        """The generation of a resource that may have no bucket yet, without creating one."""
        bucket = self.buckets.get(resource)
        if bucket is not None:
            return bucket.generation
        return BASE_REVISION if self.templates(resource) else 0

    def set_base(self, base: BaseIndex) -> None:
        self.base = base
        for bucket in self.buckets.values():
            bucket.templates = self.templates(bucket.resource)
            bucket.keys = None


class Bucket:
    __slots__ = (
        "cluster",
        "entries",
        "floor",
        "generation",
        "hidden",
        "keys",
        "renderings",
        "resource",
        "ring",
        "stale",
        "templates",
    )

    def __init__(self, cluster: Cluster, resource: str, renderings: Renderings) -> None:
        self.cluster = cluster
        self.resource = sys.intern(resource)
        self.renderings = renderings
        self.templates = cluster.templates(resource)
        self.entries: dict[str, Entry] = {}
        self.hidden: set[str] | None = None
        self.keys: list[str] | None = None
        self.ring: deque[Event] | None = None
        self.stale = 0
        """How many of this bucket's marks in the store's retention order stand for events already trimmed."""
        self.floor = 0
        self.generation = BASE_REVISION if self.templates else 0

    def get(self, key: str) -> Entry | None:
        entry = self.entries.get(key)
        if entry is None and self.templates is not None:
            return self.from_base(key)
        return entry

    def has_base(self, key: str) -> bool:
        return self.templates is not None and key in self.templates

    def from_base(self, key: str) -> Entry | None:
        assert self.templates is not None
        template = self.templates.get(key)
        if template is None or (self.hidden is not None and key in self.hidden):
            return None
        assert self.cluster.base is not None
        return self.renderings.render(self, self.cluster.base.layer, template)

    def apply(self, entry: Entry, op: int) -> Event:
        """Make one committed write visible."""
        key = entry.key
        previous = self.get(key)
        if op == PUT:
            self.entries[key] = entry
            if self.hidden is not None:
                self.hidden.discard(key)
            if previous is None and self.keys is not None:
                insort(self.keys, key)
        else:
            self.entries.pop(key, None)
            if op == TOMBSTONE:
                self.hide(key)
            if previous is not None and self.keys is not None:
                del self.keys[bisect_left(self.keys, key)]
        self.generation = entry.revision
        return Event(self.cluster.name, self.resource, entry, previous, op != PUT)

    def hide(self, key: str) -> None:
        if self.hidden is None:
            self.hidden = set()
        self.hidden.add(key)

    def sorted_keys(self) -> Sequence[str]:
        keys = self.keys
        if keys is None:
            templates = self.templates
            if not templates:
                keys = self.keys = sorted(self.entries)
            elif not self.entries and not self.hidden:
                assert self.cluster.base is not None
                return self.cluster.base.keys(self.resource)
            else:
                keys = self.keys = sorted((self.entries.keys() | templates.keys()) - (self.hidden or set()))
        return keys

    def _range(self, prefix: str, start: str) -> tuple[Sequence[str], int, int]:
        keys = self.sorted_keys()
        first = max(prefix, start)
        low = bisect_left(keys, first) if first else 0
        high = bisect_left(keys, prefix + _LAST_CHARACTER, low) if prefix else len(keys)
        return keys, low, high

    def count(self, prefix: str, start: str) -> int:
        _, low, high = self._range(prefix, start)
        return max(high - low, 0)

    def list(self, prefix: str, start: str, limit: int) -> Sequence[Entry]:
        keys, low, high = self._range(prefix, start)
        if limit > 0:
            high = min(high, low + limit)
        if low > 0 or high < len(keys):
            keys = keys[low:high]
        if not self.templates:
            return [*map(self.entries.__getitem__, keys)]
        return [entry for entry in map(self.get, keys) if entry is not None]

    def list_at(self, revision: int, prefix: str, start: str, limit: int) -> Sequence[Entry]:
        """The range as it was at `revision`, which must not lie below the floor."""
        if revision >= self.generation or not self.ring:
            return self.list(prefix, start, limit)
        past: dict[str, Entry | None] = {}
        for event in reversed(self.ring):
            if event.entry.revision <= revision:
                break
            past[event.entry.key] = event.previous
        all_keys, low, high = self._range(prefix, start)
        then = [key for key in all_keys[low:high] if past.get(key, self) is not None]
        present = self.entries.keys() if not self.templates else set(all_keys)
        then += (
            key
            for key, entry in past.items()
            if entry is not None and key not in present and key >= start and key.startswith(prefix)
        )
        then.sort()
        if limit > 0:
            del then[limit:]
        entries = (past[key] if key in past else self.get(key) for key in then)
        return [entry for entry in entries if entry is not None]

    def since(self, revision: int) -> Sequence[Event]:
        """Retained events after `revision`, oldest first."""
        found: deque[Event] = deque()
        for event in reversed(self.ring or ()):
            if event.entry.revision <= revision:
                break
            found.appendleft(event)
        return [*found]
