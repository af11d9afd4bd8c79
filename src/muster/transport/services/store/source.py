"""The objects of one row, read from the store itself: without list, watch and repeated decoding.

A store reports every committed write in the order of revisions, including those of other servers on the same database, and keeps
some history. So deletions before this process started are known as far as the history goes: each is reported as an object that was
added and deleted before the source is synced, which creates a tombstone. If a store reports that events were missed, the whole
state is compared with what was reported, and the differences are reported.

An object that cannot be decoded, or converted to the row's version, is left out and logged; others are not affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import orjson

from muster.api.addon.conversion import ConversionError, convert
from muster.apiserver.objects import stored
from muster.kube.selectors import parse_label_selector
from muster.machinery.logs import get_logger
from muster.runtime.cache import Cache, Snapshot
from muster.store.api import Compacted, Entry, Event, Store, Subscription
from muster.transport.contract.rows import Row
from muster.transport.services.objects import SourceHandler
from muster.transport.services.reduction import reduction_of

log = get_logger(__name__)


class StoreSource:
    """An `ObjectSource`. `cluster` is the logical cluster of the hub."""

    def __init__(self, row: Row, store: Store, cluster: str) -> None:
        self._row = row
        self._reduce = reduction_of(row)
        self._store = store
        self._cluster = cluster
        self._resource = stored(row.resource)
        self._selector = parse_label_selector(row.selector) if row.selector else None
        self._version_mark = b'"apiVersion":"%s"' % row.resource.api_version.encode()
        self._reader: Cache[Snapshot] = Cache(row.resource)
        self._known: dict[str, Snapshot] = {}
        self._handlers: list[SourceHandler] = []
        self._subscription: Subscription | None = None
        self._synced = False

    @property
    def synced(self) -> bool:
        return self._synced

    @property
    def served(self) -> bool:
        return True

    def on_change(self, handler: SourceHandler) -> None:
        self._handlers.append(handler)
        for snapshot in self._known.values():
            handler(None, snapshot)

    async def run(self) -> None:
        self._open()
        try:
            await asyncio.Event().wait()
        finally:
            if self._subscription is not None:
                self._subscription.close()

    def _open(self) -> None:
        """Reads history and current state in one iteration of the event loop, so that nothing changes in between."""
        self._replay_deletions()
        self._subscription = self._store.subscribe(self._cluster, self._resource, None, self._on_events, self._on_lost)
        self._compare()
        self._synced = True

    def _replay_deletions(self) -> None:
        def replay(events: Sequence[Event]) -> None:
            for event in events:
                gone = self._read(event.entry) if event.deleted else None
                if gone is not None:
                    self._notify(None, gone)
                    self._notify(gone, None)

        try:
            past = self._store.subscribe(self._cluster, self._resource, 0, replay, _nothing)
        except Compacted as compacted:
            past = self._store.subscribe(self._cluster, self._resource, compacted.oldest, replay, _nothing)
        past.close()

    def _on_lost(self) -> None:
        log.warning("events of the store were missed, comparing", resource=self._resource)
        self._subscription = self._store.subscribe(self._cluster, self._resource, None, self._on_events, self._on_lost)
        self._compare()

    def _compare(self) -> None:
        """Report the differences between the store and what was reported."""
        found = {entry.key: entry for entry in self._store.list(self._cluster, self._resource)}
        for key in [key for key in self._known if key not in found]:
            self._take(key, None)
        for key, entry in found.items():
            self._take(key, entry)

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            self._take(event.entry.key, None if event.deleted else event.entry)

    def _take(self, key: str, entry: Entry | None) -> None:
        old = self._known.get(key)
        if entry is not None and old is not None and old.resource_version == str(entry.revision):
            return
        new = None if entry is None else self._read(entry)
        if new is not None:
            self._known[key] = new
        elif old is not None:
            del self._known[key]
        if old is not None or new is not None:
            self._notify(old, new)

    def _read(self, entry: Entry) -> Snapshot | None:
        """None if it is not of this row, or cannot be decoded."""
        raw = entry.value
        try:
            # Stored objects have apiVersion at their start; those of another version must be converted.
            if self._version_mark not in raw[: 2 * len(self._version_mark) + 64]:
                raw = orjson.dumps(convert(orjson.loads(raw), self._row.resource.api_version))
            snapshot = self._reader.read(self._reduce(raw))
        except (ConversionError, msgspec.DecodeError, ValueError) as error:
            log.error("cannot read object; it is left out", resource=self._resource, key=entry.key, error=str(error))
            return None
        return snapshot if self._selector is None or self._selector.matches(snapshot.labels) else None

    def _notify(self, old: Snapshot | None, new: Snapshot | None) -> None:
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception as error:  # one object's error must not affect others
                either = new or old
                assert either is not None
                log.error("handler failed", resource=self._resource, key=str(either.key), exc_info=error)


def _nothing() -> None:
    """A subscription that is closed at once misses nothing."""
