"""A hub and two clusters in this process: put a ConfigMap on each by a ManifestWork, and see it there.

python examples/work_on_a_fleet.py
"""

from __future__ import annotations

import asyncio

import msgspec

import muster
from muster.api import ObjectMeta
from muster.api.cluster.v1 import ManagedCluster
from muster.api.work.v1 import ManifestsTemplate, ManifestWork, ManifestWorkSpec
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import CONFIG_MAPS

GREETING = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello", "namespace": "default"}, "data": {"from": "hub"}}


async def applied(cluster: KubeClient) -> dict[str, str]:
    while True:
        try:
            return dict((await cluster.get(CONFIG_MAPS, "hello", "default"))["data"])
        except NotFound:
            await asyncio.sleep(0.05)


async def main() -> None:
    async with muster.Fleet(clusters=2) as fleet:
        for cluster in (await fleet.hub.list(ManagedCluster)).items:
            name = cluster.metadata.name
            spec = ManifestWorkSpec(workload=ManifestsTemplate(manifests=(msgspec.Raw(msgspec.json.encode(GREETING)),)))
            await fleet.hub.create(ManifestWork, ManifestWork(metadata=ObjectMeta(name="hello", namespace=name), spec=spec))
            print(name, await applied(fleet.cluster(name)))


if __name__ == "__main__":
    asyncio.run(main())
