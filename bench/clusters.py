"""How long 1,000 logical clusters take to make and what each costs in memory.

    python -m bench.clusters [COUNT]

Measured in a process of its own: a server on SQLite with one cluster is started as by `muster apiserver`, then the others
are added through its API, fifty at a time, then each gets one ConfigMap through the in-process client. There is no peer to
compare with: the real server holds one cluster per process.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.report import ROOT, Row
from bench.sides import resident

MOST_SECONDS = 5.0
MOST_KIB = 60.0
AT_ONCE = 50
"""So many share a commit, as a simulation that starts its fleet would do it."""


def rows(count: int) -> list[Row]:
    command = [sys.executable, "-m", "bench.clusters", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=ROOT)
    found = json.loads(done.stdout.splitlines()[-1])
    return [
        Row(f"{count:,} logical clusters created", "s", found["seconds"], None, "less", limit=MOST_SECONDS),
        Row("memory of each", "KiB", found["kib_each"], None, "less", limit=MOST_KIB),
        Row("an object written to each", "s", found["write_seconds"], None, "less"),
        Row("memory of each with the object", "KiB", found["kib_each_written"], None, "less"),
    ]


async def measure(count: int, directory: Path) -> dict[str, float]:
    from muster.apiserver.server import ApiServer, ServerConfig

    server = ApiServer(ServerConfig(data_dir=directory))
    await server.start()
    try:
        gc.collect()
        before = resident(os.getpid())
        began = time.perf_counter()
        names = [f"managed-{number:04d}" for number in range(count)]
        made = []
        for first in range(0, count, AT_ONCE):
            made += await asyncio.gather(*map(server.add_cluster, names[first : first + AT_ONCE]))
        seconds = time.perf_counter() - began
        after = resident(os.getpid())
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}, "data": {"key": "value"}}
        began = time.perf_counter()
        for cluster in made:
            await server.client(cluster).create("/api/v1/namespaces/default/configmaps", body)
        written = time.perf_counter() - began
        gc.collect()
        end = resident(os.getpid())
    finally:
        await server.stop()
    return {
        "seconds": seconds,
        "kib_each": (after - before) / 1024 / count,
        "write_seconds": written,
        "kib_each_written": (end - before) / 1024 / count,
    }


def main() -> None:
    import uvloop

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory(prefix="muster-clusters-") as name:
        print(json.dumps(uvloop.run(measure(count, Path(name)))))


if __name__ == "__main__":
    main()
