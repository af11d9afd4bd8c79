"""Runs the built-in controllers of all clusters in one process: one subscription, one work queue, workers while there is work.

A controller names the resources it cares about, turns an event into keys, and reconciles a key from the current state. The work
queue sees to it that a burst of events is one reconcile, that the same key never runs twice at once, and that a failing key is
tried again with growing delay and holds up nobody else. Its groups are the clusters, each with a share of its own and all of them
without a common limit, and a worker is started when a key comes that can be begun: a cluster whose webhooks hang waits alone, and
idle clusters cost nothing here.

Where several servers share one database, every server hears every event, because `keys` also keeps what a server knows (which
resources it serves, what belongs to whom), but only the one that is elected reconciles. One that becomes leader looks at
everything once; one that is none any more begins nothing, and what it had begun is compared by the store like every write.
Controllers that keep a server's own view of the world in `reconcile` run `in_every_server`, and write only where they lead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from muster.apiserver.client import DirectClient
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.election import Election
from muster.machinery.logs import get_logger
from muster.machinery.workqueue import WorkQueue
from muster.store.api import Entry, Event, Store

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


class _Leading(Protocol):
    @property
    def leading(self) -> bool: ...


class ControllerContext(Protocol):
    """What the built-in controllers are given: the clusters, their store, and clients that write in the server's name."""

    @property
    def store(self) -> Store: ...
    @property
    def clusters(self) -> Mapping[str, Cluster]: ...
    @property
    def controllers(self) -> _Leading: ...
    @property
    def ca_pem(self) -> bytes:
        """The CA that signed the serving certificate."""

    def client(self, cluster: Cluster, *, agent: str = ...) -> DirectClient: ...
    def template(self, cluster: Cluster, resource: str, key: str) -> Entry | None:
        """An object as the cluster was born with it."""


Item = tuple[int, str, str]
"""(controller's index, cluster, key)"""


class ControllerManager:
    def __init__(
        self,
        context: ControllerContext,
        controllers: Sequence[Controller],
        in_every_server: Sequence[Controller] = (),
        election: Election | None = None,
    ) -> None:
        """Without an `election` this server is the only one of its store, and leads."""
        self._context = context
        self._controllers = [*in_every_server, *controllers]
        self._unelected = len(in_every_server)
        self._election = election
        self._electing: asyncio.Task[None] | None = None
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

    @property
    def leading(self) -> bool:
        return self._election is None or self._election.leading

    def _runs(self, index: int) -> bool:
        return index < self._unelected or self.leading

    def start(self) -> None:
        self._subscribe()
        if self._election is not None:
            self._electing = asyncio.create_task(self._election.run(self._look_at_all, self._resign), name="election")

    def _subscribe(self) -> None:
        self._subscription = self._context.store.subscribe(None, None, None, self._on_events, self._on_lost)

    def _on_lost(self) -> None:
        """Events were missed (a database server fell behind): look at everything again."""
        self._subscribe()
        self._look_at_all()

    def _look_at_all(self) -> None:
        for cluster in self._context.clusters.values():
            self.adopt(cluster)

    def _resign(self) -> None:
        """Another server reconciles from now on: nothing that waits here is to be begun, but what every server does for itself."""
        for cluster in self._context.clusters.values():
            self._queue.drop(cluster.name)
        self._look_at_all()

    async def stop(self) -> None:
        self._subscription.close()
        self._queue.shut_down()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._electing is not None:
            self._electing.cancel()
            await asyncio.gather(self._electing, return_exceptions=True)

    def adopt(self, cluster: Cluster) -> None:
        """Look once at everything a cluster has."""
        for index, controller in enumerate(self._controllers):
            found = [*controller.initial_keys(cluster)]
            for key in found if self._runs(index) else ():
                self._queue.add((index, cluster.name, key))

    def forget(self, cluster: str) -> None:
        self._queue.drop(cluster)

    @property
    def backlog(self) -> int:
        return len(self._queue) + self._queue.processing

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            cluster = self._context.clusters.get(event.cluster)
            if cluster is None:
                continue
            for index in (*self._by_resource.get(event.resource, ()), *self._everywhere):
                try:
                    found = [*self._controllers[index].keys(cluster, event)]
                    for key in found if self._runs(index) else ():
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
        cluster = self._context.clusters.get(name)
        if cluster is None or not self._runs(index):
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
