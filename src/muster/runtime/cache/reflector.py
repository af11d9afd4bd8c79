"""Keeps up with a collection, as client-go's Reflector: the whole state once, then every change, through failures of streams and
servers.

It starts with a WatchList (state and changes in one stream) and falls back to a paged list and a watch if the server does not offer
that. A watch that ends is resumed at the last resourceVersion seen, including bookmarks; if the server no longer has that version
(410), or does not have it yet (it was restored from a backup), the state is listed again. While the server is unreachable, all
reflectors of one client wait at that client's gate. Other failures are retried with increasing, jittered pauses, with one log line
at the start of a failure and one at its end; refusals are retried sooner at first, because permissions often come a moment after
the credential.

Subclasses decide what is done with the objects: `Informer` keeps all of them.
"""

from __future__ import annotations

import abc
import asyncio
import random as chance

import msgspec

from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, pause, sleep
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, ObjectKey
from muster.runtime.client.base import KubeClient
from muster.runtime.client.errors import BadRequest, Expired, Forbidden, Invalid, KubeError, StatusError, Unreachable

log = get_logger("muster.runtime.cache.reflector")

WATCH_SECONDS = 300.0
"""The timeout that is requested for a watch; up to twice as long at random, as client-go does."""
EXPIRY_RESET_INTERVAL = 60.0
"""Seconds without a 410 after which the next one counts as the first."""


class _Bookmark(msgspec.Struct):
    class Metadata(msgspec.Struct):
        resourceVersion: str = ""
        annotations: dict[str, str] | None = None

    metadata: Metadata


_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode
_INITIAL_END = "k8s.io/initial-events-end"


class Reflector(abc.ABC):
    """Keeps up with one collection. Its owner runs `run` as a task."""

    def __init__(
        self,
        client: KubeClient,
        resource: GVR,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        watch_list: bool = True,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self.client = client
        self.resource = resource
        self.namespace = namespace
        self.resource_version = ""
        self.lists = 0
        """The number of complete lists."""
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._watch_list = watch_list
        self._clock = clock
        self._random = random
        self._synced = asyncio.Event()
        self._backoff = Backoff(0.8, 30.0, random=random)
        self._refusals = Backoff(0.1, 30.0, random=random)
        self._relists = Backoff(0.8, 30.0, random=random)
        self._expired_at = float("-inf")
        self._open_since = float("inf")
        self._outage = ""
        self._reported = False
        self._running = False
        self._hurry: asyncio.Event | None = None

    @abc.abstractmethod
    def take(self, raw: bytes, found: set[ObjectKey] | None) -> None:
        """The current state of an object. During a list, its key is to be added to `found`; afterwards `resource_version` is to be
        set to the object's."""

    @abc.abstractmethod
    def drop(self, raw: bytes, found: set[ObjectKey] | None) -> None:
        """A deleted object, with `found` and `resource_version` as for `take`."""

    @abc.abstractmethod
    def complete(self, found: set[ObjectKey], version: str) -> None:
        """A list at `version` is complete: objects that are not in `found` are gone."""

    def accepted(self) -> None:  # noqa: B027 (not every subclass needs to know)
        """The server has accepted a watch that continues from a known state."""

    def should_retry(self, error: KubeError) -> bool:
        """Called when a stream or list has failed: whether to retry after a pause; otherwise `run` ends with the error."""
        return True

    @property
    def has_synced(self) -> bool:
        return self._synced.is_set()

    @property
    def outage(self) -> str:
        """Why the state cannot be kept current at present; empty if it is, as far as is known."""
        gate = self.client.gate
        return self._outage or ("" if gate is None or gate.error is None else str(gate.error))

    async def synced(self) -> None:
        """Wait for the first complete state."""
        await self._synced.wait()

    async def run(self) -> None:
        """List and watch until cancelled."""
        if self._running:
            raise RuntimeError(f"{self.resource} is followed already")
        self._running = True
        try:
            while True:
                try:
                    await self._attempt()
                except KubeError as error:
                    failure = error
                except msgspec.DecodeError as error:
                    # A proxy between may have garbled the stream; missed changes are unknown.
                    self.resource_version = ""
                    failure = Unreachable(self.client.server, f"unreadable answer: {error}")
                else:
                    continue
                if not self.should_retry(failure):
                    raise failure
                await self._after(failure)
        finally:
            self._running = False

    async def _attempt(self) -> None:
        """Wait until the server is reachable, then watch until the watch ends. An attempt from before an outage is abandoned."""
        gate = self.client.gate
        if gate is None:
            await self._follow()
            return
        await gate.passage()
        scope, loop = asyncio.timeout(None), asyncio.get_running_loop()

        def over() -> None:
            if not scope.expired():
                scope.reschedule(loop.time())

        try:
            async with scope:
                with gate.outages(over):
                    await self._follow()
        except TimeoutError:
            if not scope.expired():
                raise

    async def _after(self, error: KubeError) -> None:
        """Decide what to do after a stream or list failed."""
        if is_outdated(error):
            await sleep(self._clock, self._before_relisting())
            return
        if self._watch_list and not self.resource_version and isinstance(error, BadRequest | Invalid):
            self._watch_list = False
            log.debug("server offers no WatchList; listing", resource=str(self.resource), server=self.client.server)
            return
        gate = self.client.gate
        if gate is not None and await gate.is_closed_by(error):
            # The gate has logged it.
            self._outage = self._outage or str(error)
            return
        self._report(error)
        self._hurry = asyncio.Event()
        try:
            await pause(self._clock, self._hurry, (self._refusals if isinstance(error, Forbidden) else self._backoff).next())
        finally:
            self._hurry = None

    def hurry(self) -> None:
        """The server was just reached by another request: end the pause after a failure."""
        if self.client.gate is not None:
            self.client.gate.hurry()
        self.end_pause()

    def end_pause(self) -> None:
        """End the pause after a failure of this reflector; the gate is not affected."""
        if self._hurry is not None:
            self._hurry.set()

    def _before_relisting(self) -> float:
        """The pause before a relist: none at first, because an expired version is no outage, and increasing if it happens
        repeatedly."""
        self.resource_version = ""
        now = self._clock.monotonic()
        if now - self._expired_at > EXPIRY_RESET_INTERVAL:
            self._relists.reset()
        self._expired_at = now
        pause = self._relists.next()
        return pause if self._relists.failures > 1 else 0.0

    def _report(self, error: KubeError) -> None:
        # A broken stream alone is not logged: the next attempt shows whether the server is unreachable.
        if self._backoff.failures == 0 and self._synced.is_set() and isinstance(error, Unreachable):
            return
        self._outage = str(error)
        if not self._reported:
            self._reported = True
            log.warning("cannot follow", error=self.loggable(error), **self.where)

    def loggable(self, error: KubeError) -> str:
        """The text of a failure that may be logged."""
        return str(error)

    @property
    def where(self) -> dict[str, str]:
        """The collection, as fields for the log."""
        selector = self._field_selector or self._label_selector
        found = {"resource": str(self.resource), "namespace": self.namespace, "selector": selector, "server": self.client.server}
        return {name: value for name, value in found.items() if value}

    def _opened(self) -> None:
        self._answered()
        self.accepted()

    def _answered(self) -> None:
        """The server has accepted a watch. That ends an outage; pauses become short again only after a stream has lasted."""
        self._open_since = self._clock.monotonic()
        self._outage = ""
        if self._reported:
            self._reported = False
            log.info("following again", **self.where)

    def _recovered(self) -> None:
        self._answered()
        self._backoff.reset()
        self._refusals.reset()

    async def _follow(self) -> None:
        """One pass: list if there is no version to continue from, then watch until the watch ends."""
        if not self.resource_version and not self._watch_list:
            await self._list()
        await self._stream(initial=not self.resource_version)

    async def _list(self) -> None:
        found: set[ObjectKey] = set()
        version = ""
        async for page in self.client.pages(
            self.resource, self.namespace, label_selector=self._label_selector, field_selector=self._field_selector
        ):
            version = page.resource_version
            for raw in page.items:
                self.take(raw, found)
        self._have_all(found, version)

    async def _stream(self, initial: bool) -> None:
        found: set[ObjectKey] | None = set() if initial else None
        events = self.client.watch(
            self.resource,
            self.namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            resource_version=self.resource_version,
            initial_events=initial,
            timeout=WATCH_SECONDS * (1 + self._random()),
            opened=None if initial else self._opened,
        )
        began, count = self._clock.monotonic(), 0
        self._open_since = float("inf")
        try:
            async for event in events:
                count += 1
                if event.type == "BOOKMARK":
                    metadata = _decode_bookmark(event.raw).metadata
                    if found is None:
                        self.resource_version = metadata.resourceVersion
                    elif (metadata.annotations or {}).get(_INITIAL_END) == "true":
                        self._have_all(found, metadata.resourceVersion)
                        found = None
                        self.accepted()
                elif event.type == "DELETED":
                    self.drop(event.raw, found)
                else:
                    self.take(event.raw, found)
                if found is None and (self._outage or self._backoff.failures):
                    self._recovered()
        finally:
            await events.aclose()
            if self._clock.monotonic() - self._open_since >= 1:
                self._backoff.reset()
                self._refusals.reset()
        if found is not None or (count == 0 and self._clock.monotonic() - began < 1):
            raise Unreachable(self.client.server, "the server ended the watch at once")
        self._recovered()

    def _have_all(self, found: set[ObjectKey], version: str) -> None:
        self.complete(found, version)
        self.lists += 1
        self.resource_version = version
        self._synced.set()


def is_outdated(error: KubeError) -> bool:
    """Whether the server no longer has, or does not have yet, the version to continue from: it may have been restored from a
    backup. The state must be listed again."""
    return isinstance(error, Expired) or _set_back(error)


def _set_back(error: KubeError) -> bool:
    return isinstance(error, StatusError) and any(cause.get("reason") == "ResourceVersionTooLarge" for cause in error.causes)
