"""One stream to an agent, and its queue of messages, which is merged by object and bounded.

Only the latest state of an object waits, under its resource id. Messages wait as bytes, shared by all their receivers; if a reader
is so far behind that its bytes exceed the limit, only the ids of objects wait, and their state is looked up when there is room
(`Make`), as are the answers to a resync. So the slowest reader costs the bytes below, the ids of its own cluster's objects and, if
requested, the statuses that it has reported; nothing waits for it. Messages that cannot be looked up later (deletions, tokens) are
never replaced or dropped: if even these exceed the limit, the queue is dropped and the stream ended with UNAVAILABLE, upon which
agents subscribe again and resync.

`flush` writes queued messages to the connection while the reader keeps up. The broker calls it once per iteration of the event
loop, and the call's own task (`serve`) when a reader has caught up. Lookups are limited per iteration, so that a long resync does
not block others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from muster.machinery.clock import Timer
from muster.machinery.tasks import race
from muster.transport.contract.event import CloudEvent
from muster.transport.contract.rows import Row
from muster.transport.rpc.interfaces import Call, ServerStream
from muster.transport.rpc.status import Code, RpcError
from muster.transport.server.authentication import Identity

SEND_AHEAD: Final = 64 * 1024
"""Unsent bytes that the connection may hold for a slow reader."""
MAX_WAITING_BYTES: Final = 8 * 1024 * 1024
"""Of queued messages; two of the largest that an agent accepts."""
MADE_PER_TURN: Final = 64

Make = Callable[[str], bytes | None]
"""Makes the message of an object's current state, by its resource id; None if there is nothing to send any more."""
Visible = Callable[[CloudEvent], bool]


class _Kept:
    """A message that is never replaced."""

    __slots__ = ("message",)

    def __init__(self, message: bytes) -> None:
        self.message = message


class _Answer:
    """Makes a resync answer, which has more than the message of a change: a change does not replace it."""

    __slots__ = ("make",)

    def __init__(self, make: Make) -> None:
        self.make = make


class Subscriber:
    __slots__ = (
        "_behind",
        "_bytes",
        "_dirty",
        "_first",
        "_heartbeat",
        "_is_dirty",
        "_make",
        "_queue",
        "_stream",
        "_wake",
        "call",
        "cluster",
        "error",
        "expiry",
        "id",
        "row",
        "sent",
        "visible",
        "who",
    )

    def __init__(
        self,
        id: str,
        call: Call,
        who: Identity,
        row: Row,
        cluster: str,
        stream: ServerStream,
        *,
        make: Make,
        dirty: Callable[[Subscriber], None],
        visible: Visible | None = None,
    ) -> None:
        """`make` looks up one of the cluster's objects; `dirty` requests a call of `flush` in this iteration of the event loop."""
        self.id = id
        self.call = call
        self.who = who
        self.row = row
        self.cluster = cluster
        self.visible = visible
        """Which events it may receive; None: all of its cluster and kind."""
        self.error: RpcError | None = None
        """How the stream ends, once that is decided."""
        self.expiry: Timer | None = None
        self.sent = 0
        """The number of messages, without heartbeats."""
        self._stream = stream
        self._make = make
        self._dirty = dirty
        self._is_dirty = False
        self._queue: dict[str, bytes | _Kept | _Answer | Make] = {}
        self._first: deque[bytes] = deque()
        """Kept messages whose key in the queue is in use again: they are sent before it."""
        self._bytes = 0
        self._heartbeat: bytes | None = None
        self._behind = False
        self._wake = asyncio.Event()

    @property
    def waiting(self) -> int:
        """The number of queued messages, including those that are not made yet."""
        return len(self._first) + len(self._queue)

    @property
    def waiting_bytes(self) -> int:
        return self._bytes

    def offer(self, resource_id: str, message: bytes, *, keep: bool = False) -> None:
        """Queue the message of an object's latest state. `keep`: it cannot be looked up later."""
        if self.error is not None:
            return
        earlier = self._queue.get(resource_id)
        if isinstance(earlier, _Answer) and not keep:
            return
        if isinstance(earlier, _Kept):
            self._first.append(earlier.message)
            del self._queue[resource_id]
        elif isinstance(earlier, bytes):
            self._bytes -= len(earlier)
        fits = self._bytes + len(message) <= MAX_WAITING_BYTES
        if keep and not fits and not self._shed(len(message)):
            self.end(RpcError(Code.UNAVAILABLE, "the reader is too far behind; subscribe again and resync"))
            return
        if keep or fits:
            self._queue[resource_id] = _Kept(message) if keep else message
            self._bytes += len(message)
        else:
            self._queue[resource_id] = self._make
        self._want_flush()

    def enqueue(self, resource_id: str, make: Make | None = None) -> None:
        """Queue an object to be looked up when there is room, unless a message of it is queued already."""
        if self.error is None:
            self._queue.setdefault(resource_id, make or self._make)
            self._want_flush()

    def answer(self, resource_id: str, make: Make) -> None:
        """Queue a resync answer for an object, which replaces a queued change."""
        earlier = self._queue.get(resource_id)
        if self.error is not None or isinstance(earlier, _Kept):
            return
        if isinstance(earlier, bytes):
            self._bytes -= len(earlier)
        self._queue[resource_id] = _Answer(make)
        self._want_flush()

    def beat(self, heartbeat: bytes) -> None:
        """Send a heartbeat: at once, or when a slow reader catches up."""
        if self.error is not None:
            return
        if self._stream.unsent < SEND_AHEAD:
            self._stream.send(heartbeat)
        else:
            self._heartbeat = heartbeat

    def flush(self) -> None:
        self._is_dirty = False
        stream, made = self._stream, 0
        while self._queue or self._first:
            if stream.unsent >= SEND_AHEAD:
                self._behind = True
                self._wake.set()
                return
            if made == MADE_PER_TURN:
                self._want_flush()
                return
            if self._first:
                message = self._first.popleft()
            else:
                resource_id = next(iter(self._queue))
                found = self._queue.pop(resource_id)
                if isinstance(found, _Kept):
                    message = found.message
                elif isinstance(found, bytes):
                    message = found
                else:
                    made += 1
                    make = found.make if isinstance(found, _Answer) else found
                    if (current := make(resource_id)) is not None:
                        stream.send(current)
                        self.sent += 1
                    continue
            self._bytes -= len(message)
            stream.send(message)
            self.sent += 1

    async def serve(self) -> None:
        """Run until the stream is ended: raises its end."""
        while self.error is None:
            await self._wake.wait()
            self._wake.clear()
            if self._behind and self.error is None:
                await race(self._stream.writable(), self._ended())
                self._behind = False
                self._catch_up()
        raise self.error

    def _catch_up(self) -> None:
        if self.error is None:
            if self._heartbeat is not None:
                self._stream.send(self._heartbeat)
                self._heartbeat = None
            self.flush()

    async def _ended(self) -> None:
        # Only this wakes a slow reader's stream.
        await self._wake.wait()

    def end(self, error: RpcError) -> None:
        if self.error is None:
            self.error = error
            self._queue.clear()
            self._first.clear()
            self._bytes = 0
            self._heartbeat = None
            self._wake.set()

    def _shed(self, needed: int) -> bool:
        """Whether so many bytes are free after every message that can be looked up again is replaced by its id."""
        for resource_id, message in self._queue.items():
            if isinstance(message, bytes):
                self._bytes -= len(message)
                self._queue[resource_id] = self._make
        return self._bytes + needed <= MAX_WAITING_BYTES

    def _want_flush(self) -> None:
        if not self._is_dirty and not self._behind:
            self._is_dirty = True
            self._dirty(self)
