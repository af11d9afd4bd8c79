"""An event recorder that never makes a controller wait.

`event` only queues; a task (`run`) writes. Repeated events become a series of one Event: the second occurrence is written at once,
later ones are counted and written together. Each object has a budget of new Events (a burst, then one every few minutes), and the
queue is bounded: events beyond that are counted in `dropped`. Events are of events.k8s.io/v1; the server serves them as core Events
too.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.machinery.golang.timestamps import format_micro_time
from muster.machinery.logs import get_logger
from muster.machinery.metrics import Metrics
from muster.machinery.objects import Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import EVENTS
from muster.runtime.client.errors import KubeError, NotFound, StatusError, TooManyRequests

log = get_logger("muster.runtime.controller.events")

MAX_WAITING = 1000
MAX_SERIES = 4096
NOTE_BYTES = 1024
SERIES_END = 360.0
"""Seconds without an occurrence after which the next one is a new Event, as in client-go."""
ATTEMPTS = 12
YIELD_TIMEOUT = 2.0
"""The most seconds for which writes of Events wait for more urgent writes."""
_BUSY_POLL_INTERVAL = 0.05


class _EventKey(NamedTuple):
    """Occurrences with equal keys form a series."""

    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    action: str
    note: str


@dataclass
class _Series:
    event: Object
    first: float
    last: float
    last_seen: str
    count: int = 1
    written: int = 0
    """The count that was written; 0 before the Event exists."""
    refresh_at: float = 0.0


class EventRecorder:
    def __init__(
        self,
        client: KubeClient,
        controller: str,
        instance: str,
        *,
        burst: int = 25,
        seconds_per_event: float = 300.0,
        series_interval: float = 60.0,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self._client = client
        self._controller = controller
        self._instance = instance
        self._burst = burst
        self._seconds_per_event = seconds_per_event
        self._series_interval = series_interval
        self._clock = clock
        self._random = random
        self._series: OrderedDict[_EventKey, _Series] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, str, str, str], tuple[float, float]] = OrderedDict()
        self._waiting: OrderedDict[_EventKey, None] = OrderedDict()
        self._stamp = 0
        self._busy: Callable[[], bool] = lambda: False
        self._yields_until: float | None = None
        self._news = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()
        metrics = metrics or Metrics()
        self._dropped = metrics.counter("muster_events_dropped_total", "Events that were not written", controller=controller)

    @property
    def dropped(self) -> int:
        return int(self._dropped.value)

    def event(
        self,
        regarding: Object,
        type: Literal["Normal", "Warning"],
        reason: str,
        note: str,
        *,
        action: str = "",
        related: Object | None = None,
    ) -> None:
        """Record an event about `regarding`, an object with apiVersion, kind and metadata. Never waits."""
        reference = object_reference(regarding)
        note = note.encode()[:NOTE_BYTES].decode(errors="ignore")
        sort = _EventKey(
            reference["kind"],
            reference.get("namespace", ""),
            reference["name"],
            reference.get("uid", ""),
            type,
            reason,
            action or reason,
            note,
        )
        now = self._clock.monotonic()
        series = self._series.get(sort)
        if series is not None and now - series.last < SERIES_END:
            self._repeat(sort, series, now)
            return
        if not self._within_budget(sort[:4], now) or len(self._waiting) >= MAX_WAITING:
            self._dropped.inc()
            return
        moment = format_micro_time(self._clock.now())
        event = self._event(sort, reference, moment)
        if related is not None:
            event["related"] = object_reference(related)
        self._series[sort] = _Series(event, now, now, moment)
        self._series.move_to_end(sort)
        if len(self._series) > MAX_SERIES:
            forgotten, _ = self._series.popitem(last=False)
            self._waiting.pop(forgotten, None)
        self._wake(sort)

    def _repeat(self, sort: _EventKey, series: _Series, now: float) -> None:
        series.count += 1
        series.last, series.last_seen = now, format_micro_time(self._clock.now())
        self._series.move_to_end(sort)
        if sort in self._waiting:
            return
        if now >= series.refresh_at:
            self._wake(sort)
        elif series.count == series.written + 1:
            # The first occurrence that is not written schedules the write, which includes later ones.
            self._clock.call_later(series.refresh_at - now, lambda: self._wake(sort))

    def _wake(self, sort: _EventKey) -> None:
        if sort in self._series:
            self._waiting[sort] = None
            self._written.clear()
            self._news.set()

    def _within_budget(self, regarding: Any, now: float) -> bool:
        tokens, since = self._budgets.get(regarding, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - since) / self._seconds_per_event)
        allowed = tokens >= 1
        self._budgets[regarding] = (tokens - 1 if allowed else tokens, now)
        self._budgets.move_to_end(regarding)
        if len(self._budgets) > MAX_SERIES:
            self._budgets.popitem(last=False)
        return allowed

    def _event(self, sort: _EventKey, reference: Object, moment: str) -> Object:
        # The suffix is the time in nanoseconds in hexadecimal, as in client-go, but never the same twice; long names are truncated.
        self._stamp = max(self._stamp + 1, int(self._clock.now().timestamp() * 1_000_000_000))
        suffix = f"{self._stamp:x}"
        namespace = sort.namespace or "default"
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": f"{sort.name[: 252 - len(suffix)]}.{suffix}", "namespace": namespace},
            "eventTime": moment,
            "type": sort.type,
            "reason": sort.reason[:128],
            "action": sort.action[:128],
            "note": sort.note,
            "regarding": reference,
            "reportingController": self._controller,
            "reportingInstance": self._instance[:128],
        }

    def yield_to(self, busy: Callable[[], bool]) -> None:
        """Do not write Events while `busy()`, for `YIELD_TIMEOUT` seconds at most each time."""
        self._busy = busy

    async def _turn(self) -> None:
        while self._busy():
            now = self._clock.monotonic()
            if self._yields_until is None:
                self._yields_until = now + YIELD_TIMEOUT
            if now >= self._yields_until:
                return
            await sleep(self._clock, _BUSY_POLL_INTERVAL)
        self._yields_until = None

    async def flushed(self) -> None:
        """Wait until the queue is empty."""
        await self._written.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                await self._turn()
                if not self._waiting:
                    break
                # Removed before the write: an occurrence during the write is queued again.
                sort, _ = self._waiting.popitem(last=False)
                series = self._series.get(sort)
                if series is not None:
                    await self._write(sort, series)
            self._written.set()

    async def _write(self, sort: _EventKey, series: _Series) -> None:
        backoff = Backoff(1.0, 60.0, random=self._random)
        for _ in range(ATTEMPTS):
            count = series.count
            try:
                await self._send(series, count)
            except KubeError as error:
                if isinstance(error, StatusError) and not isinstance(error, TooManyRequests) and error.code < 500:
                    log.debug("event refused", regarding=f"{sort.namespace}/{sort.name}", reason=sort.reason, error=str(error))
                    break
                await sleep(self._clock, backoff.next())
            else:
                series.written = count
                # The second occurrence starts the series at once; later ones are collected.
                series.refresh_at = self._clock.monotonic() + (self._series_interval if count > 1 else 0.0)
                return
        self._dropped.inc()
        self._series.pop(sort, None)

    async def _send(self, series: _Series, count: int) -> None:
        repeated = {"count": count, "lastObservedTime": series.last_seen}
        metadata = series.event["metadata"]
        if series.written:
            try:
                await self._client.patch(EVENTS, metadata["name"], {"series": repeated}, metadata["namespace"])
            except NotFound:
                # The server deletes Events after an hour.
                series.written = 0
            else:
                return
        await self._client.create(EVENTS, {**series.event, **({"series": repeated} if count > 1 else {})}, metadata["namespace"])


def object_reference(obj: Object) -> Object:
    metadata = obj["metadata"]
    reference = {
        "apiVersion": obj.get("apiVersion", ""),
        "kind": obj.get("kind", ""),
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
        "resourceVersion": metadata.get("resourceVersion", ""),
    }
    return {key: value for key, value in reference.items() if value or key in ("kind", "name")}
