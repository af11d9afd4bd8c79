"""Runs the built-in controllers of all clusters in one process: one store subscription, one work queue, and workers while there is
work.

A controller names the resources it watches, maps an event to keys, and reconciles a key from the current state. The work queue
deduplicates keys, never processes a key twice at once, and retries a failing key with exponential backoff. Its groups are the
clusters: each has a limit of concurrent keys, there is no common limit, and a worker starts when a key becomes ready. So a cluster
whose webhooks hang delays no other, and idle clusters cost nothing.

If several servers share one database, every server processes all events, because `keys` also maintains in-memory state (served
resources, the owner index), but only the elected leader reconciles. A new leader enqueues everything once; a former one starts
nothing more, and the writes it had started are compared-and-swapped like all others. Controllers that maintain a server's own state
in `reconcile` are passed as `in_every_server`, and write only if the server is the leader.
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
"""Keys of one cluster that are reconciled concurrently."""
_INITIAL_DELAY, _MAX_DELAY = 0.05, 60.0


class Controller(Protocol):
    """One built-in controller, serving every cluster."""

    @property
    def name(self) -> str: ...

    @property
    def resources(self) -> Sequence[str] | None:
        """Stored resources that the controller watches; None for all."""

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        """Keys to reconcile after this event. Called for every write of the resources, so it must be fast."""

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        """Keys to reconcile for the existing state of a cluster."""

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        """Reconcile one key; a returned number is the time in seconds after which to reconcile it again."""


class _Leading(Protocol):
    @property
    def leading(self) -> bool: ...


class ControllerContext(Protocol):
    """What the built-in controllers need of the server: clusters, store, and clients with the server's identity."""

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
        """An object of the bootstrap layer of a cluster."""


Item = tuple[int, str, str]
"""(index of the controller, cluster, key)"""


class ControllerManager:
    def __init__(
        self,
        context: ControllerContext,
        controllers: Sequence[Controller],
        in_every_server: Sequence[Controller] = (),
        election: Election | None = None,
    ) -> None:
        """Without an `election` this server is the only one on its store, and always the leader."""
        self._context = context
        self._controllers = [*in_every_server, *controllers]
        self._without_election = len(in_every_server)
        self._election = election
        self._election_task: asyncio.Task[None] | None = None
        self._for_all_resources = [i for i, c in enumerate(self._controllers) if c.resources is None]
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
        return index < self._without_election or self.leading

    def start(self) -> None:
        self._subscribe()
        if self._election is not None:
            self._election_task = asyncio.create_task(
                self._election.run(self._enqueue_all, self._on_stopped_leading), name="election"
            )

    def _subscribe(self) -> None:
        self._subscription = self._context.store.subscribe(None, None, None, self._on_events, self._on_lost)

    def _on_lost(self) -> None:
        """Events were missed because a database server was behind: enqueue everything again."""
        self._subscribe()
        self._enqueue_all()

    def _enqueue_all(self) -> None:
        for cluster in self._context.clusters.values():
            self.enqueue_cluster(cluster)

    def _on_stopped_leading(self) -> None:
        """Another server is the leader now: drop all queued keys, except those of controllers that run in every server."""
        for cluster in self._context.clusters.values():
            self._queue.drop(cluster.name)
        self._enqueue_all()

    async def stop(self) -> None:
        self._subscription.close()
        self._queue.shut_down()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._election_task is not None:
            self._election_task.cancel()
            await asyncio.gather(self._election_task, return_exceptions=True)

    def enqueue_cluster(self, cluster: Cluster) -> None:
        """Enqueue the initial keys of a cluster for all controllers that run in this server."""
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
            for index in (*self._by_resource.get(event.resource, ()), *self._for_all_resources):
                try:
                    found = [*self._controllers[index].keys(cluster, event)]
                    for key in found if self._runs(index) else ():
                        self._queue.add((index, cluster.name, key))
                except Exception as problem:  # an error in one controller must not keep this and later events from the others
                    name = self._controllers[index].name
                    log.error(
                        "mapping an event to keys failed",
                        controller=name,
                        cluster=cluster.name,
                        key=event.entry.key,
                        exc_info=problem,
                    )

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
            requeue_after = await controller.reconcile(cluster, key)
        except Exception as problem:  # the edge of a reconcile: one object must not stop the others
            delay = self._queue.retry(item)
            level = log.warning if self._queue.failures(item) > 3 else log.debug
            level("reconcile failed", controller=controller.name, cluster=name, key=key, retry_in=delay, problem=repr(problem))
        else:
            self._queue.forget(item)
            if requeue_after is not None:
                self._queue.add_after(item, requeue_after)


def _cluster_of(item: Item) -> str:
    return item[1]
