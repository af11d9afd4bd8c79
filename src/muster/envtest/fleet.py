"""A hub and its managed clusters in this process, for as long as a block lasts: `muster up --ephemeral` without a command.

    async with muster.Fleet(clusters=2) as fleet:
        print(await fleet.hub.list(MANAGED_CLUSTERS))

Operators, controllers and agents are the real ones, and run as pods on the clusters' nodes. Nothing is left behind.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from muster.runtime.client import KubeClient

if TYPE_CHECKING:
    from muster.fleet.local.fleet import LocalFleet
    from muster.fleet.local.status import FleetStatus

SECONDS: Final = 120.0


class FleetNotReady(TimeoutError):
    """The message has what is missing, and why."""

    def __init__(self, seconds: float, problems: Mapping[str, str]) -> None:
        listed = "; ".join(f"{name}: {reason}" for name, reason in problems.items()) or "nothing was reported"
        super().__init__(f"the fleet was not ready within {seconds:g} s: {listed}")
        self.problems = dict(problems)


class Fleet:
    """`clusters` are named cluster1, cluster2, …; with `gateway` the hub has one, which takes some seconds more to start. State is
    in `directory`, which must be empty, or in a temporary one; it is removed with the fleet either way."""

    def __init__(
        self, clusters: int = 2, *, gateway: bool = False, directory: Path | None = None, timeout: float = SECONDS
    ) -> None:
        if clusters < 0:
            raise ValueError(f"clusters: {clusters} is less than 0")
        self._clusters, self._gateway, self._directory, self._timeout = clusters, gateway, directory, timeout
        self._stack = AsyncExitStack()
        self._status: FleetStatus | None = None
        self._ready = asyncio.Event()
        self._local: LocalFleet | None = None
        self._kubeconfig = Path()

    @property
    def hub(self) -> KubeClient:
        """The hub's administrator."""
        from muster.fleet.local.directory import HUB

        return self.cluster(HUB)

    @property
    def clusters(self) -> tuple[str, ...]:
        """The names of the managed clusters."""
        return tuple(self._status.clusters) if self._status is not None else ()

    def cluster(self, name: str) -> KubeClient:
        """The administrator of a managed cluster. Raises KeyError if there is none of that name."""
        if self._local is None:
            raise RuntimeError("the fleet does not run: use it inside of its `async with`")
        return self._local.client(name)

    @property
    def kubeconfig(self) -> Path:
        """For other programs: its contexts are `hub`, which is the current one, and the names of the clusters."""
        return self._kubeconfig

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._local = None
        await self._stack.aclose()

    async def _start(self) -> None:
        # With the programs of pods, which a program that only imports `muster` does not need.
        from muster.cli.aws_token import credential_programs
        from muster.cli.fleet.request import FleetRequest, discard_fleet
        from muster.cli.programs import programs
        from muster.fleet.local.directory import FleetDirectory
        from muster.fleet.local.fleet import LocalFleet
        from muster.fleet.local.processlog import ProcessLog
        from muster.machinery import logs

        path = self._directory or Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-"))) / "fleet"
        directory = FleetDirectory(path)
        self._stack.enter_context(directory.claimed())
        FleetRequest(self._clusters, None, None, None, None, ephemeral=True, port=0, gateway=self._gateway).record(directory)
        self._stack.callback(discard_fleet, directory)
        log = ProcessLog(directory.log, standard=False)
        self._stack.callback(log.close)
        self._kubeconfig = directory.kubeconfig
        with logs.diverted(log.write):
            self._local = LocalFleet(directory, programs(), self._report, plugins=credential_programs())
            task = asyncio.create_task(self._local.run(), name="fleet")
        self._stack.push_async_callback(_ended, task)
        await self._until_ready(task)

    def _report(self, status: FleetStatus) -> None:
        self._status = status
        if not status.problems and len(status.clusters) == self._clusters:
            self._ready.set()

    async def _until_ready(self, fleet: asyncio.Task[None]) -> None:
        ready = asyncio.create_task(self._ready.wait())
        try:
            done, _ = await asyncio.wait({ready, fleet}, timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if fleet in done:
            await fleet
        if not done:
            raise FleetNotReady(self._timeout, self._status.problems if self._status is not None else {})


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
