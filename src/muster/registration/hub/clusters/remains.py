"""The remaining objects in the namespaces of deleted clusters: listed once, and watched only while some remain.

The hub has no cache of all addons and works of a fleet just to know when those of one cluster are gone. The first call for a
namespace is a list. If it is not empty, a watch of that collection in that namespace begins, later calls are answered from its
cache, and every change requeues the cluster. `forget` ends the watch. A collection that the server does not serve is empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from muster.machinery.objects import GVR, Object
from muster.registration.hub.context import HubControllerContext
from muster.runtime.cache import Informer, Snapshot
from muster.runtime.client import NotFound


@dataclass(frozen=True)
class _Watch:
    informer: Informer[Snapshot]
    task: asyncio.Task[None]


class Remains:
    """`wake` is called with the namespace, which is the cluster's name."""

    def __init__(self, hub: HubControllerContext, wake: Callable[[str], None]) -> None:
        self._client = hub.context.client
        self._clock = hub.context.clock
        self._random = hub.context.random
        self._wake = wake
        self._watches: dict[tuple[GVR, str], _Watch] = {}
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def watching(self) -> int:
        return len(self._watches)

    async def of(self, resource: GVR, namespace: str) -> list[Object]:
        watch = self._watches.get((resource, namespace))
        if watch is not None and watch.informer.has_synced:
            found = [snapshot.data for snapshot in watch.informer.cache]
        else:
            try:
                found = (await self._client.list(resource, namespace)).items
            except NotFound:
                found = []
        if found:
            self._watch(resource, namespace)
        else:
            self._end(resource, namespace)
        return found

    def forget(self, namespace: str) -> None:
        for resource, watched in list(self._watches):
            if watched == namespace:
                self._end(resource, namespace)

    async def run(self) -> NoReturn:
        """Run until cancelled; nothing is watched before."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await asyncio.Event().wait()
            finally:
                self._tasks = None
                self._watches.clear()
        raise AssertionError("unexpected event")

    def _watch(self, resource: GVR, namespace: str) -> None:
        if self._tasks is None or (resource, namespace) in self._watches:
            return
        informer: Informer[Snapshot] = Informer(self._client, resource, namespace, clock=self._clock, random=self._random)
        informer.on_change(lambda old, new: self._wake(namespace) if informer.has_synced else None)
        task = self._tasks.create_task(self._follow(informer, namespace), name=f"remains-{resource}-{namespace}")
        self._watches[resource, namespace] = _Watch(informer, task)

    async def _follow(self, informer: Informer[Snapshot], namespace: str) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            await informer.synced()
            # No event reports what was deleted between the list and the watch.
            self._wake(namespace)

    def _end(self, resource: GVR, namespace: str) -> None:
        watch = self._watches.pop((resource, namespace), None)
        if watch is not None:
            watch.task.cancel()
