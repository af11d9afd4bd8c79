"""A complete controller: it sets a condition on every ManagedCluster that tells whether the cluster has an owner.

    python examples/cluster_owners.py ~/.kube/config

The condition `OwnerKnown` follows the label `owner`. Several replicas may run; leader election lets one of them reconcile.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from muster.api import Condition
from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.objects import ObjectKey
from muster.runtime.client import HttpClient, load_kubeconfig
from muster.runtime.controller import ControllerContext, LeaderElection, Manager, leader_identity, set_condition
from muster.runtime.process import serve


class ClusterOwners:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._clusters = context.informers.of(ManagedCluster)
        self._controller = context.controller("cluster-owners", self.reconcile)
        self._controller.watch(self._clusters, lambda cluster: [cluster.metadata.name])
        self.run = self._controller.run

    async def reconcile(self, name: str) -> None:
        cluster = self._clusters.cache.get(ObjectKey("", name))
        if cluster is None:
            return
        owner = cluster.metadata.labels.get("owner")
        if owner:
            wanted = Condition(type="OwnerKnown", status="True", reason="Labelled", message=f"{owner} owns it")
        else:
            wanted = Condition(type="OwnerKnown", status="False", reason="NoLabel", message="give it the label 'owner'")
        await set_condition(self._context.client, cluster, wanted, self._context.clock.now())


def manager_of(context: ControllerContext) -> Manager:
    manager = Manager()
    manager.add_context(context)
    manager.add_controllers({"cluster-owners": ClusterOwners(context)})
    return manager


async def main(kubeconfig: Path) -> None:
    client = HttpClient(load_kubeconfig(kubeconfig), agent="cluster-owners")
    context = ControllerContext.of(client, "cluster-owners")
    election = LeaderElection(client, "cluster-owners", "default", leader_identity(os.environ))
    await serve(manager_of(context), context.metrics, ("127.0.0.1", 0), lambda port: print(f"up: {port}"), election=election)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
