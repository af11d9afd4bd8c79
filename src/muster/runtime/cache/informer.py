"""A shared informer, as client-go's: one list and one watch per collection for all users.

`reflector` describes how it stays current; differences found by a relist are reported as ordinary changes.

Handlers are called with `(old, new)`: None and the object if it was added, the object and None if it was deleted. `on_change`
handlers are called in the event loop and must be quick (enqueue a key); an exception in one is logged and does not affect the
others. `subscribe` is for slow handlers: each has its own task, and changes that it has not seen yet are merged per object, so it
may skip versions but never the last one.

A user that needs little of large objects sets `reduce`, which cuts each object, including its metadata, before anything of it is
stored.

An object that `decode` refuses is not cached (`malformed` has the reason), and its last readable version remains; other objects are
not affected. Fields that a tolerant decoder left out (`unread`) are logged when they change.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, overload

import msgspec

from muster.api.resource import TypedObject
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, ObjectKey
from muster.runtime.cache.reflector import Reflector
from muster.runtime.cache.store import Cache, IndexFunction, Snapshot
from muster.runtime.cache.subscription import AsyncHandler, Subscription
from muster.runtime.client.base import KubeClient
from muster.runtime.client.typed import served

log = get_logger("muster.runtime.cache.informer")

T = TypeVar("T")
R = TypeVar("R", bound=TypedObject)
Handler = Callable[[T | None, T | None], None]


class Informer(Reflector, Generic[T]):
    """Caches one collection. Without `decode`, values are `Snapshot`s. Its owner runs `run` as a task."""

    def __init__(
        self,
        client: KubeClient,
        resource: GVR,
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
        super().__init__(
            client,
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            watch_list=watch_list,
            clock=clock,
            random=random,
        )
        self.cache: Cache[T] = Cache(resource, decode, indexes)
        self.malformed: dict[ObjectKey | str, str] = {}
        """By key: why an object is missing from the cache."""
        self._reduce = reduce
        self._handlers: list[Handler[T]] = []
        self._subscriptions: list[Subscription[T]] = []

    def on_change(self, handler: Handler[T]) -> Callable[[], None]:
        """Call `handler` for everything that is cached, then for every change; call the result to end that."""
        self._handlers.append(handler)
        for value in self.cache:
            self._call(handler, None, value)
        return lambda: self._handlers.remove(handler)

    def subscribe(self, handler: AsyncHandler[T]) -> Subscription[T]:
        """Like `on_change`, for a slow handler; the caller runs the subscription's `run`."""
        subscription: Subscription[T] = Subscription(handler, f"{self.resource}")
        self._subscriptions.append(subscription)
        for key in self.cache.all_keys():
            subscription.offer(key, None, self.cache.get(key))
        return subscription

    def take(self, raw: bytes, found: set[ObjectKey] | None) -> None:
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
        new = self.cache.value_of(snapshot)
        unread: tuple[str, ...] = getattr(new, "unread", ())
        if unread and unread != getattr(old, "unread", ()):
            log.warning("object is read in part", resource=str(self.resource), key=str(key), left_out=", ".join(unread))
        self._notify(key, old, new)

    def drop(self, raw: bytes, found: set[ObjectKey] | None) -> None:
        snapshot = self.cache.read(raw)
        if found is not None:
            found.discard(snapshot.key)
        else:
            self.resource_version = snapshot.resource_version
        self._remove(snapshot.key)

    def _remove(self, key: ObjectKey) -> None:
        self.malformed.pop(key, None)
        removed = self.cache.remove(key)
        if removed is not None:
            self._notify(key, self.cache.retire(removed), None)

    def complete(self, found: set[ObjectKey], version: str) -> None:
        for key in [key for key in self.cache.all_keys() if key not in found]:
            self._remove(key)
        for gone in [key for key in self.malformed if key not in found]:
            del self.malformed[gone]

    def _refuse(self, key: ObjectKey | str, why: str) -> None:
        if self.malformed.get(key) != why:
            log.error("cannot read object; keeping its last good version", resource=str(self.resource), key=str(key), error=why)
        self.malformed[key] = why

    def _notify(self, key: ObjectKey, old: T | None, new: T | None) -> None:
        for handler in tuple(self._handlers):
            self._call(handler, old, new)
        for subscription in self._subscriptions:
            subscription.offer(key, old, new)

    def _call(self, handler: Handler[T], old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception as error:
            log.error("handler failed", resource=str(self.resource), error=f"{type(error).__name__}: {error}")


class Informers:
    """One informer per collection and selection, shared by all users; `run` runs all of them until cancelled."""

    def __init__(self, client: KubeClient, *, clock: Clock = SYSTEM, random: Random = chance.random) -> None:
        self.client = client
        self._clock = clock
        self._random = random
        self._shared: dict[tuple[object, ...], Informer[Any]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    @overload
    def of(
        self, resource: GVR, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Informer[Snapshot]: ...

    @overload
    def of(self, resource: type[R], namespace: str = "", *, label_selector: str = "", field_selector: str = "") -> Informer[R]: ...

    @overload
    def of(
        self,
        resource: GVR,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        decode: Callable[[bytes], T],
        reduce: Callable[[bytes], bytes] | None = None,
    ) -> Informer[T]: ...

    def of(
        self,
        resource: GVR | type[TypedObject],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        decode: Callable[[bytes], Any] | None = None,
        reduce: Callable[[bytes], bytes] | None = None,
    ) -> Informer[Any]:
        """The informer of a selection; users that decode or reduce it differently have one each. Values are snapshots for a GVR
        without a decoder, objects of the type for a typed kind."""
        if not isinstance(resource, GVR):
            resource, decode = served(resource), resource.decode
        wanted = (resource, namespace, label_selector, field_selector, decode, reduce)
        informer = self._shared.get(wanted)
        if informer is None:
            informer = self._shared[wanted] = Informer(
                self.client,
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                decode=decode,
                reduce=reduce,
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
