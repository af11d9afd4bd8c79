"""One gate per server: while the server is unreachable, one probe is sent from time to time, and all others wait.

All watches of a server break together when it goes away. A caller whose request has failed asks the gate whether the server is
unreachable: a failed connection proves that, for other failures the gate sends one probe for all callers. If the server is
unreachable the gate closes; one of the waiting callers sends the next probe, after increasing, jittered pauses, and when one
succeeds all continue. Streams that have not noticed the outage start again as well: if packets are dropped, no error ends them. A
server that answers probes is reachable, and callers that failed use their own pauses: one broken kind does not make others wait.

An outage costs one log line at its start and one at its end, however many callers wait.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, pause
from muster.machinery.logs import get_logger
from muster.runtime.client.errors import KubeError, StatusError, Unreachable

log = get_logger("muster.runtime.client.gate")

FIRST_PROBE_DELAY: Final = 1.0
MAX_PROBE_DELAY: Final = 15.0
PROBE_JITTER: Final = 0.3
STABLE_SECONDS: Final = 15.0
"""Seconds for which a server must have been reachable before the next outage starts with short pauses again."""


class Gate:
    """`probe` is one attempt to reach the server; it raises KubeError if the server is unreachable."""

    def __init__(
        self, server: str, probe: Callable[[], Awaitable[None]], *, clock: Clock = SYSTEM, random: Random = chance.random
    ) -> None:
        self._server = server
        self._probe = probe
        self._clock = clock
        self._backoff = Backoff(FIRST_PROBE_DELAY, MAX_PROBE_DELAY, jitter=PROBE_JITTER, random=random)
        self._error: KubeError | None = None
        self._turn = asyncio.Lock()
        """Held by the caller that probes."""
        self._waiting = 0
        self._hurry = asyncio.Event()
        self._on_open: set[Callable[[], None]] = set()
        self._changed_at = float("-inf")
        """When the gate was last closed or opened."""
        self._probed_at = float("-inf")
        self._due = 0.0

    @property
    def error(self) -> KubeError | None:
        """Why the server is unreachable; None if it is reachable, as far as is known."""
        return self._error

    async def is_closed_by(self, error: KubeError) -> bool:
        """After a request failed with `error`: whether the server is unreachable, so that all callers should wait."""
        if self._error is None:
            if isinstance(error, Unreachable) and not error.sent:
                self._close(error)
            elif isinstance(error, Unreachable) or (isinstance(error, StatusError) and error.code >= 500):
                await self.check()
        return self._error is not None

    async def check(self) -> None:
        """Probe the server, or share the result of a probe under way."""
        started = self._clock.monotonic()
        async with self._turn:
            if self._error is None and self._probed_at < started:
                await self._attempt()

    async def passage(self) -> None:
        """Wait until the server is reachable."""
        if self._error is None:
            return
        self._waiting += 1
        try:
            while self._error is not None:
                # One caller waits for the next probe and sends it. If it is cancelled, the next one continues at the same point.
                async with self._turn:
                    await self._next_probe()
        finally:
            self._waiting -= 1
            if not self._waiting:
                # No caller is left that would notice that the server is back.
                self._error = None

    async def _next_probe(self) -> None:
        while self._error is not None and (delay := self._due - self._clock.monotonic()) > 0:
            await pause(self._clock, self._hurry, delay)
        if self._error is not None:
            await self._attempt()

    @contextmanager
    def outages(self, over: Callable[[], None]) -> Iterator[None]:
        """`over` is called at the end of each outage."""
        self._on_open.add(over)
        try:
            yield
        finally:
            self._on_open.discard(over)

    def hurry(self) -> None:
        """The server was just reached by another request: probe now."""
        if self._error is not None:
            self._due = min(self._due, self._probed_at + FIRST_PROBE_DELAY)
            self._hurry.set()

    async def _attempt(self) -> None:
        try:
            await self._probe()
        except KubeError as error:
            self._probed_at = self._clock.monotonic()
            self._close(error)
        else:
            self._probed_at = self._clock.monotonic()
            self._open()

    def _close(self, error: KubeError) -> None:
        now = self._clock.monotonic()
        if self._error is None:
            if now - self._changed_at >= STABLE_SECONDS:
                self._backoff.reset()
            self._changed_at = now
            self._hurry.clear()
            log.warning("server unreachable", server=self._server, error=str(error))
        self._error = error
        self._due = now + self._backoff.next()

    def _open(self) -> None:
        if self._error is not None:
            now = self._clock.monotonic()
            log.info("server reachable again", server=self._server, away=f"{now - self._changed_at:.0f} s")
            self._error = None
            self._changed_at = now
            for over in tuple(self._on_open):
                over()
