"""The process that `bench caches` measures on our side: an informer of ManifestWorks and nothing else.

    python -m bench.follower KUBECONFIG typed|snapshots COUNT SETTLE

Prints two JSON lines as the program in peers/works does: before the informer starts, and in step for SETTLE seconds. It imports
what a controller would import and no more.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from pathlib import Path
from typing import Any

from muster.api.work.v1 import ManifestWork
from muster.machinery.objects import GVR
from muster.runtime.cache.informer import Informer
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig

WORKS = GVR("work.open-cluster-management.io/v1", "manifestworks", "ManifestWork")


async def follow(kubeconfig: Path, kind: str, count: int, settle: float) -> None:
    client = HttpClient(load_kubeconfig(kubeconfig))
    try:
        await client.list(WORKS, "default", limit=1)
        informer: Informer[Any] = Informer(client, WORKS, decode=ManifestWork.decode if kind == "typed" else None)
        gc.collect()
        report(0)
        running = asyncio.create_task(informer.run())
        async with asyncio.timeout(120):
            await informer.synced()
        await asyncio.sleep(settle)
        if len(informer.cache) < count:
            raise RuntimeError(f"the cache holds {len(informer.cache)} ManifestWorks, not {count}")
        report(len(informer.cache))
        running.cancel()
    finally:
        await client.close()


def report(objects: int) -> None:
    lines = Path("/proc/self/status").read_text().splitlines()
    resident = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    print(json.dumps({"objects": objects, "resident_kib": resident}), flush=True)


if __name__ == "__main__":
    import uvloop

    uvloop.run(follow(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
