"""Readiness tells whether the hub's API answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from muster.runtime.client import Forbidden, KubeClient, KubeError, StatusError, Unreachable
from muster.runtime.client.delegating_client import DelegatingClient
from muster.transport.server.hub_check import ANSWERED_WITHIN, CHECK_INTERVAL, RETRY_INTERVAL, HubCheck
from tests.support.fake_clock import FakeClock


class Asked(DelegatingClient):
    """A hub that answers, fails or says nothing, as a test wants it."""

    def __init__(self) -> None:
        self.failure: KubeError | None = None
        self.silent = False
        self.asked = 0

    @property
    def server(self) -> str:
        return "https://hub.example"

    async def server_version(self) -> str:
        self.asked += 1
        if self.silent:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure
        return "v1.36.0"


@asynccontextmanager
async def checking(hub: KubeClient, clock: FakeClock) -> AsyncIterator[HubCheck]:
    check = HubCheck(hub, clock=clock)
    task = asyncio.create_task(check.run())
    try:
        await clock.advance(0)
        yield check
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_hub_that_goes_and_comes_back_is_noticed() -> None:
    hub, clock = Asked(), FakeClock()
    async with checking(hub, clock) as check:
        assert check.problem() is None
        hub.failure = Unreachable(hub.server, "connection refused")
        await clock.advance(CHECK_INTERVAL)
        assert "connection refused" in (check.problem() or "")
        hub.failure = None
        await clock.advance(RETRY_INTERVAL)
        assert check.problem() is None


async def test_a_hub_that_says_nothing_is_away() -> None:
    hub, clock = Asked(), FakeClock()
    async with checking(hub, clock) as check:
        hub.silent = True
        await clock.advance(CHECK_INTERVAL)
        assert check.problem() is None, "it may be slow"
        await clock.advance(ANSWERED_WITHIN)
        assert "not answered" in (check.problem() or "")
        hub.silent = False
        await clock.advance(RETRY_INTERVAL)
        assert check.problem() is None


async def test_a_hub_that_refuses_is_there_and_one_that_fails_is_not() -> None:
    hub, clock = Asked(), FakeClock()
    async with checking(hub, clock) as check:
        hub.failure = Forbidden(403, "Forbidden", "not for you")
        await clock.advance(CHECK_INTERVAL)
        assert check.problem() is None
        hub.failure = StatusError(500, "InternalError", "etcd is gone")
        await clock.advance(CHECK_INTERVAL)
        assert "etcd is gone" in (check.problem() or "")


async def test_a_hub_that_is_well_is_asked_now_and_then_only() -> None:
    hub, clock = Asked(), FakeClock()
    async with checking(hub, clock):
        await clock.advance(60)
    assert hub.asked <= 60 / CHECK_INTERVAL + 1
