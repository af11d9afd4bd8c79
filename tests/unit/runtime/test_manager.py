"""A manager runs what is added to it: all or nothing, the elected and the others, and nothing that is switched off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from muster.machinery.tasks import RunnableEnded
from muster.runtime.controller.leader_election import LeaderElection, LeadershipLost, leader_identity
from muster.runtime.controller.manager import Manager, make_controllers


class Idle:
    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.ended = False

    async def run(self) -> None:
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True


class Broken(Idle):
    async def run(self) -> None:
        raise RuntimeError("no more")


class Finished(Idle):
    async def run(self) -> None: ...


class Election(LeaderElection):
    """Held when the test says so."""

    def __init__(self) -> None:
        object.__setattr__(self, "won", asyncio.Event())
        object.__setattr__(self, "lost", asyncio.Event())

    won: asyncio.Event
    lost: asyncio.Event

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        await self.won.wait()
        work = asyncio.ensure_future(lead())
        await asyncio.wait((work, lost := asyncio.ensure_future(self.lost.wait())), return_when=asyncio.FIRST_COMPLETED)
        lost.cancel()
        if work.done():
            work.result()
        work.cancel()
        await asyncio.wait((work,))
        raise LeadershipLost("lease default/test was not renewed")


@asynccontextmanager
async def running(manager: Manager, election: LeaderElection | None = None) -> AsyncIterator[asyncio.Task[None]]:
    task: asyncio.Task[None] = asyncio.create_task(manager.run(election))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_everything_runs_until_the_manager_is_cancelled() -> None:
    manager, one, other = Manager(), Idle(), Idle()
    manager.add("one", one)
    manager.add("other", other, needs_leader_election=False)
    async with running(manager):
        await one.running.wait()
        await other.running.wait()
        assert manager.elected
    assert one.ended
    assert other.ended


@pytest.mark.parametrize(
    ("runnable", "text"), [(Broken, "culprit ended: RuntimeError: no more"), (Finished, "culprit ended by itself")]
)
async def test_one_that_ends_is_named_and_ends_the_others(runnable: type[Idle], text: str) -> None:
    manager, other = Manager(), Idle()
    manager.add("other", other)
    manager.add("culprit", runnable())
    with pytest.raises(RunnableEnded, match=text) as end:
        await manager.run()
    assert end.value.name == "culprit"
    assert other.ended or not other.running.is_set()


def test_of_two_of_a_name_the_second_is_refused() -> None:
    manager = Manager()
    manager.add("webhooks", Idle(), needs_leader_election=False)
    with pytest.raises(ValueError, match="there is a runnable of this name already: webhooks"):
        manager.add("webhooks", Idle())


async def test_of_managers_within_managers_the_innermost_culprit_is_named() -> None:
    inner, outer = Manager(), Manager()
    inner.add("culprit", Broken())
    outer.add("inner", inner)
    with pytest.raises(RunnableEnded, match=r"^culprit ended"):
        await outer.run()


async def test_only_what_needs_no_election_runs_before_this_replica_is_elected() -> None:
    manager, election, webhooks, controller = Manager(), Election(), Idle(), Idle()
    manager.add("webhooks", webhooks, needs_leader_election=False)
    manager.add("controller", controller)
    manager.add_ready_check("works", lambda: "not yet", once_elected=True)
    async with running(manager, election) as task:
        await webhooks.running.wait()
        assert not controller.running.is_set()
        assert manager.ready_checks["works"]() is None
        election.won.set()
        await controller.running.wait()
        assert manager.ready_checks["works"]() == "not yet"
        election.lost.set()
        with pytest.raises(LeadershipLost, match="was not renewed"):
            await task
    assert controller.ended
    assert webhooks.ended


async def test_an_elected_one_that_ends_is_named() -> None:
    manager, election = Manager(), Election()
    manager.add("culprit", Broken())
    election.won.set()
    with pytest.raises(RunnableEnded, match="culprit ended: RuntimeError"):
        await manager.run(election)


async def test_nobody_is_elected_where_nothing_needs_it() -> None:
    manager, webhooks = Manager(), Idle()
    manager.add("webhooks", webhooks, needs_leader_election=False)
    async with running(manager, Election()):
        await webhooks.running.wait()
        assert manager.elected


def test_a_controller_that_is_switched_off_is_not_made() -> None:
    made: list[str] = []

    def make(context: str) -> Idle:
        made.append(context)
        return Idle()

    assert list(make_controllers({"one": make, "other": make}, "context", {"other"})) == ["one"]
    assert made == ["context"]


def test_a_controller_that_is_not_there_cannot_be_switched_off() -> None:
    with pytest.raises(ValueError, match="no such controller: thrid; there are first, third"):
        make_controllers({"first": lambda _: Idle(), "third": lambda _: Idle()}, None, {"thrid"})


def test_a_leader_is_known_by_its_pod_and_by_chance_elsewhere() -> None:
    assert leader_identity({"POD_NAME": "hub-1-abc"}) == "hub-1-abc"
    assert leader_identity({}) != leader_identity({})
