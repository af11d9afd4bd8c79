"""`CredentialKeeper`: the loop that gets a credential and renews it.

A source (a registration driver, or the source of an addon's certificate or token) returns what to store and what to wait for. The
loop stores it before the source is called again, watches the one object on the hub that the source waits for, and wakes when it
changes, when its time has come, or when another client changed the stored data. Failed steps are retried with backoff. The location
of the data is the store's concern. Pending data is separate from the credential; a credential is written completely, in one write,
and only then the pending data is removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from muster.api.resource import Document
from muster.machinery.backoff import Backoff
from muster.machinery.clock import Clock, Random, pause
from muster.machinery.logs import get_logger
from muster.registration.agent.state.kept_secret import Changes, Data
from muster.registration.drivers.interfaces import CredentialReport, StepResult, WatchTarget
from muster.runtime.cache import Informer, Snapshot
from muster.runtime.client import Conflict, KubeClient, KubeError

log = get_logger("muster.registration.agent")

STEP_SECONDS = 120.0
"""A step that has not ended by then is broken off and tried again."""

Trouble = Callable[[Exception | None], None]
"""Called with the problem of a failed step, and with None after a successful one."""


class CredentialSource(Protocol):
    async def advance(
        self, hub: KubeClient, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> StepResult:
        """See `SpokeDriver.advance`."""
        ...


class CredentialStore(Protocol):
    """Where a credential and what is pending are kept. Writing raises KubeError and OSError."""

    @property
    def problem(self) -> str:
        """Why what is stored cannot be used; empty when it can."""
        ...

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever somebody else has changed what is stored; calling what is returned ends that."""
        ...

    def stored(self) -> Data: ...

    def begun(self) -> Data: ...

    async def replace(self, credential: Data) -> None:
        """Make this the credential in use, with all that makes it usable, and forget what was begun."""
        ...

    async def note(self, changes: Changes) -> None:
        """What is to be remembered of what was begun."""
        ...


class CredentialKeeper:
    def __init__(
        self,
        hub: KubeClient,
        source: CredentialSource,
        store: CredentialStore,
        *,
        clock: Clock,
        random: Random,
        trouble: Trouble,
        report: Callable[[CredentialReport], None] = lambda report: None,
    ) -> None:
        self._hub = hub
        self._source = source
        self._store = store
        self._clock = clock
        self._random = random
        self._trouble = trouble
        self._report = report
        self._news = asyncio.Event()
        self._backoff = Backoff(1.0, 60.0, random=random)
        self._watched: WatchTarget | None = None
        self._watching: asyncio.Task[None] | None = None
        self._seen: Document | None = None

    async def run(self, *, until_usable: bool = False) -> None:
        ignore = self._store.on_change(self._news.set)
        try:
            while True:
                again = await self._step()
                if until_usable and not self._store.problem:
                    return
                await pause(self._clock, self._news, again)
        finally:
            ignore()
            await self._watch(None)

    async def _step(self) -> float | None:
        """One step of the source; how long to wait for the next."""
        self._news.clear()
        try:
            async with asyncio.timeout(STEP_SECONDS):
                progress = await self._source.advance(self._hub, self._store.stored(), self._store.begun(), self._seen)
                if progress.credential is not None:
                    await self._store.replace(progress.credential)
                elif progress.pending:
                    await self._store.note(progress.pending)
        except Conflict as error:
            log.debug("the secret was changed by another client", error=str(error))
            return self._backoff.next()
        except (KubeError, OSError, TimeoutError) as error:
            self._trouble(error)
            return self._backoff.next()
        except Exception as error:
            log.error("getting a credential failed", error=f"{type(error).__name__}: {error}")
            self._trouble(error)
            return self._backoff.next()
        self._trouble(None)
        self._backoff.reset()
        await self._watch(progress.watch)
        if progress.report is not None:
            self._report(progress.report)
        return progress.again

    async def _watch(self, wanted: WatchTarget | None) -> None:
        """Follow the object that the driver waits for, and no other."""
        if wanted == self._watched:
            return
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._watched, self._watching, self._seen = wanted, None, None
        if wanted is not None:
            informer: Informer[Snapshot] = Informer(
                self._hub,
                wanted.resource,
                field_selector=f"metadata.name={wanted.name}",
                clock=self._clock,
                random=self._random,
            )
            informer.on_change(self._changed)
            self._watching = asyncio.create_task(informer.run())

    def _changed(self, old: Snapshot | None, new: Snapshot | None) -> None:
        self._seen = None if new is None else new.data
        self._news.set()
