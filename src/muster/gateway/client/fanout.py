"""Runs the same function for many clusters concurrently: bounded, with a timeout for each, and isolated from each other's
failures.

Results are returned as they become available, one for each cluster, with its value or its error. The cluster is also the current
one (`using_cluster`) while its function runs, and a refusal that it raises is converted to a GatewayError.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, cast

from muster.gateway.client.context import require_cluster_name, using_cluster
from muster.gateway.client.errors import blame
from muster.gateway.client.paths import GATEWAY_API, GatewayApi

T = TypeVar("T")
CLUSTERS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class ClusterResult(Generic[T]):
    """The result of one cluster: either `value` or `error`."""

    cluster: str
    value: T | None = None
    error: Exception | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.error is None

    def unwrap(self) -> T:
        """Returns the value, or raises the error."""
        if self.error is not None:
            raise self.error
        return cast(T, self.value)


async def fanout(
    clusters: Iterable[str],
    ask: Callable[[str], Awaitable[T]],
    *,
    limit: int = CLUSTERS_AT_ONCE,
    timeout: float | None = None,
    api: GatewayApi = GATEWAY_API,
) -> AsyncGenerator[ClusterResult[T], None]:
    """Calls `ask` for every cluster, at most `limit` at once and each for at most `timeout` seconds, after which its error is
    TimeoutError. Closing the iterator cancels the rest."""
    waiting = _names(clusters, limit)
    running: set[asyncio.Task[ClusterResult[T]]] = set()
    try:
        while waiting or running:
            while waiting and len(running) < limit:
                running.add(asyncio.create_task(_ask(waiting.pop(), ask, timeout, api)))
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                yield one.result()
    finally:
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _ask(cluster: str, ask: Callable[[str], Awaitable[T]], timeout: float | None, api: GatewayApi) -> ClusterResult[T]:
    began = time.monotonic()
    try:
        with using_cluster(cluster):
            async with asyncio.timeout(timeout):
                value = await ask(cluster)
    except Exception as error:
        return _failed(cluster, error, began, api)
    return ClusterResult(cluster, value, seconds=time.monotonic() - began)


def fanout_threads(
    clusters: Iterable[str],
    ask: Callable[[str], T],
    *,
    limit: int = CLUSTERS_AT_ONCE,
    timeout: float | None = None,
    api: GatewayApi = GATEWAY_API,
) -> Iterator[ClusterResult[T]]:
    """The same for blocking functions, each in a thread of its own. A thread cannot be cancelled: after its timeout it continues,
    and its result is ignored, so give its client a timeout too."""
    waiting = _names(clusters, limit)
    answers: queue.SimpleQueue[ClusterResult[T]] = queue.SimpleQueue()
    deadlines: dict[str, float] = {}

    def run(cluster: str) -> None:
        began = time.monotonic()
        try:
            with using_cluster(cluster):
                value = ask(cluster)
        except Exception as error:
            answers.put(_failed(cluster, error, began, api))
        else:
            answers.put(ClusterResult(cluster, value, seconds=time.monotonic() - began))

    while waiting or deadlines:
        while waiting and len(deadlines) < limit:
            cluster = waiting.pop()
            deadlines[cluster] = time.monotonic() + (threading.TIMEOUT_MAX if timeout is None else timeout)
            threading.Thread(target=contextvars.copy_context().run, args=(run, cluster), daemon=True).start()
        first = min(deadlines, key=deadlines.__getitem__)
        try:
            answer = answers.get(timeout=min(max(deadlines[first] - time.monotonic(), 0), threading.TIMEOUT_MAX))
        except queue.Empty:
            answer = ClusterResult(first, error=TimeoutError(f"no answer within {timeout:g} s"), seconds=timeout or 0.0)
        if deadlines.pop(answer.cluster, None) is not None:
            yield answer


def _names(clusters: Iterable[str], limit: int) -> list[str]:
    """Without duplicates, in the order of first occurrence."""
    if limit < 1:
        raise ValueError(f"limit: expected at least 1, not {limit}")
    return [require_cluster_name(one) for one in dict.fromkeys(clusters)][::-1]


def _failed(cluster: str, error: Exception, began: float, api: GatewayApi) -> ClusterResult[T]:
    found = blame(cluster, error, api)
    if found is not None and found is not error:
        found.__cause__ = error
    return ClusterResult(cluster, error=found or error, seconds=time.monotonic() - began)
