"""One stream of events into a mirror, from Subscribe to its end, with its resyncs.

While the stream is open, these run concurrently: reading, resyncs (one at the beginning, and more if the mirror has doubts or one
is requested), and a watchdog that ends a silent stream. Invalid events are logged and dropped: one must not end the stream for the
others.

The end of a resync: the request has an id, and a server with this extension returns it once everything has been sent. Whether a
server has it is only known after the first time. Until then, silence ends a resync too, and the request is sent twice
(`REPEAT_SECONDS`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from muster.machinery.backoff import Backoff
from muster.machinery.clock import Clock, Random, pause, sleep
from muster.machinery.logs import get_logger
from muster.machinery.tasks import race
from muster.runtime.client import Unreachable
from muster.transport.client.connection import PUBLISH_TIMEOUT, HubConnection
from muster.transport.client.mirror import Mirror
from muster.transport.client.mirror_events import mirror_event_of, resync_event
from muster.transport.codecs.resync import resync_end
from muster.transport.contract.event import InvalidEvent, new_event_id
from muster.transport.contract.types import HEARTBEAT, InvalidType
from muster.transport.contract.wire import decode_event
from muster.transport.rpc.interfaces import Channel, ClientStream

log = get_logger("muster.transport.client")

HEALTH_TIMEOUT: Final = 30.0
"""Seconds of silence after which a stream is dead, on hubs that send heartbeats."""
LONGEST_SILENCE: Final = 600.0
"""Seconds of silence after which a server without heartbeats is probed."""
QUIET_SECONDS: Final = 2.0
"""Seconds of silence that end a resync of servers that do not mark its end."""
MARKER_TIMEOUT: Final = 30.0
"""How long to wait for the marked end of a resync."""
REPEAT_SECONDS: Final = 0.5
"""Seconds after which the request is repeated to such a server. Upstream's servers accept a subscription a moment before they serve
it: answers in between are lost.
"""
STATUS_TIMEOUT: Final = 30.0
"""How long to wait for a resync with statuses, which a server reads from the hub."""
COLD_SECONDS: Final = 5.0
"""How long to wait for a server that cannot answer a resync yet, if there is another one."""
YIELD_EVERY: Final = 64
"""Events after which other tasks get a turn: a busy stream must not block the event loop."""


class EventStream:
    """`run` raises KubeError, and returns when the server has ended the stream. `on_open` is called when the server has accepted
    the subscription, `on_current` whenever a resync has ended."""

    def __init__(
        self,
        connection: HubConnection,
        mirror: Mirror,
        cluster: str,
        source: str,
        *,
        with_status: bool,
        health_timeout: float | None,
        clock: Clock,
        random: Random,
        on_open: Callable[[], None],
        on_current: Callable[[], None],
    ) -> None:
        """`with_status`: the first resync requests the hub's status of each object."""
        self.opened = asyncio.Event()
        self.renewal = connection.renewal()
        """Set when this stream is to be replaced by one with another credential."""
        self._connection = connection
        self._mirror = mirror
        self._row = mirror.row
        self._data_type = str(mirror.row.data_type)
        self._cluster = cluster
        self._source = source
        self._with_status = with_status
        self._health_timeout = health_timeout
        self._clock = clock
        self._random = random
        self._on_open = on_open
        self._on_current = on_current
        self._last_message = clock.monotonic()
        """The time of the last message."""
        self._last_event = self._last_message
        """The time of the last message that was no heartbeat, or of the last request."""
        self._resync_id = ""
        """The id of the current resync."""
        self._ended = False
        """Whether the server has marked the end of the current resync."""
        self._news = asyncio.Event()
        self._wanted = asyncio.Event()
        """Set if another resync is requested."""

    def request_resync(self) -> None:
        """Request another resync."""
        self._wanted.set()

    async def run(self) -> None:
        async with self._connection.subscribe(self._row, self._cluster) as (channel, stream):
            self._last_message = self._clock.monotonic()
            self.opened.set()
            self._on_open()
            await race(self._read(channel, stream), self._resyncs(channel), self._watch_silence(channel))

    async def _read(self, channel: Channel, stream: ClientStream) -> None:
        count = 0
        async for message in stream:
            self._last_message = self._clock.monotonic()
            self._take(message)
            count += 1
            if count % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        self._connection.failed(channel)

    def _take(self, message: bytes) -> None:
        try:
            event = decode_event(message)
            if event.type == HEARTBEAT:
                self._connection.heartbeats = True
                return
            self._last_event = self._last_message
            self._connection.metrics.received(self._data_type)
            if ended := resync_end(event):
                self._end(ended)
                return
            arrival = mirror_event_of(self._row, event)
        except (InvalidEvent, InvalidType) as error:
            self._connection.metrics.left_out(self._data_type)
            log.warning("event left out", cluster=self._cluster, data_type=self._data_type, error=str(error))
            return
        self._mirror.apply(arrival)
        if self._mirror.resync_due is not None:
            self._wanted.set()

    def _end(self, resync: str) -> None:
        self._connection.markers = True
        if resync == self._resync_id:
            self._ended = True
            self._news.set()

    # Resyncs.

    async def _resyncs(self, channel: Channel) -> None:
        while True:
            self._wanted.clear()
            await self._resync(channel)
            self._on_current()
            await self._until_wanted()

    async def _until_wanted(self) -> None:
        if self._mirror.resync_due is None:
            await self._wanted.wait()
        due = self._mirror.resync_due
        if due is not None:
            await sleep(self._clock, due)

    async def _resync(self, channel: Channel) -> None:
        """Request all objects, and wait for the end of the answers."""
        began = self._clock.monotonic()
        await self._request(channel)
        if not self._connection.markers:
            await self._ending(REPEAT_SECONDS)
            if not self._ended:
                await self._request(channel, again=True)
        while not self._ended:
            silence = MARKER_TIMEOUT if self._connection.markers else QUIET_SECONDS
            left = self._last_event + silence - self._clock.monotonic()
            if left <= 0:
                break
            await self._ending(left)
        self._mirror.end_resync()
        self._with_status = False
        self._connection.metrics.resynced(self._data_type, self._clock.monotonic() - began)

    async def _ending(self, seconds: float) -> None:
        """Wait until the server has marked the end, or the time has passed."""
        if not self._ended:
            await pause(self._clock, self._news, seconds)

    async def _request(self, channel: Channel, *, again: bool = False) -> None:
        """Repeat until a server has accepted the request. One that has just started may not be able to answer yet."""
        backoff = Backoff(0.2, 5.0, random=self._random)
        since = self._clock.monotonic()
        while True:
            self._resync_id = self._resync_id if again else new_event_id()
            self._ended = False
            self._last_event = self._clock.monotonic()
            known = self._mirror.begin_resync(again=again)
            event = resync_event(
                self._row, self._cluster, self._source, known, self._resync_id, self._clock, with_status=self._with_status
            )
            try:
                timeout = STATUS_TIMEOUT if self._with_status else PUBLISH_TIMEOUT
                await self._connection.publish_over(channel, event, self._row.resource, timeout=timeout)
            except Unreachable:
                if self._connection.several and self._clock.monotonic() - since >= COLD_SECONDS:
                    self._connection.failed(channel)
                    raise
            else:
                self._last_event = self._last_message = self._clock.monotonic()
                return
            await sleep(self._clock, backoff.next())

    # Silence.

    async def _watch_silence(self, channel: Channel) -> None:
        """A server that is known to send heartbeats is dead without them. For another one silence proves nothing: a resync is
        requested, at increasing intervals, and the server is dead if it does not accept that."""
        silence_timeout = HEALTH_TIMEOUT
        while True:
            timeout = self._health_timeout or (HEALTH_TIMEOUT if self._connection.heartbeats else None)
            if timeout is None and self._silent_for >= silence_timeout:
                self.request_resync()
                await sleep(self._clock, PUBLISH_TIMEOUT)
                timeout, silence_timeout = silence_timeout, min(2 * silence_timeout, LONGEST_SILENCE)
            if timeout is not None and self._silent_for >= timeout:
                self._connection.silent(channel)
                problem = f"nothing heard for {self._silent_for:.0f} s, no heartbeat either"
                raise Unreachable(self._connection.server, problem)
            await sleep(self._clock, (timeout or silence_timeout) - self._silent_for)

    @property
    def _silent_for(self) -> float:
        return self._clock.monotonic() - self._last_message
