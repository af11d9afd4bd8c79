"""Ends streams whose caller has lost its permissions, the trust in its CA, or its token.

A change of RBAC names the affected subjects, and only their streams are checked again, a moment later, because changes come in
groups. What no change reports is checked at intervals: tokens, and permissions that another authorizer grants. The expiration of a
certificate is known beforehand and has its own timer (`service.py`).

A denied stream is ended. If the cluster cannot be reached, streams continue, since an outage is no loss of permissions; but after a
change that affects a caller, only for `UNDECIDED_TIMEOUT`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from muster.kube.rbac import Subject
from muster.machinery.clock import SYSTEM, Clock, pause, sleep
from muster.machinery.logs import get_logger
from muster.transport.rpc.status import Code, RpcError
from muster.transport.server.authentication import CallerAuthentication
from muster.transport.server.authorization import Authorization
from muster.transport.server.broker import Broker
from muster.transport.server.subscriber import Subscriber

log = get_logger("muster.transport.server")

COALESCE: Final = 0.2
UNDECIDED_TIMEOUT: Final = 3.0
RETRY_INTERVAL: Final = 0.5
SWEEP_INTERVAL: Final = 30.0
MAX_CONCURRENT_CHECKS: Final = 16


class StreamGuard:
    """Its owner runs `run` as a task."""

    def __init__(
        self, broker: Broker, authentication: CallerAuthentication, authorization: Authorization, *, clock: Clock = SYSTEM
    ) -> None:
        self._broker = broker
        self._authentication = authentication
        self._authorization = authorization
        self._clock = clock
        self._touched: dict[Subscriber, float] = {}
        """Streams to check, and since when their permissions may have changed."""
        self._news = asyncio.Event()
        authorization.on_change(self._changed)

    def recheck_all(self) -> None:
        """The trusted CAs have changed."""
        self._touch(self._broker)

    def _changed(self, subjects: frozenset[Subject]) -> None:
        self._touch(self._broker.of_subjects(subjects))

    def _touch(self, subscribers: Iterable[Subscriber]) -> None:
        now = self._clock.monotonic()
        for subscriber in subscribers:
            self._touched.setdefault(subscriber, now)
            self._news.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_changes())
            tasks.create_task(self._sweep())

    async def _follow_changes(self) -> None:
        while True:
            await pause(self._clock, self._news, RETRY_INTERVAL if self._touched else None)
            await sleep(self._clock, COALESCE)
            touched, self._touched = self._touched, {}
            undecided = await self._check_all(touched)
            now = self._clock.monotonic()
            for subscriber in undecided:
                if now - touched[subscriber] < UNDECIDED_TIMEOUT:
                    self._touched.setdefault(subscriber, touched[subscriber])
                else:
                    _end(subscriber, RpcError(Code.UNAVAILABLE, "the hub cannot find out what the caller may; try again"))

    async def _sweep(self) -> None:
        while True:
            await sleep(self._clock, SWEEP_INTERVAL)
            await self._check_all([one for one in self._broker if self._is_unwatched(one)])

    def _is_unwatched(self, subscriber: Subscriber) -> bool:
        return subscriber.who.not_after is None or not self._authorization.follows_rights_of(subscriber.who.user)

    async def _check_all(self, subscribers: Iterable[Subscriber]) -> list[Subscriber]:
        """End the denied streams. Returns those that could not be checked."""
        undecided: list[Subscriber] = []
        gate = asyncio.Semaphore(MAX_CONCURRENT_CHECKS)

        async def check(subscriber: Subscriber) -> None:
            async with gate:
                try:
                    await self._check(subscriber)
                except RpcError as error:
                    if error.code is Code.UNAVAILABLE:
                        undecided.append(subscriber)
                    else:
                        _end(subscriber, error)

        async with asyncio.TaskGroup() as tasks:
            for subscriber in subscribers:
                if subscriber.error is None:
                    tasks.create_task(check(subscriber))
        return undecided

    async def _check(self, subscriber: Subscriber) -> None:
        found = await self._authentication(subscriber.call)
        if found.user.name != subscriber.who.user.name:
            raise RpcError(Code.UNAUTHENTICATED, "the credential belongs to another user now")
        await self._authorization.subscription(subscriber.who, subscriber.row, subscriber.cluster)


def _end(subscriber: Subscriber, error: RpcError) -> None:
    log.info(
        "stream ended",
        user=subscriber.who.user.name,
        cluster=subscriber.cluster,
        data_type=str(subscriber.row.data_type),
        code=error.code.name,
    )
    subscriber.end(error)
