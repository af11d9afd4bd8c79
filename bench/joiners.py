"""The load of `bench registration`: managed clusters with our agents, all in this process, that join one hub at the same moment.

    python -m bench.joiners BOOTSTRAP_KUBECONFIG COUNT DIRECTORY

Says `ready` when the clusters exist, starts all agents when a line comes in, and ends when standard input does. It is the same for
both hubs: the agents cannot know whose hub they join.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from muster.fleet.managed import ManagedClusters

READY = "ready"


async def join(bootstrap: Path, count: int, directory: Path) -> None:
    names = [f"cluster{number:04d}" for number in range(count)]
    fleet = ManagedClusters(names, bootstrap, directory, at_once=count)
    await fleet.start()
    try:
        await fleet.furnish()
        print(READY, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        running = asyncio.create_task(fleet.run())
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait({running, ended}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        running.cancel()
        await asyncio.wait({running})
    finally:
        print(f"agents restarted: {fleet.restarts}", file=sys.stderr)
        await fleet.stop()


if __name__ == "__main__":
    import uvloop

    uvloop.run(join(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
