"""A request in flight: accounting, filtering of the cluster's answer, and abortion.

A request is aborted when the cluster is removed from the gateway, or when its user has lost access. Then the connections to the
cluster and to the client are both closed abruptly: a regular end would look like a complete answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from muster.apiserver.errors import ApiError
from muster.gateway import refusals
from muster.gateway.names import COMPONENT
from muster.gateway.relay.errors import ClusterError, problem_of
from muster.gateway.relay.headers import answer_fields
from muster.gateway.relay.limits import ClusterLoad, RequestKind
from muster.gateway.target import (
    CLUSTER_BROKEN,
    CLUSTER_REDIRECTED,
    CLUSTER_TIMEOUT,
    CREDENTIAL_REFUSED,
    BearerToken,
    Observer,
    Problem,
    Target,
)
from muster.http import Answer, RawConnection, Response, StreamResponse, StreamWriter, UpstreamError
from muster.http.upstream import AnswerHead

T = TypeVar("T")
StillAllowed = Callable[[], Awaitable[bool]]
"""Whether the user of the request still has access."""
_SWITCHED: Final = 101
_FORBIDDEN: Final = 403
_BACKEND_CAUSES: Final = frozenset({CLUSTER_BROKEN, CLUSTER_REDIRECTED, CLUSTER_TIMEOUT, CREDENTIAL_REFUSED})


class Traffic(Protocol):
    """Counts requests and bytes to clusters."""

    def began(self, cluster: str, kind: str) -> None: ...

    def ended(self, cluster: str, kind: str) -> None: ...

    def sent(self, cluster: str, size: int) -> None:
        """Bytes of bodies and upgraded connections, sent to the cluster."""
        ...

    def received(self, cluster: str, size: int) -> None: ...


class NoTraffic:
    """Traffic that is not counted."""

    def began(self, cluster: str, kind: str) -> None: ...

    def ended(self, cluster: str, kind: str) -> None: ...

    def sent(self, cluster: str, size: int) -> None: ...

    def received(self, cluster: str, size: int) -> None: ...


class RequestAborted(Exception):
    """An answer that had begun was aborted."""


class InFlightRequest:
    """Begins when a request is admitted, and ends once, with the last byte of its answer.

    `backend` says that the cluster proxies the request to a workload. Its author can make it redirect, refuse or break off, which
    says nothing about the cluster's health. `in_flight` are all requests to the cluster, including this one until it ends;
    long-running requests have `still_allowed`.
    """

    __slots__ = (
        "_backend",
        "_cancelled",
        "_cluster",
        "_ended",
        "_in_flight",
        "_kind",
        "_load",
        "_observer",
        "_protocol",
        "_refusal",
        "_task",
        "_traffic",
        "still_allowed",
        "target",
        "user",
    )

    def __init__(
        self,
        target: Target,
        kind: RequestKind,
        user: str,
        load: ClusterLoad,
        traffic: Traffic,
        observer: Observer,
        *,
        protocol: str,
        backend: bool,
        in_flight: set[InFlightRequest],
        still_allowed: StillAllowed | None = None,
    ) -> None:
        self.target = target
        self._backend = backend
        self._cluster = target.cluster
        self._kind = kind
        self.user = user
        self.still_allowed = still_allowed
        self._protocol = protocol
        self._load = load
        self._traffic = traffic
        self._observer = observer
        self._ended = False
        self._refusal: ApiError | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False
        """Whether `abort` has cancelled the task."""
        self._in_flight = in_flight
        in_flight.add(self)
        traffic.began(target.cluster, kind)

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._in_flight.discard(self)
            self._load.release(self._kind, self.user)
            self._traffic.ended(self._cluster, self._kind)

    def abort(self, refusal: ApiError) -> None:
        """End the request now. `refusal` is for a client that has no answer yet."""
        if not self._ended and self._refusal is None:
            self._refusal = refusal
            if self._task is not None:
                self._cancelled = True
                self._task.cancel()

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`; raises the refusal if the request is aborted before that."""
        try:
            return await self._run_unless_aborted(work)
        except RequestAborted:
            assert self._refusal is not None, "set by abort"
            raise self._refusal from None

    async def _run_unless_aborted(self, work: Callable[[], Awaitable[T]], discard: Callable[[], None] | None = None) -> T:
        """`discard` is called if `work` is never started.

        Distinguishes its own cancellation from others as `asyncio.timeout` does, but without a timer: every request comes here,
        and few are aborted.
        """
        if self._refusal is not None:
            if discard is not None:
                discard()
            raise RequestAborted(self._refusal.message)
        self._task = task = asyncio.current_task()
        assert task is not None, "a request is served by a task"
        before = task.cancelling()
        try:
            return await work()
        except asyncio.CancelledError:
            if not self._cancelled or task.cancelling() > before + 1:
                raise
            assert self._refusal is not None, "only abort cancels"
            raise RequestAborted(self._refusal.message) from None
        finally:
            self._task = None
            if self._cancelled:
                self._cancelled = False
                task.uncancel()

    def failed(self, problem: Problem) -> None:
        if not (self._backend and problem.cause in _BACKEND_CAUSES):
            self._observer.failed(self.target, problem)

    # Meter of http.relay

    def sent(self, size: int) -> None:
        self._traffic.sent(self._cluster, size)

    def received(self, size: int) -> None:
        self._traffic.received(self._cluster, size)

    def review(self, head: AnswerHead) -> None:
        """Raises ClusterError for an answer that must not be passed on."""
        target, status = self.target, head.status
        if status == _SWITCHED and (head.field("upgrade") or "").lower() != self._protocol:
            raise ClusterError(Problem(CLUSTER_BROKEN, "the cluster switched to another protocol than the requested one"))
        if 300 <= status < 400 and head.field("location") is not None:
            text = "the cluster answered with a redirect, which is not followed: set its endpoint to the address of its API server"
            raise ClusterError(Problem(CLUSTER_REDIRECTED, text))
        credential = target.credential
        head.fields = answer_fields(head.fields, credential.token if isinstance(credential, BearerToken) else "")
        if status == _FORBIDDEN:
            head.fields.append(refusals.warning(_identity(target)))

    def track(self, answer: Answer) -> Answer:
        """Returns the same answer; its end ends the request."""
        if isinstance(answer, Response):
            self.end()
        else:
            if isinstance(answer, StreamResponse):
                answer.run = self._end_after_stream(answer.run, answer.discard)
            else:
                answer.run = self._end_after_splice(answer.run, answer.discard)
            answer.discard = self._end_on_discard(answer.discard)
        return answer

    def _end_on_discard(self, discard: Callable[[], None] | None) -> Callable[[], None]:
        def discarded() -> None:
            self.end()
            if discard is not None:
                discard()

        return discarded

    def _end_after_stream(
        self, stream: Callable[[StreamWriter], Awaitable[None]], discard: Callable[[], None] | None
    ) -> Callable[[StreamWriter], Awaitable[None]]:
        async def run(writer: StreamWriter) -> None:
            try:
                await self._run_unless_aborted(lambda: stream(writer), discard)
            except UpstreamError as error:
                self.failed(problem_of(error, self.target))
                raise
            finally:
                self.end()

        return run

    def _end_after_splice(
        self, splice: Callable[[RawConnection], Awaitable[None]], discard: Callable[[], None] | None
    ) -> Callable[[RawConnection], Awaitable[None]]:
        async def run(connection: RawConnection) -> None:
            try:
                await self._run_unless_aborted(lambda: splice(connection), discard)
            finally:
                self.end()

        return run


def _identity(target: Target) -> str:
    account = f"the account {target.account}" if target.account else "the gateway's account"
    return f'{COMPONENT}: cluster "{target.cluster}" itself refused this request, which was made there as {account}'
