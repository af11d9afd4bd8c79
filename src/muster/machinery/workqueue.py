"""A work queue, as client-go's: each key at most once, failed keys with increasing delay, groups in rotation.

A key is in one of five states: queued (`_groups`, `_full`), delayed (`_timers`), waiting for an idle moment (`_idle`), being
processed (`_processing`), or being processed and dirty (`_dirty` as well), in which case it is queued again afterwards. So no key
is ever processed concurrently and no change is lost.

Keys belong to groups (e.g. the namespace, which is the cluster): groups are served in rotation, and `max_per_group` bounds the
workers of one group, so a cluster with ten thousand changes delays a cluster with one by one turn and not by ten thousand. There is
no global rate limit. Failures delay their own key only.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, Timer
from muster.machinery.metrics import Metrics

K = TypeVar("K", bound=Hashable)


class Closed(Exception):
    """The queue was shut down and is empty."""


class WorkQueue(Generic[K]):
    def __init__(
        self,
        name: str = "queue",
        *,
        group: Callable[[K], Hashable] | None = None,
        max_per_group: int | None = None,
        initial_delay: float = 0.005,
        max_delay: float = 300.0,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        """`on_ready` is for callers without waiting workers: it is called for each added key, and starts a worker with the result
        of `take`; a worker takes its next key when it is done with one."""
        self._on_ready = on_ready
        self._group = group or _one_group
        self._max_per_group = max_per_group
        self._clock = clock
        self._backoff = Backoff(initial_delay, max_delay, jitter=0.2, random=random)
        self._groups: OrderedDict[Hashable, deque[K]] = OrderedDict()
        """Queued keys by group, in the order of the groups' turns; groups at their limit are in `_full` instead, so that the next
        key is found in constant time."""
        self._full: dict[Hashable, deque[K]] = {}
        self._dirty: dict[K, float] = {}
        """Keys to be processed, with the time they were first added. Queued ones are in `_groups` too."""
        self._processing: dict[K, float] = {}
        self._held: dict[Hashable, int] = {}
        self._timers: dict[K, tuple[float, Timer]] = {}
        self._idle: dict[K, Timer] = {}
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._drained = asyncio.Event()
        self._closed = False
        metrics = metrics or Metrics()
        self._adds = metrics.counter("workqueue_adds_total", "Total number of adds handled by workqueue", name=name)
        self._retries = metrics.counter("workqueue_retries_total", "Total number of retries handled by workqueue", name=name)
        self._waited = metrics.histogram(
            "workqueue_queue_duration_seconds", "How long in seconds an item stays in workqueue before being requested", name=name
        )
        self._worked = metrics.histogram(
            "workqueue_work_duration_seconds", "How long in seconds processing an item from workqueue takes", name=name
        )
        metrics.gauge("workqueue_depth", "Current depth of workqueue", lambda: len(self), name=name)
        metrics.gauge(
            "workqueue_unfinished_work_seconds",
            "How many seconds of work has been done that is in progress",
            self._unfinished,
            name=name,
        )
        metrics.gauge(
            "workqueue_longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running",
            self._longest,
            name=name,
        )

    def __len__(self) -> int:
        """The number of queued keys."""
        return sum(map(len, self._groups.values())) + sum(map(len, self._full.values()))

    @property
    def delayed(self) -> int:
        return len(self._timers)

    @property
    def processing(self) -> int:
        return len(self._processing)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def add(self, key: K) -> None:
        if self._closed or key in self._dirty:
            return
        self._adds.inc()
        self._not_idle(key)
        self._dirty[key] = self._clock.monotonic()
        if key not in self._processing:
            self._enqueue(key)
            if self._on_ready is not None:
                self._on_ready()

    def add_when_idle(self, key: K, within: float) -> None:
        """Process the key once nothing else can be processed, and like any other key after `within` seconds; an earlier normal add
        is sufficient."""
        if self._closed or key in self._dirty or key in self._idle:
            return
        self._adds.inc()
        self._idle[key] = self._clock.call_later(within, lambda: self.add(key))
        self._wake()
        if self._on_ready is not None:
            self._on_ready()

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key after this time; of two times, the earlier one is used."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        earlier = self._timers.get(key)
        if earlier is not None:
            if earlier[0] <= due:
                return
            earlier[1].cancel()
        self._timers[key] = (due, self._clock.call_later(seconds, lambda: self._ripe(key)))

    def retry(self, key: K) -> float:
        """Add the key again after a failure, with a delay that grows with its failures. Returns the delay."""
        failures = self._failures[key] = self.failures(key) + 1
        self._retries.inc()
        delay = self._backoff.delay(failures)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key has succeeded: reset its failures."""
        self._failures.pop(key, None)

    def drop(self, group: Hashable) -> None:
        """Remove the group: its queued keys and failures. Keys being processed end normally."""
        self._groups.pop(group, None)
        self._full.pop(group, None)
        for key in self._of(group, self._dirty):
            del self._dirty[key]
        for key in self._of(group, self._timers):
            self._timers.pop(key)[1].cancel()
        for key in self._of(group, self._idle):
            self._not_idle(key)
        for key in self._of(group, self._failures):
            del self._failures[key]

    def take(self) -> K | None:
        """The next key, to be returned by `done`, or None if none can be started now."""
        if not self._groups:
            return self._take_idle()
        group, keys = next(iter(self._groups.items()))
        key = keys.popleft()
        if keys:
            self._groups.move_to_end(group)
        else:
            del self._groups[group]
        self._waited.observe(self._clock.monotonic() - self._dirty.pop(key))
        return self._begin(key)

    async def get(self) -> K:
        """The next key, to be returned by `done`. Raises `Closed` when the queue is shut down and empty."""
        while True:
            key = self.take()
            if key is not None:
                return key
            if self._closed:
                raise Closed
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    # It was notified of a key that another worker must take now.
                    self._wake()
                raise
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def done(self, key: K) -> None:
        began = self._processing.pop(key)
        self._worked.observe(self._clock.monotonic() - began)
        group = self._group(key)
        held = self._held[group] = self._held[group] - 1
        if not held:
            del self._held[group]
        if group in self._full:
            self._groups[group] = self._full.pop(group)
        if key in self._dirty:
            self._enqueue(key)
        elif self._groups.get(group) or self._idle:
            # A worker may have skipped this group at its limit, or this key while it was being processed.
            self._wake()
        if self._closed and not self._processing:
            self._drained.set()

    def shut_down(self) -> None:
        """Accept no more keys; queued ones are dropped (the next start lists everything), workers get `Closed`."""
        self._closed = True
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._groups.clear()
        self._full.clear()
        for timer in self._idle.values():
            timer.cancel()
        self._idle.clear()
        self._dirty.clear()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        if not self._processing:
            self._drained.set()

    async def drained(self) -> None:
        """Wait until the keys being processed at the shutdown are done."""
        await self._drained.wait()

    def _enqueue(self, key: K) -> None:
        if self._closed:
            return
        group = self._group(key)
        waiting = self._groups if self._has_share(group) else self._full
        waiting.setdefault(group, deque()).append(key)
        self._wake()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _take_idle(self) -> K | None:
        for key in self._idle:
            if key not in self._processing and self._has_share(self._group(key)):
                self._not_idle(key)
                return self._begin(key)
        return None

    def _not_idle(self, key: K) -> None:
        timer = self._idle.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _has_share(self, group: Hashable) -> bool:
        return self._max_per_group is None or self._held.get(group, 0) < self._max_per_group

    def _begin(self, key: K) -> K:
        group = self._group(key)
        self._processing[key] = self._clock.monotonic()
        self._held[group] = self._held.get(group, 0) + 1
        if group in self._groups and not self._has_share(group):
            self._full[group] = self._groups.pop(group)
        return key

    def _of(self, group: Hashable, keys: Iterable[K]) -> list[K]:
        return [key for key in keys if self._group(key) == group]

    def _ripe(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _unfinished(self) -> float:
        now = self._clock.monotonic()
        return sum(now - began for began in self._processing.values())

    def _longest(self) -> float:
        now = self._clock.monotonic()
        return max((now - began for began in self._processing.values()), default=0.0)


def _one_group(key: object) -> Hashable:
    return None
