"""Runs the driver: from nothing to a credential that works, and from one that ages to the next.

The driver says what to store and what to wait for; this loop stores it before the driver is asked again, watches the one object on
the hub that it waits for, and wakes it when that changes, when its time has come, or when somebody else changed the Secret. A step
that fails is tried again later and later. What a driver has begun is kept apart from the credential. A credential that it has got
is written whole, names and way to the hub with it, in the place of another hub's if there was one; only then is what was begun
forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from muster.api.resource import Document
from muster.machinery.backoff import Backoff
from muster.machinery.clock import pause
from muster.machinery.logs import get_logger
from muster.registration.agent.context import AgentContext
from muster.registration.agent.memory.hub_secret import names_of
from muster.registration.drivers.endpoints import HubAddress
from muster.registration.drivers.seam import DriverError, Progress, Report, Watched, is_derived
from muster.runtime.cache import Informer, Snapshot
from muster.runtime.client import Conflict, KubeClient, KubeError

log = get_logger("muster.registration.agent")

STEP_SECONDS = 120.0
"""A step that has not ended by then is broken off and tried again."""

Trouble = Callable[[Exception | None], None]
"""Is told why a step failed, and None when one went well."""


async def store_derived(context: AgentContext, address: HubAddress) -> None:
    """Where the credential is made of what the agent knows: write it as this agent would, if it is not stored so. Raises KubeError
    and OSError."""
    whole = {**names_of(context.identity), **context.driver.way_to(address)}
    if any(context.secret.data.get(key) != value for key, value in whole.items()):
        await context.secret.replace(address, whole)


class CredentialKeeper:
    def __init__(
        self,
        context: AgentContext,
        hub: KubeClient,
        address: HubAddress,
        *,
        trouble: Trouble,
        report: Callable[[Report], None] = lambda report: None,
    ) -> None:
        self._context = context
        self._hub = hub
        self._address = address
        self._trouble = trouble
        self._report = report
        self._news = asyncio.Event()
        self._backoff = Backoff(1.0, 60.0, random=context.random)
        self._watched: Watched | None = None
        self._watching: asyncio.Task[None] | None = None
        self._seen: Document | None = None

    async def run(self, *, until_usable: bool = False) -> None:
        ignore = self._context.secret.on_change(self._news.set)
        try:
            while True:
                again = await self._step()
                if until_usable and not self.problem:
                    return
                await pause(self._context.clock, self._news, again)
        finally:
            ignore()
            await self._watch(None)

    @property
    def problem(self) -> str:
        """Why what is stored cannot be used on this hub; empty when it can."""
        return self._context.credential_problem(self._address)

    async def _step(self) -> float | None:
        """One step of the driver; how long to wait for the next."""
        self._news.clear()
        try:
            async with asyncio.timeout(STEP_SECONDS):
                secret = self._context.secret
                stored, begun = secret.stored(self._address), secret.pending.begun(self._address)
                progress = await self._context.driver.advance(self._hub, stored, begun, self._seen)
                await self._store(progress)
        except Conflict as error:
            log.debug("a secret of ours was changed by somebody else", error=str(error))
            return self._backoff.next()
        except (KubeError, OSError, TimeoutError) as error:
            self._trouble(error)
            return self._backoff.next()
        except Exception as error:
            log.error("the registration driver failed", error=f"{type(error).__name__}: {error}")
            self._trouble(error)
            return self._backoff.next()
        self._trouble(None)
        self._backoff.reset()
        await self._watch(progress.watch)
        if progress.report is not None:
            self._tell(progress.report)
        return progress.again

    async def _store(self, progress: Progress) -> None:
        secret = self._context.secret
        if progress.credential is not None:
            await secret.replace(self._address, self._whole(progress.credential))
            try:
                await self._forget()
            except KubeError as error:
                # The credential is there and is to be told of; the driver finds what is left of how it came.
                log.debug("cannot forget what was pending", error=str(error))
        elif progress.pending:
            await secret.pending.note(self._address, progress.pending, names_of(self._context.identity))
            if not secret.pending.begun(self._address) and not self.problem:
                await self._forget()

    def _whole(self, credential: Mapping[str, bytes]) -> dict[str, bytes]:
        """A driver's credential with all that makes it usable."""
        # Somebody else's way to the same hub is as good as ours, unless the way is all that there is of the credential.
        driver, names = self._context.driver, names_of(self._context.identity)
        kept = {} if is_derived(driver) else self._context.secret.way_to(self._address)
        own = driver.way_to(self._address)
        whole = {**names, **(kept or own), **credential}
        if kept and driver.problem(whole):
            whole = {**names, **own, **credential}
        problem = driver.problem(whole)
        if problem:
            raise DriverError(f"the driver has got a credential that it cannot use itself: {problem}")
        return whole

    async def _forget(self) -> None:
        context = self._context
        await context.secret.pending.close(self._address, [one.address for one in context.bootstraps.candidates])

    def _tell(self, report: Report) -> None:
        write = log.info if report.status else log.warning
        write("credential", cluster=self._context.cluster, reason=report.event or report.reason, message=report.message)
        severity = "Normal" if report.status else "Warning"
        reason = report.event or report.reason
        self._context.events.event(self._context.secret.reference, severity, reason, report.message)  # type: ignore[arg-type]
        self._report(report)

    async def _watch(self, wanted: Watched | None) -> None:
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
                clock=self._context.clock,
                random=self._context.random,
            )
            informer.on_change(self._changed)
            self._watching = asyncio.create_task(informer.run())

    def _changed(self, old: Snapshot | None, new: Snapshot | None) -> None:
        self._seen = None if new is None else new.data
        self._news.set()
