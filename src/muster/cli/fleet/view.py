"""How a local fleet is: whether its process runs, and what its hub says of each cluster, or why the hub cannot be asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster.administration.waiting import cluster_problem
from muster.api.cluster.v1 import ACCEPTED, AVAILABLE, JOINED, ManagedCluster
from muster.api.meta import is_true
from muster.fleet.local.cloud import config_file
from muster.fleet.local.directory import FleetDirectory
from muster.fleet.local.status import FleetStatus, read_status
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import HttpClient, KubeconfigError, KubeError, NotFound, load_kubeconfig


@dataclass(frozen=True)
class ClusterView:
    name: str
    accepted: bool = False
    joined: bool = False
    available: bool = False
    reason: str = ""


@dataclass(frozen=True)
class FleetView:
    directory: FleetDirectory
    pid: int | None
    url: str
    clusters: tuple[ClusterView, ...]
    aws: str = ""
    """Where the local AWS is, if the fleet has one and runs."""

    @property
    def aws_config(self) -> str:
        return str(config_file(self.directory))

    @property
    def good(self) -> bool:
        return self.pid is not None and all(one.available for one in self.clusters)

    @property
    def headline(self) -> str:
        if self.pid is None:
            return f"not running; its state is in {self.directory.path}: muster up goes on from there"
        return f"running (process {self.pid}) at {self.url}; kubeconfig: {self.directory.kubeconfig}"

    def as_document(self) -> dict[str, Any]:
        return {
            "running": self.pid is not None,
            "pid": self.pid,
            "url": self.url,
            "dataDir": str(self.directory.path),
            "kubeconfig": str(self.directory.kubeconfig),
            **({"aws": {"endpoint": self.aws, "configFile": self.aws_config}} if self.aws else {}),
            "clusters": [
                {
                    "name": one.name,
                    "accepted": one.accepted,
                    "joined": one.joined,
                    "available": one.available,
                    "reason": one.reason,
                }
                for one in self.clusters
            ],
        }


async def look(directory: FleetDirectory) -> FleetView:
    fleet = directory.existing()
    names = [record.name for record in fleet.clusters]
    pid = directory.holder()
    if pid is None:
        return FleetView(directory, None, "", tuple(ClusterView(name, reason="the fleet is not running") for name in names))
    written = read_status(directory)
    if written is not None and written.pid != pid:
        written = None
    url, aws = (written.url, written.aws) if written is not None else ("", "")
    try:
        told = await _ask(directory)
    except (KubeError, KubeconfigError) as error:
        return FleetView(
            directory, pid, url, tuple(ClusterView(name, reason=f"the hub does not answer: {error}") for name in names), aws
        )
    return FleetView(directory, pid, url, tuple(_view(name, told.get(name), written) for name in names), aws)


async def _ask(directory: FleetDirectory) -> dict[str, ManagedCluster]:
    client = HttpClient(load_kubeconfig(directory.kubeconfig, "hub"), agent="muster")
    try:
        return {one["metadata"]["name"]: ManagedCluster.decode(one) for one in (await client.list(MANAGED_CLUSTERS)).items}
    except NotFound:
        return {}  # not a hub yet
    finally:
        await client.close()


def _view(name: str, cluster: ManagedCluster | None, written: FleetStatus | None) -> ClusterView:
    doing = written.clusters.get(name) if written is not None else None
    busy = doing.reason or doing.state if doing is not None and doing.state != "Available" else ""
    if cluster is None:
        return ClusterView(name, reason=busy or "the hub does not know it")
    accepted, joined, available = (is_true(cluster.status.conditions, condition) for condition in (ACCEPTED, JOINED, AVAILABLE))
    return ClusterView(name, accepted, joined, available, cluster_problem(cluster) or busy)
