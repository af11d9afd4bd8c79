"""Tracks one request for a cluster for the audit log and the metrics, from its arrival to the last byte of its answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from muster.apiserver.audit import CLIENT_CLOSED_REQUEST, INTERNAL_ERROR
from muster.gateway.audit import AuditedRequest
from muster.gateway.metrics import GatewayMetrics
from muster.http import Answer, Response, Takeover
from muster.kube.request_info import RequestInfo

SWITCHED: Final = 101


class RequestTracker:
    """Records the end of the request once, however it ends."""

    __slots__ = ("_audited", "_began", "_cluster", "_ended", "_inner", "_metrics", "_open")

    def __init__(self, audited: AuditedRequest, metrics: GatewayMetrics, cluster: str, inner: RequestInfo) -> None:
        self._audited = audited
        self._metrics = metrics
        self._cluster = cluster
        self._inner = inner
        self._began = time.monotonic()
        self._ended = False
        self._open = False

    def track(self, answer: Answer) -> Answer:
        """Returns the same answer; a streamed answer ends the request when it ends itself."""
        if isinstance(answer, Response):
            self._end(answer.status)
            return answer
        code = SWITCHED if isinstance(answer, Takeover) else answer.status
        if isinstance(answer, Takeover) or self._inner.verb == "watch" or self._inner.subresource == "log":
            self._open = True
            self._audited.started(code)
        answer.run = self._end_after(answer.run, code)
        answer.discard = self._end_on_discard(answer.discard)
        return answer

    def failed(self, problem: BaseException) -> None:
        self._end(CLIENT_CLOSED_REQUEST if isinstance(problem, asyncio.CancelledError) else INTERNAL_ERROR)

    def _end_after(self, run: Callable[[Any], Awaitable[None]], code: int) -> Callable[[Any], Awaitable[None]]:
        async def followed(connection: Any) -> None:
            try:
                await run(connection)
            finally:
                self._end(code)

        return followed

    def _end_on_discard(self, discard: Callable[[], None] | None) -> Callable[[], None]:
        def discarded() -> None:
            self._end(CLIENT_CLOSED_REQUEST)
            if discard is not None:
                discard()

        return discarded

    def _end(self, code: int) -> None:
        if self._ended:
            return
        self._ended = True
        # The duration of a watch says nothing about the latency of the gateway.
        seconds = None if self._open else time.monotonic() - self._began
        self._metrics.answered(self._cluster, self._inner, code, seconds)
        self._audited.ended(code)
