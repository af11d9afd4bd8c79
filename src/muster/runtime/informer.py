"""A shared informer: one list and one watch per collection, however many look at it; the cache follows the server by itself.

It starts with a WatchList (present state and changes in one stream) and falls back to a paged list and a watch where the server
does not offer that. A watch that ends is taken up again at the last revision seen, bookmarks included; when the server no
longer has that revision (410), the state is listed anew and the difference is told as ordinary changes. A server that is away
is asked again with growing, jittered pauses; that costs one log line when it goes and one when it is back.

Handlers are told `(old, new)`: None and object for an addition, object and None for a removal. `on_change` handlers are called
in the loop and must be quick (put a key into a queue); one that raises is logged and hurts nobody. `subscribe` is for slow
ones: each has a task of its own, and what it did not see yet is merged per object, so it may skip versions but never the last.

Who needs little of large objects gives `reduce`: it cuts what comes to what is to be kept, metadata included, before anything of
it is stored.

An object that `decode` refuses stays out (`malformed` says why) and the last version that could be read remains; the others go
on.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, overload

import msgspec

from muster.logs import get_logger
from muster.runtime.cache import Cache, IndexFunction, Snapshot
from muster.runtime.clock import SYSTEM, Backoff, Clock, Random, pause, sleep
from muster.runtime.errors import BadRequest, Expired, Invalid, KubeError, Unreachable
from muster.runtime.resource import Key, Resource
from muster.runtime.subscription import AsyncHandler, Subscription
from muster.runtime.verbs import KubeClient

log = get_logger("muster.runtime.informer")

T = TypeVar("T")
Handler = Callable[[T | None, T | None], None]
WATCH_SECONDS = 300.0
"""A watch is asked to end after this long, or up to twice as long, as client-go does."""
EXPIRY_PEACE = 60.0
"""Seconds without a 410 after which the next one is taken for the first."""


class _Bookmark(msgspec.Struct):
    class Metadata(msgspec.Struct):
        resourceVersion: str = ""
        annotations: dict[str, str] | None = None

    metadata: Metadata


_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode
_INITIAL_END = "k8s.io/initial-events-end"


class Informer(Generic[T]):
    """Follows one collection. Without `decode`, values are `Snapshot`s. `run` is to be a task of its owner."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        decode: Callable[[bytes], T] | None = None,
        reduce: Callable[[bytes], bytes] | None = None,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        watch_list: bool = True,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self.client = client
        self.resource = resource
        self.namespace = namespace
        self.cache: Cache[T] = Cache(resource, decode, indexes)
        self.malformed: dict[Key | str, str] = {}
        """Why objects are missing from the cache, by key."""
        self.resource_version = ""
        self.lists = 0
        """How often the whole state was taken in."""
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._reduce = reduce
        self._watch_list = watch_list
        self._clock = clock
        self._random = random
        self._handlers: list[Handler[T]] = []
        self._subscriptions: list[Subscription[T]] = []
        self._synced = asyncio.Event()
        self._backoff = Backoff(0.8, 30.0, random=random)
        self._relists = Backoff(0.8, 30.0, random=random)
        self._expired_at = float("-inf")
        self._open_since = float("inf")
        self._outage = ""
        self._running = False
        self._hurry: asyncio.Event | None = None

    @property
    def has_synced(self) -> bool:
        return self._synced.is_set()

    async def synced(self) -> None:
        """Until the cache has held the whole state once."""
        await self._synced.wait()

    def on_change(self, handler: Handler[T]) -> None:
        """Tell `handler` everything that is here already, then every change."""
        self._handlers.append(handler)
        for value in self.cache:
            self._call(handler, None, value)

    def subscribe(self, handler: AsyncHandler[T]) -> Subscription[T]:
        """Like `on_change` for a handler that takes its time; the caller runs the subscription's `run`."""
        subscription: Subscription[T] = Subscription(handler, f"{self.resource}")
        self._subscriptions.append(subscription)
        for key in self.cache.all_keys():
            subscription.offer(key, None, self.cache.get(key))
        return subscription

    async def run(self) -> None:
        """Follow the server until cancelled."""
        if self._running:
            raise RuntimeError(f"the informer of {self.resource} runs already")
        self._running = True
        try:
            while True:
                try:
                    await self._follow()
                except KubeError as error:
                    await self._after(error)
                except msgspec.DecodeError as error:
                    # Something on the way speaks another language; what was missed is unknown.
                    self.resource_version = ""
                    await self._after(Unreachable(self.client.server, f"unreadable answer: {error}"))
        finally:
            self._running = False

    async def _after(self, error: KubeError) -> None:
        """What to do after a stream or list failed."""
        if isinstance(error, Expired):
            await sleep(self._clock, self._before_relisting())
            return
        if self._watch_list and not self.resource_version and isinstance(error, BadRequest | Invalid):
            self._watch_list = False
            log.debug("server offers no WatchList; listing", resource=str(self.resource), server=self.client.server)
            return
        self._report(error)
        self._hurry = asyncio.Event()
        try:
            await pause(self._clock, self._hurry, self._backoff.next())
        finally:
            self._hurry = None

    def hurry(self) -> None:
        """Somebody has just reached the server: whoever sits out a pause after a failure tries again at once."""
        if self._hurry is not None:
            self._hurry.set()

    def _before_relisting(self) -> float:
        """At once: an old revision is no outage. Later and later when that happens again and again."""
        self.resource_version = ""
        now = self._clock.monotonic()
        if now - self._expired_at > EXPIRY_PEACE:
            self._relists.reset()
        self._expired_at = now
        pause = self._relists.next()
        return pause if self._relists.failures > 1 else 0.0

    def _report(self, error: KubeError) -> None:
        # A broken stream alone is no news: the next attempt tells whether the server is away.
        if self._backoff.failures == 0 and self._synced.is_set() and isinstance(error, Unreachable):
            return
        if not self._outage:
            self._outage = str(error)
            log.warning("cannot follow", resource=str(self.resource), server=self.client.server, error=self._outage)

    def _answered(self) -> None:
        """The server has accepted a watch. That ends an outage; whether pauses may be short again, only a lasting stream tells."""
        self._open_since = self._clock.monotonic()
        if self._outage:
            self._outage = ""
            log.info("following again", resource=str(self.resource), server=self.client.server)

    def _recovered(self) -> None:
        self._answered()
        self._backoff.reset()

    async def _follow(self) -> None:
        """One pass: take in the state if there is no revision to go on from, then changes until the watch ends."""
        if not self.resource_version and not self._watch_list:
            await self._list()
            self._recovered()
        await self._stream(initial=not self.resource_version)

    async def _list(self) -> None:
        found: set[Key] = set()
        version = ""
        async for page in self.client.pages(
            self.resource, self.namespace, label_selector=self._label_selector, field_selector=self._field_selector
        ):
            version = page.resource_version
            for raw in page.items:
                self._take(raw, found)
        self._complete(found, version)

    async def _stream(self, initial: bool) -> None:
        found: set[Key] | None = set() if initial else None
        events = self.client.watch(
            self.resource,
            self.namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            resource_version=self.resource_version,
            initial_events=initial,
            timeout=WATCH_SECONDS * (1 + self._random()),
            opened=None if initial else self._answered,
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
                        self._complete(found, metadata.resourceVersion)
                        found = None
                elif event.type == "DELETED":
                    self._drop(event.raw, found)
                else:
                    self._take(event.raw, found)
                if found is None and (self._outage or self._backoff.failures):
                    self._recovered()
        finally:
            await events.aclose()
            if self._clock.monotonic() - self._open_since >= 1:
                self._backoff.reset()
        if found is not None or (count == 0 and self._clock.monotonic() - began < 1):
            raise Unreachable(self.client.server, "the server ended the watch at once")
        self._recovered()

    def _take(self, raw: bytes, found: set[Key] | None) -> None:
        """An object as it is now. While the state is being taken in, `found` collects what there is."""
        try:
            snapshot = self.cache.read(raw if self._reduce is None else self._reduce(raw))
        except (msgspec.DecodeError, ValueError) as error:
            self._refuse(raw[:200].decode(errors="replace"), f"not an object with a name: {error}")
            return
        key = snapshot.key
        if found is not None:
            found.add(key)
        else:
            self.resource_version = snapshot.resource_version
        known = self.cache.snapshot(key)
        if known is not None and known.resource_version == snapshot.resource_version and known.uid == snapshot.uid:
            return
        try:
            replaced = self.cache.put(snapshot)
        except Exception as error:
            # A decoder or an index function that fails on one object must not stop the others.
            self._refuse(key, f"{type(error).__name__}: {error}")
            return
        self.malformed.pop(key, None)
        old = None if replaced is None else self.cache.retire(replaced)
        self._tell(key, old, self.cache.value_of(snapshot))

    def _drop(self, raw: bytes, found: set[Key] | None) -> None:
        snapshot = self.cache.read(raw)
        if found is not None:
            found.discard(snapshot.key)
        else:
            self.resource_version = snapshot.resource_version
        self._remove(snapshot.key)

    def _remove(self, key: Key) -> None:
        self.malformed.pop(key, None)
        removed = self.cache.remove(key)
        if removed is not None:
            self._tell(key, self.cache.retire(removed), None)

    def _complete(self, found: set[Key], version: str) -> None:
        """The whole state was seen: what was not in it is gone."""
        for key in [key for key in self.cache.all_keys() if key not in found]:
            self._remove(key)
        for gone in [key for key in self.malformed if key not in found]:
            del self.malformed[gone]
        self.lists += 1
        self.resource_version = version
        self._synced.set()

    def _refuse(self, key: Key | str, why: str) -> None:
        if self.malformed.get(key) != why:
            log.error("cannot read object; keeping its last good version", resource=str(self.resource), key=str(key), error=why)
        self.malformed[key] = why

    def _tell(self, key: Key, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            self._call(handler, old, new)
        for subscription in self._subscriptions:
            subscription.offer(key, old, new)

    def _call(self, handler: Handler[T], old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception as error:
            log.error("handler failed", resource=str(self.resource), error=f"{type(error).__name__}: {error}")


class Informers:
    """One informer per collection and selection, shared by whoever asks; `run` follows all of them until cancelled."""

    def __init__(self, client: KubeClient, *, clock: Clock = SYSTEM, random: Random = chance.random) -> None:
        self.client = client
        self._clock = clock
        self._random = random
        self._shared: dict[tuple[object, ...], Informer[Any]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    @overload
    def of(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Informer[Snapshot]: ...

    @overload
    def of(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        decode: Callable[[bytes], T],
    ) -> Informer[T]: ...

    def of(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        decode: Callable[[bytes], Any] | None = None,
    ) -> Informer[Any]:
        """The informer of a selection; those who decode it differently have one each."""
        wanted = (resource, namespace, label_selector, field_selector, decode)
        informer = self._shared.get(wanted)
        if informer is None:
            informer = self._shared[wanted] = Informer(
                self.client,
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                decode=decode,
                clock=self._clock,
                random=self._random,
            )
            if self._tasks is not None:
                self._tasks.create_task(informer.run())
        return informer

    async def synced(self) -> None:
        for informer in list(self._shared.values()):
            await informer.synced()

    @property
    def has_synced(self) -> bool:
        return all(informer.has_synced for informer in self._shared.values())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for informer in self._shared.values():
                    tasks.create_task(informer.run())
                await asyncio.Event().wait()
            finally:
                self._tasks = None
