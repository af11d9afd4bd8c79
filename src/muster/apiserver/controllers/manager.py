"""Runs the built-in controllers of all clusters in one process: one subscription, one work queue, workers while there is work.

A controller names the resources it cares about, turns an event into keys, and reconciles a key from the current state. The work
queue sees to it that a burst of events is one reconcile, that the same key never runs twice at once, and that a failing key is
tried again with growing delay and holds up nobody else. Its groups are the clusters, each with a share of its own and all of them
without a common limit, and a worker is started when a key comes that can be begun: a cluster whose webhooks hang waits alone, and
idle clusters cost nothing here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from muster.apiserver.cluster import Cluster
from muster.machinery.logs import get_logger
from muster.machinery.workqueue import WorkQueue
from muster.store.api import Event

if TYPE_CHECKING:
    from muster.apiserver.server import ApiServer

log = get_logger(__name__)
WORKERS = 8
"""Keys of one cluster that are reconciled at a time."""
_INITIAL_DELAY, _MAX_DELAY = 0.05, 60.0


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
        self._queue: WorkQueue[Item] = WorkQueue(
            "builtin-controllers",
            group=_cluster_of,
            max_per_group=WORKERS,
            initial_delay=_INITIAL_DELAY,
            max_delay=_MAX_DELAY,
            on_ready=self._start_worker,
        )
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
        self._queue.shut_down()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def adopt(self, cluster: Cluster) -> None:
        """Look once at everything a cluster has."""
        for index, controller in enumerate(self._controllers):
            for key in controller.initial_keys(cluster):
                self._queue.add((index, cluster.name, key))

    def forget(self, cluster: str) -> None:
        self._queue.drop(cluster)

    @property
    def backlog(self) -> int:
        return len(self._queue) + self._queue.processing

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            cluster = self._server.clusters.get(event.cluster)
            if cluster is None:
                continue
            for index in (*self._by_resource.get(event.resource, ()), *self._everywhere):
                try:
                    for key in self._controllers[index].keys(cluster, event):
                        self._queue.add((index, cluster.name, key))
                except Exception as problem:  # one controller's fault must not hide this and all later events from the others
                    name = self._controllers[index].name
                    log.error("event not understood", controller=name, cluster=cluster.name, key=event.entry.key, exc_info=problem)

    def _start_worker(self) -> None:
        item = self._queue.take()
        if item is not None:
            task = asyncio.create_task(self._work(item), name=f"controllers of {_cluster_of(item)}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, item: Item | None) -> None:
        while item is not None:
            try:
                await self._reconcile(item)
            finally:
                self._queue.done(item)
            item = self._queue.take()

    async def _reconcile(self, item: Item) -> None:
        index, name, key = item
        cluster = self._server.clusters.get(name)
        if cluster is None:
            self._queue.forget(item)
            return
        controller = self._controllers[index]
        try:
            again = await controller.reconcile(cluster, key)
        except Exception as problem:  # the edge of a reconcile: one bad object must not stop the others
            delay = self._queue.retry(item)
            level = log.warning if self._queue.failures(item) > 3 else log.debug
            level("reconcile failed", controller=controller.name, cluster=name, key=key, retry_in=delay, problem=repr(problem))
        else:
            self._queue.forget(item)
            if again is not None:
                self._queue.add_after(item, again)


def _cluster_of(item: Item) -> str:
    return item[1]
