"""The objects of one row, followed in the store itself: no list, no watch, no second reading of bytes.

A store tells of every committed write in the order of revisions, those of other servers on the same database too, and keeps some
of its history. So what went before this process was there is known as far as that history goes: each deletion in it is told as an
object that came and went before the source is synced, and whoever keeps tombstones has one then. Where a store says that events
were missed, the whole state is compared with what was told, and the differences are told.

An object that cannot be read, or not be had in the row's version, is left out, logged and harms no other.
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
    """An `ObjectSource`. `cluster` is the logical cluster that is the hub."""

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
        """History and present state in one turn of the loop, so that nothing happens in between."""
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
        """Tell what differs between the store and what was told."""
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
        """None for what is not of this row, and for what cannot be read."""
        raw = entry.value
        try:
            # Where the stored bytes begin is settled; objects of another version have to be converted.
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
            except Exception as error:  # the edge: one object's fault must not keep the others from being told
                either = new or old
                assert either is not None
                log.error("handler failed", resource=self._resource, key=str(either.key), exc_info=error)


def _nothing() -> None:
    """A subscription that is closed at once loses nothing."""
