"""Runs the built-in controllers of all clusters in one process: one store subscription, and per cluster with work a few workers.

A controller names the resources it cares about, turns an event into keys, and reconciles a key from the current state. Keys wait in
a set while they are queued or running, so a burst of events is one reconcile, and the same key never runs twice at once. A
failing key is tried again with growing delay; it holds up nobody else. Workers belong to one cluster and live as long as it has
work: a cluster whose webhooks hang waits alone, and idle clusters cost nothing here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from muster.apiserver.cluster import Cluster
from muster.machinery.logs import get_logger
from muster.store.api import Event

if TYPE_CHECKING:
    from muster.apiserver.server import ApiServer

log = get_logger(__name__)
WORKERS = 8
"""Keys of one cluster that are reconciled at a time."""
_FIRST_DELAY, _LONGEST_DELAY = 0.05, 60.0


class Controller(Protocol):
    """One built-in controller, serving every cluster."""

    @property
    def name(self) -> str: ...

    @property
    def resources(self) -> Sequence[str] | None:
        """Stored resources whose events matter; None for all."""

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        """What to reconcile after this event. Called on every matching write: must be quick."""

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        """What to reconcile when the server starts with this cluster's state."""

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        """Bring the world in line with the key; a number asks to be called again after so many seconds."""


Item = tuple[int, str, str]
"""(controller's index, cluster, key)"""


class ControllerManager:
    def __init__(self, server: ApiServer, controllers: Sequence[Controller]) -> None:
        self._server = server
        self._controllers = list(controllers)
        self._everywhere = [i for i, c in enumerate(self._controllers) if c.resources is None]
        self._by_resource: dict[str, list[int]] = {}
        for index, controller in enumerate(self._controllers):
            for resource in controller.resources or ():
                self._by_resource.setdefault(resource, []).append(index)
        self._queues: dict[str, deque[Item]] = {}
        self._workers: dict[str, int] = {}
        self._waiting: set[Item] = set()
        self._running: set[Item] = set()
        self._again: set[Item] = set()
        self._failures: dict[Item, int] = {}
        self._timers: dict[Item, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._subscribe()

    def _subscribe(self) -> None:
        self._subscription = self._server.store.subscribe(None, None, None, self._on_events, self._on_lost)

    def _on_lost(self) -> None:
        """Events were missed (a database server fell behind): look at everything again."""
        self._subscribe()
        for cluster in self._server.clusters.values():
            self.adopt(cluster)

    async def stop(self) -> None:
        self._subscription.close()
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def adopt(self, cluster: Cluster) -> None:
        """Look once at everything a cluster has."""
        for index, controller in enumerate(self._controllers):
            for key in controller.initial_keys(cluster):
                self._add((index, cluster.name, key))

    def forget(self, cluster: str) -> None:
        for item in [i for i in self._timers if i[1] == cluster]:
            self._timers.pop(item).cancel()
        for item in [i for i in self._failures if i[1] == cluster]:
            del self._failures[item]

    @property
    def backlog(self) -> int:
        return len(self._waiting) + len(self._running)

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            cluster = self._server.clusters.get(event.cluster)
            if cluster is None:
                continue
            for index in (*self._by_resource.get(event.resource, ()), *self._everywhere):
                try:
                    for key in self._controllers[index].keys(cluster, event):
                        self._add((index, cluster.name, key))
                except Exception as problem:  # one controller's fault must not hide this and all later events from the others
                    name = self._controllers[index].name
                    log.error("event not understood", controller=name, cluster=cluster.name, key=event.entry.key, exc_info=problem)

    def _add(self, item: Item) -> None:
        if item in self._running:
            self._again.add(item)
        elif item not in self._waiting:
            self._waiting.add(item)
            cluster = item[1]
            self._queues.setdefault(cluster, deque()).append(item)
            if self._workers.get(cluster, 0) < WORKERS:
                self._workers[cluster] = self._workers.get(cluster, 0) + 1
                task = asyncio.create_task(self._work(cluster), name=f"controllers of {cluster}")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _work(self, cluster: str) -> None:
        try:
            while queue := self._queues.get(cluster):
                item = queue.popleft()
                if not queue:
                    del self._queues[cluster]
                await self._reconcile_once(item)
        finally:
            self._workers[cluster] -= 1
            if not self._workers[cluster]:
                del self._workers[cluster]

    async def _reconcile_once(self, item: Item) -> None:
        self._waiting.discard(item)
        self._running.add(item)
        try:
            await self._run(item)
        finally:
            self._running.discard(item)
            if item in self._again:
                self._again.discard(item)
                self._add(item)

    async def _run(self, item: Item) -> None:
        index, name, key = item
        cluster = self._server.clusters.get(name)
        if cluster is None:
            self._failures.pop(item, None)
            return
        controller = self._controllers[index]
        try:
            again = await controller.reconcile(cluster, key)
        except Exception as problem:  # the edge of a reconcile: one bad object must not stop the others
            failures = self._failures[item] = self._failures.get(item, 0) + 1
            delay = min(_FIRST_DELAY * 2 ** (failures - 1), _LONGEST_DELAY)
            level = log.warning if failures > 3 else log.debug
            level("reconcile failed", controller=controller.name, cluster=name, key=key, retry_in=delay, problem=repr(problem))
            self._later(item, delay)
        else:
            self._failures.pop(item, None)
            if again is not None:
                self._later(item, again)

    def _later(self, item: Item, delay: float) -> None:
        earlier = self._timers.pop(item, None)
        if earlier is not None:
            earlier.cancel()
        self._timers[item] = asyncio.get_running_loop().call_later(delay, self._due, item)

    def _due(self, item: Item) -> None:
        self._timers.pop(item, None)
        self._add(item)
