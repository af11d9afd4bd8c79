"""Which of the servers on one database runs the built-in controllers: whoever holds a lease that is a row of the store itself.

Follows client-go's leader election, with compare-and-swap on the store in place of a Lease object. The holder writes the row
every `RETRY_SECONDS`; a candidate takes it when it has not changed for `LEASE_SECONDS`, judged by the candidate's own monotonic
clock since it first saw the present revision, so clocks that disagree cannot make two leaders. A holder counts from the moment
*before* it sent its last successful renewal and stops `RENEW_SECONDS` later, which is earlier than anybody else may begin. A
candidate that sees an old state takes nothing: the database compares the revision it expects with the present one.

A lease and not a session lock of the database: a process that is stopped keeps its connections, and a network that swallows
packets keeps them for the database too. The row lives where no request path leads, and costs one write per `RETRY_SECONDS` for
all servers together.
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

LEASE_SECONDS: Final = 6.0
RENEW_SECONDS: Final = 4.0
RETRY_SECONDS: Final = 1.0
RELEASE_SECONDS: Final = 2.0
"""How long a server that stops tries to let go of the lease; the others take it in any case."""
_JITTER: Final = 0.5
_RESOURCE: Final = "muster.internal/leases"


class Election:
    """One server's part in it. `cluster` is where the row is kept; the store must know it."""

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
        self._seen = (ABSENT, 0.0)
        """The row's revision, and when this server first saw it."""
        self._news = asyncio.Event()

    @property
    def leading(self) -> bool:
        return self._clock.monotonic() < self._until

    async def run(self, on_elected: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Stand for the lease for ever; cancelled, let go of it."""
        self._follow()
        try:
            while True:
                await self._stand()
                log.info("became leader", lease=self._name, identity=self.identity)
                on_elected()
                await self._hold()
                log.warning("lost the lease", lease=self._name, identity=self.identity)
                on_lost()
        finally:
            self._subscription.close()
            await self._release()

    def _follow(self) -> None:
        self._subscription = self._store.subscribe(
            self._cluster, _RESOURCE, None, self._on_events, self._follow_again, place=self._name
        )

    def _follow_again(self) -> None:
        self._follow()
        self._news.set()

    def _on_events(self, events: Sequence[Event]) -> None:
        if events[-1].deleted:
            self._news.set()

    async def _stand(self) -> None:
        while not await self._try_to_take():
            await pause(self._clock, self._news, RETRY_SECONDS * (1 + _JITTER * self._random()))

    async def _try_to_take(self) -> bool:
        row = self._row()
        now = self._clock.monotonic()
        revision = row.revision if row is not None else ABSENT
        if revision != self._seen[0]:
            self._seen = (revision, now)
        if row is not None and now < self._seen[1] + LEASE_SECONDS and not self._is_mine(row):
            return False
        return await self._write(revision, LEASE_SECONDS)

    async def _hold(self) -> None:
        """Until the lease is lost."""
        while self.leading:
            await pause(self._clock, self._news, RETRY_SECONDS)
            row = self._row()
            # A renewal whose answer was lost may have been written; a row that is another's is not taken back.
            if row is not None and self._is_mine(row) and self.leading:
                await self._write(row.revision, self._until - self._clock.monotonic())
            elif row is not None and not self._is_mine(row):
                self._until = 0.0

    async def _write(self, expect: int, seconds: float) -> bool:
        """Take or renew; False if it is not known to have been written, which may be tried again."""
        began = self._clock.monotonic()
        try:
            await within(self._clock, seconds, self._commit(expect))
        except Conflict:
            return False
        except (StoreError, TimeoutError) as problem:
            log.debug("lease not written", lease=self._name, problem=repr(problem))
            return False
        self._until = began + RENEW_SECONDS
        return True

    async def _release(self) -> None:
        """The work of this server has ended, or ends beside this: what it still writes is compared like every write."""
        row = self._row()
        self._until = 0.0
        if row is not None and self._is_mine(row):
            with suppress(StoreError, TimeoutError):
                await within(self._clock, RELEASE_SECONDS, self._commit(row.revision, delete=True))

    async def _commit(self, expect: int, *, delete: bool = False) -> Entry:
        value = self.identity.encode()
        return await self._store.commit(self._cluster, _RESOURCE, self._name, lambda revision: value, expect, delete)

    def _row(self) -> Entry | None:
        return self._store.get(self._cluster, _RESOURCE, self._name)

    def _is_mine(self, row: Entry) -> bool:
        return row.value == self.identity.encode()
