"""Run as a program: a hub on a shared database that makes works and reports on them as their agent, as fast as it can.

Arguments: the database, a directory, the cluster. Lines on standard output: `ready`, `made WORK` and `reported WORK NUMBER`, each
after the database has acknowledged it. It goes on until it is killed.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path

from tests.unit.transport.services.store.hubs import agent_of, applied, running_hub

WORKERS = 8


def note(line: str) -> None:
    os.write(1, line.encode() + b"\n")


async def main(database: str, directory: str, cluster: str) -> None:
    async with running_hub(database, Path(directory)) as hub:
        agent = agent_of(cluster)
        note("ready")

        async def work_on(worker: int) -> None:
            for number in itertools.count():
                work = await hub.create_work(cluster, f"{worker}-{number}")
                note(f"made {worker}-{number}")
                for report in range(3):
                    await hub.report(work, applied(str(report)), agent)
                    note(f"reported {worker}-{number} {report}")

        await asyncio.gather(*(work_on(worker) for worker in range(WORKERS)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
