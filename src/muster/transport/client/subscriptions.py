"""Keeps a mirror current: one stream per data type at a time, each beginning with a resync.

A stream that ends, or is silent for too long, is replaced by another one: almost at once and to the next address at first, with
increasing, jittered pauses if that fails. Every stream starts with a resync (`streams.py`), so nothing is missed. When the
credential changes, the next stream is opened before the former is closed.

`live` is true while a stream is open, `current` once its resync has ended. Verbs wait by `ready`, which raises the reason if there
is no stream.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, pause, within
from muster.machinery.logs import get_logger
from muster.runtime.client import KubeError, Unreachable
from muster.transport.client.connection import HubConnection, is_refusal
from muster.transport.client.mirror import Mirror
from muster.transport.client.streams import EventStream
from muster.transport.contract.rows import Row

log = get_logger("muster.transport.client")

READY_TIMEOUT: Final = 10.0
SETTLED_SECONDS: Final = 5.0
"""Seconds after which a stream counts as stable and resets the backoff."""
FIRST_PAUSE: Final = 0.5
"""The longest first pause: all streams of all agents of a failed server reconnect at this moment."""


class Subscription:
    """Its owner runs `run` as a task."""

    def __init__(
        self,
        connection: HubConnection,
        row: Row,
        cluster: str,
        source: str,
        *,
        health_timeout: float | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self.row = row
        self.mirror = Mirror(row, clock=clock)
        self.live = False
        self.current = False
        self.synced = False
        """Whether the mirror was complete once."""
        self.problem: KubeError | None = None
        """Why there is no stream; None while there is one, and before the first attempt has failed."""
        self.lost_at: float | None = None
        """Since when there is no stream; None while there is one, and before the first."""
        self._connection = connection
        self._cluster = cluster
        self._source = source
        self._health_timeout = health_timeout
        self._clock = clock
        self._random = random
        self._failures = 0
        self._outage = ""
        """The logged reason why there is no stream."""
        self._backoff = Backoff(0.5, 30.0, factor=1.5, random=random)
        self._hurry = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []
        self._stream: EventStream | None = None

    # For readers.

    def on_news(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when the state of the subscription changes; call the result to end that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def hurry(self) -> None:
        """Retry at once, if this is a pause between two attempts."""
        self._hurry.set()

    def request_resync(self) -> None:
        """The hub has reported a state that contradicts the mirror: request another resync."""
        if self._stream is not None:
            self._stream.request_resync()

    async def ready(self, timeout: float = READY_TIMEOUT) -> None:
        """Wait until the mirror is current. Raises KubeError with the reason if it cannot be."""
        if self.current:
            return
        try:
            await within(self._clock, timeout, self._ready())
        except TimeoutError:
            problem = f"its {self.row.resource.plural} were not to be had within {timeout:g} s"
            raise self.problem or Unreachable(self._connection.server, problem) from None

    async def _ready(self) -> None:
        """Wait until the next attempt has succeeded, or has failed."""
        failures = self._failures
        if self.problem is not None:
            self.hurry()
        news = asyncio.Event()
        ignore = self.on_news(news.set)
        try:
            while not self.current:
                if self._failures > failures and self.problem is not None:
                    raise self.problem
                await news.wait()
                news.clear()
        finally:
            ignore()

    def _notify(self) -> None:
        for listener in list(self._listeners):
            listener()

    # Stream.

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            began = self._clock.monotonic()
            try:
                await self._follow()
                problem: KubeError = Unreachable(self._connection.server, "the server has ended the stream")
            except KubeError as error:
                problem = error
            except Exception as error:
                # An unexpected error must not end the subscription.
                log.error("stream failed unexpectedly", **self._fields(), exc_info=True)
                problem = Unreachable(self._connection.server, f"{type(error).__name__}: {error}")
            if self.live and self._clock.monotonic() - began >= SETTLED_SECONDS:
                self._backoff.reset()
            self._lost(problem)
            await self._rest(problem)

    async def _rest(self, problem: KubeError) -> None:
        self._hurry.clear()
        if not is_refusal(problem):
            self._connection.waiting.add(self._hurry)
        try:
            await pause(self._clock, self._hurry, self._pause(problem))
        finally:
            self._connection.waiting.discard(self._hurry)

    def _pause(self, problem: KubeError) -> float:
        """A refusal is not retried a moment later."""
        pause = self._backoff.next()
        return FIRST_PAUSE * self._random() if self._backoff.failures == 1 and not is_refusal(problem) else pause

    def _lost(self, problem: KubeError) -> None:
        # The end of a stream is not logged: the next attempt shows whether the hub is unreachable.
        if not self._outage and (not self.live or is_refusal(problem)):
            self._outage = str(problem)
            log.warning("stream failed", **self._fields(), error=self._outage)
        self.live = self.current = False
        self.problem = problem
        self._stream = None
        self._failures += 1
        if self.lost_at is None:
            self.lost_at = self._clock.monotonic()
        self._notify()

    def _opened(self) -> None:
        if self._failures:
            self._connection.metrics.reconnected()
        if self._outage:
            self._outage = ""
            log.info("stream resumed", **self._fields())
        self.live, self.problem, self.lost_at = True, None, None
        self._connection.reached()
        self._notify()

    def _is_current(self) -> None:
        self.current = self.synced = True
        self._notify()

    def _fields(self) -> dict[str, str]:
        return {"cluster": self._cluster, "data_type": str(self.row.data_type), "server": self._connection.server}

    async def _follow(self) -> None:
        """Run one stream to its end; when the credential changes, move to another one without a gap. Raises KubeError."""
        opened = self._open()
        try:
            while True:
                await opened.until(opened.stream.renewal)
                if opened.task.done():
                    return opened.task.result()
                opened = await self._moved(opened)
        finally:
            await opened.leave()

    def _open(self) -> _Opened:
        stream = self._stream = EventStream(
            self._connection,
            self.mirror,
            self._cluster,
            self._source,
            # After the first sync, this process knows what it has reported.
            with_status=self.row.status_apart and not self.synced,
            health_timeout=self._health_timeout,
            clock=self._clock,
            random=self._random,
            on_open=self._opened,
            on_current=self._is_current,
        )
        return _Opened(stream, asyncio.create_task(stream.run()))

    async def _moved(self, former: _Opened) -> _Opened:
        """The next stream once it is open; the former one if it ends before. Until then the former one is read."""
        backoff = Backoff(1.0, 30.0, random=self._random)
        while not former.task.done():
            successor = self._open()
            try:
                await successor.until(successor.stream.opened)
                if successor.stream.opened.is_set():
                    await former.leave()
                    return successor
            except asyncio.CancelledError:
                await successor.leave()
                raise
            log.warning("cannot move to the new credential", **self._fields(), error=str(successor.task.exception()))
            self._stream = former.stream
            await former.rest(self._clock, backoff.next())
        return former


@dataclass(frozen=True)
class _Opened:
    stream: EventStream
    task: asyncio.Task[None]

    async def until(self, event: asyncio.Event) -> None:
        """Wait until the stream has ended or the event is set."""
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait([self.task, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    async def rest(self, clock: Clock, seconds: float) -> None:
        """Wait until the stream has ended or the time has passed."""
        over = asyncio.Event()
        timer = clock.call_later(seconds, over.set)
        try:
            await self.until(over)
        finally:
            timer.cancel()

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
