"""How a process of controllers serves: checks and metrics first, its manager until the end, then nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from muster.machinery.metrics import Metrics
from muster.machinery.tasks import RunnableEnded
from muster.runtime.controller.leader_election import LeaderElection
from muster.runtime.controller.manager import Manager, RunnableFunc
from muster.runtime.process.serve import serve
from tests.support.fetching import fetch
from tests.unit.runtime.scripted import ScriptedClient

ANY_PORT = ("127.0.0.1", 0)


class Synced(Manager):
    """Whose caches are complete when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.complete = asyncio.Event()

    async def synced(self) -> None:
        await self.complete.wait()


async def for_ever() -> None:
    await asyncio.Event().wait()


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_checks_of_the_manager_and_metrics_are_served_until_the_end() -> None:
    manager, ports = Manager(), asyncio.Queue[int]()
    manager.add("it", RunnableFunc(for_ever))
    manager.add_live_check("credential", lambda: "expired")
    manager.add_ready_check("caches", lambda: "incomplete")
    metrics = Metrics()
    metrics.counter("asked_total", "Questions").inc()
    task: asyncio.Task[None] = asyncio.create_task(serve(manager, metrics, ANY_PORT, ports.put_nowait))
    port = await asyncio.wait_for(ports.get(), 10)
    assert (await fetch(f"http://127.0.0.1:{port}/livez"))[0] == 500
    assert (await fetch(f"http://127.0.0.1:{port}/readyz/caches"))[0] == 500
    assert (await fetch(f"http://127.0.0.1:{port}/livez/ping"))[0] == 200
    assert b"asked_total 1" in (await fetch(f"http://127.0.0.1:{port}/metrics"))[1]
    await end(task)
    with pytest.raises(OSError, match=str(port)):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_process_may_tell_that_it_is_up_only_when_its_caches_are_complete() -> None:
    manager, ports = Synced(), asyncio.Queue[int]()
    running = asyncio.Event()

    async def run() -> None:
        running.set()
        await for_ever()

    manager.add("it", RunnableFunc(run))
    task: asyncio.Task[None] = asyncio.create_task(serve(manager, Metrics(), ANY_PORT, ports.put_nowait, once_synced=True))
    await asyncio.wait_for(running.wait(), 10)
    assert ports.empty()
    manager.complete.set()
    assert await asyncio.wait_for(ports.get(), 10)
    await end(task)


async def test_what_ends_the_manager_ends_the_process_with_its_name() -> None:
    async def fail() -> None:
        raise RuntimeError("no more")

    manager = Manager()
    manager.add("culprit", RunnableFunc(fail))
    with pytest.raises(RunnableEnded, match="culprit ended: RuntimeError: no more"):
        await serve(manager, Metrics(), ANY_PORT, lambda port: None)


async def test_a_replica_tells_whether_it_leads() -> None:
    def line(leads: int) -> bytes:
        return f'leader_election_master_status{{name="lease"}} {leads}\n'.encode()

    turn = asyncio.Event()

    class Waiting(LeaderElection):
        async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
            await turn.wait()
            await lead()

    manager, metrics, ports, leads = Manager(), Metrics(), asyncio.Queue[int](), asyncio.Event()

    async def work() -> None:
        leads.set()
        await for_ever()

    manager.add("work", RunnableFunc(work))
    election = Waiting(ScriptedClient(), "lease", "default", "one")
    task: asyncio.Task[None] = asyncio.create_task(serve(manager, metrics, ANY_PORT, ports.put_nowait, election=election))
    await asyncio.wait_for(ports.get(), 10)
    assert line(0) in metrics.render()
    turn.set()
    await asyncio.wait_for(leads.wait(), 10)
    assert line(1) in metrics.render()
    await end(task)


async def test_a_process_of_which_nobody_leads_does_not_tell() -> None:
    manager, metrics, ports = Manager(), Metrics(), asyncio.Queue[int]()
    manager.add("webhooks", RunnableFunc(for_ever), needs_leader_election=False)
    election = LeaderElection(ScriptedClient(), "lease", "default", "one")
    task: asyncio.Task[None] = asyncio.create_task(serve(manager, metrics, ANY_PORT, ports.put_nowait, election=election))
    await asyncio.wait_for(ports.get(), 10)
    assert b"leader_election" not in metrics.render()
    await end(task)
