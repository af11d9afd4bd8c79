"""Many agents in one process against one hub: a crowd for tests of scale.

The agents are the product's own, each with its own identity, keys and connection to the hub. They share one managed cluster and one
namespace, in which each keeps a Secret of its own; on that side they are the administrator, since many small service accounts would
prove nothing more. `Crowd` is what a test holds; run as a program this module is the crowd itself.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from pathlib import Path

from tests.support import peers
from tests.support.administrator import AVAILABLE, MANAGED_CLUSTERS, Administrator, wait_for
from tests.support.processes import Server, python_path
from tests.support.registration import Spoke

NAMESPACE = "crowd"


class Crowd:
    """`count` agents of clusters called `<prefix>-<number>`, for as long as the context lasts."""

    def __init__(self, spoke: Spoke, hub: Administrator, prefix: str, count: int) -> None:
        self.names = [f"{prefix}-{number}" for number in range(count)]
        self._hub = hub
        self._bootstrap = spoke.directory / f"{prefix}.bootstrap"
        self._bootstrap.write_text(hub.trusted_kubeconfig())
        spoke.admin.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).expect(201, 409)
        program: list[str | Path] = [sys.executable, "-m", "tests.support.crowd"]
        command = [*program, spoke.cluster.kubeconfig, self._bootstrap, prefix, str(count)]
        self.process = Server(f"crowd {prefix}", command, spoke.directory / f"{prefix}.log", python_path(peers.ROOT))

    def __enter__(self) -> Crowd:
        self.process.start()
        self._hub.servers.append(self.process)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop(kill=True)
        self._hub.servers.remove(self.process)

    def wait_available(self, count: int, timeout: float) -> None:
        """Until so many are. Looking costs the server more than each of them does, so not too often."""
        servers = self._hub.servers
        wait_for(lambda: self.available() >= count, f"{count} clusters to be available", timeout=timeout, servers=servers, poll=0.4)

    def available(self) -> int:
        """How many of the clusters are."""
        names = set(self.names)
        clusters = (self._hub.read(MANAGED_CLUSTERS) or {})["items"]
        return sum(_is_available(cluster) for cluster in clusters if cluster["metadata"]["name"] in names)


def _is_available(cluster: dict[str, object]) -> bool:
    status = cluster.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return isinstance(conditions, list) and any(c["type"] == AVAILABLE and c["status"] == "True" for c in conditions)


async def run(spoke: Path, bootstrap: Path, names: list[str]) -> None:
    from muster.machinery.clock import SYSTEM
    from muster.machinery.metrics import Metrics
    from muster.registration.agent.agent import Agent
    from muster.registration.agent.options import AgentOptions
    from muster.runtime.client.http import HttpClient
    from muster.runtime.client.kubeconfig import load_kubeconfig

    client = HttpClient(load_kubeconfig(spoke))
    async with asyncio.TaskGroup() as tasks:
        for name in names:
            options = AgentOptions(
                cluster_name=name, namespace=NAMESPACE, hub_secret=f"hub-{name}", bootstrap_kubeconfigs=(bootstrap,)
            )
            agent = Agent(client, options, clock=SYSTEM, random=random.random, metrics=Metrics())
            tasks.create_task(agent.run(), name=name)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("spoke", type=Path)
    parser.add_argument("bootstrap", type=Path)
    parser.add_argument("prefix")
    parser.add_argument("count", type=int)
    given = parser.parse_args()
    import uvloop

    uvloop.run(run(given.spoke, given.bootstrap, [f"{given.prefix}-{number}" for number in range(given.count)]))


if __name__ == "__main__":
    main()
