"""How clusters of a local fleet become a hub and its members: an administrator's steps, by the same functions as in `clusteradm`.

Each step may be repeated at any time and only does what is missing.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from muster.administration import accept as accepting
from muster.administration import initialize as initializing
from muster.administration.errors import TookTooLong
from muster.administration.hubs import HubAddress, is_hub
from muster.administration.progress import Progress, wait
from muster.administration.waiting import await_available as await_all
from muster.administration.waiting import await_hub
from muster.api import is_true
from muster.api.cluster.v1 import JOINED, ManagedCluster
from muster.fleet.bootstrap import bootstrap_user
from muster.kube.duration import parse_time
from muster.kube.yaml import dump
from muster.operator.applying import Applier, Place, checked, remove_and_wait
from muster.operator.deployments import Workload, deployment
from muster.operator.names import DEPLOYMENTS, image
from muster.registration.agent.install import ACCOUNT, install
from muster.registration.agent.options import AgentOptions
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE, BOOTSTRAP_SECRET, LEASE
from muster.runtime.errors import NotFound
from muster.runtime.resource import LEASES, NAMESPACES, SECRETS
from muster.runtime.verbs import KubeClient

PATIENCE: Final = 120.0
"""Seconds a step waits for its cluster."""


@dataclass(frozen=True)
class Site:
    """A cluster of the fleet, as its administrator sees it."""

    name: str
    client: KubeClient = field(repr=False)
    url: str
    ca: bytes = field(repr=False)


async def initialize(hub: Site, auth: str, progress: Progress) -> None:
    options = initializing.InitOptions(drivers=(auth,), wait=True, timeout=PATIENCE)
    await initializing.initialize(hub.client, HubAddress(hub.url, hub.ca), options, progress)


async def await_initialized(hub: Site, progress: Progress) -> None:
    await await_hub(hub.client, within=PATIENCE, progress=progress)


async def is_initialized(hub: Site) -> bool:
    return await is_hub(hub.client)


async def join(hub: Site, cluster: Site, progress: Progress) -> None:
    await install(cluster.client, AgentOptions(cluster_name=cluster.name))
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "hub",
                "cluster": {"server": hub.url, "certificate-authority-data": base64.b64encode(hub.ca).decode()},
            }
        ],
        "users": [{"name": "user", "user": await bootstrap_user(hub.client)}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "user"}}],
        "current-context": "hub",
    }
    secret = {
        "metadata": {"name": BOOTSTRAP_SECRET, "namespace": AGENT_NAMESPACE},
        "data": {"kubeconfig": base64.b64encode(dump(kubeconfig).encode()).decode()},
    }
    workload = Workload(
        "klusterlet-registration-agent",
        AGENT_NAMESPACE,
        ACCOUNT,
        image(),
        ("agent", "--cluster-name", cluster.name, "--hub-kubeconfig-dir", "/spoke/hub-kubeconfig", "--health-port", "8081"),
        scratch={"hub": "/spoke/hub-kubeconfig"},
    )
    applier = Applier(cluster.client, "clusteradm")
    checked(await applier.apply([(SECRETS, secret), (DEPLOYMENTS, deployment(workload))]))


async def accept(hub: Site, name: str, progress: Progress) -> None:
    await accepting.accept(hub.client, name, accepting.AcceptOptions(wait=True, timeout=PATIENCE), progress)


async def has_joined(hub: Site, name: str) -> bool:
    try:
        found = ManagedCluster.decode(await hub.client.get(MANAGED_CLUSTERS, name))
    except NotFound:
        return False
    return is_true(found.status.conditions, JOINED)


async def await_available(hub: Site, name: str, since: datetime, progress: Progress) -> None:
    """Available, and by a sign of life that is not older than `since`: what the hub believes may be from before a restart."""
    await await_all(hub.client, [name], within=PATIENCE, progress=progress)

    async def look() -> str:
        try:
            lease = await hub.client.get(LEASES, LEASE, name)
        except NotFound:
            return "the hub has not made its lease yet"
        renewed = (lease.get("spec") or {}).get("renewTime")
        return "" if renewed and parse_time(renewed) >= since else "its agent has not renewed its lease since the fleet started"

    await wait(f"managed cluster {name}", look, within=PATIENCE, progress=progress)


async def leave(hub: Site, cluster: Site, progress: Progress) -> None:
    """The ManagedCluster goes first, while its agent is there to clean up, then the namespace that the hub keeps for it."""
    own = [Place(MANAGED_CLUSTERS, cluster.name), Place(NAMESPACES, cluster.name)]
    left = await remove_and_wait(hub.client, own, in_order=True, within=PATIENCE)
    if left:
        raise TookTooLong(f"removal of {cluster.name}", f"{left[0]} is still being deleted", PATIENCE)
