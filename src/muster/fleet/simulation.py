"""`muster sim`: a hub and many managed clusters on this machine, joined, kept running for a while, and measured.

Two processes share the machine's cores: the hub (API server and controllers, `hub.py`) in a child process, all managed clusters
with their agents (`managed.py`) in this one; they communicate over TLS only. This process also watches the hub's ManagedClusters as
an administrator would, so the reported figures are those of the hub's API. With an addon, a second phase begins when all have
joined: a placement enables it on all clusters, and it is watched until it is Available on all of them (`simulated_addon.py`).

CPU, memory and requests are sampled every `SAMPLE_EVERY` seconds; a figure of a phase is the difference between its first and last
sample.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.api.cluster.v1 import AVAILABLE, ManagedCluster
from muster.api.meta import is_true
from muster.fleet import hub as hub_process
from muster.fleet.availability import Availability
from muster.fleet.managed import ManagedClusters
from muster.fleet.simulated_addon import AddonObserver
from muster.fleet.usage import Sample, counted, rates, usage
from muster.http.filelimit import raise_file_limit
from muster.machinery import logs
from muster.registration.drivers.flags import DEFAULT
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.cache import Informer
from muster.runtime.client import HttpClient, load_kubeconfig

SAMPLE_EVERY: Final = 5.0
HUB_STARTS_WITHIN: Final = 60.0
Report = Callable[[str], None]


class SimulationFailed(Exception):
    """The simulation cannot be run on this machine; the message says why."""


@dataclass(frozen=True)
class SimulationOptions:
    clusters: int = 1000
    duration: float = 600.0
    """Seconds from the first agent's start."""
    join_within: float = 300.0
    at_once: int = 100
    store: str = "sqlite"
    verbose: bool = False
    """Log what hub and agents do, not only failures."""
    auth: str = DEFAULT
    """The driver by which clusters register."""
    addon: bool = False
    """Enable an addon on all clusters when they have joined."""
    addon_within: float = 300.0
    """Seconds from then within which it is to be Available on all."""


@dataclass(frozen=True)
class Phase:
    """Averages over a phase of the simulation."""

    seconds: float
    requests: int
    requests_per_second: float
    hub_cores: float
    agents_cores: float


@dataclass(frozen=True)
class SimulationResult:
    plan: SimulationOptions
    all_available_after: float | None
    available_at_end: int
    lowest_since: int
    losses: int
    agent_restarts: int
    joining: Phase
    steady: Phase
    requests_per_join: float
    open_watches: int
    hub_mib: float
    agents_mib: float
    machine_cores: int
    addon_available_after: float | None = None
    """Seconds from enabling it; None without an addon, or if it is not Available on all clusters."""
    addon_available_at_end: int = 0
    addon_writes: float = 0.0
    """Writes of a ManagedClusterAddOn until then, by any client: the average number of observed changes."""

    @property
    def good(self) -> bool:
        """Whether all were Available in time and stayed so, and the addon too."""
        joined = self.all_available_after is not None and self.all_available_after <= self.plan.join_within
        return joined and self.lowest_since >= self.plan.clusters and self._addon_is_good

    @property
    def _addon_is_good(self) -> bool:
        after = self.addon_available_after
        return not self.plan.addon or (after is not None and after <= self.plan.addon_within)


async def simulate(plan: SimulationOptions, directory: Path, info: Report) -> SimulationResult:
    _allow_connections(plan.clusters, plan.addon)
    logs.set_level(logs.INFO if plan.verbose else logs.ERROR)
    async with _hub(directory, plan) as hub_pid, contextlib.aclosing(_Observer(directory, hub_pid, plan)) as observer:
        names = [f"cluster{number:04d}" for number in range(plan.clusters)]
        bootstrap, at_once = directory / hub_process.BOOTSTRAPS[plan.auth], plan.at_once or plan.clusters
        fleet = ManagedClusters(names, bootstrap, directory / "agents", driver=plan.auth, at_once=at_once, works=plan.addon)
        observer.availability = Availability(plan.clusters, fleet.arrived)
        await fleet.start()
        try:
            await observer.begin()
            running = asyncio.create_task(fleet.run(), name="managed clusters")
            try:
                await observer.watch_over(fleet, running, info)
            finally:
                running.cancel()
                await asyncio.wait({running})
        finally:
            await fleet.stop()
        return observer.outcome(fleet)


class _Observer:
    """Observes the hub as its administrator, and both processes."""

    def __init__(self, directory: Path, hub_pid: int, plan: SimulationOptions) -> None:
        self.availability = Availability(plan.clusters)
        self._plan = plan
        self._hub_pid = hub_pid
        self._client = HttpClient(load_kubeconfig(directory / hub_process.ADMIN), agent="muster-sim")
        self._informer = Informer(self._client, MANAGED_CLUSTERS, decode=ManagedCluster.decode)
        self._informer.on_change(self._saw)
        self._addons = AddonObserver(self._client, plan.clusters) if plan.addon else None
        self._following: asyncio.Task[None] | None = None
        self._samples: list[Sample] = []

    async def begin(self) -> None:
        self._following = asyncio.create_task(self._informer.run(), name="observer")
        await self._informer.synced()
        self._samples.append(await self._sample())

    async def aclose(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})
        if self._addons is not None:
            await self._addons.aclose()
        await self._client.close()

    def _saw(self, old: ManagedCluster | None, new: ManagedCluster | None) -> None:
        if new is not None:
            self.availability.saw(new.metadata.name, is_true(new.status.conditions, AVAILABLE), time.monotonic())
        elif old is not None:
            self.availability.gone(old.metadata.name)

    async def _sample(self) -> Sample:
        requests, watches = counted(await self._client.raw("GET", "/metrics"))
        return Sample(time.monotonic(), usage(self._hub_pid), usage(os.getpid()), requests, watches)

    async def watch_over(self, fleet: ManagedClusters, running: asyncio.Task[None], info: Report) -> None:
        """Run until the time is up, the agents fail, or the clusters have not joined in time."""
        began = self._samples[0].at
        while (now := time.monotonic()) < began + self._plan.duration:
            await asyncio.wait({running}, timeout=min(SAMPLE_EVERY, began + self._plan.duration - now))
            if running.done():
                running.result()
            self._samples.append(await self._sample())
            if self._addons is not None and self.availability.complete_at is not None:
                await self._addons.enable()
            info(self._line(fleet))
            if self.availability.complete_at is None and self._samples[-1].at > began + self._plan.join_within:
                return

    def _line(self, fleet: ManagedClusters) -> str:
        before, now = self._samples[-2:]
        recent = rates(before, now)
        state = self.availability
        return (
            f"{now.at - self._samples[0].at:5.0f} s  {fleet.started} started, {state.available}/{state.wanted} Available"
            f"{'' if self._addons is None else self._addons.line()}"
            f"  hub {recent.requests_per_second:,.0f} req/s, {recent.hub_cores:.2f} cores, {now.hub.mib:,.0f} MiB"
            f"  agents {recent.agents_cores:.2f} cores, {now.agents.mib:,.0f} MiB"
        )

    def outcome(self, fleet: ManagedClusters) -> SimulationResult:
        state = self.availability
        first, last = self._samples[0], self._samples[-1]
        joined = next(
            (sample for sample in self._samples if state.complete_at is not None and sample.at >= state.complete_at), last
        )
        joining = _phase(first, joined)
        return SimulationResult(
            plan=self._plan,
            all_available_after=None if state.complete_at is None else state.complete_at - first.at,
            available_at_end=state.available,
            lowest_since=state.lowest,
            losses=state.losses,
            agent_restarts=fleet.restarts,
            joining=joining,
            steady=_phase(joined, last),
            requests_per_join=joining.requests / self._plan.clusters,
            open_watches=last.watches,
            hub_mib=last.hub.mib,
            agents_mib=last.agents.mib,
            machine_cores=os.cpu_count() or 1,
            addon_available_after=None if self._addons is None else self._addons.available_after,
            addon_available_at_end=0 if self._addons is None else self._addons.availability.available,
            addon_writes=0.0 if self._addons is None else self._addons.writes / self._plan.clusters,
        )


def _phase(first: Sample, last: Sample) -> Phase:
    averages = rates(first, last)
    return Phase(
        seconds=last.at - first.at,
        requests=last.requests - first.requests,
        requests_per_second=averages.requests_per_second,
        hub_cores=averages.hub_cores,
        agents_cores=averages.agents_cores,
    )


@contextlib.asynccontextmanager
async def _hub(directory: Path, plan: SimulationOptions) -> AsyncIterator[int]:
    """Start the hub's process and wait until it is ready; it ends with its standard input, so also when this process is killed."""
    command = [sys.executable, "-m", hub_process.__name__, str(directory), plan.store, plan.auth]
    command += [hub_process.ADDONS] if plan.addon else []
    command += ["-v"] if plan.verbose else []
    # In a session of its own: Ctrl-C on the terminal reaches only this process, and the hub ends after the agents.
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None, "piped"
    assert process.stdout is not None, "piped"
    try:
        await _ready(process.stdout)
        yield process.pid
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(30):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _ready(output: asyncio.StreamReader) -> None:
    try:
        async with asyncio.timeout(HUB_STARTS_WITHIN):
            line = await output.readline()
    except TimeoutError:
        raise SimulationFailed(f"the hub was not ready within {HUB_STARTS_WITHIN:.0f} s") from None
    if line.strip().decode() != hub_process.READY:
        raise SimulationFailed("the hub did not start; its complaint is above")


def _allow_connections(clusters: int, addon: bool) -> None:
    """Every agent has a few connections; both processes need a file descriptor for each."""
    wanted = clusters * (16 if addon else 8) + 256
    limit = raise_file_limit()
    if limit < wanted:
        raise SimulationFailed(f"{clusters} clusters need {wanted} open files and the limit is {limit}: raise it (ulimit -n)")
