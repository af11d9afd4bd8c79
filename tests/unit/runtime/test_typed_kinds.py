"""What the client and informers say about typed kinds, as a type checker reads it: errors of typing are errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PREAMBLE = """
from muster.api.cluster.v1 import ManagedCluster
from muster.api.work.v1 import ManifestWork
from muster.machinery.objects import GVR, Object
from muster.runtime.cache.informer import Informer, Informers
from muster.runtime.cache.store import Snapshot
from muster.runtime.client.base import KubeClient


async def use(client: KubeClient, informers: Informers, clusters: GVR, cluster: ManagedCluster, work: ManifestWork) -> None:
"""
RIGHT = (
    "one: ManagedCluster = await client.get(ManagedCluster, 'c1')",
    "document: Object = await client.get(clusters, 'c1')",
    "cached: Object | None = None; read = cached or await client.get(clusters, 'c1'); read['metadata']",
    "all: list[ManagedCluster] = (await client.list(ManagedCluster)).items",
    "documents: list[Object] = (await client.list(clusters)).items",
    "made: ManagedCluster = await client.create(ManagedCluster, cluster)",
    "await client.create(clusters, {'metadata': {'name': 'c1'}})",
    "applied: ManagedCluster = await client.apply(ManagedCluster, {'metadata': {'name': 'c1'}}, manager='m')",
    "patched: ManagedCluster = await client.patch(ManagedCluster, 'c1', {})",
    "updated: ManagedCluster = await client.update(ManagedCluster, {})",
    "event: ManagedCluster = (await anext(client.watch(ManagedCluster))).object",
    "typed: Informer[ManagedCluster] = informers.of(ManagedCluster)",
    "snapshots: Informer[Snapshot] = informers.of(clusters)",
)
WRONG = (
    "other: ManifestWork = await client.get(ManagedCluster, 'c1')",
    "raw: Object = await client.get(ManagedCluster, 'c1')",
    "typed: ManagedCluster = await client.get(clusters, 'c1')",
    "works: list[ManifestWork] = (await client.list(ManagedCluster)).items",
    "await client.create(ManagedCluster, work)",
    "await client.create(ManagedCluster, {'metadata': {}})",
    "await client.create(clusters, cluster)",
    "await client.apply(ManagedCluster, work, manager='m')",
    "await client.update(ManagedCluster, cluster)",
    "await client.get(int, 'c1')",
    "event: ManifestWork = (await anext(client.watch(ManagedCluster))).object",
    "informer: Informer[ManifestWork] = informers.of(ManagedCluster)",
    "informers.of(int)",
)


def test_a_type_checker_takes_what_is_right_and_refuses_what_is_wrong(tmp_path: Path) -> None:
    lines = [*PREAMBLE.splitlines(), *(f"    {one}" for one in (*RIGHT, *WRONG))]
    snippet = tmp_path / "snippet.py"
    snippet.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache")]
    answer = subprocess.run([*command, str(snippet)], capture_output=True, text=True, check=False, timeout=300).stdout
    refused = {int(found) for found in re.findall(r"snippet\.py:(\d+): error", answer)}
    first_wrong = len(lines) - len(WRONG) + 1
    assert refused == set(range(first_wrong, len(lines) + 1)), answer
