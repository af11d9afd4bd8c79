"""A local fleet follows its record: clusters join and leave by themselves, one that fails harms itself alone and is tried again."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.administration.errors import AdministrationError
from muster.administration.progress import Progress
from muster.fleet.local.directory import Fleet, FleetDirectory
from muster.fleet.local.fleet import LocalFleet
from muster.fleet.local.membership import Site
from muster.fleet.local.status import FleetStatus, read_status
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock, settle
from tests.support.processes import free_ports


class FakeSteps:
    """Notes the steps; `trouble` is what befalls a cluster's (or the hub's) next attempts."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.trouble: dict[str, list[Exception]] = {}
        self.held: dict[str, asyncio.Event] = {}
        self.initialized = False
        self.joined: set[str] = set()
        self.accepting: asyncio.Event | None = None
        """Until when clusters wait to be accepted."""
        self.offered: asyncio.Event | None = None
        """Until when the hub has no gateway to enable."""
        self.enable_trouble: list[Exception] = []

    def _step(self, step: str, name: str) -> None:
        self.taken.append(f"{step} {name}")
        if self.trouble.get(name):
            raise self.trouble[name].pop(0)

    async def is_initialized(self, hub: Site) -> bool:
        return self.initialized

    async def initialize(self, hub: Site, auth: str, progress: Progress) -> None:
        self._step("initialize", hub.name)
        self.initialized = True

    async def await_initialized(self, hub: Site, since: datetime, progress: Progress) -> None:
        self._step("await", hub.name)

    async def await_leaders(self, hub: Site, leases: Mapping[str, str], since: datetime, progress: Progress) -> None:
        self._step("await leaders of", hub.name)

    async def has_joined(self, hub: Site, cluster: Site) -> bool:
        return cluster.name in self.joined

    async def join(self, hub: Site, cluster: Site, auth: str, progress: Progress) -> None:
        self._step("join", cluster.name)
        if cluster.name in self.held:
            progress.waiting(f"managed cluster {cluster.name}", "it is held")
            await self.held[cluster.name].wait()

    async def accept(self, hub: Site, name: str, progress: Progress) -> None:
        self._step("accept", name)
        if self.accepting is not None:
            progress.waiting(f"managed cluster {name}", "its agent has not come back")
            await self.accepting.wait()
        self.joined.add(name)

    async def await_available(self, hub: Site, name: str, since: datetime, progress: Progress) -> None:
        self._step("await", name)

    async def enable_gateway(self, hub: Site, name: str, progress: Progress) -> None:
        self._step("enable gateway of", name)
        if self.enable_trouble:
            raise self.enable_trouble.pop(0)
        while self.offered is not None and not self.offered.is_set():
            progress.waiting("addon", "not offered yet")
            await asyncio.sleep(0)

    async def await_gateway(self, hub: Site, name: str, progress: Progress) -> None:
        self._step("await gateway of", name)

    async def leave(self, hub: Site, cluster: Site, progress: Progress) -> None:
        self._step("leave", cluster.name)

    async def forget(self, hub: Site, name: str) -> None:
        self._step("forget", name)
        self.joined.discard(name)


class Stage:
    def __init__(self, directory: FleetDirectory) -> None:
        self.directory = directory
        self.steps = FakeSteps()
        self.clock = FakeClock()
        self.reports: list[FleetStatus] = []
        self.fleet: LocalFleet
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.fleet = LocalFleet(self.directory, {}, self.reports.append, steps=self.steps, clock=self.clock, random=lambda: 0.0)
        self._running = asyncio.create_task(self.fleet.run())

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
            self._running = None

    def change(self, **change: Any) -> None:
        ((verb, name),) = change.items()
        self.directory.edit(lambda fleet: getattr(fleet, verb)(name))
        self.fleet.changed()

    async def until_reason(self, name: str, reason: str) -> None:
        """That a cluster waits for this was reported last."""

        async def look() -> bool:
            return bool(self.reports) and self.reports[-1].members[name].reason == reason

        await eventually(look, f"{name}: {reason}", 20, poll=0.005)

    async def until(self, **states: str) -> None:
        """The named clusters are so; `hub` too."""
        async with asyncio.timeout(20):
            while True:
                assert self._running is not None
                if self._running.done():
                    self._running.result()
                now = {name: one.state for name, one in self.reports[-1].members.items()} if self.reports else {}
                if all(now.get(name, "gone") == state for name, state in states.items()):
                    return
                await asyncio.sleep(0.005)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    directory = FleetDirectory(tmp_path / "data")
    with directory.claimed():
        directory.edit(lambda fleet: fleet, Fleet(port=free_ports(1)[0]).with_cluster("one").with_cluster("two"))
    made = Stage(directory)
    yield made
    await made.stop()


async def test_the_hub_comes_first_and_clusters_join_it_and_are_accepted(stage: Stage) -> None:
    await stage.start()
    await stage.until(hub="Available", one="Available", two="Available")
    assert stage.steps.taken[0] == "initialize hub"
    assert [step for step in stage.steps.taken if step.endswith("one")] == ["join one", "accept one", "await one"]
    assert not stage.reports[-1].problems
    assert read_status(stage.directory) == stage.reports[-1]
    text = stage.directory.kubeconfig.read_text()
    assert all(f"name: {name}\n" in text for name in ("hub", "one", "two"))


@pytest.fixture
async def with_gateway(tmp_path: Path) -> AsyncIterator[Stage]:
    directory = FleetDirectory(tmp_path / "data")
    with directory.claimed():
        directory.edit(lambda fleet: fleet, Fleet(port=free_ports(1)[0], gateway=True).with_cluster("one"))
    made = Stage(directory)
    yield made
    await made.stop()


async def test_with_a_gateway_clusters_let_it_in_and_are_available_when_it_reaches_them(with_gateway: Stage) -> None:
    stage = with_gateway
    await stage.start()
    await stage.until(hub="Available", one="Available")
    steps = ["join one", "accept one", "enable gateway of one", "await one", "await gateway of one"]
    assert [step for step in stage.steps.taken if step.endswith("one")] == steps
    await stage.stop()
    stage.steps.taken.clear()
    stage.reports.clear()
    await stage.start()
    await stage.until(hub="Available", one="Available")
    assert stage.steps.taken == ["await hub", "await one", "await gateway of one"]


async def test_the_gateway_is_prepared_while_a_clusters_agent_is_waited_for(with_gateway: Stage) -> None:
    steps = with_gateway.steps
    steps.accepting = asyncio.Event()
    await with_gateway.start()
    await with_gateway.until(one="Joining")
    await with_gateway.until_reason("one", "its agent has not come back")
    await settle()
    assert "enable gateway of one" in steps.taken
    steps.accepting.set()
    await with_gateway.until(one="Available")
    assert steps.taken[-2:] == ["await one", "await gateway of one"]


async def test_what_the_gateway_waits_for_is_shown_when_the_cluster_is_accepted(with_gateway: Stage) -> None:
    steps = with_gateway.steps
    steps.accepting, steps.offered = asyncio.Event(), asyncio.Event()
    await with_gateway.start()
    await with_gateway.until_reason("one", "its agent has not come back")
    await settle()
    assert with_gateway.reports[-1].clusters["one"].reason == "its agent has not come back"
    steps.accepting.set()
    await with_gateway.until_reason("one", "not offered yet")
    steps.offered.set()
    await with_gateway.until(one="Available")


async def test_a_gateway_that_cannot_be_enabled_is_tried_again_with_the_clusters_other_steps(with_gateway: Stage) -> None:
    with_gateway.steps.enable_trouble.append(AdministrationError("no such addon"))
    await with_gateway.start()
    await with_gateway.until(one="Failed")
    assert with_gateway.reports[-1].clusters["one"].reason == "no such addon"
    await with_gateway.clock.advance(5)
    await with_gateway.until(one="Available")


def test_a_fleet_without_aws_and_database_does_not_load_them() -> None:
    modules = ("muster.fleet.local.cloud", "muster.fleet.local.database_hub")
    program = f"import sys, muster.fleet.local.fleet; print([name for name in {modules} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_a_fleet_that_gets_a_gateway_is_installed_anew() -> None:
    before = Fleet(port=1, installed="1").with_cluster("one").joined("one", "1")
    after = before.with_gateway()
    assert (after.gateway, after.installed, after.version_of("one")) == (True, "", "")
    assert after.with_gateway() is after


async def test_a_hub_in_a_database_is_beside_the_clusters_and_is_only_waited_for(tmp_path: Path) -> None:
    directory = FleetDirectory(tmp_path / "data")
    port, grpc_port, clusters_port = free_ports(3)
    with directory.claimed():
        fleet = Fleet(port=port, auth="grpc", grpc_port=grpc_port, persistence="sql", clusters_port=clusters_port)
        directory.edit(lambda fleet: fleet, fleet.with_cluster("one"))
    stage = Stage(directory)
    await stage.start()
    try:
        await stage.until(hub="Available", one="Available")
        assert stage.steps.taken == ["await leaders of hub", "join one", "accept one", "await one"]
        text = directory.kubeconfig.read_text()
        assert f"https://127.0.0.1:{port}/clusters/hub\n" in text
        assert f"https://127.0.0.1:{clusters_port}/clusters/one\n" in text
        assert stage.reports[-1].url == f"https://127.0.0.1:{port}"
    finally:
        await stage.stop()


async def test_what_is_done_is_not_done_again_after_a_restart(stage: Stage) -> None:
    await stage.start()
    await stage.until(hub="Available", one="Available", two="Available")
    await stage.stop()
    stage.steps.taken.clear()
    stage.reports.clear()
    await stage.start()
    await stage.until(hub="Available", one="Available", two="Available")
    assert sorted(stage.steps.taken) == ["await hub", "await one", "await two"]


async def test_another_version_of_muster_is_installed_everywhere(stage: Stage) -> None:
    await stage.start()
    await stage.until(hub="Available", one="Available", two="Available")
    await stage.stop()
    stage.directory.edit(lambda fleet: msgspec.structs.replace(fleet.joined("one", "0.0.1"), installed="0.0.1"))
    stage.steps.taken.clear()
    stage.reports.clear()
    await stage.start()
    await stage.until(hub="Available", one="Available", two="Available")
    assert "initialize hub" in stage.steps.taken
    assert "join one" in stage.steps.taken
    assert "join two" not in stage.steps.taken


@pytest.mark.parametrize("problem", [AdministrationError("no such luck"), RuntimeError("a fault of ours")])
async def test_a_cluster_that_fails_says_why_and_is_tried_again_while_others_go_on(stage: Stage, problem: Exception) -> None:
    stage.steps.trouble["one"] = [problem, problem]
    await stage.start()
    await stage.until(one="Failed", two="Available")
    assert str(problem) in stage.reports[-1].problems["one"]
    while len(stage.steps.trouble["one"]):
        await stage.clock.advance(1.0)
        await asyncio.sleep(0.005)
    assert stage.clock.monotonic() <= 10
    while stage.reports[-1].problems:
        await stage.clock.advance(1.0)
        await asyncio.sleep(0.005)
    assert stage.reports[-1].clusters["one"].state == "Available"


async def test_clusters_wait_for_a_hub_that_fails(stage: Stage) -> None:
    stage.steps.trouble["hub"] = [AdministrationError("no hub today")]
    await stage.start()
    await stage.until(hub="Failed", one="Waiting", two="Waiting")
    assert stage.reports[-1].problems["hub"] == "no hub today"
    await stage.clock.advance(5.0)
    await stage.until(hub="Available", one="Available", two="Available")


async def test_clusters_come_and_go_as_the_record_says(stage: Stage) -> None:
    await stage.start()
    await stage.until(hub="Available", one="Available", two="Available")
    stage.change(with_cluster="three")
    await stage.until(three="Available")
    assert "name: three\n" in stage.directory.kubeconfig.read_text()
    stage.change(leaving="one")
    await stage.until(one="gone", three="Available")
    assert stage.steps.taken[-2:] == ["leave one", "forget one"]
    assert [record.name for record in stage.directory.existing().clusters] == ["two", "three"]
    assert "name: one\n" not in stage.directory.kubeconfig.read_text()
    assert not (stage.directory.nodes / "one").exists()


async def test_a_cluster_may_be_told_to_leave_while_it_joins(stage: Stage) -> None:
    stage.steps.held["one"] = asyncio.Event()
    await stage.start()
    await stage.until(one="Joining", two="Available")
    assert any(status.clusters["one"].reason == "it is held" for status in stage.reports)
    stage.change(leaving="one")
    await stage.until(one="gone")
    assert "accept one" not in stage.steps.taken


async def test_one_that_was_to_leave_when_the_process_ended_leaves_after_its_restart(stage: Stage) -> None:
    stage.directory.edit(lambda fleet: fleet.leaving("two"))
    await stage.start()
    await stage.until(hub="Available", one="Available", two="gone")
    assert "join two" not in stage.steps.taken


async def test_a_record_that_is_of_no_use_changes_nothing(stage: Stage) -> None:
    await stage.start()
    await stage.until(hub="Available", one="Available", two="Available")
    good = stage.directory.record.read_bytes()
    stage.directory.record.write_text("{")
    stage.fleet.changed()
    await settle()
    stage.directory.record.write_bytes(good)
    stage.change(with_cluster="three")
    await stage.until(three="Available", one="Available")
