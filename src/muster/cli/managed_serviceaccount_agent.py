"""`muster managed-serviceaccount-agent`: manages a managed cluster's service accounts, and their tokens on the hub.

It is the agent of the addon `managed-serviceaccount`, which deploys it with its permissions. Upstream's flag names are accepted
beside ours; renewed certificates are reloaded.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli.examples import examples
from muster.cli.hub_address import find_hub, until_moved
from muster.cli.log_options import log_options
from muster.cli.process import (
    ANY_ADDRESS,
    LOOPBACK,
    PROCESS,
    FoundCluster,
    ProcessEnv,
    cluster_problem,
    explained,
    find_cluster,
    run_until_stopped,
)
from muster.cli.values import FilePath
from muster.machinery.confinement import read

if TYPE_CHECKING:
    from muster.registration.drivers.endpoints import HubEndpoint

LEASE = "managed-serviceaccount-addon-agent-lock"


@click.command(
    "managed-serviceaccount-agent",
    short_help="Run a managed cluster's ManagedServiceAccount agent.",
    epilog=examples("muster managed-serviceaccount-agent --cluster-name cluster1 --hub-kubeconfig hub.kubeconfig"),
)
@click.option("--cluster-name", required=True, help="Name of this cluster on the hub.")
@click.option(
    "--kubeconfig",
    "--hub-kubeconfig",
    "hub_kubeconfig",
    type=FilePath(dir_okay=False),
    required=True,
    help="Path to the kubeconfig file of the hub.",
)
@click.option(
    "--spoke-kubeconfig",
    type=FilePath(dir_okay=False),
    help="Path to the kubeconfig file of the managed cluster.  [default: in-cluster, or kubectl's]",
)
@click.option("--context", default="", help="Context of the managed cluster's kubeconfig.  [default: the current one]")
@click.option(
    "--namespace",
    help="Namespace of the service accounts on the managed cluster.  "
    "[default: the pod's, else open-cluster-management-agent-addon]",
)
@click.option(
    "--lease-health-check/--no-lease-health-check",
    default=True,
    show_default=True,
    help="Renew a Lease on the managed cluster as a health signal of the agent.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=False,
    show_default=True,
    help="Use leader election, so that only one of several replicas is active.",
)
@click.option("--health-host", help="Address to serve health checks and metrics on.  [default: 127.0.0.1; 0.0.0.0 in a cluster]")
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to serve health checks and metrics on; 0 picks a free one.",
)
@log_options
def command(**options: Any) -> None:
    """Run the agent that creates this cluster's ManagedServiceAccounts and reports their tokens to the hub."""
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    run_until_stopped(serve(settings(options)))


@dataclass(frozen=True)
class Settings:
    spoke: FoundCluster
    hub: HubEndpoint
    hub_file: Path
    cluster: str
    namespace: str
    lease: bool
    elect: bool
    health: tuple[str, int]


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE
    from muster.kube.names import dns1123_label
    from muster.registration.drivers.kubeconfigs import KUBECONFIGS

    if problems := dns1123_label(given["cluster_name"]):
        raise click.BadParameter(f"{given['cluster_name']!r} cannot name a cluster: {problems[0]}", param_hint="--cluster-name")
    spoke = find_cluster(given["spoke_kubeconfig"], given["context"], here)
    file = here.path(given["hub_kubeconfig"])
    host = here.bind(given["health_host"] or (ANY_ADDRESS if spoke.in_pod else LOOPBACK))
    return Settings(
        spoke,
        find_hub(file, KUBECONFIGS),
        file,
        given["cluster_name"],
        given["namespace"] or (spoke.config.namespace if spoke.in_pod else "") or DEFAULT_NAMESPACE,
        given["lease_health_check"],
        given["leader_elect"],
        (host, given["health_port"]),
    )


def _authority(spoke: FoundCluster) -> bytes:
    """The CA of the managed cluster's API server; read each time, because it may be replaced."""
    found = spoke.config.ca
    return read(found) if isinstance(found, Path) else found or b""


async def serve(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    with explained(lambda error: cluster_problem(error, "the cluster", "--health-port")):
        await _serve(settings, here)


async def _serve(settings: Settings, here: ProcessEnv) -> None:
    from muster.accounts.agent.agent import AccountAgent
    from muster.accounts.agent.reconciler import AgentOptions
    from muster.accounts.names import AGENT
    from muster.machinery.metrics import Metrics
    from muster.registration.drivers.endpoints import ClientSettings
    from muster.runtime.controller import LeaderElection, RunnableFunc, leader_identity
    from muster.runtime.process import serve as serve_manager

    metrics = Metrics()
    async with AsyncExitStack() as stack:
        spoke = settings.spoke.connect_in(stack, AGENT, metrics)
        hub = settings.hub.connect(ClientSettings(AGENT, metrics, cluster=settings.cluster))
        stack.push_async_callback(hub.close)
        options = AgentOptions(settings.cluster, settings.namespace, partial(_authority, settings.spoke))
        agent = AccountAgent(hub, spoke, options, lease=settings.lease, metrics=metrics)
        agent.add("the hub's address", RunnableFunc(partial(_until_moved, settings)), needs_leader_election=False)
        await serve_manager(
            agent,
            metrics,
            settings.health,
            lambda port: here.info(f"started: accounts of {settings.cluster} on {spoke.server}; health on port {port}"),
            election=LeaderElection(spoke, LEASE, settings.namespace, leader_identity(here.environ)) if settings.elect else None,
        )


async def _until_moved(settings: Settings) -> None:
    """Ends the agent when its cluster has moved to another hub: its restart uses that one."""
    from muster.registration.drivers.kubeconfigs import KUBECONFIGS

    found = await until_moved(settings.hub_file, KUBECONFIGS, settings.hub.url)
    raise click.ClickException(f"the hub is now {found}; starting anew")
