"""A cache of single objects of any kind, by name. The set of followed objects may change at any time.

A few watches cover all followed objects: one per resource and namespace, or one per resource if many namespaces are in use. Objects
that must not be watched are polled.

A follower is a name (of a work, a policy), and handlers are called with the names of the followers whose objects changed. They are
called a moment after a change: by then the responses to the follower's own writes are recorded, whose events often come first, and
several changes are reported at once. Watches start a moment after they are first needed, so that followers share them, and end some
time after they are last needed.

Invariant: an object is reported as absent or present only if the cluster said so after it was followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from muster.machinery.clock import SYSTEM, Clock, Timer, pause, sleep, within
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object, ObjectRef
from muster.runtime.cache.collection import ALL, Collection, CollectionWatch, Prefetch
from muster.runtime.cache.observed import UNKNOWN, ObjectState, ObservedObject, Presence, kept, older
from muster.runtime.client.base import KubeClient
from muster.runtime.client.errors import KubeError, NotFound

log = get_logger("muster.runtime.cache.dynamic")

NAMESPACE_WATCHES_PER_RESOURCE = 8
"""Up to this number of namespaces, objects of a kind are watched per namespace; above it, one watch over all is cheaper."""
NAMESPACE_WATCHES = 32
"""The most watches of single namespaces; above it, kinds that are used in several namespaces are watched in all. A watch takes a
connection, which costs a quarter of a MiB.
"""
START_DELAY = 0.05
"""Seconds between the first need of a watch and its start."""
NOTIFY_DELAY = 0.1
"""Seconds between a change and its notification."""
UNUSED_WATCH_TIMEOUT = 60.0
"""Seconds after which a watch that is not needed ends."""
REFUSED_RETRY_INTERVAL = 60.0
"""Seconds after which a refused watch is tried again."""
SWITCH_CHECK_INTERVAL = 1.0
"""Seconds after which to check whether a watch over all namespaces is synced and can replace the others."""
CONCURRENT_READS = 8
"""Objects that are polled at the same time."""


@dataclass(slots=True)
class _Running:
    watch: CollectionWatch
    task: asyncio.Task[None]
    needed: float
    """The time at which it was last needed."""


@dataclass(slots=True)
class _Followed:
    """One resource: its known objects, its watches, and until when refused watches are not retried."""

    collection: Collection
    running: dict[str, _Running] = field(default_factory=dict)
    refused: dict[str, float] = field(default_factory=dict)


class DynamicCache:
    """Its owner runs `run` as a task; before that, only recorded writes are known."""

    def __init__(
        self,
        client: KubeClient,
        *,
        prefetch: Prefetch = lambda metadata: False,
        clock: Clock = SYSTEM,
        poll_seconds: float = 10.0,
    ) -> None:
        self._client = client
        self._prefetch = prefetch
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._follows: dict[str, frozenset[ObjectRef]] = {}
        self._resources: dict[GVR, _Followed] = {}
        self._handlers: list[Callable[[str], None]] = []
        self._needs = asyncio.Event()
        self._refusals = asyncio.Event()
        self._untold: dict[int, ObjectState] = {}
        self._sharing: dict[str, None] = {}
        """Followers to notify of a write by one of them."""
        self._notification: Timer | None = None

    def on_change(self, handler: Callable[[str], None]) -> None:
        self._handlers.append(handler)

    def follow(self, follower: str, refs: frozenset[ObjectRef]) -> None:
        """`follower` follows these objects and no others from now on; none: it is removed. Handlers are called with its name when
        one of them changes, but not for recorded writes to objects that only it follows."""
        before = self._follows.get(follower, frozenset())
        if refs == before:
            return
        for ref in before - refs:
            self._resources[ref.resource].collection.leave(follower, ref.namespace, ref.name)
        for ref in refs - before:
            self._join(follower, ref)
        if refs:
            self._follows[follower] = refs
        else:
            self._follows.pop(follower, None)
        self._needs.set()

    def _join(self, follower: str, ref: ObjectRef) -> None:
        followed = self._resources.get(ref.resource)
        if followed is None:
            followed = self._resources[ref.resource] = _Followed(Collection(ref.resource, self._notify_soon, self._prefetch))
        followed.collection.join(follower, ref.namespace, ref.name)
        local = followed.collection.namespace_state(ref.namespace)
        for covering in (ALL, ref.namespace):
            running = followed.running.get(covering)
            if running is None:
                continue
            if running.watch.unserved:
                # The kind was not served before, and may be served now.
                local.ready.clear()
            elif running.watch.has_synced:
                local.ready.set()
            running.watch.end_pause()

    def get(self, ref: ObjectRef) -> ObservedObject:
        """UNKNOWN if the object is not followed (yet); then only a request to the cluster can tell."""
        state = self._find(ref)
        return UNKNOWN if state is None else state.get()

    def record_write(self, ref: ObjectRef, document: Object | None) -> None:
        """Record the response to a write or a read (None: the object does not exist). Older events that come later are ignored. If
        several followers have the object, they are notified: one of them wrote, and the others do not know."""
        state = self._find(ref)
        if state is None:
            return
        if document is None:
            state.deleted()
        else:
            metadata = document["metadata"]
            uid, version = str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or "")
            state.written(uid, version, kept(document, ref.resource))
        if state.differs and not state.news:
            state.differs = False
            self._sharing |= dict.fromkeys(state.followers)
            self._notify_later()

    def _find(self, ref: ObjectRef) -> ObjectState | None:
        followed = self._resources.get(ref.resource)
        return None if followed is None else followed.collection.find(ref.namespace, ref.name)

    async def settle(self, refs: Iterable[ObjectRef], timeout: float) -> None:
        """Wait until the state of these objects is known, or cannot be known; at most `timeout` seconds."""
        waiting: list[ObjectRef] = []
        for ref in refs:
            followed = self._resources.get(ref.resource)
            local = None if followed is None else followed.collection.namespaces.get(ref.namespace)
            state = None if local is None else local.states.get(ref.name)
            if local is None or state is None or state.presence is not Presence.UNKNOWN:
                continue
            if state.unread or not local.ready.is_set():
                waiting.append(ref)
        if waiting:
            try:
                await within(self._clock, timeout, self._until_known(waiting))
            except TimeoutError:
                return

    async def _until_known(self, refs: list[ObjectRef]) -> None:
        for ref in refs:
            followed = self._resources.get(ref.resource)
            local = None if followed is None else followed.collection.namespaces.get(ref.namespace)
            if local is not None:
                await local.ready.wait()
        unread = [ref for ref in refs if (state := self._find(ref)) is not None and state.unread]
        await self._read(unread)

    def _notify_soon(self, state: ObjectState) -> None:
        self._untold[id(state)] = state
        self._notify_later()

    def _notify_later(self) -> None:
        if self._notification is None:
            self._notification = self._clock.call_later(NOTIFY_DELAY, self._notify)

    def _notify(self) -> None:
        self._notification = None
        untold, self._untold = self._untold, {}
        followers, self._sharing = self._sharing, {}
        for state in untold.values():
            if state.news:
                state.mark_reported()
                followers |= dict.fromkeys(state.followers)
        for follower in followers:
            for handler in self._handlers:
                handler(follower)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._poll())
                due: float | None = None
                while True:
                    await pause(self._clock, self._needs, due)
                    await sleep(self._clock, START_DELAY)
                    due = self._arrange(tasks)
        finally:
            for followed in self._resources.values():
                followed.running.clear()
            if self._notification is not None:
                self._notification.cancel()
                self._notification = None

    def _arrange(self, tasks: asyncio.TaskGroup) -> float | None:
        """Start the watches that are needed, end the others; returns the seconds until the next check."""
        now = self._clock.monotonic()
        dues: list[float] = []
        needed = sum(len(followed.collection.needed) for followed in self._resources.values())
        few = NAMESPACE_WATCHES_PER_RESOURCE if needed <= NAMESPACE_WATCHES else 1
        for resource, followed in list(self._resources.items()):
            wanted = self._wanted(followed, few, now)
            for namespace in wanted - followed.running.keys():
                watch = CollectionWatch(self._client, followed.collection, namespace, self._clock)
                followed.running[namespace] = _Running(watch, tasks.create_task(self._keep(followed, watch)), now)
            for namespace, running in list(followed.running.items()):
                if namespace in wanted:
                    running.needed = now
                elif now - running.needed >= UNUSED_WATCH_TIMEOUT or self._superseded(followed, namespace):
                    running.task.cancel()
                    del followed.running[namespace]
                    followed.collection.forget_unfollowed(namespace)
                else:
                    dues.append(running.needed + UNUSED_WATCH_TIMEOUT - now)
            followed.collection.forget_empty(followed.running.keys() | followed.refused.keys())
            dues += [until - now for until in followed.refused.values()]
            if ALL in followed.running and len(followed.running) > 1:
                dues.append(SWITCH_CHECK_INTERVAL)
            if not followed.running and not followed.collection.needed:
                del self._resources[resource]
        return min(dues, default=None)

    @staticmethod
    def _wanted(followed: _Followed, few: int, now: float) -> set[str]:
        followed.refused = {namespace: until for namespace, until in followed.refused.items() if until > now}
        needed = followed.collection.needed
        if not needed:
            return set()
        wide = not followed.collection.resource.namespaced or len(needed) > few or ALL in followed.running
        if wide and ALL not in followed.refused:
            running = followed.running.get(ALL)
            # Until the watch over all namespaces is synced, the others continue.
            narrow = needed & followed.running.keys() if running is None or not running.watch.has_synced else set()
            return {ALL} | narrow
        return {namespace for namespace in needed if namespace not in followed.refused and namespace != ALL}

    @staticmethod
    def _superseded(followed: _Followed, namespace: str) -> bool:
        running = followed.running.get(ALL)
        return namespace != ALL and running is not None and running.watch.has_synced

    async def _keep(self, followed: _Followed, watch: CollectionWatch) -> None:
        """Run a watch until it is no longer needed, or refused."""
        try:
            await watch.run()
        except KubeError as error:
            log.warning(
                "cannot watch; reading objects one by one" if watch.namespace else "cannot watch all namespaces",
                resource=str(watch.resource),
                namespace=watch.namespace,
                error=str(error),
            )
            followed.refused[watch.namespace] = self._clock.monotonic() + REFUSED_RETRY_INTERVAL
            followed.running.pop(watch.namespace, None)
            self._needs.set()
            self._refusals.set()

    async def _poll(self) -> None:
        """Read the objects that no watch covers. A namespace is ready after its first read."""
        while True:
            polled = False
            for followed in list(self._resources.values()):
                for namespace, local in list(followed.collection.namespaces.items()):
                    if local.followed and self._unwatched(followed, namespace):
                        polled = True
                        await self._read([ObjectRef(followed.collection.resource, namespace, name) for name in local.states])
                        local.ready.set()
            await pause(self._clock, self._refusals, self._poll_seconds if polled else None)

    @staticmethod
    def _unwatched(followed: _Followed, namespace: str) -> bool:
        return not followed.running.keys() & {ALL, namespace} and namespace in followed.refused

    async def _read(self, refs: Iterable[ObjectRef]) -> None:
        """Read these objects from the cluster; those that it does not show remain unknown."""
        turns = asyncio.Semaphore(CONCURRENT_READS)

        async def read(ref: ObjectRef) -> None:
            async with turns:
                state = self._find(ref)
                if state is None:
                    return
                version = state.version
                try:
                    document = await self._client.get(ref.resource, ref.name, ref.namespace)
                except NotFound:
                    # Unless it was created meanwhile.
                    if state.version == version:
                        state.gone(state.uid, version)
                except KubeError:
                    return
                else:
                    metadata = document["metadata"]
                    if state.version == version and older(metadata["resourceVersion"], version):
                        # The cluster was restored from a backup.
                        state.forget()
                    state.seen(metadata["uid"], metadata["resourceVersion"], lambda: kept(document, ref.resource))
                if state.news:
                    self._notify_soon(state)

        async with asyncio.TaskGroup() as tasks:
            for ref in refs:
                tasks.create_task(read(ref))
