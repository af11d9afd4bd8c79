"""`muster node`: runs the pods of Muster's image on a cluster without kubelets.

For test environments: a kube-apiserver and an etcd without machines. Every pending pod is bound to this node, and pods of Muster's
own image run as tasks of this process. It needs an administrator's permissions on the cluster: those of a kubelet, a scheduler and
(with `--workloads`) a controller manager.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli.console import echo
from muster.cli.examples import examples
from muster.cli.log_options import log_options
from muster.cli.process import FoundCluster, cluster_problem, explained, find_cluster, run_until_stopped
from muster.machinery.oserrors import explain_file_error

if TYPE_CHECKING:
    from muster.fleet.node.clusternode import ClusterNode


@click.command(
    "node",
    short_help="Run Muster's pods on a cluster without kubelets.",
    epilog=examples("muster node --kubeconfig cluster1.kubeconfig --node-name node1 --directory /var/lib/muster-node"),
)
@click.option(
    "--kubeconfig", type=click.Path(dir_okay=False), help="Path to the kubeconfig file of the cluster.  [default: kubectl's]"
)
@click.option("--context", default="", help="Name of the kubeconfig context to use.  [default: the current one]")
@click.option("--node-name", "name", default="muster-node", show_default=True, help="Name of the Node object.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".muster-node"),
    show_default=True,
    help="Directory of the pods' volumes and logs.",
)
@click.option(
    "--workloads",
    is_flag=True,
    help="Run controllers for Deployments, StatefulSets, DaemonSets and Jobs too, for clusters without a controller manager.",
)
@click.option(
    "--client-ca-file",
    "client_ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CA certificate of clients that may read logs (kubectl logs), if RBAC allows it.  [default: no client]",
)
@log_options
def command(kubeconfig: str | None, context: str, verbose: bool, **options: Any) -> None:
    """Run pods of Muster's own image on a cluster that has no kubelets, as one Node in this process.

    Pods run in namespaces with the label open-cluster-management.io/pods-may-run=true. Services with cluster IPs in 127.0.0.0/8
    are connected to its pods.
    """
    from muster.machinery import logs

    logs.set_level(logs.DEBUG if verbose else logs.INFO)
    run_until_stopped(serve(find_cluster(kubeconfig, context), **options))


async def serve(cluster: FoundCluster, name: str, directory: Path, workloads: bool, client_ca: Path | None) -> None:
    from muster.cli.aws_token import credential_programs
    from muster.cli.programs import programs
    from muster.fleet.node import RemoteNode
    from muster.machinery.privatefiles import make_private_directory

    def ready(node: ClusterNode) -> None:
        echo(f"ready: {node.name} runs pods of {client.server}")
        sys.stdout.flush()

    try:
        make_private_directory(directory)
    except OSError as error:
        raise click.ClickException(f"--directory: {error.filename}: {explain_file_error(error)}") from None
    client = cluster.connect("muster-node")
    try:
        with explained(lambda error: _problem(error, client.server)):
            node = RemoteNode(
                client,
                client.server,
                programs(),
                directory,
                name=name,
                workloads=workloads,
                client_ca=client_ca,
                plugins=credential_programs(),
            )
            await node.run(ready)
    finally:
        await client.close()


def _problem(error: Exception, server: str) -> click.ClickException | None:
    from muster.fleet.node.remote import HasKubelets

    if isinstance(error, HasKubelets):
        return click.ClickException(f"{server}: {error}; choose another --kubeconfig or --context")
    return cluster_problem(error, server, "port")
