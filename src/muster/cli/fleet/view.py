"""The state of a local fleet: whether its process runs, and the hub's conditions of each cluster, or why the hub is unreachable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from muster.administration.readiness import cluster_problem
from muster.api.cluster.v1 import ACCEPTED, AVAILABLE, JOINED, ManagedCluster
from muster.api.meta import is_true
from muster.api.proxy.v1alpha1 import ClusterGateway
from muster.fleet.local.cloud import config_file
from muster.fleet.local.directory import FleetDirectory
from muster.fleet.local.status import FleetStatus, read_status
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import HttpClient, KubeconfigError, KubeError, NotFound, load_kubeconfig, served


@dataclass(frozen=True)
class ClusterView:
    """Unknown values are None."""

    name: str
    accepted: bool | None = False
    joined: bool | None = False
    available: bool | None = False
    gateway: bool | None = None
    """Whether the hub's gateway reaches it."""
    reason: str = ""
    server: str = ""
    """The address of its API, as in the fleet's kubeconfig."""

    @classmethod
    def unknown(cls, name: str, reason: str) -> ClusterView:
        return cls(name, None, None, None, None, reason)


@dataclass(frozen=True)
class FleetView:
    directory: FleetDirectory
    pid: int | None
    url: str
    clusters: tuple[ClusterView, ...]
    gateway: bool
    """Whether the fleet has one."""
    aws: str = ""
    """The URL of the local AWS, if the fleet has one and runs."""

    @property
    def aws_config(self) -> str:
        return str(config_file(self.directory))

    @property
    def good(self) -> bool:
        return self.pid is not None and all(one.available and one.gateway is not False for one in self.clusters)

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
                    **({"gateway": one.gateway} if self.gateway else {}),
                    "reason": one.reason,
                    "server": one.server,
                }
                for one in self.clusters
            ],
        }


@dataclass(frozen=True)
class _HubState:
    """The hub's objects about each cluster."""

    clusters: Mapping[str, ManagedCluster]
    gateways: Mapping[str, ClusterGateway] | None
    """None if the fleet has no gateway."""
    no_gateway: str = ""
    """Why the gateway does not answer."""


async def view_fleet(directory: FleetDirectory) -> FleetView:
    found = await _look(directory)
    located = tuple(replace(one, server=_server(directory, one.name)) for one in found.clusters)
    return replace(found, clusters=located)


def _server(directory: FleetDirectory, cluster: str) -> str:
    """Empty for a cluster that is not in the kubeconfig yet."""
    try:
        return load_kubeconfig(directory.kubeconfig, cluster).server
    except KubeconfigError:
        return ""


async def _look(directory: FleetDirectory) -> FleetView:
    fleet = directory.existing()
    names = [record.name for record in fleet.clusters]
    pid = directory.holder()

    def unknown(reason: str) -> tuple[ClusterView, ...]:
        return tuple(ClusterView.unknown(name, reason) for name in names)

    if pid is None:
        return FleetView(directory, None, "", unknown("the fleet is not running"), fleet.gateway)
    written = read_status(directory)
    if written is not None and written.pid != pid:
        written = None
    url, aws = (written.url, written.aws) if written is not None else ("", "")
    try:
        hub = await _read_hub(directory, gateway=fleet.gateway)
    except (KubeError, KubeconfigError) as error:
        return FleetView(directory, pid, url, unknown(f"the hub does not answer: {error}"), fleet.gateway, aws)
    return FleetView(directory, pid, url, tuple(_view(name, hub, written) for name in names), fleet.gateway, aws)


async def _read_hub(directory: FleetDirectory, *, gateway: bool) -> _HubState:
    client = HttpClient(load_kubeconfig(directory.kubeconfig, "hub"), agent="muster")
    try:
        clusters = {one["metadata"]["name"]: ManagedCluster.decode(one) for one in (await client.list(MANAGED_CLUSTERS)).items}
        if not gateway:
            return _HubState(clusters, None)
        try:
            found = (await client.list(served(ClusterGateway))).items
        except KubeError as error:
            return _HubState(clusters, {}, f"the gateway does not answer: {error}")
        return _HubState(clusters, {one["metadata"]["name"]: ClusterGateway.decode(one) for one in found})
    except NotFound:
        return _HubState({}, {} if gateway else None)  # not a hub yet
    finally:
        await client.close()


def _view(name: str, hub: _HubState, written: FleetStatus | None) -> ClusterView:
    doing = written.clusters.get(name) if written is not None else None
    busy = doing.reason or doing.state if doing is not None and doing.state != "Available" else ""
    cluster = hub.clusters.get(name)
    gateway, unreached = _gateway(name, hub)
    if cluster is None:
        return ClusterView(name, gateway=gateway, reason=busy or "the hub does not know it")
    accepted, joined, available = (is_true(cluster.status.conditions, condition) for condition in (ACCEPTED, JOINED, AVAILABLE))
    return ClusterView(name, accepted, joined, available, gateway, cluster_problem(cluster) or busy or unreached)


def _gateway(name: str, hub: _HubState) -> tuple[bool | None, str]:
    """Whether the gateway reaches the cluster, and why not."""
    if hub.gateways is None:
        return None, ""
    found = hub.gateways.get(name)
    if found is None:
        return False, hub.no_gateway or "the gateway does not know it"
    return found.status.healthy, "" if found.status.healthy else f"the gateway does not reach it: {found.status.healthy_reason}"
