"""Leader election among the servers on one database: the built-in controllers run in the one that holds a lease, a row of the
store.

Follows client-go's leader election, with compare-and-swap on the store in place of a Lease object. The holder writes the row every
`RETRY_PERIOD`; a candidate takes it when it has not changed for `LEASE_DURATION`, measured with the candidate's own monotonic clock
since it first observed the present revision, so that clock skew cannot produce two leaders. The holder stops `RENEW_DEADLINE` after
the moment *before* it sent its last successful renewal, which is earlier than any other server may begin. A candidate with a stale
view takes nothing: the database compares the expected revision with the present one.

A lease, not a session lock of the database: a stopped process keeps its connections, and in a network that drops packets the
database keeps them as well. No request path reaches the row. It costs one write per `RETRY_PERIOD` for all servers together.
"""

from __future__ import annotations

import asyncio
import random as chance
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from muster.machinery.clock import SYSTEM, Clock, Random, pause, within
from muster.machinery.logs import get_logger
from muster.store.api import ABSENT, Conflict, Entry, Event, Store, StoreError

log = get_logger(__name__)

LEASE_DURATION: Final = 6.0
RENEW_DEADLINE: Final = 4.0
RETRY_PERIOD: Final = 1.0
RELEASE_TIMEOUT: Final = 2.0
"""How long a server that stops tries to release the lease; it expires in any case."""
_JITTER: Final = 0.5
_RESOURCE: Final = "muster.internal/leases"


class Election:
    """The election as seen by one server. `cluster` is the one that holds the row; it must exist in the store."""

    def __init__(
        self,
        store: Store,
        cluster: str,
        name: str,
        *,
        identity: str | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self.identity = identity or str(uuid.uuid4())
        self._store = store
        self._cluster = cluster
        self._name = name
        self._clock = clock
        self._random = random
        self._until = 0.0
        self._observed = (ABSENT, 0.0)
        """Revision of the row, and when this server first observed it."""
        self._wakeup = asyncio.Event()

    @property
    def leading(self) -> bool:
        return self._clock.monotonic() < self._until

    async def run(self, on_elected: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Acquire and renew the lease until cancelled; then release it."""
        self._subscribe()
        try:
            while True:
                await self._acquire()
                log.info("became leader", lease=self._name, identity=self.identity)
                on_elected()
                await self._renew()
                log.warning("lost the lease", lease=self._name, identity=self.identity)
                on_lost()
        finally:
            self._subscription.close()
            await self._release()

    def _subscribe(self) -> None:
        self._subscription = self._store.subscribe(
            self._cluster, _RESOURCE, None, self._on_events, self._on_events_lost, prefix=self._name
        )

    def _on_events_lost(self) -> None:
        self._subscribe()
        self._wakeup.set()

    def _on_events(self, events: Sequence[Event]) -> None:
        if events[-1].deleted:
            self._wakeup.set()

    async def _acquire(self) -> None:
        while not await self._try_acquire():
            await pause(self._clock, self._wakeup, RETRY_PERIOD * (1 + _JITTER * self._random()))

    async def _try_acquire(self) -> bool:
        row = self._row()
        now = self._clock.monotonic()
        revision = row.revision if row is not None else ABSENT
        if revision != self._observed[0]:
            self._observed = (revision, now)
        if row is not None and now < self._observed[1] + LEASE_DURATION and not self._is_mine(row):
            return False
        return await self._write(revision, LEASE_DURATION)

    async def _renew(self) -> None:
        """Renew the lease until it is lost."""
        while self.leading:
            await pause(self._clock, self._wakeup, RETRY_PERIOD)
            row = self._row()
            # A renewal without an answer may have been written. A row of another server is not overwritten.
            if row is not None and self._is_mine(row) and self.leading:
                await self._write(row.revision, self._until - self._clock.monotonic())
            elif row is not None and not self._is_mine(row):
                self._until = 0.0

    async def _write(self, expect: int, seconds: float) -> bool:
        """Acquire or renew; False if the write failed or its result is unknown, in which case it may be retried."""
        began = self._clock.monotonic()
        try:
            await within(self._clock, seconds, self._commit(expect))
        except Conflict:
            return False
        except (StoreError, TimeoutError) as problem:
            log.debug("writing the lease failed", lease=self._name, problem=repr(problem))
            return False
        self._until = began + RENEW_DEADLINE
        return True

    async def _release(self) -> None:
        """Delete the row. Controllers of this server may still be stopping; their writes are compared-and-swapped like all
        others."""
        row = self._row()
        self._until = 0.0
        if row is not None and self._is_mine(row):
            with suppress(StoreError, TimeoutError):
                await within(self._clock, RELEASE_TIMEOUT, self._commit(row.revision, delete=True))

    async def _commit(self, expect: int, *, delete: bool = False) -> Entry:
        value = self.identity.encode()
        return await self._store.commit(self._cluster, _RESOURCE, self._name, lambda revision: value, expect, delete)

    def _row(self) -> Entry | None:
        return self._store.get(self._cluster, _RESOURCE, self._name)

    def _is_mine(self, row: Entry) -> bool:
        return row.value == self.identity.encode()
