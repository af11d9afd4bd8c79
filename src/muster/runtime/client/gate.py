"""One gate per server: while the server is away, one probe goes out now and then, and everybody else waits.

Watches of a server break together when it goes. Whoever's request has failed asks the gate whether the server is to blame: a
connection that could not be made says so by itself, for anything else the gate sends a probe, one for all who ask. When the server
is away the gate closes; whoever waits at it in front makes the next probe, after growing, jittered pauses, and when one succeeds
all go on at once. Whoever has not noticed the outage starts anew as well: where packets vanish, nobody says that a stream is over.
A server that answers probes is not away, and who failed there minds its own pauses: a kind that is dead keeps nobody else waiting.

An outage costs one log line when it begins and one when it ends, however many wait.
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
"""Seconds for which a server must have been there before the next outage is taken for a new one, with short pauses at first."""


class Gate:
    """`probe` is one attempt to reach the server; it raises KubeError when the server is away."""

    def __init__(
        self, server: str, probe: Callable[[], Awaitable[None]], *, clock: Clock = SYSTEM, random: Random = chance.random
    ) -> None:
        self._server = server
        self._probe = probe
        self._clock = clock
        self._backoff = Backoff(FIRST_PROBE_DELAY, MAX_PROBE_DELAY, jitter=PROBE_JITTER, random=random)
        self._error: KubeError | None = None
        self._turn = asyncio.Lock()
        """Whoever has it probes."""
        self._waiting = 0
        self._hurry = asyncio.Event()
        self._on_open: set[Callable[[], None]] = set()
        self._changed_at = float("-inf")
        """When it was last closed or opened."""
        self._probed_at = float("-inf")
        self._due = 0.0

    @property
    def error(self) -> KubeError | None:
        """Why the server is away; None while it is not, as far as is known."""
        return self._error

    async def is_closed_by(self, error: KubeError) -> bool:
        """After a request failed with `error`: whether the server is away, so that all should wait."""
        if self._error is None:
            if isinstance(error, Unreachable) and not error.sent:
                self._close(error)
            elif isinstance(error, Unreachable) or (isinstance(error, StatusError) and error.code >= 500):
                await self.check()
        return self._error is not None

    async def check(self) -> None:
        """See whether the server is there, unless somebody does so already: then what they find counts."""
        started = self._clock.monotonic()
        async with self._turn:
            if self._error is None and self._probed_at < started:
                await self._attempt()

    async def passage(self) -> None:
        """Until the server is there."""
        if self._error is None:
            return
        self._waiting += 1
        try:
            while self._error is not None:
                # One waits for the next probe and sends it. When it is cancelled the next in line goes on where it was.
                async with self._turn:
                    await self._next_probe()
        finally:
            self._waiting -= 1
            if not self._waiting:
                # Nobody is left who would find out that the server is back.
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
        """Somebody has just reached the server: the next probe need not be late."""
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
