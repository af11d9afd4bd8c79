"""The work agent in the process of the registration agent: for clusters that run one agent instead of two.

It starts when the registration agent has written the configuration of the hub, and restarts when the cluster moves to another hub.
It is the same component that `muster work-agent` runs, with the same flags.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli import work_agent
from muster.cli.hub_address import find_hub, until_moved
from muster.cli.process import LOOPBACK, ProcessEnv

if TYPE_CHECKING:
    from muster.machinery.metrics import Metrics
    from muster.registration.drivers.endpoints import EndpointFormat

POLL_INTERVAL = 1.0


@dataclass(frozen=True)
class WorkSidecar:
    """`file` is the hub's configuration, as in flags; `arguments` are those of `muster work-agent`."""

    file: str
    endpoints: EndpointFormat
    arguments: tuple[str, ...]


def work_sidecar(directory: str, endpoints: EndpointFormat, arguments: Sequence[str]) -> WorkSidecar:
    file = f"{directory}/{endpoints.key}"
    hub = (f"--hub-kubeconfig={file}", f"--workload-source-driver={endpoints.name}")
    all_arguments = (*hub, f"--health-host={LOOPBACK}", "--health-port=0", *arguments)
    # A wrong argument is reported at the start, not only when the cluster is accepted.
    work_agent.command.make_context("work-agent", list(all_arguments))
    return WorkSidecar(file, endpoints, all_arguments)


async def run_work_sidecar(sidecar: WorkSidecar, here: ProcessEnv, metrics: Metrics) -> None:
    """Run until cancelled, or until the work agent ends: then this ends with the same result."""
    file = here.path(sidecar.file)
    while True:
        await _until_there(file)
        context = work_agent.command.make_context("work-agent", list(sidecar.arguments))
        agent = asyncio.create_task(work_agent.serve(work_agent.settings(context.params, here), here, metrics))
        moved = asyncio.create_task(until_moved(file, sidecar.endpoints, find_hub(file, sidecar.endpoints).url))
        try:
            await asyncio.wait((agent, moved), return_when=asyncio.FIRST_COMPLETED)
        finally:
            moved.cancel()
            done = agent.done()
            agent.cancel()
            await asyncio.wait((agent, moved))
        if done:
            agent.result()
            return


async def _until_there(file: Path) -> None:
    # Files have no event to wait for.
    while not await asyncio.to_thread(file.is_file):  # noqa: ASYNC110
        await asyncio.sleep(POLL_INTERVAL)
