"""Follows the objects that works are about with a few watches: one per resource and namespace, or one per resource where many
namespaces are in use. What the agent may not watch is asked for object by object, now and then.

News is told a moment after it came: by then the agent knows the answers to its own writes, whose events often come first, and
several changes of a work's objects are one piece of news. Watches begin a moment after they are first needed, so that works that
come together share them, and end some time after they are last needed.

Invariant: an object is never called absent, nor present, unless the cluster said so after it was followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from muster.machinery.clock import SYSTEM, Clock, Timer, pause, sleep, within
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.errors import KubeError, NotFound
from muster.work.agent.observing.collection import ALL, Collection, Watch
from muster.work.agent.observing.sighting import Sighting, kept, older
from muster.work.agent.seam import UNKNOWN, ObjectRef, Presence, Sight

log = get_logger("muster.work.observing")

FEW = 8
"""In so many namespaces objects of a kind are watched one by one; above, one watch over all is cheaper."""
MANY = 32
"""So many watches of single namespaces there may be; above, kinds that are used in several are watched in all. A watch takes a
connection, and that a quarter of a MiB."""
GATHERING = 0.05
"""Seconds between the first need of a watch and its start."""
TELLING = 0.1
"""Seconds between a change and the word of it."""
LINGER = 60.0
"""Seconds for which a watch goes on that nobody needs."""
REFUSED = 60.0
"""Seconds after which a refused watch is tried again."""
CHANGEOVER = 1.0
"""Seconds after which to see whether a watch over all namespaces knows enough to replace the others."""
READS = 8
"""Objects that are asked for at once."""


@dataclass(slots=True)
class _Running:
    watch: Watch
    task: asyncio.Task[None]
    needed: float
    """When it was last needed."""


@dataclass(slots=True)
class _Followed:
    """One resource: what is known, what runs, and what the agent may not watch until when."""

    collection: Collection
    running: dict[str, _Running] = field(default_factory=dict)
    refused: dict[str, float] = field(default_factory=dict)


class ClusterObserver:
    """Satisfies `seam.Observer`. `run` is to be a task of its owner; until it runs, nothing is known but what was written."""

    def __init__(self, client: KubeClient, *, clock: Clock = SYSTEM, poll_seconds: float = 10.0) -> None:
        self._client = client
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._works: dict[str, frozenset[ObjectRef]] = {}
        self._resources: dict[GVR, _Followed] = {}
        self._handlers: list[Callable[[str], None]] = []
        self._needs = asyncio.Event()
        self._refusals = asyncio.Event()
        self._untold: dict[int, Sighting] = {}
        self._sharing: dict[str, None] = {}
        """Works to be told of what one of them has done."""
        self._telling: Timer | None = None

    def on_change(self, handler: Callable[[str], None]) -> None:
        self._handlers.append(handler)

    def follow(self, work: str, refs: frozenset[ObjectRef]) -> None:
        before = self._works.get(work, frozenset())
        if refs == before:
            return
        for ref in before - refs:
            self._resources[ref.resource].collection.leave(work, ref.namespace, ref.name)
        for ref in refs - before:
            self._join(work, ref)
        if refs:
            self._works[work] = refs
        else:
            self._works.pop(work, None)
        self._needs.set()

    def _join(self, work: str, ref: ObjectRef) -> None:
        followed = self._resources.get(ref.resource)
        if followed is None:
            followed = self._resources[ref.resource] = _Followed(Collection(ref.resource, self._tell_soon))
        followed.collection.join(work, ref.namespace, ref.name)
        place = followed.collection.place(ref.namespace)
        for covering in (ALL, ref.namespace):
            running = followed.running.get(covering)
            if running is None:
                continue
            if running.watch.unserved:
                # Whoever asks for a kind that was not there may know that it has come.
                place.ready.clear()
            elif running.watch.has_synced:
                place.ready.set()
            running.watch.hurry()

    def look(self, ref: ObjectRef) -> Sight:
        sighting = self._find(ref)
        return UNKNOWN if sighting is None else sighting.look()

    def wrote(self, ref: ObjectRef, document: Object | None) -> None:
        sighting = self._find(ref)
        if sighting is None:
            return
        if document is None:
            sighting.deleted()
        else:
            metadata = document["metadata"]
            uid, version = str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or "")
            sighting.written(uid, version, kept(document, ref.resource))
        if sighting.differs and not sighting.news:
            sighting.differs = False
            self._sharing |= dict.fromkeys(sighting.works)
            self._tell_later()

    def _find(self, ref: ObjectRef) -> Sighting | None:
        followed = self._resources.get(ref.resource)
        return None if followed is None else followed.collection.find(ref.namespace, ref.name)

    async def settle(self, refs: Iterable[ObjectRef], timeout: float) -> None:
        waiting: list[ObjectRef] = []
        for ref in refs:
            followed = self._resources.get(ref.resource)
            place = None if followed is None else followed.collection.places.get(ref.namespace)
            sighting = None if place is None else place.sightings.get(ref.name)
            if place is None or sighting is None or sighting.presence is not Presence.UNKNOWN:
                continue
            if sighting.unread or not place.ready.is_set():
                waiting.append(ref)
        if waiting:
            try:
                await within(self._clock, timeout, self._until_known(waiting))
            except TimeoutError:
                return

    async def _until_known(self, refs: list[ObjectRef]) -> None:
        for ref in refs:
            followed = self._resources.get(ref.resource)
            place = None if followed is None else followed.collection.places.get(ref.namespace)
            if place is not None:
                await place.ready.wait()
        unread = [ref for ref in refs if (sighting := self._find(ref)) is not None and sighting.unread]
        await self._read(unread)

    def _tell_soon(self, sighting: Sighting) -> None:
        self._untold[id(sighting)] = sighting
        self._tell_later()

    def _tell_later(self) -> None:
        if self._telling is None:
            self._telling = self._clock.call_later(TELLING, self._tell)

    def _tell(self) -> None:
        self._telling = None
        untold, self._untold = self._untold, {}
        works, self._sharing = self._sharing, {}
        for sighting in untold.values():
            if sighting.news:
                sighting.tell()
                works |= dict.fromkeys(sighting.works)
        for work in works:
            for handler in self._handlers:
                handler(work)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._poll())
                due: float | None = None
                while True:
                    await pause(self._clock, self._needs, due)
                    await sleep(self._clock, GATHERING)
                    due = self._arrange(tasks)
        finally:
            for followed in self._resources.values():
                followed.running.clear()
            if self._telling is not None:
                self._telling.cancel()
                self._telling = None

    def _arrange(self, tasks: asyncio.TaskGroup) -> float | None:
        """Start the watches that are needed, end those that are not; in how many seconds to look again."""
        now = self._clock.monotonic()
        dues: list[float] = []
        few = FEW if sum(len(followed.collection.needed) for followed in self._resources.values()) <= MANY else 1
        for resource, followed in list(self._resources.items()):
            wanted = self._wanted(followed, few, now)
            for namespace in wanted - followed.running.keys():
                watch = Watch(self._client, followed.collection, namespace, self._clock)
                followed.running[namespace] = _Running(watch, tasks.create_task(self._keep(followed, watch)), now)
            for namespace, running in list(followed.running.items()):
                if namespace in wanted:
                    running.needed = now
                elif now - running.needed >= LINGER or self._superseded(followed, namespace):
                    running.task.cancel()
                    del followed.running[namespace]
                    followed.collection.forget_unfollowed(namespace)
                else:
                    dues.append(running.needed + LINGER - now)
            followed.collection.forget_empty(followed.running.keys() | followed.refused.keys())
            dues += [until - now for until in followed.refused.values()]
            if ALL in followed.running and len(followed.running) > 1:
                dues.append(CHANGEOVER)
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
            # Until the wide one knows everything, the narrow ones go on.
            narrow = needed & followed.running.keys() if running is None or not running.watch.has_synced else set()
            return {ALL} | narrow
        return {namespace for namespace in needed if namespace not in followed.refused and namespace != ALL}

    @staticmethod
    def _superseded(followed: _Followed, namespace: str) -> bool:
        running = followed.running.get(ALL)
        return namespace != ALL and running is not None and running.watch.has_synced

    async def _keep(self, followed: _Followed, watch: Watch) -> None:
        """Run a watch until it is not needed any more, or refused."""
        try:
            await watch.run()
        except KubeError as error:
            log.warning(
                "cannot watch; asking for objects one by one" if watch.namespace else "cannot watch all namespaces",
                resource=str(watch.resource),
                namespace=watch.namespace,
                error=str(error),
            )
            followed.refused[watch.namespace] = self._clock.monotonic() + REFUSED
            followed.running.pop(watch.namespace, None)
            self._needs.set()
            self._refusals.set()

    async def _poll(self) -> None:
        """Ask for what no watch tells about. A place is ready when it was asked for the first time."""
        while True:
            asked = False
            for followed in list(self._resources.values()):
                for namespace, place in list(followed.collection.places.items()):
                    if place.followed and self._unwatched(followed, namespace):
                        asked = True
                        await self._read([ObjectRef(followed.collection.resource, namespace, name) for name in place.sightings])
                        place.ready.set()
            await pause(self._clock, self._refusals, self._poll_seconds if asked else None)

    @staticmethod
    def _unwatched(followed: _Followed, namespace: str) -> bool:
        return not followed.running.keys() & {ALL, namespace} and namespace in followed.refused

    async def _read(self, refs: Iterable[ObjectRef]) -> None:
        """Ask the cluster for these objects; what it will not say remains unknown."""
        turns = asyncio.Semaphore(READS)

        async def read(ref: ObjectRef) -> None:
            async with turns:
                sighting = self._find(ref)
                if sighting is None:
                    return
                version = sighting.version
                try:
                    document = await self._client.get(ref.resource, ref.name, ref.namespace)
                except NotFound:
                    # Unless it was made meanwhile.
                    if sighting.version == version:
                        sighting.gone(sighting.uid, version)
                except KubeError:
                    return
                else:
                    metadata = document["metadata"]
                    if sighting.version == version and older(metadata["resourceVersion"], version):
                        # The cluster was restored from a backup.
                        sighting.forget()
                    sighting.seen(metadata["uid"], metadata["resourceVersion"], lambda: kept(document, ref.resource))
                if sighting.news:
                    self._tell_soon(sighting)

        async with asyncio.TaskGroup() as tasks:
            for ref in refs:
                tasks.create_task(read(ref))
