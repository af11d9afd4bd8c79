"""What 10,000 cached ManifestWorks cost, in our informer and in client-go's.

    python -m bench caches [--short]

One API server (the real one) holds the works, spread over 100 cluster namespaces. Then each side follows them in a process of
its own: ours with `runtime.Informer`, once handing out typed ManifestWorks and once Snapshots, and the program in peers/works,
upstream's generated typed informer on client-go. Every process tells its resident memory before the informer starts and when
it has been in step for a while; the cost is the difference. `least` is client-go's after a forced collection whose memory is
given back to the kernel: no controller does that, but no figure for Go can be lower.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.planes import KubePlane

from bench.follower import WORKS
from bench.report import ROOT, Row
from muster.api.crds import ALL, definitions
from muster.runtime.client.builtin import CRDS, NAMESPACES
from muster.runtime.client.errors import NotFound
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig

TITLE = "Caches"
TEXT = """
ManifestWorks of 4 KB on one kube-apiserver, cached by our informer and by upstream's typed informer on client-go, each in its
own process with default settings. The cost is the resident memory once the cache is synced, minus the resident memory before
the informer starts. "client-go's least" is measured after a forced garbage collection that returns free memory to the kernel,
which no controller does.
"""
CLUSTERS = 100
AT_ONCE = 32
SIZE = 4096


def run(short: bool = False, say: Callable[[str], None] = print) -> list[Row]:
    count, settle = (200, 1.0) if short else (10_000, 10.0)
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        plane = KubePlane(Path(name) / "plane")
        try:
            plane.start()
            say(f"creating {count:,} works …")
            asyncio.run(_fill(plane.kubeconfig, count))
            say("filling caches …")
            typed, snapshots = (_ours(plane.kubeconfig, kind, count, settle) for kind in ("typed", "snapshots"))
            peer = _theirs(plane.kubeconfig, count, settle)
        finally:
            plane.discard()
    return _rows(count, typed, snapshots, peer)


Samples = list[dict[str, Any]]


def _rows(count: int, typed: Samples, snapshots: Samples, peer: Samples) -> list[Row]:
    title = f"{count:,} ManifestWorks cached"
    theirs, least = _cost(peer), _cost(peer, "least_kib")
    return [
        Row(f"{title}, typed: cost", "MiB", _cost(typed), theirs, "less", target=1),
        Row(f"{title}, snapshots: cost", "MiB", _cost(snapshots), theirs, "less", target=1),
        Row(f"{title}, typed: cost, client-go's least", "MiB", _cost(typed), least, "less"),
        Row(f"{title}, typed: whole process", "MiB", _whole(typed), _whole(peer), "less", target=1),
        Row("the process before its cache fills", "MiB", typed[0]["resident_kib"] / 1024, peer[0]["resident_kib"] / 1024, "less"),
    ]


def _cost(samples: Samples, field: str = "resident_kib") -> float:
    before, after = (float(sample[field]) for sample in samples)
    return (after - before) / 1024


def _whole(samples: Samples) -> float:
    return float(samples[1]["resident_kib"]) / 1024


def _ours(kubeconfig: Path, kind: str, count: int, settle: float) -> Samples:
    return _sampled([sys.executable, "-m", "bench.follower", str(kubeconfig), kind, str(count), str(settle)])


def _theirs(kubeconfig: Path, count: int, settle: float) -> Samples:
    asked = subprocess.run(["make", "-s", "-C", "peers/works", "print-bin"], capture_output=True, text=True, check=True, cwd=ROOT)
    command = [asked.stdout.strip(), "-kubeconfig", str(kubeconfig), "-count", str(count), "-settle", f"{settle}s"]
    return _sampled(command)


def _sampled(command: list[str]) -> Samples:
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


# The works


def work(number: int) -> dict[str, Any]:
    """A work of `SIZE` bytes: a ConfigMap with some keys, as text that does not repeat from work to work."""
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"settings-{number}", "namespace": "default", "labels": {"app.kubernetes.io/part-of": "bench"}},
        "data": {f"key-{key}": f"value-{number * 10 + key}" for key in range(10)},
    }
    document: dict[str, Any] = {
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {"name": f"work-{number}", "namespace": f"cluster{number % CLUSTERS}", "labels": {"bench": f"s{number % 10}"}},
        "spec": {"workload": {"manifests": [manifest]}},
    }
    missing = SIZE - len(json.dumps(document, separators=(",", ":"))) - len(',"text":""')
    manifest["data"]["text"] = (f"{number:06d} lorem ipsum dolor sit amet; " * (missing // 20 + 1))[:missing]
    return document


async def _fill(kubeconfig: Path, count: int) -> None:
    client = HttpClient(load_kubeconfig(kubeconfig))
    try:
        kinds = [kind for kind in ALL if kind.name.startswith("manifestworks.")]
        for document in definitions(kinds):
            await client.create(CRDS, document)
        for number in range(min(count, CLUSTERS)):
            await client.create(NAMESPACES, {"metadata": {"name": f"cluster{number}"}})
        numbers = iter(range(count))

        async def create() -> None:
            for number in numbers:
                await client.create(WORKS, work(number))

        await _served(client)
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(create())
    finally:
        await client.close()


async def _served(client: HttpClient) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await client.list(WORKS, limit=1)
            except NotFound:
                await asyncio.sleep(0.1)
            else:
                return
