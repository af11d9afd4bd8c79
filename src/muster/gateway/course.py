"""The course of one request for a cluster, as audit log and metrics see it: from its arrival to its answer's last byte."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from muster.apiserver.audit import FAILED, HUNG_UP
from muster.gateway.audit import AuditedRequest
from muster.gateway.metrics import GatewayMetrics
from muster.http import Answer, Response, Takeover
from muster.kube.request_info import RequestInfo

SWITCHED: Final = 101


class Course:
    """Ends once, however it ends."""

    __slots__ = ("_audited", "_began", "_cluster", "_ended", "_inner", "_metrics", "_open")

    def __init__(self, audited: AuditedRequest, metrics: GatewayMetrics, cluster: str, inner: RequestInfo) -> None:
        self._audited = audited
        self._metrics = metrics
        self._cluster = cluster
        self._inner = inner
        self._began = time.monotonic()
        self._ended = False
        self._open = False

    def answered(self, answer: Answer) -> Answer:
        """The same answer; where it goes on for a while, its end is the course's."""
        if isinstance(answer, Response):
            self._end(answer.status)
            return answer
        code = SWITCHED if isinstance(answer, Takeover) else answer.status
        if isinstance(answer, Takeover) or self._inner.verb == "watch" or self._inner.subresource == "log":
            self._open = True
            self._audited.started(code)
        answer.run = self._to_the_end(answer.run, code)
        answer.discard = self._discarded(answer.discard)
        return answer

    def broken(self, problem: BaseException) -> None:
        self._end(HUNG_UP if isinstance(problem, asyncio.CancelledError) else FAILED)

    def _to_the_end(self, run: Callable[[Any], Awaitable[None]], code: int) -> Callable[[Any], Awaitable[None]]:
        async def followed(connection: Any) -> None:
            try:
                await run(connection)
            finally:
                self._end(code)

        return followed

    def _discarded(self, discard: Callable[[], None] | None) -> Callable[[], None]:
        def discarded() -> None:
            self._end(HUNG_UP)
            if discard is not None:
                discard()

        return discarded

    def _end(self, code: int) -> None:
        if self._ended:
            return
        self._ended = True
        # How long somebody watched says nothing of how quick the gateway is.
        seconds = None if self._open else time.monotonic() - self._began
        self._metrics.answered(self._cluster, self._inner, code, seconds)
        self._audited.ended(code)
