"""A work agent in the process of the registration agent: for clusters that want one agent instead of two.

It runs while there is a hub: it begins when the registration agent has put the hub's kubeconfig where it is told, and begins anew
when the cluster goes to another hub. It is the very part that `muster work-agent` runs, told the same flags.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.cli import work_agent
from muster.cli.hub_address import hub_address, until_elsewhere
from muster.cli.process import LOOPBACK, ProcessEnv

LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Beside:
    """`kubeconfig` as flags name it; `arguments` are those of `muster work-agent`."""

    kubeconfig: str
    arguments: tuple[str, ...]


def beside(directory: str, arguments: Sequence[str]) -> Beside:
    kubeconfig = f"{directory}/kubeconfig"
    told = (f"--hub-kubeconfig={kubeconfig}", f"--health-host={LOOPBACK}", "--health-port=0", *arguments)
    # Nobody should learn of a wrong argument only when the cluster is accepted.
    work_agent.command.make_context("work-agent", list(told))
    return Beside(kubeconfig, told)


async def run_beside(beside: Beside, here: ProcessEnv) -> None:
    """Until cancelled, or until the work agent ends by itself: then so does this, in the same way."""
    file = here.path(beside.kubeconfig)
    while True:
        await _until_there(file)
        context = work_agent.command.make_context("work-agent", list(beside.arguments))
        agent = asyncio.create_task(work_agent.serve(work_agent.settings(context.params, here), here))
        moved = asyncio.create_task(until_elsewhere(file, hub_address(file)))
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
        await asyncio.sleep(LOOK_SECONDS)
