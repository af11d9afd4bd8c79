"""Does memory grow while nothing new happens? A hub and its clusters, renewing leases far faster than they would, watched for long.

    python -m bench.growth [--clusters 40] [--minutes 20] [--lease 1] [--trace 0]

Two processes, as in `muster sim`. Each says once a minute what it holds: resident memory, the interpreter's blocks, the C library's
used and free heap, tasks, the store's history, and the files it writes. A type whose objects became more since the fifth minute is
named at the end, after a collection; with `--trace N`, so are the places that allocated what is left, N frames deep. Resident
memory that rises while blocks and heap stand still is fragmentation; types that rise in step with renewals are a leak; and what
a collection finds at the end was left in cycles. Counting all objects, in the fifth minute, takes some memory by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import os
import signal
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import orjson

from muster.api.cluster.v1 import AVAILABLE, ManagedCluster
from muster.api.meta import is_true
from muster.fleet import hub
from muster.fleet.managed import ManagedClusters
from muster.fleet.usage import usage
from muster.machinery import logs
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from muster.store.resident import ResidentStore

EVERY = 60.0
ENOUGH = signal.SIGUSR1
FIRST = 5.0
"""Seconds that the hub has to start."""
WARM_UP = 5
"""Samples until what is there counts as the start: caches are full and code paths have been taken by then."""
_LEFT = 25


class _Heap(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]


def _heap() -> _Heap | None:
    try:
        find = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return None
    find.restype = _Heap
    found = find()
    assert isinstance(found, _Heap)
    return found


class Watcher:
    """Looks at its own process, once a minute, and tells at the end what became more."""

    def __init__(self, name: str, directory: Path, frames: int) -> None:
        self._name = name
        self._directory = directory
        self._frames = frames
        self._began = time.monotonic()
        self._types: Counter[str] = Counter()
        self._traces: tracemalloc.Snapshot | None = None

    async def run(self) -> None:
        # What the server froze is not listed, and it is where the long-lived structures hang.
        gc.unfreeze()
        stores = [found for found in gc.get_objects() if isinstance(found, ResidentStore)]
        if self._frames:
            tracemalloc.start(self._frames)
        sample = 0
        while True:
            self._say(self._line(stores))
            sample += 1
            if sample == WARM_UP + 1:
                self._types = _types()
                self._traces = _traces()
            await asyncio.sleep(EVERY)

    def conclude(self) -> None:
        before = usage(os.getpid()).mib
        found = gc.collect()
        self._say(f"a collection found {found} objects; {before:.1f} -> {usage(os.getpid()).mib:.1f} MiB")
        now = _types()
        grown = [(count - self._types[kind], kind, count) for kind, count in now.items()] if self._types else []
        for more, kind, count in sorted(grown, reverse=True)[:_LEFT]:
            if more > 0:
                self._say(f"  {more:+8d} -> {count:8d}  {kind}")
        traces = _traces()
        if self._traces is not None and traces is not None:
            for difference in traces.compare_to(self._traces, "traceback" if self._frames > 1 else "lineno")[:_LEFT]:
                self._say(f"  {difference.size_diff / 1024:+9.1f} KiB {difference.count_diff:+8d}  {difference.traceback}")

    def _line(self, stores: list[ResidentStore]) -> str:
        heap = _heap()
        held = "" if heap is None else f"heap {heap.uordblks / 2**20:.1f} + {heap.fordblks / 2**20:.1f} MiB free, "
        files = sum(path.stat().st_size for path in self._directory.glob("*.db*")) / 2**20
        history = sum(store._retained for store in stores), sum(store._retained_bytes for store in stores) / 2**20
        minutes = (time.monotonic() - self._began) / 60
        return (
            f"{minutes:5.1f} min  {usage(os.getpid()).mib:6.1f} MiB, {sys.getallocatedblocks()} blocks, "
            f"{held}{gc.get_count()[0]} young objects, {len(asyncio.all_tasks())} tasks, "
            f"history {history[0]} ({history[1]:.1f} MiB), files {files:.1f} MiB"
        )

    def _say(self, line: str) -> None:
        print(f"{self._name:6} {line}", file=sys.stderr, flush=True)


def _types() -> Counter[str]:
    gc.collect()
    return Counter(f"{type(found).__module__}.{type(found).__qualname__}" for found in gc.get_objects())


def _traces() -> tracemalloc.Snapshot | None:
    return (
        tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, tracemalloc.__file__)])
        if tracemalloc.is_tracing()
        else None
    )


async def _serve_hub(directory: Path, frames: int) -> None:
    """A hub that says what it holds, and at a signal what it holds more of."""
    enough = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(ENOUGH, enough.set)
    serving = asyncio.create_task(hub.serve(directory, "sqlite"))
    watcher = Watcher("hub", directory, frames)
    await asyncio.sleep(FIRST)
    watching = asyncio.create_task(watcher.run())
    ending = asyncio.create_task(enough.wait())
    await asyncio.wait({serving, watching, ending}, return_when=asyncio.FIRST_COMPLETED)
    watcher.conclude()
    print("told", flush=True)
    for task in (watching, ending):
        task.cancel()
    await serving


async def _run(clusters: int, minutes: float, lease: int, frames: int, directory: Path) -> None:
    command = [sys.executable, "-m", "bench.growth", "--hub", str(directory), "--trace", str(frames)]
    child = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    assert child.stdin is not None, "piped"
    assert child.stdout is not None, "piped"
    await child.stdout.readline()
    fleet = ManagedClusters([f"cluster{number:04d}" for number in range(clusters)], directory / hub.BOOTSTRAP, directory / "agents")
    await fleet.start()
    running = asyncio.create_task(fleet.run())
    client = HttpClient(load_kubeconfig(directory / hub.ADMIN), agent="growth")
    watcher = Watcher("agents", directory / "agents", frames)
    watching = asyncio.create_task(watcher.run())
    try:
        await _joined(client, fleet, clusters, lease)
        await asyncio.wait({running, watching}, timeout=minutes * 60, return_when=asyncio.FIRST_COMPLETED)
        watcher.conclude()
        child.send_signal(ENOUGH)
        await child.stdout.readline()
    finally:
        for task in (running, watching):
            task.cancel()
        await asyncio.wait({running, watching})
        await client.close()
        await fleet.stop()
        child.stdin.close()
        await child.wait()


async def _joined(client: HttpClient, fleet: ManagedClusters, clusters: int, lease: int) -> None:
    """Until all clusters are Available; each is told to renew as often as `lease` seconds say."""
    told: set[str] = set()
    while len(told) < clusters:
        for found in (await client.list(MANAGED_CLUSTERS)).items:
            cluster = ManagedCluster.decode(orjson.dumps(found))
            name = cluster.metadata.name
            if name not in told and is_true(cluster.status.conditions, AVAILABLE):
                told.add(name)
                fleet.arrived(name)
                await client.patch(MANAGED_CLUSTERS, name, {"spec": {"leaseDurationSeconds": lease}})
        await asyncio.sleep(1)


def main() -> None:
    import uvloop

    parser = argparse.ArgumentParser(prog="python -m bench.growth")
    parser.add_argument("--clusters", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--lease", type=int, default=1, help="seconds between renewals of one cluster")
    parser.add_argument("--trace", type=int, default=0, help="frames to keep for each allocation; slow")
    parser.add_argument("--hub", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    logs.set_level(logs.ERROR)
    if options.hub is not None:
        uvloop.run(_serve_hub(options.hub, options.trace))
        return
    with tempfile.TemporaryDirectory(prefix="muster-growth-") as directory:
        uvloop.run(_run(options.clusters, options.minutes, options.lease, options.trace, Path(directory)))


if __name__ == "__main__":
    main()
