"""The manager of an addon that can be hosted, as a process: `python -m tests.e2e.addon.hosted_manager NAME KUBECONFIG`."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from muster.addon.agent_addon import Agent, Installation, KubeClient, RoleBindingRequest, StaticAddons
from muster.addon.options import AddonOptions
from muster.addon.process import AddonManager
from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE, ConfigGroupResource
from muster.api.addons import HOSTED_MANIFEST_LOCATION
from muster.machinery.metrics import Metrics
from muster.machinery.objects import Object
from muster.runtime.client import HttpClient, load_kubeconfig
from muster.runtime.process import serve

LOCATIONS = ("managed", "hosting", "none")


@dataclass(frozen=True)
class Hosted:
    """A ConfigMap for each location that a manifest can have; the role of its agent is called like it."""

    name: str
    config_kinds: tuple[ConfigGroupResource, ...] = ()
    hosted: bool = True
    needs_configuration: bool = False
    neighbours: tuple[str, ...] = ()

    def agent(self, installation: Installation) -> Agent:
        credential = KubeClient(permissions=(RoleBindingRequest("ClusterRole", self.name),))
        return Agent(tuple(self._config_map(one) for one in LOCATIONS), registrations=(credential,))

    def _config_map(self, location: str) -> Object:
        metadata = {
            "name": f"{self.name}-{location}",
            "namespace": DEFAULT_NAMESPACE,
            "annotations": {HOSTED_MANIFEST_LOCATION: location},
        }
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def run(name: str, kubeconfig: Path) -> None:
    client = HttpClient(load_kubeconfig(kubeconfig), agent=f"{name}-manager")
    metrics = Metrics()
    manager = AddonManager(client, AddonOptions(), addons=StaticAddons.of(Hosted(name)), process=name, metrics=metrics)
    await serve(manager, metrics, ("127.0.0.1", 0), lambda port: print(f"up: {port}", flush=True))


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], Path(sys.argv[2])))
