"""A controller: watched changes become keys, and `reconcile(key)` brings the actual state to the desired one.

Reconciliation is level-based: a key names an object, never what happened to it; the function reads the current state from caches
and must be idempotent. It may return the seconds after which it is to be called again. It never runs concurrently for one key. If
it raises, that key is retried with increasing delay; `Stop` means that retries are pointless until something changes. The cause of
a failure is logged as an error once, and again when it changes; further failures are logged at debug level, and counted. A
reconcile that hangs is cancelled after `timeout` and counts as failed, so a bad object costs one worker for that long at most, and
`max_per_group` keeps a group of keys from taking all workers.

Workers start when the watched caches are synced. `run` ends when cancelled or after `stop`: no new key is started, running
reconciles have `grace` seconds to finish, then they are cancelled.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.logs import get_logger
from muster.machinery.metrics import Counter, Metrics
from muster.machinery.workqueue import Closed, WorkQueue
from muster.runtime.cache.informer import Informer
from muster.runtime.client.errors import Conflict, TooManyRequests, Unreachable

log = get_logger("muster.runtime.controller.controller")

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Reconcile = Callable[[K], Awaitable[float | None]]

WORKERS: Final = 8
RECONCILE_TIMEOUT: Final = 120.0
SHUTDOWN_GRACE: Final = 10.0
"""Seconds that reconciles have to finish when a controller ends."""
MAX_DELAY: Final = 300.0
"""The longest delay in seconds before a failing key is retried."""
_ORDINARY: Final = {Conflict: 5, TooManyRequests: 10, Unreachable: 5}
"""Failures in a row from which on these errors are logged. A throttling server names a second, in which a key is tried eight times;
unreachable servers are logged by informers."""


class Stop(Exception):
    """Retries will not help until the object changes: the error is logged, and the key is not retried."""


class Controller(Generic[K]):
    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        workers: int = WORKERS,
        group: Callable[[K], Hashable] | None = None,
        max_per_group: int | None = None,
        timeout: float | None = RECONCILE_TIMEOUT,
        grace: float = SHUTDOWN_GRACE,
        max_delay: float = MAX_DELAY,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._workers = workers
        self._timeout = timeout
        self._grace = grace
        self._clock = clock
        self._informers: list[Informer[Any]] = []
        self._stop = asyncio.Event()
        self._reported: dict[K, str] = {}
        """By key: the cause of its failure, as it was logged."""
        metrics = metrics or Metrics()
        self.queue: WorkQueue[K] = WorkQueue(
            name, group=group, max_per_group=max_per_group, max_delay=max_delay, metrics=metrics, clock=clock, random=random
        )
        self._results: dict[str, Counter] = {
            result: metrics.counter(
                "controller_runtime_reconcile_total",
                "Total number of reconciliations per controller",
                controller=name,
                result=result,
            )
            for result in ("success", "error", "requeue_after", "terminal")
        }
        self._errors = metrics.counter(
            "controller_runtime_reconcile_errors_total", "Total number of reconciliation errors per controller", controller=name
        )
        self._durations = metrics.histogram(
            "controller_runtime_reconcile_time_seconds", "Length of time per reconciliation per controller", controller=name
        )
        metrics.gauge(
            "controller_runtime_active_workers",
            "Number of currently used workers per controller",
            lambda: self.queue.processing,
            controller=name,
        )
        metrics.gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles per controller",
            lambda: workers,
            controller=name,
        )

    def watch(self, informer: Informer[T], keys: Callable[[T], Iterable[K]]) -> None:
        """Every change of an object enqueues the keys of its old and its new state."""

        def enqueue(old: T | None, new: T | None) -> None:
            for side in (old, new):
                if side is not None:
                    for key in keys(side):
                        self.queue.add(key)

        self._informers.append(informer)
        informer.on_change(enqueue)

    def depend(self, informer: Informer[Any]) -> None:
        """Start only when this cache is synced too; the caller handles its changes."""
        self._informers.append(informer)

    def enqueue(self, key: K) -> None:
        self.queue.add(key)

    def enqueue_after(self, key: K, seconds: float) -> None:
        """Enqueue the key after this time, or keep an earlier retry."""
        self.queue.add_after(key, seconds)

    @property
    def crowded(self) -> bool:
        """Whether keys wait for a worker."""
        return len(self.queue) > 0

    def enqueue_when_idle(self, key: K, within: float) -> None:
        """Enqueue the key once no other key waits for a worker, and after `within` seconds at the latest."""
        self.queue.add_when_idle(key, within)

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        try:
            await self._until_stopped(self._synced())
            workers = [
                asyncio.create_task(self._work(), name=f"{self.name}-{number}")
                for number in range(0 if self._stop.is_set() else self._workers)
            ]
            try:
                await self._stop.wait()
            finally:
                self.queue.shut_down()
                await self._end(workers)
        finally:
            self.queue.shut_down()

    async def _synced(self) -> None:
        for informer in self._informers:
            await informer.synced()

    async def _until_stopped(self, waiting: Awaitable[None]) -> None:
        tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(self._stop.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def _end(self, workers: list[asyncio.Task[None]]) -> None:
        if not workers:
            return
        _, late = await asyncio.wait(workers, timeout=self._grace)
        for worker in late:
            worker.cancel()
        if late:
            await asyncio.wait(late)

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except Closed:
                return
            try:
                await self._once(key)
            finally:
                self.queue.done(key)

    async def _once(self, key: K) -> None:
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._timeout):
                again = await self._reconcile(key)
        except Stop as error:
            self._results["terminal"].inc()
            self._errors.inc()
            self._forget(key)
            log.error("reconcile gave up", controller=self.name, key=str(key), error=str(error))
        except Exception as error:
            self._failed(key, error)
        else:
            self._forget(key)
            self._results["success" if again is None else "requeue_after"].inc()
            if again is not None:
                self.queue.add_after(key, again)
        finally:
            self._durations.observe(self._clock.monotonic() - began)

    def _forget(self, key: K) -> None:
        """Drop the failures of a key and their cause."""
        self.queue.forget(key)
        self._reported.pop(key, None)

    def _failed(self, key: K, error: Exception) -> None:
        self._results["error"].inc()
        self._errors.inc()
        delay = self.queue.retry(key)
        failures = self.queue.failures(key)
        ordinary = failures < next((limit for kind, limit in _ORDINARY.items() if isinstance(error, kind)), 0)
        text = f"no end within {self._timeout:g} s" if isinstance(error, TimeoutError) and not str(error) else str(error)
        problem = f"{type(error).__name__}: {text}"
        write = log.debug if ordinary or self._reported.get(key) == problem else log.error
        if not ordinary:
            self._reported[key] = problem
        write(
            "reconcile failed",
            controller=self.name,
            key=str(key),
            error=problem,
            failures=failures,
            again_in=round(delay, 3),
        )
