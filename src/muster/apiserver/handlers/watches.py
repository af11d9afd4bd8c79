"""WATCH: events of one resource from a revision on, as chunked JSON lines.

A watch is a store subscription that frames each event and hands it to the connection; the framed bytes of an event are made once
and shared by all watchers that want the same representation. Nothing here waits for a client, and nothing is kept for one that
falls behind: its watch leaves the store's broadcast with the revision it has come to, and goes on from history once the client
has read what it was given. If history no longer reaches back that far it learns so (410) and lists again, as informers do; one that
takes next to nothing for long is cut off. Only resources whose version takes a conversion webhook go through a queue and a task.

WatchList (`sendInitialEvents`) sends the current state as ADDED events, then a bookmark that says so, then live events.
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
from muster.apiserver.presentation.tables import check_inclusion, table_bytes
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.request import ListOptions, list_options
from muster.http import StreamResponse, StreamWriter, encode_chunk
from muster.store.api import Compacted, Entry, Event, Listener, Subscription

BOOKMARK_SECONDS = 60.0
BOOKMARK_BEFORE_END = 2.0
AT_ONCE = 256 * 1024
"""Bytes after which a watch makes sure that its client reads them before it goes on."""
STALLED_SECONDS = 60.0
"""How long a client may take to read so much, or it is cut off."""
MAX_WAITING_BYTES = 16 * 1024 * 1024
"""Bytes of events that may wait for a conversion webhook before a watch waits for it."""
MAX_TIMEOUT = 3600.0
"""Seconds after which a watch ends whatever `timeoutSeconds` says; without it, the real server ends none later either."""
_DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
_DEFAULT_TIMEOUT = (1800.0, MAX_TIMEOUT)


async def watch(ctx: Context, resource: ServedResource) -> StreamResponse:
    format = negotiate(ctx.accept)
    if format.media == YAML:
        raise errors.not_acceptable(WATCHED)
    if format.transform == "Table":
        check_inclusion(ctx.query.get("includeObject"))
    options = list_options(ctx.query, watch=True)
    wanted = build_filter(resource, options)
    if options.send_initial_events and options.revision:
        await await_revision(ctx, options.revision)
    elif options.revision is None:
        await ctx.cluster.store.synced()

    async def run(writer: StreamWriter) -> None:
        await _Watch(ctx, resource, options, wanted, format, writer).serve()

    headers = [("Content-Type", JSON), ("Cache-Control", "no-cache, private")]
    return StreamResponse(200, headers, run)


class _Queue(asyncio.Queue[Sequence[Event] | int]):
    """Events, and revisions of bookmarks between them, that wait for a conversion webhook."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.converted = asyncio.Event()


class _Watch:
    def __init__(
        self, ctx: Context, resource: ServedResource, options: ListOptions, wanted: Filter, format: Format, writer: StreamWriter
    ) -> None:
        self._cluster = ctx.cluster
        self._resource = resource
        self._options = options
        self._wanted = wanted
        self._format = format
        self._writer = writer
        self._include = ctx.query.get("includeObject")
        self._prefix = ctx.attributes.namespace + "/" if ctx.attributes.namespace else ""
        self._start = 0
        self._position: int | None = None
        """The revision from which the watch goes on once its client has caught up; None while it is in the broadcast."""
        self._ended = False
        self._called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Resolves when the watch has ended or left the broadcast."""
        self._titled = False
        """Whether a Table's column definitions were already sent: only the first event carries them."""
        self._shape = (resource.version, format.transform, format.version, self._include)
        self._queue = _Queue() if resource.strategy.needs_webhook else None
        self._definitions: Subscription | None = None
        self._events: Subscription | None = None

    async def serve(self) -> None:
        pump: asyncio.Task[None] | None = None
        try:
            await self._begin()
            if self._queue is not None:
                pump = asyncio.create_task(self._pump(self._queue))
            await self._until_end()
        except Compacted as gone:
            self._fail(errors.expired(f"too old resource version: {gone.requested} ({gone.oldest})"))
        except errors.ApiError as problem:
            self._fail(problem)
        finally:
            for subscription in (self._definitions, self._events):
                if subscription is not None:
                    subscription.close()
            # They know this watch too: it would stay, and its connection with it, until a garbage collection.
            self._definitions = self._events = None
            if pump is not None:
                pump.cancel()

    def _subscribe(self, resource: str, revision: int | None, listener: Listener, place: str | None = None) -> Subscription:
        return self._cluster.store.subscribe(self._cluster.name, resource, revision, listener, self._on_lost, place)

    def _follow(self, revision: int) -> None:
        """Join the broadcast after what history has since `revision`; with a client that cannot take all of that at once, later."""
        self._position = None
        subscription = self._subscribe(self._resource.storage, revision, self._on_events, self._key_or_prefix())
        if self._called.done():
            subscription.close()
        else:
            self._events = subscription

    def _fall_behind(self, position: int) -> None:
        """Leave the broadcast: everything up to `position` was sent."""
        if self._position is None:
            self._position = position
            if self._events is not None:
                self._events.close()
                self._events = None
            self._call()

    def _call(self) -> None:
        if not self._called.done():
            self._called.set_result(None)

    async def _drained(self) -> bool:
        """Wait until the client has read enough; False if it is gone, or takes too long over it."""
        try:
            async with asyncio.timeout(STALLED_SECONDS):
                await self._writer.drain()
        except TimeoutError:
            self._writer.abort()
        except ConnectionResetError:
            pass
        return not self._writer.is_closed

    def _key_or_prefix(self) -> str | None:
        """The one key or namespace that can matter, so that the store leaves this watch alone with everything else."""
        name = self._wanted.exact_name
        if name and (self._prefix or not self._resource.namespaced):
            return self._prefix + name
        return self._prefix or None

    async def _begin(self) -> None:
        """Send the initial state if asked for, and subscribe to all that follows, with nothing in between."""
        store, options = self._cluster.store, self._options
        revision = options.revision
        initial = options.send_initial_events
        if initial is None:
            initial = not revision
        if self._resource.is_custom:
            self._definitions = self._subscribe(_DEFINITIONS, None, self._on_definitions)
        if not initial:
            self._start = revision or store.revision
            self._follow(self._start)
            return
        snapshot = store.list(self._cluster.name, self._resource.storage, self._prefix)
        self._start = store.revision
        entries = [entry for entry in snapshot if self._wanted.matches(entry)]
        values = [present(self._resource, entry) for entry in entries]
        if None in values:
            shown = await present_all(self._resource, entries)
        else:
            shown = [value for value in values if value is not None]
        written = 0
        for entry, value in zip(entries, shown, strict=True):
            self._writer.write(_event_line("ADDED", self._shaped(entry, value)))
            self._titled = True
            written += len(value)
            if written > AT_ONCE:
                written = 0
                if not await self._drained():
                    self._end()
                    return
        if options.send_initial_events and options.bookmarks:
            self._bookmark(self._start, initial_end=True)
        self._follow(self._start)

    async def _until_end(self) -> None:
        loop = asyncio.get_running_loop()
        timeout = min(self._options.timeout or random.uniform(*_DEFAULT_TIMEOUT), MAX_TIMEOUT)
        end = loop.time() + timeout
        closed = self._writer.closed
        bookmarks = self._options.bookmarks
        next_bookmark = loop.time() + random.uniform(0.9, 1.1) * BOOKMARK_SECONDS
        last = end - BOOKMARK_BEFORE_END if timeout > 2 * BOOKMARK_BEFORE_END else end
        while not closed.done() and not self._ended:
            now = loop.time()
            if now >= end:
                return
            if self._position is not None:
                await self._catch_up(self._position)
                continue
            wake = min(end, next_bookmark, last if last > now else end) if bookmarks else end
            await asyncio.wait((closed, self._called), timeout=wake - now, return_when=asyncio.FIRST_COMPLETED)
            if bookmarks and not closed.done() and not self._called.done() and loop.time() < end:
                self._bookmark_in_turn(self._cluster.store.revision)
                next_bookmark = loop.time() + BOOKMARK_SECONDS

    async def _catch_up(self, position: int) -> None:
        """Go on where the client fell behind, once it has read what it was given."""
        if self._queue is not None:
            await self._queue.converted.wait()
        if not await self._drained():
            self._end()
        elif not self._ended:
            self._called = asyncio.get_running_loop().create_future()
            self._follow(position)

    def _on_definitions(self, events: Sequence[Event]) -> None:
        name = f"{self._resource.plural}.{self._resource.group}"
        if any(event.deleted and event.entry.key == name for event in events):
            self._end()

    def _on_events(self, events: Sequence[Event]) -> None:
        if self._resource.is_custom and not self._follow_definition():
            return
        if self._queue is not None:
            self._queue.put_nowait(events)
            self._queue.bytes += _size(events)
            self._queue.converted.clear()
            if self._queue.bytes > MAX_WAITING_BYTES:
                self._fall_behind(events[-1].entry.revision)
            return
        if self._writer.is_behind:
            self._fall_behind(events[0].entry.revision - 1)
            return
        write, size = self._writer.write_framed, 0
        for event in events:
            framed = self._framed(event)
            if framed is not None:
                write(framed)
                size += len(framed)
                if size > AT_ONCE:
                    self._fall_behind(event.entry.revision)
                    return

    def _follow_definition(self) -> bool:
        """Show events by today's definition; a version that is no longer served ends the watch."""
        resource = self._resource
        current = self._cluster.resources.get(resource.group, resource.version, resource.plural)
        if current is None:
            self._end()
            return False
        self._resource = current
        return True

    def _bookmark_in_turn(self, revision: int) -> None:
        """A bookmark promises that everything before it was sent, so it waits behind events that are being converted."""
        if self._queue is None:
            self._bookmark(revision)
        else:
            self._queue.put_nowait(revision)

    def _on_lost(self) -> None:
        """History went on without us (the cluster was dropped, or a database server fell behind): the client must list again."""
        revision = self._cluster.store.revision
        self._fail(errors.expired(f"too old resource version: {revision} ({revision})"))

    def _fail(self, problem: errors.ApiError) -> None:
        self._writer.write(_event_line("ERROR", orjson.dumps(problem.status())))
        self._end()

    def _end(self) -> None:
        self._ended = True
        if self._queue is not None:
            self._queue.converted.set()
        self._call()

    async def _pump(self, queue: _Queue) -> None:
        """Convert and send queued events in order."""
        while True:
            item = await queue.get()
            if isinstance(item, int):
                self._bookmark(item)
                continue
            chosen = [found for event in item if (found := self._choose(event)) is not None]
            try:
                values = await present_all(self._resource, [entry for _, entry in chosen])
            except errors.ApiError as problem:
                self._fail(problem)
                return
            queue.bytes -= _size(item)
            if not queue.bytes:
                queue.converted.set()
            for (kind, entry), value in zip(chosen, values, strict=True):
                self._writer.write_framed(encode_chunk(_event_line(kind, self._shaped(entry, value))))
                self._titled = True
            if self._writer.is_behind and not await self._drained():
                self._end()
                return

    def _choose(self, event: Event) -> tuple[str, Entry] | None:
        """The event's type for this watcher and the entry to show; None if it is none of its business."""
        entry, previous = event.entry, event.previous
        if entry.revision <= self._start or not entry.key.startswith(self._prefix):
            return None
        if self._wanted.is_open:
            if event.deleted:
                return "DELETED", entry
            return ("ADDED" if previous is None else "MODIFIED"), entry
        matched = not event.deleted and self._wanted.matches(entry)
        did_match = previous is not None and self._wanted.matches(previous)
        if matched:
            return ("MODIFIED" if did_match else "ADDED"), entry
        if not did_match:
            return None
        if event.deleted:
            return "DELETED", entry
        assert previous is not None
        return "DELETED", Entry(previous.key, entry.revision, with_revision(previous, entry.revision))

    def _framed(self, event: Event) -> bytes | None:
        chosen = self._choose(event)
        if chosen is None:
            return None
        kind, entry = chosen
        cache = event.memo
        if cache is None:
            cache = event.memo = {}
        key = (kind, self._shape, self._titled)
        framed: bytes | None = cache.get(key)
        if framed is None:
            value = present(self._resource, entry)
            if value is None:  # the CRD turned to a conversion webhook under a running watch: the client reconnects
                self._writer.abort()
                return None
            framed = cache[key] = encode_chunk(_event_line(kind, self._shaped(entry, value)))
        self._titled = self._format.transform == "Table"
        return framed

    def _shaped(self, entry: Entry, value: bytes) -> bytes:
        if not self._format.transform:
            return value
        if self._format.transform == "Table":
            meta = b'{"resourceVersion":"%d"}' % entry.revision
            now = self._cluster.clock()
            titles = not self._titled
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


_REVISION_MARK = b'"metadata":{"resourceVersion":"'


def with_revision(entry: Entry, revision: int) -> bytes:
    """The entry's stored bytes with another resourceVersion."""
    start = entry.value.index(_REVISION_MARK) + len(_REVISION_MARK)
    end = entry.value.index(b'"', start)
    return b"%s%d%s" % (entry.value[:start], revision, entry.value[end:])
