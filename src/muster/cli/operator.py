"""`muster operator cluster-manager|klusterlet`: runs an operator.

It needs the permissions that `clusteradm` or the manifests in `deploy/` give it, and installs nothing for itself. Several replicas
elect a leader; all of them answer health checks.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from muster.cli.examples import examples
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
    in_pod,
    run_until_stopped,
)
from muster.cli.values import FilePath

if TYPE_CHECKING:
    from muster.machinery.metrics import Metrics
    from muster.runtime.client import KubeClient
    from muster.runtime.controller import Manager

KINDS: Final = ("cluster-manager", "klusterlet")


@click.command(
    "operator",
    short_help="Run the ClusterManager or the Klusterlet operator.",
    epilog=examples(
        "muster operator cluster-manager --kubeconfig hub.kubeconfig",
        "muster operator klusterlet --kubeconfig cluster1.kubeconfig --image registry.example/ops/muster:0.1.0",
    ),
)
@click.argument("kind", type=click.Choice(KINDS))
@click.option(
    "--kubeconfig",
    type=FilePath(dir_okay=False),
    help="Path to the kubeconfig file of the cluster.  [default: in-cluster, or kubectl's]",
)
@click.option("--context", default="", help="Name of the kubeconfig context to use.  [default: the current one]")
@click.option("--namespace", default="", help="Namespace of the operator.  [default: its pod's, else open-cluster-management]")
@click.option(
    "--image",
    default="",
    help="Image of the components to deploy.  [default: the operator pod's, else Muster's image of this version]",
)
@click.option(
    "--enable-sync-labels",
    "sync_labels",
    is_flag=True,
    help="Copy the labels of the ClusterManager or Klusterlet to all objects created for it.",
)
@click.option("--health-host", help="Address to serve health checks and metrics on.  [default: 127.0.0.1; 0.0.0.0 in a cluster]")
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    default=8081,
    show_default=True,
    help="Port to serve health checks and metrics on; 0 picks a free one.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    " /--disable-leader-election",
    default=True,
    show_default=True,
    help="Use leader election, so that only one of several replicas is active.",
)
@log_options
def command(**options: Any) -> None:
    """Run the operator that installs hubs (cluster-manager) or the agents of managed clusters (klusterlet)."""
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if options["verbose"] else logs.INFO)
    run_until_stopped(serve(settings(options)))


@dataclass(frozen=True)
class Settings:
    kind: str
    cluster: FoundCluster
    namespace: str
    image: str
    sync_labels: bool
    health: tuple[str, int]
    elect: bool


def settings(given: dict[str, Any], here: ProcessEnv = PROCESS) -> Settings:
    in_cluster = in_pod(given["kubeconfig"], given["context"], here)
    host = given["health_host"] or (ANY_ADDRESS if in_cluster else LOOPBACK)
    return Settings(
        given["kind"],
        find_cluster(given["kubeconfig"], given["context"], here),
        given["namespace"] or here.environ.get("POD_NAMESPACE", "") or "open-cluster-management",
        given["image"],
        given["sync_labels"],
        (here.bind(host), given["health_port"]),
        given["leader_elect"],
    )


def _explain(error: Exception) -> click.ClickException | None:
    return cluster_problem(error, "the cluster", "--health-port")


async def serve(settings: Settings, here: ProcessEnv = PROCESS) -> None:
    with explained(_explain):
        await _serve(settings, here)


async def _serve(settings: Settings, here: ProcessEnv) -> None:
    from muster.machinery.metrics import Metrics
    from muster.operator.launch import own_image
    from muster.operator.names import operator_lock
    from muster.runtime.controller import LeaderElection, leader_identity
    from muster.runtime.process import serve as serve_manager

    metrics = Metrics()
    async with AsyncExitStack() as stack:
        client = settings.cluster.connect_in(stack, "muster-operator", metrics)
        image = settings.image or await own_image(client, here.environ if settings.cluster.in_pod else {})
        election = LeaderElection(client, operator_lock(settings.kind), settings.namespace, leader_identity(here.environ))
        await serve_manager(
            _manager(settings, client, image, metrics),
            metrics,
            settings.health,
            lambda port: here.info(f"{settings.kind} operator of {client.server}; image {image}; health on port {port}"),
            election=election if settings.elect else None,
        )


def _manager(settings: Settings, client: KubeClient, image: str, metrics: Metrics) -> Manager:
    if settings.kind == "klusterlet":
        from muster.operator.klusterlet.controller import KlusterletOperator, KlusterletOptions

        agents = KlusterletOptions(image, settings.namespace, settings.sync_labels)
        return KlusterletOperator(client, agents, metrics=metrics).manager
    from muster.operator.cluster_manager.controller import ClusterManagerOperator
    from muster.operator.options import OperatorOptions

    hub = OperatorOptions(image, settings.namespace, settings.sync_labels)
    return ClusterManagerOperator(client, hub, metrics=metrics).manager
