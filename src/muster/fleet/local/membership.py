"""The steps by which clusters of a local fleet become a hub and its members, with the same functions as `clusteradm`.

Each step is idempotent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol
from urllib.parse import urlsplit

from muster.administration.content.addons import AddonSettings, enable, require_addon
from muster.administration.errors import AdministrationError, TookTooLong
from muster.administration.hub import initialize as initializing
from muster.administration.hub import tokens
from muster.administration.hub.authority import grpc_authority
from muster.administration.hubs import HubAddress, is_hub
from muster.administration.members import accept as accept_module
from muster.administration.members import join as join_module
from muster.administration.members import unjoin as unjoin_module
from muster.administration.members.klusterlets import find_klusterlets, former_agents_problem
from muster.administration.progress import SILENT, Progress, wait
from muster.administration.readiness import await_available as await_all
from muster.administration.readiness import await_hub
from muster.api import is_true
from muster.api.cluster.v1 import JOINED, ManagedCluster
from muster.api.proxy.v1alpha1 import ClusterGateway
from muster.aws.process_env import ProcessEnv
from muster.fleet.local.directory import is_loopback
from muster.gateway.addon import CLUSTER_GATEWAY
from muster.gateway.apiservice import LOOPBACK_ANNOTATION
from muster.gateway.names import PROXY
from muster.machinery.golang.timestamps import parse_time
from muster.operator.applier import ObjectRef, remove_and_wait
from muster.operator.cluster_manager.plan import HUB_ADDON_GATES
from muster.operator.names import OPERATOR_NAMESPACE
from muster.operator.pod_namespaces import may_run
from muster.policy.addons import POLICY_ADDONS
from muster.registration.drivers.awsirsa.names import HUB_ARN, MANAGED_ARN
from muster.registration.drivers.flags import AWS, GRPC
from muster.registration.drivers.grpc import SERVER
from muster.registration.drivers.profile import DriverOptions
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import HUB_LOCK, HUB_NAMESPACE, LEASE
from muster.runtime.client import ClientConfig, Conflict, Forbidden, KubeClient, NotFound, served
from muster.runtime.client.builtin import LEASES, NAMESPACES

CLUSTER_GATEWAYS: Final = served(ClusterGateway)
STEP_TIMEOUT: Final = 120.0
"""Seconds that a step waits for its cluster."""


@dataclass(frozen=True)
class Site:
    """A cluster of the fleet, as its administrator accesses it."""

    name: str
    client: KubeClient = field(repr=False)
    url: str
    ca: bytes = field(repr=False)
    grpc: str = ""
    """Of a hub: the address of its gRPC server for agents, if they use it."""
    gateway: bool = False
    """Of a hub: whether it has a gateway to its clusters."""
    arn: str = ""
    """Its ARN, if it is on AWS."""
    aws: ProcessEnv = field(default_factory=ProcessEnv, repr=False)
    """The environment of its administrator on AWS."""

    @property
    def driver_options(self) -> dict[str, DriverOptions]:
        """The driver options to initialize it as a hub."""
        if self.arn:
            return {AWS: {HUB_ARN: (self.arn,)}}
        return {GRPC: {SERVER: (self.grpc,)}} if self.grpc else {}

    def joining_options(self, hub: Site) -> dict[str, DriverOptions]:
        """The driver options to join it to the hub."""
        return {AWS: {HUB_ARN: (hub.arn,), MANAGED_ARN: (self.arn,)}} if self.arn else hub.driver_options


class Membership(Protocol):
    """The steps, as this module has them."""

    async def is_initialized(self, hub: Site) -> bool: ...

    async def initialize(self, hub: Site, auth: str, progress: Progress) -> None: ...

    async def await_initialized(self, hub: Site, since: datetime, progress: Progress) -> None: ...

    async def await_leaders(self, hub: Site, leases: Mapping[str, str], since: datetime, progress: Progress) -> None: ...

    async def has_joined(self, hub: Site, cluster: Site) -> bool: ...

    async def join(self, hub: Site, cluster: Site, auth: str, progress: Progress) -> None: ...

    async def accept(self, hub: Site, name: str, progress: Progress) -> None: ...

    async def await_available(self, hub: Site, name: str, since: datetime, progress: Progress) -> None: ...

    async def enable_gateway(self, hub: Site, name: str, progress: Progress) -> None: ...

    async def await_gateway(self, hub: Site, name: str, progress: Progress) -> None: ...

    async def leave(self, hub: Site, cluster: Site, progress: Progress) -> None: ...

    async def forget(self, hub: Site, name: str) -> None: ...


async def initialize(hub: Site, auth: str, progress: Progress) -> None:
    options = initializing.InitOptions(
        drivers=(auth,),
        driver_options=hub.driver_options,
        feature_gates=_gates(hub),
        same_machine=_is_local(hub),
        # As long as all clusters of the fleet are on this machine.
        annotations={LOOPBACK_ANNOTATION: "true" if _is_local(hub) else "false"} if hub.gateway else {},
        timeout=STEP_TIMEOUT,
    )
    await initializing.initialize(hub.client, HubAddress(hub.url, hub.ca), options, progress)
    await _await_hub(hub, progress)


def _is_local(hub: Site) -> bool:
    """Whether the hub's address is usable on this machine only."""
    return is_loopback(urlsplit(hub.url).hostname or "")


def _gates(hub: Site) -> dict[str, bool]:
    """The feature gates of optional components that a fleet's hub offers to its clusters. Only the gateway is enabled on them."""
    offered = {one.name for one in POLICY_ADDONS} | ({CLUSTER_GATEWAY.name} if hub.gateway else set())
    return {gate: True for gate, addon in HUB_ADDON_GATES.items() if addon in offered}


async def _await_hub(hub: Site, progress: Progress) -> None:
    """Wait until clusters can join; they join while the gateway starts, and wait for it last (`await_gateway`)."""
    await await_hub(hub.client, within=STEP_TIMEOUT, gateway=False, progress=progress)


async def await_initialized(hub: Site, since: datetime, progress: Progress) -> None:
    """Wait until it works and its controller has renewed its lease since `since`: objects may be from before a restart."""
    await _await_hub(hub, progress)
    await _await_renewal(hub, HUB_LOCK, HUB_NAMESPACE, since, "its controller", progress)


async def await_leaders(hub: Site, leases: Mapping[str, str], since: datetime, progress: Progress) -> None:
    """Wait until the holders of these leases of the hub have renewed them; the values are their names."""
    for lease, who in leases.items():
        await _await_renewal(hub, lease, HUB_NAMESPACE, since, who, progress)


async def is_initialized(hub: Site) -> bool:
    return await is_hub(hub.client) and await _operator_may_run(hub)


async def _operator_may_run(site: Site) -> bool:
    """For fleets of earlier versions the permission is missing, which installing again adds."""
    try:
        return may_run(await site.client.get(NAMESPACES, OPERATOR_NAMESPACE))
    except NotFound:
        return False


async def join(hub: Site, cluster: Site, auth: str, progress: Progress) -> None:
    """Idempotent; an operator of another version is replaced. Over gRPC, agents get a token for their cluster alone."""
    token = await tokens.issue(hub.client, cluster=cluster.name if hub.grpc else "")
    api = HubAddress(hub.url, hub.ca)
    options = join_module.JoinOptions(
        cluster.name,
        token,
        # Addon agents use the hub's API server, whichever transport this cluster's own agent uses.
        api=api if hub.grpc else None,
        auth=auth,
        driver_options=cluster.joining_options(hub),
        external_servers=(cluster.url,),
        keep_operator=False,
        # A cluster with a Klusterlet of this name is the one that the hub knows, also after the hub has moved.
        force=bool(await find_klusterlets(cluster.client, cluster.name)),
    )
    address = HubAddress(hub.grpc, await grpc_authority(hub.client)) if hub.grpc else api
    await join_module.join(cluster.client, address, options, progress)
    await forget_other_addresses(hub.client, cluster, progress)


async def forget_other_addresses(hub: KubeClient, cluster: Site, progress: Progress = SILENT) -> None:
    """Agents add addresses to their ManagedCluster and remove none: after a move the old address would stay.

    An agent from before the move adds it again for as long as it runs, so this waits for its end.
    """

    async def remaining() -> str:
        try:
            found = await hub.get(MANAGED_CLUSTERS, cluster.name)
        except NotFound:
            return ""
        spec = found.get("spec") or {}
        known = spec.get("managedClusterClientConfigs") or []
        kept = [one for one in known if one.get("url") == cluster.url]
        if kept == known:
            return ""
        if problem := await former_agents_problem(cluster.client, cluster.name):
            return problem
        if not kept and spec.get("hubAcceptsClient"):
            return "its agent has not reported its new address yet"
        patch = {
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            "spec": {"managedClusterClientConfigs": kept},
        }
        try:
            await hub.patch(MANAGED_CLUSTERS, cluster.name, patch)
        except Conflict as error:
            return str(error)
        return ""

    await wait(f"address of {cluster.name}", remaining, within=STEP_TIMEOUT, progress=progress)


async def accept(hub: Site, name: str, progress: Progress) -> None:
    await accept_module.accept(
        hub.client, name, accept_module.AcceptOptions(wait=True, timeout=STEP_TIMEOUT, process_env=hub.aws), progress
    )


async def has_joined(hub: Site, cluster: Site) -> bool:
    """Whether hub and cluster both report it as joined."""
    try:
        found = await hub.client.get(ManagedCluster, cluster.name)
    except NotFound:
        return False
    joined = is_true(found.status.conditions, JOINED) and bool(await find_klusterlets(cluster.client, cluster.name))
    return joined and await _operator_may_run(cluster)


async def await_available(hub: Site, name: str, since: datetime, progress: Progress) -> None:
    """Wait until it is Available and its agent has renewed its lease since `since`: the condition may be from before a restart."""
    await await_all(hub.client, [name], within=STEP_TIMEOUT, progress=progress)

    await _await_renewal(hub, LEASE, name, since, "its agent", progress)


async def _await_renewal(hub: Site, lease: str, namespace: str, since: datetime, who: str, progress: Progress) -> None:
    async def remaining() -> str:
        try:
            found = await hub.client.get(LEASES, lease, namespace)
        except NotFound:
            return f"there is no Lease {namespace}/{lease} yet"
        renewed = (found.get("spec") or {}).get("renewTime")
        return "" if renewed and parse_time(renewed) >= since else f"{who} has not renewed its lease since the fleet started"

    await wait(f"lease {namespace}/{lease}", remaining, within=STEP_TIMEOUT, progress=progress)


async def enable_gateway(hub: Site, name: str, progress: Progress) -> None:
    """Enable the hub's gateway on the cluster. Its agent need not run yet, only its namespace on the hub must exist."""

    async def remaining() -> str:
        try:
            await require_addon(hub.client, CLUSTER_GATEWAY.name)
        except AdministrationError:
            return f"the hub does not offer {CLUSTER_GATEWAY.name} to clusters yet"
        try:
            await hub.client.get(NAMESPACES, name)
        except NotFound:
            return "the hub has no namespace for it yet"
        return ""

    await wait(f"addon {CLUSTER_GATEWAY.name}", remaining, within=STEP_TIMEOUT, progress=progress)
    outcomes = await enable(hub.client, [CLUSTER_GATEWAY.name], [name], AddonSettings())
    if failed := next((one.error for one in outcomes if one.error is not None), None):
        raise failed


async def await_gateway(hub: Site, name: str, progress: Progress) -> None:
    """Wait until the cluster answers through it. Sends requests itself, because the gateway's own probe takes longer."""

    async def remaining() -> str:
        try:
            await hub.client.get(CLUSTER_GATEWAYS, name, subresource=f"{PROXY}/version")
        except NotFound:
            return "the gateway does not know it yet"
        except Forbidden as error:
            return f"the gateway is not authorized yet: {error}"
        return ""

    await wait(f"gateway to {name}", remaining, within=STEP_TIMEOUT, progress=progress)


async def leave(hub: Site, cluster: Site, progress: Progress) -> None:
    """The cluster is discarded with the objects that the hub has applied there, so they need not be removed first."""
    config = ClientConfig(hub.url, hub.ca)
    options = unjoin_module.UnjoinOptions(cluster.name, force=True, hub=config, timeout=STEP_TIMEOUT)
    await unjoin_module.unjoin(cluster.client, options, progress, connect=lambda _: hub.client)


async def forget(hub: Site, name: str) -> None:
    """Remove a cluster from the hub: the credentials by which its agent could create it again, the ManagedCluster, and then its
    namespace.
    """
    await tokens.revoke(hub.client, name)
    own = [ObjectRef(MANAGED_CLUSTERS, name), *([ObjectRef(NAMESPACES, name)] if name != "default" else [])]
    left = await remove_and_wait(hub.client, own, in_order=True, within=STEP_TIMEOUT)
    if left:
        raise TookTooLong(f"removal of {name}", f"{left[0]} is still being deleted", STEP_TIMEOUT)
