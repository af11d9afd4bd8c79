"""WATCH: the events of one resource from a revision on, as chunked JSON lines. Corresponds to kube-apiserver's watch cache
(`k8s.io/apiserver/pkg/storage/cacher`).

A watch is a store subscription that frames each event and writes it to the connection. The framed bytes of an event are computed
once and shared by all watchers with the same format. Nothing here waits for a client, and nothing is buffered for a slow one: its
watch leaves the store's broadcast with the last revision it has sent, and continues from history when the client has read its data.
If that revision has been compacted, the client gets 410 and lists again, as informers do; a client that reads next to nothing for a
long time is disconnected. Only resources whose version needs a conversion webhook use a queue and a task.

WatchList (`sendInitialEvents`) sends the current state as ADDED events, then a bookmark with the annotation for it, then live
events.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import orjson

from muster.apiserver import errors
from muster.apiserver.context import Context
from muster.apiserver.handlers.filters import Filter, build_filter
from muster.apiserver.handlers.reads import await_revision
from muster.apiserver.presentation.negotiation import JSON, WATCHED, YAML, Format, negotiate
from muster.apiserver.presentation.responses import partial_metadata, present, present_all
from muster.apiserver.presentation.tables import check_include_object, table_bytes
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.request import ListOptions, list_options
from muster.http import StreamResponse, StreamWriter, encode_chunk
from muster.store.api import Compacted, Entry, Event, Listener, Subscription

BOOKMARK_INTERVAL = 60.0
BOOKMARK_BEFORE_END = 2.0
MAX_UNREAD_BYTES = 256 * 1024
"""Bytes after which a watch waits until its client has read them."""
STALLED_TIMEOUT = 60.0
"""How long a client may take to read these bytes before it is disconnected."""
MAX_QUEUED_BYTES = 16 * 1024 * 1024
"""Bytes of events that may be queued for a conversion webhook before the watch leaves the broadcast."""
MAX_TIMEOUT = 3600.0
"""Maximum duration of a watch in seconds, also if `timeoutSeconds` is longer. kube-apiserver has this limit for watches without
it."""
_CRDS = "apiextensions.k8s.io/customresourcedefinitions"
_DEFAULT_TIMEOUT = (1800.0, MAX_TIMEOUT)


async def watch(ctx: Context, resource: ServedResource) -> StreamResponse:
    format = negotiate(ctx.accept)
    if format.media == YAML:
        raise errors.not_acceptable(WATCHED)
    if format.transform == "Table":
        check_include_object(ctx.query.get("includeObject"))
    options = list_options(ctx.query, watch=True)
    entry_filter = build_filter(resource, options)
    if options.send_initial_events and options.revision:
        await await_revision(ctx, options.revision)
    elif options.revision is None:
        await ctx.cluster.store.synced()

    async def run(writer: StreamWriter) -> None:
        await _Watch(ctx, resource, options, entry_filter, format, writer).serve()

    headers = [("Content-Type", JSON), ("Cache-Control", "no-cache, private")]
    return StreamResponse(200, headers, run)


class _Queue(asyncio.Queue[Sequence[Event] | int]):
    """Events, and revisions of bookmarks between them, that are queued for a conversion webhook."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.converted = asyncio.Event()


class _Watch:
    def __init__(
        self,
        ctx: Context,
        resource: ServedResource,
        options: ListOptions,
        entry_filter: Filter,
        format: Format,
        writer: StreamWriter,
    ) -> None:
        self._cluster = ctx.cluster
        self._resource = resource
        self._options = options
        self._filter = entry_filter
        self._format = format
        self._writer = writer
        self._include = ctx.query.get("includeObject")
        self._prefix = ctx.attributes.namespace + "/" if ctx.attributes.namespace else ""
        self._start = 0
        self._position: int | None = None
        """The revision from which the watch continues when its client has caught up; None while it is in the broadcast."""
        self._ended = False
        self._woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the watch has ended or left the broadcast."""
        self._headers_sent = False
        """Whether the column definitions of a Table were sent: only the first event has them."""
        self._format_key = (resource.version, format.transform, format.version, self._include)
        self._queue = _Queue() if resource.strategy.needs_webhook else None
        self._crds: Subscription | None = None
        self._events: Subscription | None = None

    async def serve(self) -> None:
        pump: asyncio.Task[None] | None = None
        try:
            await self._send_initial_state()
            if self._queue is not None:
                pump = asyncio.create_task(self._pump(self._queue))
            await self._run()
        except Compacted as gone:
            self._fail(errors.expired(f"too old resource version: {gone.requested} ({gone.oldest})"))
        except errors.ApiError as problem:
            self._fail(problem)
        finally:
            for subscription in (self._crds, self._events):
                if subscription is not None:
                    subscription.close()
            # They refer to this watch: the cycle would keep it, and its connection, until a garbage collection.
            self._crds = self._events = None
            if pump is not None:
                pump.cancel()

    def _subscribe(self, resource: str, revision: int | None, listener: Listener, key_or_prefix: str | None = None) -> Subscription:
        return self._cluster.store.subscribe(self._cluster.name, resource, revision, listener, self._on_lost, key_or_prefix)

    def _subscribe_from(self, revision: int) -> None:
        """Send the history since `revision` and join the broadcast; not if the client falls behind in the meantime."""
        self._position = None
        subscription = self._subscribe(self._resource.storage, revision, self._on_events, self._key_or_prefix())
        if self._woken.done():
            subscription.close()
        else:
            self._events = subscription

    def _leave_broadcast(self, position: int) -> None:
        """Leave the broadcast; everything up to `position` was sent."""
        if self._position is None:
            self._position = position
            if self._events is not None:
                self._events.close()
                self._events = None
            self._wake()

    def _wake(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)

    async def _drain(self) -> bool:
        """Wait until the client has read its data; False if it has disconnected or takes too long."""
        try:
            async with asyncio.timeout(STALLED_TIMEOUT):
                await self._writer.drain()
        except TimeoutError:
            self._writer.abort()
        except ConnectionResetError:
            pass
        return not self._writer.is_closed

    def _key_or_prefix(self) -> str | None:
        """The key or the prefix of the namespace to which the subscription is limited; None for all."""
        name = self._filter.exact_name
        if name and (self._prefix or not self._resource.namespaced):
            return self._prefix + name
        return self._prefix or None

    async def _send_initial_state(self) -> None:
        """Send the initial state if requested, and subscribe to all later events."""
        store, options = self._cluster.store, self._options
        revision = options.revision
        initial = options.send_initial_events
        if initial is None:
            initial = not revision
        if self._resource.is_custom:
            self._crds = self._subscribe(_CRDS, None, self._on_crds)
        if not initial:
            self._start = revision or store.revision
            self._subscribe_from(self._start)
            return
        snapshot = store.list(self._cluster.name, self._resource.storage, self._prefix)
        self._start = store.revision
        entries = [entry for entry in snapshot if self._filter.matches(entry)]
        values = [present(self._resource, entry) for entry in entries]
        if None in values:
            shown = await present_all(self._resource, entries)
        else:
            shown = [value for value in values if value is not None]
        written = 0
        for entry, value in zip(entries, shown, strict=True):
            self._writer.write(_event_line("ADDED", self._formatted(entry, value)))
            self._headers_sent = True
            written += len(value)
            if written > MAX_UNREAD_BYTES:
                written = 0
                if not await self._drain():
                    self._end()
                    return
        if options.send_initial_events and options.bookmarks:
            self._bookmark(self._start, initial_end=True)
        self._subscribe_from(self._start)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        timeout = min(self._options.timeout or random.uniform(*_DEFAULT_TIMEOUT), MAX_TIMEOUT)
        end = loop.time() + timeout
        closed = self._writer.closed
        bookmarks = self._options.bookmarks
        next_bookmark = loop.time() + random.uniform(0.9, 1.1) * BOOKMARK_INTERVAL
        last = end - BOOKMARK_BEFORE_END if timeout > 2 * BOOKMARK_BEFORE_END else end
        while not closed.done() and not self._ended:
            now = loop.time()
            if now >= end:
                return
            if self._position is not None:
                await self._catch_up(self._position)
                continue
            wake = min(end, next_bookmark, last if last > now else end) if bookmarks else end
            await asyncio.wait((closed, self._woken), timeout=wake - now, return_when=asyncio.FIRST_COMPLETED)
            if bookmarks and not closed.done() and not self._woken.done() and loop.time() < end:
                self._queue_bookmark(self._cluster.store.revision)
                next_bookmark = loop.time() + BOOKMARK_INTERVAL

    async def _catch_up(self, position: int) -> None:
        """Continue from `position` when the client has read its data."""
        if self._queue is not None:
            await self._queue.converted.wait()
        if not await self._drain():
            self._end()
        elif not self._ended:
            self._woken = asyncio.get_running_loop().create_future()
            self._subscribe_from(position)

    def _on_crds(self, events: Sequence[Event]) -> None:
        name = f"{self._resource.plural}.{self._resource.group}"
        if any(event.deleted and event.entry.key == name for event in events):
            self._end()

    def _on_events(self, events: Sequence[Event]) -> None:
        if self._resource.is_custom and not self._refresh_resource():
            return
        if self._queue is not None:
            self._queue.put_nowait(events)
            self._queue.bytes += _size(events)
            self._queue.converted.clear()
            if self._queue.bytes > MAX_QUEUED_BYTES:
                self._leave_broadcast(events[-1].entry.revision)
            return
        if self._writer.is_behind:
            self._leave_broadcast(events[0].entry.revision - 1)
            return
        write, size = self._writer.write_framed, 0
        for event in events:
            framed = self._framed(event)
            if framed is not None:
                write(framed)
                size += len(framed)
                if size > MAX_UNREAD_BYTES:
                    self._leave_broadcast(event.entry.revision)
                    return

    def _refresh_resource(self) -> bool:
        """Use the row of the current CRD; end the watch if the version is no longer served. Returns whether it is."""
        resource = self._resource
        current = self._cluster.resources.get(resource.group, resource.version, resource.plural)
        if current is None:
            self._end()
            return False
        self._resource = current
        return True

    def _queue_bookmark(self, revision: int) -> None:
        """Send a bookmark after all events before it, which may still be queued for conversion."""
        if self._queue is None:
            self._bookmark(revision)
        else:
            self._queue.put_nowait(revision)

    def _on_lost(self) -> None:
        """Events were missed, because the cluster was dropped or a database server was behind: the client must list again."""
        revision = self._cluster.store.revision
        self._fail(errors.expired(f"too old resource version: {revision} ({revision})"))

    def _fail(self, problem: errors.ApiError) -> None:
        self._writer.write(_event_line("ERROR", orjson.dumps(problem.status())))
        self._end()

    def _end(self) -> None:
        self._ended = True
        if self._queue is not None:
            self._queue.converted.set()
        self._wake()

    async def _pump(self, queue: _Queue) -> None:
        """Convert and send queued events in order."""
        while True:
            item = await queue.get()
            if isinstance(item, int):
                self._bookmark(item)
                continue
            matched = [found for event in item if (found := self._filter_event(event)) is not None]
            try:
                values = await present_all(self._resource, [entry for _, entry in matched])
            except errors.ApiError as problem:
                self._fail(problem)
                return
            queue.bytes -= _size(item)
            if not queue.bytes:
                queue.converted.set()
            for (kind, entry), value in zip(matched, values, strict=True):
                self._writer.write_framed(encode_chunk(_event_line(kind, self._formatted(entry, value))))
                self._headers_sent = True
            if self._writer.is_behind and not await self._drain():
                self._end()
                return

    def _filter_event(self, event: Event) -> tuple[str, Entry] | None:
        """(type of the event for this watcher, entry to show); None if the event is not selected."""
        entry, previous = event.entry, event.previous
        if entry.revision <= self._start or not entry.key.startswith(self._prefix):
            return None
        if self._filter.matches_everything:
            if event.deleted:
                return "DELETED", entry
            return ("ADDED" if previous is None else "MODIFIED"), entry
        matched = not event.deleted and self._filter.matches(entry)
        did_match = previous is not None and self._filter.matches(previous)
        if matched:
            return ("MODIFIED" if did_match else "ADDED"), entry
        if not did_match:
            return None
        if event.deleted:
            return "DELETED", entry
        assert previous is not None
        return "DELETED", Entry(previous.key, entry.revision, with_revision(previous, entry.revision))

    def _framed(self, event: Event) -> bytes | None:
        matched = self._filter_event(event)
        if matched is None:
            return None
        kind, entry = matched
        cache = event.memo
        if cache is None:
            cache = event.memo = {}
        key = (kind, self._format_key, self._headers_sent)
        framed: bytes | None = cache.get(key)
        if framed is None:
            value = present(self._resource, entry)
            if value is None:  # the CRD has got a conversion webhook during the watch: the client reconnects
                self._writer.abort()
                return None
            framed = cache[key] = encode_chunk(_event_line(kind, self._formatted(entry, value)))
        self._headers_sent = self._format.transform == "Table"
        return framed

    def _formatted(self, entry: Entry, value: bytes) -> bytes:
        if not self._format.transform:
            return value
        if self._format.transform == "Table":
            meta = b'{"resourceVersion":"%d"}' % entry.revision
            now = self._cluster.clock()
            titles = not self._headers_sent
            return table_bytes(self._resource, (entry,), (value,), meta, now, self._include, self._format.version, titles)
        return partial_metadata(value, self._format.version)

    def _bookmark(self, revision: int, initial_end: bool = False) -> None:
        meta: dict[str, object] = {"resourceVersion": str(revision)}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind, version = self._resource.kind, self._resource.api_version
        if self._format.transform == "Table":
            kind, version = "Table", f"meta.k8s.io/{self._format.version}"
        elif self._format.transform:
            kind, version = "PartialObjectMetadata", f"meta.k8s.io/{self._format.version}"
        obj: dict[str, object] = {"kind": kind, "apiVersion": version, "metadata": meta}
        if kind == "Table":
            obj |= {"columnDefinitions": None, "rows": []}
        self._writer.write(_event_line("BOOKMARK", orjson.dumps(obj)))


def _size(events: Sequence[Event]) -> int:
    return sum(len(event.entry.value) for event in events)


def _event_line(kind: str, value: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), value)


_REVISION_PREFIX = b'"metadata":{"resourceVersion":"'


def with_revision(entry: Entry, revision: int) -> bytes:
    """The stored bytes of an entry with another resourceVersion."""
    start = entry.value.index(_REVISION_PREFIX) + len(_REVISION_PREFIX)
    end = entry.value.index(b'"', start)
    return b"%s%d%s" % (entry.value[:start], revision, entry.value[end:])
