"""One request on its way: what is counted while it lasts, what of the cluster's answer is let through, and how it is cut.

A passage is cut when the cluster is taken from the gateway, or the right from whoever asked. Then the connection to the cluster and
the one to the client are torn, wherever they wait: an end that looked like the answer's own would pass for the whole of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from muster.apiserver.errors import ApiError
from muster.gateway import refusals
from muster.gateway.names import COMPONENT
from muster.gateway.relay.headers import answer_fields
from muster.gateway.relay.limits import Kind, Load
from muster.gateway.relay.problems import ClusterProblem, problem_of
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
StillGranted = Callable[[], Awaitable[bool]]
"""Whether whoever asked may still have what they asked for."""
_SWITCHED: Final = 101
_FORBIDDEN: Final = 403
_BACKENDS_OWN: Final = frozenset({CLUSTER_BROKEN, CLUSTER_REDIRECTED, CLUSTER_TIMEOUT, CREDENTIAL_REFUSED})


class Traffic(Protocol):
    """Counts what passes to clusters."""

    def began(self, cluster: str, kind: str) -> None: ...

    def ended(self, cluster: str, kind: str) -> None: ...

    def sent(self, cluster: str, size: int) -> None:
        """Bytes of bodies and upgraded connections, to the cluster."""
        ...

    def received(self, cluster: str, size: int) -> None: ...


class Uncounted:
    """Traffic that nobody wants to know of."""

    def began(self, cluster: str, kind: str) -> None: ...

    def ended(self, cluster: str, kind: str) -> None: ...

    def sent(self, cluster: str, size: int) -> None: ...

    def received(self, cluster: str, size: int) -> None: ...


class PassageCut(Exception):
    """An answer that had begun may not go on."""


class Passage:
    """Begins when a request is let in, and ends once, with the last byte of its answer.

    `backend` says that the cluster passes the request on to something that runs there. Whoever runs it can make it redirect, refuse
    or break off, and none of that speaks against the cluster. `under_way` are all to the cluster, this one among them until it
    ends; `still_granted` is there for those that last."""

    __slots__ = (
        "_backend",
        "_cancelled",
        "_cluster",
        "_cut",
        "_ended",
        "_kind",
        "_load",
        "_observer",
        "_protocol",
        "_task",
        "_traffic",
        "_under_way",
        "still_granted",
        "target",
        "user",
    )

    def __init__(
        self,
        target: Target,
        kind: Kind,
        user: str,
        load: Load,
        traffic: Traffic,
        observer: Observer,
        *,
        protocol: str,
        backend: bool,
        under_way: set[Passage],
        still_granted: StillGranted | None = None,
    ) -> None:
        self.target = target
        self._backend = backend
        self._cluster = target.cluster
        self._kind = kind
        self.user = user
        self.still_granted = still_granted
        self._protocol = protocol
        self._load = load
        self._traffic = traffic
        self._observer = observer
        self._ended = False
        self._cut: ApiError | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False
        """The task, by a cut."""
        self._under_way = under_way
        under_way.add(self)
        traffic.began(target.cluster, kind)

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._under_way.discard(self)
            self._load.leave(self._kind, self.user)
            self._traffic.ended(self._cluster, self._kind)

    def cut(self, refusal: ApiError) -> None:
        """End it now. `refusal` is for a client that has no answer yet."""
        if not self._ended and self._cut is None:
            self._cut = refusal
            if self._task is not None:
                self._cancelled = True
                self._task.cancel()

    async def answered(self, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` gives; raises the refusal if the passage is cut before that."""
        try:
            return await self._until_cut(work)
        except PassageCut:
            assert self._cut is not None, "by this"
            raise self._cut from None

    async def _until_cut(self, work: Callable[[], Awaitable[T]], discard: Callable[[], None] | None = None) -> T:
        """`discard` is called if `work` is not even begun.

        As `asyncio.timeout` tells its own cancellation from others', without what a timer has beside that: this is the way of every
        request, and hardly any is cut."""
        if self._cut is not None:
            if discard is not None:
                discard()
            raise PassageCut(self._cut.message)
        self._task = task = asyncio.current_task()
        assert task is not None, "requests are served by tasks"
        before = task.cancelling()
        try:
            return await work()
        except asyncio.CancelledError:
            if not self._cancelled or task.cancelling() > before + 1:
                raise
            assert self._cut is not None, "or nothing would have been cancelled"
            raise PassageCut(self._cut.message) from None
        finally:
            self._task = None
            if self._cancelled:
                self._cancelled = False
                task.uncancel()

    def failed(self, problem: Problem) -> None:
        if not (self._backend and problem.cause in _BACKENDS_OWN):
            self._observer.failed(self.target, problem)

    # As http.relay's meter

    def sent(self, size: int) -> None:
        self._traffic.sent(self._cluster, size)

    def received(self, size: int) -> None:
        self._traffic.received(self._cluster, size)

    def review(self, head: AnswerHead) -> None:
        """Raises ClusterProblem for an answer that is not to be passed on."""
        target, status = self.target, head.status
        if status == _SWITCHED and (head.field("upgrade") or "").lower() != self._protocol:
            raise ClusterProblem(Problem(CLUSTER_BROKEN, "the cluster switched to another protocol than was asked for"))
        if 300 <= status < 400 and head.field("location") is not None:
            text = (
                "the cluster answered with a redirection, which is not followed: set its endpoint to the address of its API server"
            )
            raise ClusterProblem(Problem(CLUSTER_REDIRECTED, text))
        credential = target.credential
        head.fields = answer_fields(head.fields, credential.token if isinstance(credential, BearerToken) else "")
        if status == _FORBIDDEN:
            head.fields.append(refusals.warning(_identity(target)))

    def attend(self, answer: Answer) -> Answer:
        """The same answer, whose end is the end of the passage."""
        if isinstance(answer, Response):
            self.end()
        else:
            if isinstance(answer, StreamResponse):
                answer.run = self._streaming(answer.run, answer.discard)
            else:
                answer.run = self._spliced(answer.run, answer.discard)
            answer.discard = self._when_discarded(answer.discard)
        return answer

    def _when_discarded(self, discard: Callable[[], None] | None) -> Callable[[], None]:
        def discarded() -> None:
            self.end()
            if discard is not None:
                discard()

        return discarded

    def _streaming(
        self, stream: Callable[[StreamWriter], Awaitable[None]], discard: Callable[[], None] | None
    ) -> Callable[[StreamWriter], Awaitable[None]]:
        async def run(writer: StreamWriter) -> None:
            try:
                await self._until_cut(lambda: stream(writer), discard)
            except UpstreamError as error:
                self.failed(problem_of(error, self.target))
                raise
            finally:
                self.end()

        return run

    def _spliced(
        self, splice: Callable[[RawConnection], Awaitable[None]], discard: Callable[[], None] | None
    ) -> Callable[[RawConnection], Awaitable[None]]:
        async def run(connection: RawConnection) -> None:
            try:
                await self._until_cut(lambda: splice(connection), discard)
            finally:
                self.end()

        return run


def _identity(target: Target) -> str:
    account = f"the account {target.account}" if target.account else "the gateway's account"
    return f'{COMPONENT}: cluster "{target.cluster}" itself refused this request, which was made there as {account}'
